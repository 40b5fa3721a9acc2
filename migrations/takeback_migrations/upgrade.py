"""Runs Alembic from the installed package, one process a database at a time.

    tables, columns, functions    one transaction, under an advisory lock    all of it or nothing
    indexes                       CONCURRENTLY, beside whoever works         what is there stays

The turn to build indexes is an advisory lock too, in an idle transaction of another connection. A
build waits for every snapshot that is older, and whoever waits for a lock has one: so the turn is
tried again and again. Through a pooler these are transactions like others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, PendingRollbackError
from sqlalchemy.pool import NullPool

from takeback.ledger.database import sqlalchemy_url
from takeback.model.errors import DatabaseUnavailable, InvalidSettings, NoTransaction

SCHEMA = "takeback"
VERSION_TABLE = "alembic_version"

# Any number that others are unlikely to use; the two-int space keeps it off intents' keys. Of the
# same class the ledger has 1, the barrier, and 3, the turn of freezes: no person waits for a build.
MIGRATION_LOCK = (31418, 2)
BUILDING_LOCK = (31418, 4)

IS_OURS = text("""
SELECT NOT EXISTS (SELECT FROM pg_stat_progress_create_index AS b
                   WHERE b.datname = current_database()
                     AND b.relid = to_regclass('takeback.intents'))
       AND pg_try_advisory_xact_lock(CAST(:class AS int), CAST(:id AS int))
""")

WHOLE = "0003"
"""The last revision of those that are one transaction; what follows says itself what it does."""

LOCK_SECONDS_MAX = 5.0
"""How long DDL waits for a lock: whoever comes after it waits behind it all the while."""

TURN_SECONDS_MAX = 600.0
"""How long one process waits for another that migrates the same database."""

TURN_PAUSE_SECONDS = 0.2


def upgrade(url: str, *, lock_seconds_max: float = LOCK_SECONDS_MAX) -> tuple[str | None, str]:
    """Brings the database behind ``url`` to the latest revision; returns (before, after).

    Safe from several processes at once, safe to repeat, and safe to interrupt. Raises
    InvalidSettings when the role lacks a privilege, the database has another encoding than UTF8 or
    is at a revision of a later release, DatabaseUnavailable when it can't be reached or when
    something of ours stays locked for ``lock_seconds_max``, and NoTransaction when it is read-only.
    """
    engine = create_engine(
        sqlalchemy_url(url), poolclass=NullPool, connect_args={"client_encoding": "utf8"}
    )
    head = latest_revision()
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
        if before not in (WHOLE, head):
            _run(connection, WHOLE)
    if before == head:
        return before, head
    with _said(), _turn(engine), engine.connect() as connection:
        found = installed_revision(connection)
        connection.rollback()
        if found != head:
            _run(connection, "head")
    return found if before == WHOLE else before, head


def _run(connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


@contextmanager
def _turn(engine: Engine) -> Iterator[None]:
    """The turn to build indexes, once nobody's build is under way: that of a process which has died
    goes on in the server.
    """
    pause = threading.Event()
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as turn:
        for _ in range(round(TURN_SECONDS_MAX / TURN_PAUSE_SECONDS)):
            if turn.execute(IS_OURS, {"class": BUILDING_LOCK[0], "id": BUILDING_LOCK[1]}).scalar():
                break
            turn.rollback()
            pause.wait(TURN_PAUSE_SECONDS)
        else:
            raise DatabaseUnavailable(
                f"another process has been building indexes for {TURN_SECONDS_MAX:.0f} seconds; "
                "nothing is wrong with that: migrate again when it has ended"
            )
        # Whatever was selected keeps its snapshot until something else is said, and a build would
        # wait for that.
        turn.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        yield


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
    except PendingRollbackError as problem:
        raise DatabaseUnavailable(
            "the database went away while an index was built; what was being built is built anew "
            "when you migrate again"
        ) from problem
    except DBAPIError as problem:
        match problem.orig:
            case psycopg.errors.LockNotAvailable():
                raise DatabaseUnavailable(
                    "the schema can't be changed now: another transaction holds a lock on it; "
                    "nothing was changed: end that transaction, or migrate again later"
                ) from problem
            case psycopg.errors.QueryCanceled() | psycopg.errors.DeadlockDetected():
                raise DatabaseUnavailable(
                    f"the migration was interrupted ({problem.orig.diag.message_primary}); what it "
                    "was building is built anew when you migrate again, without statement_timeout"
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
