"""The schema of this release carries the data, and the statements, of the release before."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

import takeback_migrations
from takeback.audit.rebuild import rebuild
from takeback.ledger.database import Database
from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.decide import decide
from takeback.model.event import decode
from takeback.model.intent import State, instant
from tests.audit.ledger import BEGIN, CLAIM, proved
from tests.ledger.scribe import Entry, Scribe, apply, events_of, intent_of, record, recorded
from tests.migrations import release_before
from tests.migrations.release_before import STATEMENTS, WIDTH, ReleaseBefore, connected, intent_in

CANCEL = commands.Cancel(by="dana", via="restore-00000000")
SUCCEED = commands.Succeed(result=None, affected_count=2)


@pytest.fixture
def before_url(empty_database_url: str) -> str:
    """A database at the schema of the release before."""
    release_before.migrate(empty_database_url)
    return empty_database_url


@pytest.fixture
def old(before_url: str) -> Iterator[ReleaseBefore]:
    """A process of the release before, on the schema of this one."""
    takeback_migrations.upgrade(before_url)
    with connected(before_url) as one:
        yield one


def carry(old: ReleaseBefore, id_: UUID, *given: commands.Command) -> None:
    """Does commands to an intent as that release does: locked, decided, appended."""
    for command in given:
        row = old.lock(id_)
        following = decide(intent_in(row), command, instant(row[WIDTH]))
        old.append((row, list(following)))


def lives(old: ReleaseBefore, scribe: Scribe) -> dict[str, UUID]:
    """An intent of each kind that the release before leaves behind."""
    asking = scribe.entry(becomes="awaiting_approval")
    entries: dict[str, tuple[Entry, tuple[commands.Command, ...]]] = {
        "held": (scribe.entry(), ()),
        "due": (scribe.due(), ()),
        "asked": (asking, ()),
        "cancelled": (scribe.entry(), (CANCEL,)),
        "claimed": (scribe.due(), (CLAIM,)),
        "executing": (scribe.due(), (CLAIM, BEGIN)),
        "succeeded": (scribe.due(), (CLAIM, BEGIN, SUCCEED)),
    }
    ids = {}
    for name, (entry, given) in entries.items():
        ids[name] = old.recorded(entry)
        carry(old, ids[name], *given)
    old.tx.commit()
    return ids


def rebuilt(url: str) -> Any:
    database = Database(url)
    try:
        return rebuild(database)
    finally:
        database.close()


def rows(tx: psycopg.Connection[Any], table: str) -> list[Any]:
    columns = "tenant, id, state, version, head_hash" if table == "intents" else "*"
    query = f"SELECT {columns} FROM takeback.{table} ORDER BY 1, 2, 3"
    found = tx.execute(query.encode()).fetchall()
    tx.commit()
    return found


def test_an_upgrade_with_data_in_place_changes_nothing_of_it_and_all_of_it_proves(
    before_url: str, scribe: Scribe
):
    with connected(before_url) as old:
        ids = lives(old, scribe)
        stored = {table: rows(old.tx, table) for table in ("intents", "events", "bodies")}
        assert takeback_migrations.upgrade(before_url) == (
            "0002",
            takeback_migrations.latest_revision(),
        )
        assert {table: rows(old.tx, table) for table in stored} == stored
    verdict = proved(before_url)
    assert (verdict.problems, verdict.intents) == ((), len(ids))
    answer = rebuilt(before_url)
    assert (answer.differing, answer.refused) == ((), ())


def test_what_the_release_before_recorded_is_read_approved_carried_out_and_rebuilt(
    old: ReleaseBefore, before_url: str, scribe: Scribe
):
    ids = lives(old, scribe)
    with psycopg.connect(before_url) as tx:
        asked = intent_of(tx, ids["asked"])
        assert (asked.expires_at, asked.on_behalf_of, asked.approved_by) == (None, None, None)
        (first,) = events_of(tx, ids["asked"])
        assert first.schema == 2
        event = decode(first.kind, first.schema, first.payload)
        assert isinstance(event, events.Recorded)
        assert (event.lane, event.priority, event.ordering) == ("", 0, None)
        approved = apply(tx, scribe, ids["asked"], commands.Approve(by="dana", saw="ef2d127d"))
        assert (approved.state, approved.approved_by) == (State.HELD, "dana")
        assert [one.schema for one in events_of(tx, ids["asked"])] == [2, 2]
        apply(tx, scribe, ids["due"], CLAIM, commands.AskApproval(cause="limit"))
        apply(tx, scribe, ids["claimed"], BEGIN, SUCCEED)
        apply(tx, scribe, ids["executing"], SUCCEED)
    assert proved(before_url).problems == ()
    with psycopg.connect(before_url) as tx:
        kept = tx.execute("SELECT i::text FROM takeback.intents AS i ORDER BY 1").fetchall()
        tx.execute("UPDATE takeback.intents SET approved_by = 'mallory', expires_at = now()")
        tx.commit()
        assert len(rebuilt(before_url).differing) == len(ids)
        again = tx.execute("SELECT i::text FROM takeback.intents AS i ORDER BY 1").fetchall()
    assert again == kept
    assert proved(before_url).problems == ()


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_of_the_release_before_can_be_said(old: ReleaseBefore, name: str):
    sql = STATEMENTS[name]
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    text = re.sub(r"%\((\w+)\)s", lambda m: f"${names.index(m.group(1)) + 1}", sql)
    old.tx.execute(f"PREPARE one AS {text.replace('%%', '%')}".encode())


def test_the_release_before_records_finds_locks_claims_and_settles(
    old: ReleaseBefore, before_url: str, scribe: Scribe
):
    entry, other = scribe.due(), scribe.due()
    id_ = old.recorded(entry)
    assert old.record(entry) == f"found {id_}"
    assert old.record_many(entry, other, scribe.entry()) == 2
    due = old.lock_due()
    assert {row[2] for row in due} == {entry.event.ref, other.event.ref}
    old.append(*((row, _events(row, CLAIM)) for row in due))
    carry(old, id_, BEGIN, SUCCEED)
    old.tx.commit()
    with psycopg.connect(before_url) as tx:
        assert intent_of(tx, id_).state is State.SUCCEEDED
    assert proved(before_url).problems == ()
    assert rebuilt(before_url).differing == ()


def _events(row: Any, command: commands.Command) -> list[events.Event]:
    return list(decide(intent_in(row), command, instant(row[WIDTH])))


def test_the_release_before_carries_out_and_takes_back_what_this_one_recorded(
    old: ReleaseBefore, before_url: str, scribe: Scribe
):
    """It leaves alone the columns that it does not know, so that the rows still prove."""
    with psycopg.connect(before_url) as tx:
        entry = scribe.due(on_behalf_of="dana")
        plain = recorded(tx, entry).id
        asked = recorded(tx, scribe.asking()).id
        approved = recorded(tx, scribe.asking(window_us=0)).id
        apply(tx, scribe, approved, commands.Approve(by="dana", saw="ef2d127d"))
    assert old.record(entry) == f"found {plain}"
    for id_ in (plain, approved):
        carry(old, id_, CLAIM, BEGIN, SUCCEED)
    carry(old, asked, CANCEL)
    old.tx.commit()
    with psycopg.connect(before_url) as tx:
        done = intent_of(tx, approved)
        assert (done.state, done.approved_by, done.on_behalf_of) == (
            State.SUCCEEDED,
            "dana",
            "dana",
        )
        assert intent_of(tx, asked).state is State.CANCELLED
    assert proved(before_url).problems == ()
    assert rebuilt(before_url).differing == ()


def test_both_releases_at_once_record_a_call_once(
    old: ReleaseBefore, before_url: str, scribe: Scribe
):
    """Each is busy while the other is uncommitted, and finds it after; a former key counts too."""
    entry, (former, today) = scribe.entry(), scribe.two_recipes()
    with psycopg.connect(before_url) as new:
        minted = recorded(new, entry)
        assert old.record(entry) == "busy"
        new.commit()
        assert old.record(entry) == f"found {minted.id}"
        id_ = old.recorded(former)
        assert record(new, today).answer == "busy"
        assert record(new, replace(former, former_keys=())).answer == "busy"
        old.tx.commit()
        answer = record(new, today)
        assert (answer.answer, answer.twin) == ("former", id_)


def test_a_ledger_of_random_lives_survives_the_upgrade(before_url: str, rng: random.Random):
    scribe = Scribe(rng)
    with connected(before_url) as old:
        for _ in range(30):
            id_ = old.recorded(scribe.due())
            for command in (CLAIM, BEGIN, SUCCEED)[: rng.randrange(4)]:
                carry(old, id_, command)
    takeback_migrations.upgrade(before_url)
    assert proved(before_url).problems == ()
    with psycopg.connect(before_url, autocommit=True) as tx:
        row = tx.execute("SELECT count(*), count(expires_at) FROM takeback.intents").fetchone()
    assert row == (30, 0)
