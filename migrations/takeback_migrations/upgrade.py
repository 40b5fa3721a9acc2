"""Runs Alembic from the installed package, under one advisory lock a database."""

from __future__ import annotations

from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

SCHEMA = "takeback"
VERSION_TABLE = "alembic_version"

# Any number that others are unlikely to use; the two-int space keeps it off intents' keys.
MIGRATION_LOCK = (31418, 2)

LOCK_TIMEOUT = "5s"


def upgrade(url: str) -> tuple[str | None, str]:
    """Brings the database behind ``url`` to the latest revision; returns (before, after).

    Safe from several processes at once and safe to repeat. Raises what SQLAlchemy raises when
    the database can't be reached.
    """
    engine = create_engine(_sqlalchemy_url(url), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(
            text("SELECT pg_advisory_xact_lock(CAST(:class AS int), CAST(:id AS int))"),
            {"class": MIGRATION_LOCK[0], "id": MIGRATION_LOCK[1]},
        )
        before = installed_revision(connection)
        connection.execute(
            text("SELECT set_config('lock_timeout', :value, true)"), {"value": LOCK_TIMEOUT}
        )
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return before, latest_revision()


def installed_revision(connection: Connection) -> str | None:
    """The revision that this database is at; None when it has never been migrated."""
    found = connection.execute(text("SELECT to_regclass('takeback.alembic_version')")).scalar()
    if found is None:
        return None
    context = MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE, "version_table_schema": SCHEMA}
    )
    return context.get_current_revision()


def latest_revision() -> str:
    """The revision of the installed release."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:
        raise RuntimeError("the installed package has no revisions: it is incomplete")
    return head


def ignore_takeback(
    name: str | None, type_: str, parent_names: dict[str, Any] | None = None
) -> bool:
    """An ``include_name`` for the host's own env.py, so that its autogenerate leaves us alone.

    >>> ignore_takeback("takeback", "schema"), ignore_takeback("public", "schema")
    (False, True)
    """
    if type_ == "schema":
        return name != SCHEMA
    return (parent_names or {}).get("schema_name") != SCHEMA


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "takeback_migrations:")
    return config


def _sqlalchemy_url(url: str) -> str:
    parsed = make_url(url)
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    return parsed.render_as_string(hide_password=False)
