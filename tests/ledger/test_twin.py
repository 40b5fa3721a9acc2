"""Two transactions record one key at once: held mid-flight in every order, at every level."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import IsolationLevel

import takeback_migrations
from takeback.model.errors import RetryTransaction
from tests.ledger.cluster import programs, server
from tests.ledger.conftest import Connect
from tests.ledger.scribe import (
    PATIENCE_SECONDS,
    Scribe,
    events_of,
    is_waiting,
    record,
    record_many,
    recorded,
    until,
)

WITHOUT_LOCK = """
INSERT INTO takeback.intents
    (tenant, id, ref, tool, tool_version, effect, key, generation, principal, state, version,
     recorded_at, window_us, head_hash)
VALUES ('default', %s, 'a-00000002', 'a', 1, 'local', %s, 0, 'p', 'recorded', 1, now(), 0,
        sha256(''))
"""

LEVELS = [
    IsolationLevel.READ_COMMITTED,
    IsolationLevel.REPEATABLE_READ,
    IsolationLevel.SERIALIZABLE,
]
SNAPSHOTS = LEVELS[1:]


def ids(level: IsolationLevel) -> str:
    return level.name.lower()


def at(connect: Connect, level: IsolationLevel) -> psycopg.Connection[Any]:
    connection = connect()
    connection.isolation_level = level
    return connection


@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_an_uncommitted_twin_is_busy_and_the_asking_transaction_stays_usable(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    """mastodon #37879."""
    first, second = connect(), at(connect, level)
    entry = scribe.entry()
    recorded(first, entry)
    second.execute("CREATE TEMP TABLE own (word text)")
    assert [record(second, entry).answer for _ in range(3)] == ["busy"] * 3
    second.execute("INSERT INTO own VALUES ('still mine')")
    recorded(second, scribe.entry())
    second.commit()
    first.commit()
    assert second.execute("SELECT count(*) FROM takeback.intents").fetchone() == (2,)


@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_a_twin_that_is_rolled_back_leaves_the_key_to_whoever_asks_next(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    first, second = connect(), at(connect, level)
    entry = scribe.entry()
    recorded(first, entry)
    assert record(second, entry).answer == "busy"
    first.rollback()
    minted = recorded(second, entry)
    second.commit()
    assert [one.version for one in events_of(second, minted.id)] == [1]


@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_a_twin_that_committed_before_is_found(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    first, second = connect(), at(connect, level)
    entry = scribe.entry()
    minted = recorded(first, entry)
    first.commit()
    assert record(second, entry).twin == minted.id


def test_under_read_committed_a_twin_that_commits_meanwhile_is_found(
    connect: Connect, scribe: Scribe
):
    first, second = connect(), connect()
    entry = scribe.entry()
    minted = recorded(first, entry)
    second.execute("SELECT count(*) FROM takeback.intents")
    assert record(second, entry).answer == "busy"
    first.commit()
    assert record(second, entry).twin == minted.id


@pytest.mark.parametrize("level", SNAPSHOTS, ids=ids)
def test_a_twin_behind_the_snapshot_loses_the_transaction(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    """No envelope could save it: Postgres has to refuse what the snapshot can't see."""
    first, second = connect(), at(connect, level)
    entry = scribe.entry()
    second.execute("SELECT count(*) FROM takeback.intents")
    minted = recorded(first, entry)
    first.commit()
    with pytest.raises(RetryTransaction):
        record(second, entry)
    second.rollback()
    assert record(second, entry).twin == minted.id


@pytest.mark.parametrize("level", SNAPSHOTS, ids=ids)
def test_a_batch_with_a_twin_behind_the_snapshot_loses_the_transaction(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    first, second = connect(), at(connect, level)
    entry = scribe.entry()
    second.execute("SELECT count(*) FROM takeback.intents")
    recorded(first, entry)
    first.commit()
    with pytest.raises(RetryTransaction):
        record_many(second, [scribe.entry(), entry])


@pytest.mark.session
@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_a_twin_that_commits_between_the_look_and_the_write_is_never_doubled(
    connect: Connect, scribe: Scribe, database_url: str, level: IsolationLevel
):
    """Written without the key's lock, so that the recording gets as far as the table's own rule."""
    first, second = connect(), at(connect, level)
    entry = scribe.entry()
    twin = UUID(bytes=scribe.rng.randbytes(16))
    first.execute(WITHOUT_LOCK, [twin, entry.event.key])
    with ThreadPoolExecutor(1) as beside:
        recording = beside.submit(record, second, entry.with_(ref="a-00000001"))
        until(lambda: is_waiting(database_url, second.info.backend_pid), "the recording to wait")
        first.commit()
        if level is IsolationLevel.READ_COMMITTED:
            assert recording.result(PATIENCE_SECONDS).answer == "shadowed"
            assert record(second, entry).twin == twin
        else:
            with pytest.raises(RetryTransaction):
                recording.result(PATIENCE_SECONDS)


def test_a_prepared_transaction_holds_its_keys_until_it_is_decided(scribe: Scribe):
    """Its lock has no process: pg_locks shows it with a pid of NULL."""
    with server(programs(), max_prepared_transactions="5") as own:
        takeback_migrations.upgrade(own.url)
        with psycopg.connect(own.url) as first, psycopg.connect(own.url) as second:
            kept, dropped = scribe.entry(), scribe.entry()
            recorded(first, kept)
            first.execute("PREPARE TRANSACTION 'kept'")
            first.rollback()
            recorded(first, dropped)
            first.execute("PREPARE TRANSACTION 'dropped'")
            first.rollback()
            assert record(second, kept).answer == "busy"
            assert record(second, dropped).answer == "busy"
            first.autocommit = True
            first.execute("COMMIT PREPARED 'kept'")
            first.execute("ROLLBACK PREPARED 'dropped'")
            assert record(second, kept).answer == "found"
            assert record(second, dropped).answer == "recorded"
