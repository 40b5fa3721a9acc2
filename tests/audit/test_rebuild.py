"""Rows are computed anew from the log: what differs is put right, what is not proved is refused."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from takeback import Handler, Performed, Settings, Takeback
from takeback.audit.proof import COMPARED
from takeback.audit.rebuild import Rebuilt, rebuild
from takeback.ledger.database import Database
from takeback.model import command as commands
from takeback_shop.catalog import CATALOG
from tests.audit import ledger
from tests.audit.ledger import Life, proved, take_guards_down
from tests.audit.test_verify import ROW_CHANGES
from tests.ledger.scribe import (
    PATIENCE_SECONDS,
    Scribe,
    apply,
    events_of,
    intent_of,
    is_waiting,
    until,
)

# What identifies the row can't be put right in place, and its knowledge of the log is the proof.
IN_PLACE = {
    name: change
    for name, change in ROW_CHANGES.items()
    if name not in ("tenant", "id", "head_hash")
}


LATER = """
CREATE OR REPLACE FUNCTION takeback.now() RETURNS timestamptz LANGUAGE sql VOLATILE
RETURN clock_timestamp() + interval '1 hour'
"""


@pytest.fixture
def lives(database_url: str, rng: random.Random) -> dict[str, Life]:
    return ledger.fill(database_url, rng)


@pytest.fixture
def tx(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url) as connection:
        yield connection


def rebuilt(url: str) -> Rebuilt:
    database = Database(url)
    try:
        return rebuild(database)
    finally:
        database.close()


def everything(tx: psycopg.Connection[Any]) -> list[Any]:
    found = [
        tx.execute(f"SELECT t::text FROM takeback.{table} AS t ORDER BY 1".encode()).fetchall()
        for table in ("intents", "events", "bodies")
    ]
    tx.commit()
    return found


def test_an_untouched_ledger_is_left_as_it_is(tx, database_url: str, lives: dict[str, Life]):
    before = everything(tx)
    assert rebuilt(database_url) == Rebuilt(intents=len(lives), differing=(), refused=())
    assert everything(tx) == before


def test_every_changed_column_is_named_and_put_right(tx, database_url: str, lives: dict[str, Life]):
    before = everything(tx)
    for column, change in IN_PLACE.items():
        name = column.partition(",")[0]
        life = lives["parked"]
        tx.execute(f"UPDATE takeback.intents SET {change} WHERE id = %s".encode(), [life.id])
        tx.commit()
        answer = rebuilt(database_url)
        assert answer.refused == ()
        (difference,) = answer.differing
        assert (difference.ref, difference.intent_id) == (life.ref, life.id)
        expected = COMPARED if "endless" in column else ({"window_us": "window"}.get(name, name),)
        assert difference.columns == expected
        assert everything(tx) == before, column


def test_all_rows_at_once_are_put_right(tx, database_url: str, lives: dict[str, Life]):
    before = everything(tx)
    tx.execute("UPDATE takeback.intents SET principal = 'mallory', epoch = 7")
    tx.commit()
    answer = rebuilt(database_url)
    assert {one.ref for one in answer.differing} == {life.ref for life in lives.values()}
    assert str(answer.differing[0]).endswith(": principal, epoch")
    assert everything(tx) == before
    assert rebuilt(database_url).differing == ()


def test_rows_that_are_gone_come_back_and_no_event_is_written(
    tx, database_url: str, lives: dict[str, Life]
):
    """A held row that comes back is no fresh recording: its window is not moved."""
    before = everything(tx)
    tx.execute(LATER)
    tx.execute("DELETE FROM takeback.intents")
    tx.commit()
    answer = rebuilt(database_url)
    assert {one.intent_id for one in answer.differing} == {life.id for life in lives.values()}
    assert everything(tx) == before
    assert proved(database_url).problems == ()


def test_a_renewed_lease_is_kept(tx, database_url: str, lives: dict[str, Life]):
    life = lives["executing"]
    tx.execute(
        "UPDATE takeback.intents SET attempt = 9, lease_until = '2027-01-01 00:00:00+00' "
        "WHERE id = %s",
        [life.id],
    )
    tx.commit()
    assert len(rebuilt(database_url).differing) == 1
    row = intent_of(tx, life.id)
    assert row.attempt == 1
    assert row.lease_until is not None and row.lease_until.year == 2027


def test_what_the_log_does_not_prove_is_refused_and_left_alone(
    tx, database_url: str, lives: dict[str, Life]
):
    forged, cut, stranger = lives["executing"], lives["parked"], lives["held"]
    take_guards_down(tx)
    tx.execute(
        "UPDATE takeback.events SET payload = '{}' WHERE intent_id = %s AND version = 2",
        [forged.id],
    )
    tx.execute(
        "DELETE FROM takeback.events WHERE intent_id = %s AND version = %s",
        [cut.id, cut.events],
    )
    tx.execute("ALTER TABLE takeback.events ENABLE ALWAYS TRIGGER events_are_append_only")
    tx.execute(
        "UPDATE takeback.intents SET head_hash = sha256('other') WHERE id = %s", [stranger.id]
    )
    tx.execute("UPDATE takeback.intents SET principal = 'mallory'")
    tx.commit()
    answer = rebuilt(database_url)
    untouched = {forged.ref, cut.ref, stranger.ref}
    assert {problem.ref for problem in answer.refused} == untouched
    assert (cut.ref, cut.events) in {(one.ref, one.version) for one in answer.refused}
    assert {one.ref for one in answer.differing} == {
        life.ref for life in lives.values() if life.ref not in untouched
    }
    for life in (forged, cut, stranger):
        assert intent_of(tx, life.id).principal == "mallory"


def test_a_row_whose_place_is_taken_is_refused_and_the_others_go_on(
    tx, database_url: str, lives: dict[str, Life]
):
    moved, other = lives["succeeded"], lives["due"]
    tx.execute("UPDATE takeback.intents SET id = gen_random_uuid() WHERE id = %s", [moved.id])
    tx.execute("UPDATE takeback.intents SET epoch = 7 WHERE id = %s", [other.id])
    tx.commit()
    answer = rebuilt(database_url)
    assert {one.ref for one in answer.differing} == {other.ref}
    assert {one.ref for one in answer.refused} == {moved.ref}
    assert any("stands in another row" in one.what for one in answer.refused)


def test_a_row_is_put_right_under_its_lock_from_the_log_as_it_is_then(
    tx, database_url: str, lives: dict[str, Life], rng: random.Random
):
    """Whoever holds the row may append meanwhile; nothing of that is overwritten."""
    life = lives["due"]
    tx.execute("UPDATE takeback.intents SET principal = 'mallory' WHERE id = %s", [life.id])
    tx.commit()
    database = Database(database_url, application="rebuilding")
    apply(tx, Scribe(rng), life.id, commands.Cancel(by="dana", via="restore-00000000"))
    with ThreadPoolExecutor(1) as beside:
        work = beside.submit(rebuild, database)
        pid = until(lambda: waiting(database_url), "the rebuild to wait")
        assert is_waiting(database_url, pid)
        tx.commit()
        answer = work.result(PATIENCE_SECONDS)
    database.close()
    (difference,) = answer.differing
    assert difference.columns == ("principal",)
    row = intent_of(tx, life.id)
    assert (row.state.value, row.principal, row.version) == ("cancelled", "agent:support", 2)
    assert len(events_of(tx, life.id)) == 2
    assert proved(database_url).problems == ()


def waiting(url: str) -> int | None:
    with psycopg.connect(url, autocommit=True) as eye:
        row = eye.execute(
            """
            SELECT pid FROM pg_stat_activity
            WHERE application_name = 'rebuilding' AND wait_event_type = 'Lock'
            """
        ).fetchone()
    return int(row[0]) if row else None


def test_progress_is_told_until_all_is_done(database_url: str, lives: dict[str, Life]):
    told: list[tuple[int, int]] = []
    database = Database(database_url)
    rebuild(database, progress=lambda done, total: told.append((done, total)))
    database.close()
    assert told == [(len(lives), len(lives))]


class Untouchable:
    """Handlers for every tool of the shop that fail the test as soon as one is called."""

    def __getattr__(self, name: str) -> Handler:
        def touched(*_: Any) -> Performed:
            raise AssertionError(f"{name} was called")

        if name.startswith("_"):
            raise AttributeError(name)
        return Handler(perform=touched, find=touched, restore=touched)


def test_no_handler_is_called_and_nothing_is_sent(tx, database_url: str, lives: dict[str, Life]):
    """laravel-event-projector #29."""
    settings = Settings(database_url=database_url)
    app = Takeback(CATALOG, handlers=Untouchable(), settings=settings)
    tx.execute("DELETE FROM takeback.intents WHERE tool = 'send_customer_email'")
    tx.commit()
    assert len(app.rebuild().differing) == len(lives)
    assert app.verify().problems == ()
    app.close()
