"""Eight writers that commit late or not at all, and a reader that sees each event once in order."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

from takeback.audit.verify import verify
from takeback.ledger.barrier import read_log
from takeback.ledger.database import Database
from takeback.ledger.reading import Stored
from takeback.model import command as commands
from takeback.model.errors import DatabaseUnavailable
from tests.ledger.scribe import Scribe, apply, record_many, recorded

pytestmark = pytest.mark.session

WRITERS = 8
TRANSACTIONS = 40
PAGE = 25
LOOKS = 10_000


def write(url: str, dice: random.Random, count: int) -> None:
    """So many transactions; a connection that is lost is made anew."""
    scribe = Scribe(dice)
    done = 0
    while done < count:
        with suppress(psycopg.OperationalError, DatabaseUnavailable), psycopg.connect(url) as tx:
            tx.execute("SET synchronous_commit = off")
            tx.commit()
            while done < count:
                done += 1
                transact(tx, scribe, dice)


def transact(tx: psycopg.Connection[Any], scribe: Scribe, dice: random.Random) -> None:
    """One of the ways to append, then a delay, then the commit or a rollback."""
    match dice.randrange(5):
        case 0:
            record_many(tx, [scribe.entry() for _ in range(dice.randrange(1, 5))])
        case 1:
            tx.execute("SAVEPOINT one")
            recorded(tx, scribe.entry())
            tx.execute("ROLLBACK TO SAVEPOINT one")
            recorded(tx, scribe.entry())
        case 2:
            minted = recorded(tx, scribe.entry())
            apply(tx, scribe, minted.id, commands.Cancel(by="dana", via="restore-00000000"))
        case _:
            recorded(tx, scribe.entry())
    tx.execute("SELECT pg_sleep(%s)", [dice.random() * 0.004])
    if dice.random() < 0.1:
        tx.rollback()
    else:
        tx.commit()


@contextmanager
def writers(url: str, rng: random.Random) -> Iterator[list["Future[None]"]]:
    with ThreadPoolExecutor(WRITERS) as pool:
        yield [
            pool.submit(write, url, random.Random(rng.random()), TRANSACTIONS)
            for _ in range(WRITERS)
        ]


def follow(url: str, working: list["Future[None]"]) -> list[Stored]:
    """Reads as fast as it can until the writers are done and nothing is left."""
    database = Database(url)
    seen: list[Stored] = []
    checkpoint = 0
    nothing = threading.Event()

    def pause() -> None:
        nothing.wait(0.0005)

    with database.statements() as tx:
        for _ in range(LOOKS):
            finished = all(future.done() for future in working)
            page = read_log(tx, checkpoint, limit=PAGE, patience=3, pause=pause)
            seen += page.events
            checkpoint = page.safe_position
            if finished and not page.events and not page.held_back_by:
                break
        else:
            pytest.fail("the reader stalled")
    database.close()
    return seen


def check(url: str, seen: list[Stored], working: list["Future[None]"]) -> None:
    for future in working:
        future.result()
    with psycopg.connect(url) as tx:
        stored = tx.execute("SELECT position FROM takeback.events ORDER BY position").fetchall()
    assert [event.position for event in seen] == [position for (position,) in stored]
    assert len(stored) > WRITERS * TRANSACTIONS / 2
    database = Database(url)
    verdict = verify(database)
    database.close()
    assert verdict.problems == ()
    assert verdict.events == len(seen)


def test_every_committed_event_is_read_once_and_in_the_order_of_its_position(
    database_url: str, rng: random.Random
):
    """marten #4977, eventuous #222."""
    with writers(database_url, rng) as working:
        seen = follow(database_url, working)
    check(database_url, seen, working)


@pytest.mark.chaos
def test_backends_that_are_killed_while_they_append_leave_no_gap_and_no_stall(
    database_url: str, rng: random.Random
):
    dice = random.Random(rng.random())
    over = threading.Event()

    def kill() -> int:
        killed = 0
        with psycopg.connect(database_url, autocommit=True) as admin:
            while not over.wait(0.03):
                pids = admin.execute(
                    """
                    SELECT pid FROM pg_stat_activity
                    WHERE datname = current_database() AND backend_xid IS NOT NULL
                    ORDER BY pid
                    """
                ).fetchall()
                if pids:
                    killed += 1
                    admin.execute("SELECT pg_terminate_backend(%s)", dice.choice(pids))
        return killed

    with ThreadPoolExecutor(1) as beside, writers(database_url, rng) as working:
        killer = beside.submit(kill)
        try:
            seen = follow(database_url, working)
        finally:
            over.set()
        assert killer.result() > 5
    check(database_url, seen, working)
