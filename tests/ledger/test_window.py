"""An undo window counts from the commit: on a clock that the test sets, to the microsecond."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from takeback.audit.verify import verify
from takeback.ledger.database import Database
from takeback.model import command as commands
from takeback.model.decide import decide
from takeback.model.evolve import fold
from takeback.model.intent import micros
from tests.ledger.conftest import Connect
from tests.ledger.scribe import Scribe, apply, events_of, intent_of, record_many, recorded

BEGIN = datetime(2026, 11, 29, 14, 5, 10, 123_457, tzinfo=UTC)
SECOND_US = 1_000_000
MICROSECOND = timedelta(microseconds=1)

Clock = Callable[[float | timedelta], datetime]

SET_CLOCK = """
CREATE OR REPLACE FUNCTION takeback.now() RETURNS timestamptz LANGUAGE sql VOLATILE
RETURN current_setting('desk.now')::timestamptz
"""


@pytest.fixture
def tx(connect: Connect) -> psycopg.Connection[Any]:
    """A connection to a database whose clock stands where this connection has set it."""
    with connect(autocommit=True) as admin:
        admin.execute(SET_CLOCK)
    connection = connect()
    connection.execute("SELECT set_config('desk.now', %s, false)", [BEGIN.isoformat()])
    connection.commit()
    return connection


@pytest.fixture
def clock(tx: psycopg.Connection[Any]) -> Clock:
    """Sets the clock to so much after the recording."""

    def set_clock(later: float | timedelta) -> datetime:
        later = later if isinstance(later, timedelta) else timedelta(seconds=later)
        at = BEGIN + later
        tx.execute("SELECT set_config('desk.now', %s, false)", [at.isoformat()])
        return at

    return set_clock


def prove(url: str) -> None:
    database = Database(url)
    try:
        assert verify(database).problems == ()
    finally:
        database.close()


def test_a_window_of_a_second_in_a_transaction_of_two_still_gives_a_second(
    tx, clock: Clock, scribe: Scribe, database_url: str
):
    minted = recorded(tx, scribe.entry(window_us=SECOND_US))
    before = intent_of(tx, minted.id)
    assert before.due_at == BEGIN + timedelta(seconds=1)
    committed_at = clock(2)
    tx.commit()
    after = intent_of(tx, minted.id)
    assert after.due_at == committed_at + timedelta(seconds=1)
    first, second = events_of(tx, minted.id)
    assert fold([first.fact(), second.fact()]) == after
    move = commands.MoveWindow(committed_at=committed_at)
    assert decide(before, move, committed_at) == [second.fact().event]
    assert second.at_us == micros(committed_at)
    assert second.position > first.position
    prove(database_url)


@pytest.mark.parametrize(
    ("window_us", "threshold"),
    [
        (SECOND_US, timedelta(seconds=0.1)),
        (60 * SECOND_US, timedelta(seconds=1)),
        (86_400 * SECOND_US, timedelta(seconds=1)),
        (5 * SECOND_US, timedelta(seconds=0.5)),
        (9, timedelta(0)),
    ],
)
def test_a_commit_up_to_a_tenth_of_the_window_late_and_at_most_a_second_writes_nothing(
    tx, clock: Clock, scribe: Scribe, database_url: str, window_us: int, threshold: timedelta
):
    on_time = recorded(tx, scribe.entry(window_us=window_us))
    clock(threshold)
    tx.commit()
    assert len(events_of(tx, on_time.id)) == 1
    tx.commit()
    clock(0)
    late = recorded(tx, scribe.entry(window_us=window_us))
    committed_at = clock(threshold + MICROSECOND)
    tx.commit()
    assert [one.kind for one in events_of(tx, late.id)] == [
        "intent.recorded",
        "intent.window_moved",
    ]
    assert intent_of(tx, late.id).due_at == committed_at + timedelta(microseconds=window_us)
    prove(database_url)


@pytest.mark.parametrize(("late_s", "due_s"), [(5, 10), (8.999999, 10), (9, 10), (20, 21)])
def test_a_window_is_never_moved_before_what_the_caller_asked_for(
    tx, clock: Clock, scribe: Scribe, database_url: str, late_s: float, due_s: float
):
    not_before_us = micros(BEGIN + timedelta(seconds=10))
    minted = recorded(tx, scribe.entry(window_us=SECOND_US, not_before_us=not_before_us))
    clock(late_s)
    tx.commit()
    assert intent_of(tx, minted.id).due_at == BEGIN + timedelta(seconds=due_s)
    assert len(events_of(tx, minted.id)) == (2 if late_s > 9 else 1)
    prove(database_url)


def test_without_a_window_there_is_nothing_to_move(
    tx, clock: Clock, scribe: Scribe, database_url: str
):
    held = recorded(tx, scribe.entry(window_us=0, not_before_us=micros(BEGIN)))
    due = recorded(tx, scribe.due())
    waiting = recorded(tx, scribe.entry(becomes="waiting", after=("a-1",)))
    clock(3600)
    tx.commit()
    assert [len(events_of(tx, one.id)) for one in (held, due, waiting)] == [1, 1, 1]
    prove(database_url)


def test_what_was_taken_back_in_the_same_transaction_is_left_alone(
    tx, clock: Clock, scribe: Scribe, database_url: str
):
    minted = recorded(tx, scribe.entry(window_us=SECOND_US))
    clock(1)
    apply(tx, scribe, minted.id, commands.Cancel(by="dana", via="restore-00000000"))
    clock(2)
    tx.commit()
    assert [one.kind for one in events_of(tx, minted.id)] == [
        "intent.recorded",
        "intent.cancelled",
    ]
    prove(database_url)


def test_what_was_rolled_back_to_a_savepoint_is_not_moved_and_its_successor_is(
    tx, clock: Clock, scribe: Scribe, database_url: str
):
    """The rollback freed the barrier: the move takes it anew before it draws a place."""
    entry = scribe.entry(window_us=SECOND_US)
    tx.execute("SAVEPOINT one")
    recorded(tx, entry)
    tx.execute("ROLLBACK TO SAVEPOINT one")
    minted = recorded(tx, entry)
    clock(2)
    tx.commit()
    assert len(events_of(tx, minted.id)) == 2
    assert tx.execute("SELECT count(*) FROM takeback.events").fetchone() == (2,)
    prove(database_url)


def test_each_of_a_batch_is_moved(tx, clock: Clock, scribe: Scribe, database_url: str):
    minted = record_many(tx, [scribe.entry(window_us=SECOND_US) for _ in range(5)])
    committed_at = clock(2)
    tx.commit()
    for one in minted.values():
        assert intent_of(tx, one.id).due_at == committed_at + timedelta(seconds=1)
    prove(database_url)


def test_a_transaction_that_is_rolled_back_leaves_nothing_to_move(tx, clock: Clock, scribe: Scribe):
    recorded(tx, scribe.entry(window_us=SECOND_US))
    clock(2)
    tx.rollback()
    assert tx.execute("SELECT count(*) FROM takeback.events").fetchone() == (0,)
