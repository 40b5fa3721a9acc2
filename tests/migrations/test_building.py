"""Indexes are built beside the work: nobody who calls waits for them, and deaths leave nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import takeback_migrations
from takeback.ledger.braking import FreezeScope, freeze
from takeback.ledger.database import Database
from takeback.model.errors import DatabaseUnavailable
from tests import database
from tests.ledger.scribe import PATIENCE_SECONDS, Scribe, until
from tests.migrations import release_before
from tests.migrations.release_before import ReleaseBefore, connected

BUILDER = r"""
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND query ~ '^\s*CREATE INDEX CONCURRENTLY'
  AND state = 'active' AND wait_event_type = 'Lock'
"""
INDEXES = """
SELECT c.relname, x.indisvalid FROM pg_index AS x JOIN pg_class AS c ON c.oid = x.indexrelid
WHERE x.indrelid = 'takeback.intents'::regclass
"""
QUEUES = {
    *("intents_in_doubt", "intents_lane", "intents_priority"),
    *("intents_ordering", "intents_waiting"),
}


@pytest.fixture
def url(empty_database_url: str) -> str:
    """A database at the schema of the release before."""
    release_before.migrate(empty_database_url)
    return empty_database_url


@pytest.fixture
def writer(url: str, scribe: Scribe) -> Iterator[ReleaseBefore]:
    """A caller of the release before, in the middle of a transaction that has recorded a call.

    It has written since the columns were added: so nobody waits for them any more.
    """
    with connected(url) as one:
        yield one


def rows(url: str, query: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as eye:
        return eye.execute(query.encode()).fetchall()


def is_done(url: str) -> bool:
    built = dict(rows(url, INDEXES))
    return all(built.get(name) for name in QUEUES)


def columns_first(url: str) -> None:
    """Brings the schema to where only the indexes are missing, as an interrupted migration does."""
    release_before.migrate(url, to="0003")


def migrated_beside(threads: ThreadPoolExecutor, url: str) -> Future[Any]:
    return threads.submit(takeback_migrations.upgrade, url)


def test_who_calls_while_an_index_is_built_waits_for_nobody_and_the_build_goes_on(
    url: str, writer: ReleaseBefore, scribe: Scribe
):
    columns_first(url)
    writer.recorded(scribe.due())
    with ThreadPoolExecutor(1) as threads:
        work = migrated_beside(threads, url)
        until(lambda: rows(url, BUILDER), "the build to wait for the writer")
        for _ in range(3):
            with connected(url) as other:
                other.tx.execute("SET LOCAL lock_timeout = '1s'")
                other.recorded(scribe.due())
        writer.recorded(scribe.due())
        assert not work.done() and not is_done(url)
        writer.tx.commit()
        assert work.result(PATIENCE_SECONDS) == ("0003", takeback_migrations.latest_revision())
    assert is_done(url)
    assert len(rows(url, "SELECT FROM takeback.intents")) == 5


def test_a_person_who_freezes_while_an_index_is_built_is_answered_at_once(url: str, scribe: Scribe):
    columns_first(url)
    with (
        closing(Database(url)) as ledger,
        ThreadPoolExecutor(1) as threads,
        connected(url) as writer,
    ):
        writer.recorded(scribe.due())
        work = migrated_beside(threads, url)
        until(lambda: rows(url, BUILDER), "the build to wait for the writer")
        with ledger.transaction() as tx:
            tx.raw.execute("SET LOCAL lock_timeout = '1s'")
            freeze(tx, FreezeScope(tool="pay"), reason="it repeats itself", by="dana")
        assert not work.done()
        writer.tx.commit()
        work.result(PATIENCE_SECONDS)


def test_a_build_that_the_server_has_ended_is_repeated_to_the_end(
    url: str, writer: ReleaseBefore, scribe: Scribe
):
    columns_first(url)
    writer.recorded(scribe.due())
    with ThreadPoolExecutor(1) as threads:
        work = migrated_beside(threads, url)
        ((pid,),) = until(lambda: rows(url, BUILDER), "the build to wait for the writer")
        rows(url, f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(DatabaseUnavailable, match="migrate again"):
            work.result(PATIENCE_SECONDS)
    writer.tx.commit()
    assert False in dict(rows(url, INDEXES)).values(), "an index is left behind that nobody may use"

    assert takeback_migrations.upgrade(url) == ("0003", takeback_migrations.latest_revision())

    assert is_done(url) and all(dict(rows(url, INDEXES)).values())


@pytest.mark.chaos
def test_what_a_dead_process_has_begun_is_waited_for_and_finished(
    url: str, writer: ReleaseBefore, scribe: Scribe
):
    """The server goes on with a build whose client is gone; who comes after waits for its end."""
    columns_first(url)
    writer.recorded(scribe.due())
    code = f"import takeback_migrations as m; m.upgrade({url!r})"
    process = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: rows(url, BUILDER), "the build to wait for the writer")
    os.kill(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as threads:
        work = migrated_beside(threads, url)
        until(lambda: rows(url, TRIED), "the next one to have tried")
        assert not work.done()
        writer.tx.commit()
        assert work.result(PATIENCE_SECONDS) == ("0003", takeback_migrations.latest_revision())
    assert is_done(url) and all(dict(rows(url, INDEXES)).values())


TRIED = """
SELECT FROM pg_stat_activity
WHERE datname = current_database() AND state LIKE 'idle%' AND query = 'ROLLBACK'
"""


def test_two_that_build_at_once_build_everything_once(url: str, scribe: Scribe):
    columns_first(url)
    with ThreadPoolExecutor(3) as threads:
        works = [migrated_beside(threads, url) for _ in range(3)]
        told = sorted(work.result(PATIENCE_SECONDS) for work in works)
    head = takeback_migrations.latest_revision()
    assert told == [("0003", head), (head, head), (head, head)]
    assert is_done(url)


def test_a_build_in_a_copy_of_the_database_keeps_nobody_else_waiting(
    url: str, server_url: str, scribe: Scribe
):
    """In a copy the tables have the same numbers, and the server tells of all its databases."""
    columns_first(url)
    with (
        copied(server_url, url) as copy,
        ThreadPoolExecutor(2) as threads,
        connected(copy) as writer,
    ):
        writer.recorded(scribe.due())
        # Not a migration: two that build in one process would be Alembic's undoing.
        beside = threads.submit(lambda: built(copy))
        until(lambda: rows(copy, BUILDER), "the build to wait for the writer")
        head = takeback_migrations.latest_revision()
        assert migrated_beside(threads, url).result(PATIENCE_SECONDS) == ("0003", head)
        assert not beside.done()
        writer.tx.commit()
        beside.result(PATIENCE_SECONDS)


def built(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as builder:
        builder.execute("CREATE INDEX CONCURRENTLY one_more ON takeback.intents (ask_at)")


@contextmanager
def copied(server_url: str, url: str) -> Iterator[str]:
    """The address of a copy of the database at ``url``, dropped at the end."""
    name = conninfo_to_dict(url)["dbname"]
    with psycopg.connect(server_url, autocommit=True) as admin:
        database.create(admin, f"{name}_copy", template=str(name))
    try:
        yield database.with_database(server_url, f"{name}_copy")
    finally:
        with psycopg.connect(server_url, autocommit=True) as admin:
            database.drop(admin, f"{name}_copy")
