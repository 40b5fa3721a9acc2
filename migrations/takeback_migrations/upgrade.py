"""Runs Alembic from the installed package, under one advisory lock a database.

Whatever goes wrong leaves the database as it was: everything happens in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from takeback.ledger.database import sqlalchemy_url
from takeback.model.errors import DatabaseUnavailable, InvalidSettings, NoTransaction

SCHEMA = "takeback"
VERSION_TABLE = "alembic_version"

# Any number that others are unlikely to use; the two-int space keeps it off intents' keys.
MIGRATION_LOCK = (31418, 2)

LOCK_SECONDS_MAX = 5.0
"""How long DDL waits for a lock: whoever comes after it waits behind it all the while."""

TURN_SECONDS_MAX = 600.0
"""How long one process waits for another that migrates the same database."""


def upgrade(url: str, *, lock_seconds_max: float = LOCK_SECONDS_MAX) -> tuple[str | None, str]:
    """Brings the database behind ``url`` to the latest revision; returns (before, after).

    Safe from several processes at once and safe to repeat. Raises InvalidSettings when the role
    lacks a privilege, the database has another encoding than UTF8 or is at a revision of a later
    release, DatabaseUnavailable when it can't be reached or when something of ours stays locked
    for ``lock_seconds_max``, and NoTransaction when it is read-only.
    """
    engine = create_engine(
        sqlalchemy_url(url), poolclass=NullPool, connect_args={"client_encoding": "utf8"}
    )
    with _said(), engine.begin() as connection:
        _wait_at_most(connection, TURN_SECONDS_MAX)
        connection.execute(
            text("SELECT pg_advisory_xact_lock(CAST(:class AS int), CAST(:id AS int))"),
            {"class": MIGRATION_LOCK[0], "id": MIGRATION_LOCK[1]},
        )
        _wait_at_most(connection, lock_seconds_max)
        before = installed_revision(connection)
        _require_known(before)
        _require_utf8(connection)
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


def _require_known(revision: str | None) -> None:
    known = {one.revision for one in ScriptDirectory.from_config(_config()).walk_revisions()}
    if revision is not None and revision not in known:
        raise InvalidSettings(
            f"the database is at revision {revision!r}, which this release does not know (its "
            f"latest is {latest_revision()!r}): migrate with the release that made it, or a later"
        )


def _require_utf8(connection: Connection) -> None:
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise InvalidSettings(
            f"the database's encoding is {encoding!r}, and arguments are any text; expected UTF8: "
            "create a database with ENCODING 'UTF8' TEMPLATE template0"
        )


def _wait_at_most(connection: Connection, seconds: float) -> None:
    connection.execute(
        text("SELECT set_config('lock_timeout', :value, true)"),
        {"value": f"{seconds * 1000:.0f}ms"},
    )


@contextmanager
def _said() -> Iterator[None]:
    """Says what to do about what the database refused; other errors stay as they are."""
    try:
        yield
    except DBAPIError as problem:
        match problem.orig:
            case psycopg.errors.LockNotAvailable():
                raise DatabaseUnavailable(
                    "the schema can't be changed now: another transaction holds a lock on it; "
                    "nothing was changed: end that transaction, or migrate again later"
                ) from problem
            case psycopg.errors.InsufficientPrivilege(diag=said):
                raise InvalidSettings(
                    f"the role may not migrate: {said.message_primary}; nothing was changed: let a "
                    "role migrate that owns the schema takeback, or that has CREATE on the database"
                ) from problem
            case psycopg.errors.ReadOnlySqlTransaction():
                raise NoTransaction(
                    "the database is read-only, or a replica; expected a primary that may be "
                    "written: point the URL at it"
                ) from problem
        raise


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "takeback_migrations:")
    return config
