"""What is appended is fenced by its version, and its bodies lie where their digests are named."""

from dataclasses import replace
from datetime import timedelta

import pytest

from takeback.ledger import reading
from takeback.ledger.appending import Change, append
from takeback.ledger.transaction import adopt
from takeback.model import command as commands
from takeback.model.chain import body_digest
from takeback.model.errors import LeaseLost
from takeback.model.evolve import fold
from takeback.model.intent import State
from tests.ledger.conftest import Connect
from tests.ledger.scribe import TENANT, Scribe, apply, events_of, intent_of, recorded, take

LEASE = timedelta(seconds=30)
CLAIM = commands.Claim(worker="w", lease=LEASE)
BEGIN = commands.Begin(lease=LEASE)


def bodies(tx):
    return tx.execute(
        "SELECT version, name, body FROM takeback.bodies WHERE version > 1 ORDER BY 1, 2"
    ).fetchall()


def test_events_bodies_and_the_row_change_together(connect: Connect, scribe: Scribe):
    tx = connect()
    minted = recorded(tx, scribe.due())
    apply(tx, scribe, minted.id, CLAIM, BEGIN)
    body = scribe.body("result", '{"id":"m-1"}')
    succeed = commands.Succeed(result=body_digest(body.salt, body.text), affected_count=2)
    (taken,) = take(tx, minted.id)
    (after,) = append(adopt(tx), [scribe.change(taken, succeed, bodies=[body])])
    tx.commit()
    assert after.state is State.SUCCEEDED
    assert intent_of(tx, minted.id) == after
    assert fold([one.fact() for one in events_of(tx, minted.id)]) == after
    assert bodies(tx) == [(4, "result", '{"id":"m-1"}')]


def test_a_stale_version_is_fenced_off_and_nothing_of_it_is_stored(
    connect: Connect, scribe: Scribe
):
    """trinity #2846, aegra #547."""
    owner, thief = connect(), connect()
    minted = recorded(owner, scribe.due())
    (stale,) = take(owner, minted.id)
    owner.commit()
    apply(thief, scribe, minted.id, CLAIM, BEGIN)
    thief.commit()
    before = events_of(owner, minted.id)
    body = scribe.body("error", "{}")
    digest = body_digest(body.salt, body.text)
    changes = [
        scribe.change(stale, commands.Cancel(by="dana", via="restore-00000000")),
        Change(
            taken=replace(stale, intent=replace(intent_of(owner, minted.id), version=2)),
            events=scribe.change(
                replace(stale, intent=intent_of(owner, minted.id)),
                commands.Fail(code="provider_rejected", error=digest),
            ).events,
            bodies=[body],
        ),
    ]
    for change in changes:
        with pytest.raises(LeaseLost, match="1 of 1"):
            append(adopt(owner), [change])
        owner.commit()
        assert events_of(owner, minted.id) == before
        assert bodies(owner) == []
        assert intent_of(owner, minted.id).state is State.EXECUTING


def test_a_stale_one_in_a_batch_is_counted_and_nothing_of_it_is_stored(
    connect: Connect, scribe: Scribe
):
    tx, thief = connect(), connect()
    fresh, stale = (recorded(tx, scribe.due()).id for _ in range(2))
    tx.commit()
    taken = take(tx, fresh, stale)
    tx.commit()
    apply(thief, scribe, stale, commands.Cancel(by="dana", via="restore-00000000"))
    thief.commit()
    with pytest.raises(LeaseLost, match="1 of 2"):
        append(adopt(tx), [scribe.change(one, CLAIM) for one in taken])
    assert [one.kind for one in events_of(tx, stale)] == ["intent.recorded", "intent.cancelled"]
    tx.rollback()
    assert [one.kind for one in events_of(tx, fresh)] == ["intent.recorded"]


def test_a_late_answer_that_settles_keeps_its_body_beside_the_answer(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    minted = recorded(tx, scribe.due())
    apply(tx, scribe, minted.id, CLAIM, BEGIN)
    apply(tx, scribe, minted.id, commands.LoseTrack(cause="timed_out"))
    body = scribe.body("result", '"late"')
    late = commands.AnswerLate(
        attempt=1, outcome="succeeded", body=body_digest(body.salt, body.text)
    )
    (taken,) = take(tx, minted.id)
    (after,) = append(adopt(tx), [scribe.change(taken, late, bodies=[body])])
    assert after.state is State.SUCCEEDED
    assert bodies(tx) == [(5, "result", '"late"')]
    assert [one.kind for one in events_of(tx, minted.id)][-2:] == [
        "intent.answered_late",
        "intent.succeeded",
    ]


def test_a_body_that_no_event_names_is_not_kept(connect: Connect, scribe: Scribe):
    """Nobody could prove it, and nobody would know to forget it."""
    tx = connect()
    minted = recorded(tx, scribe.due())
    (taken,) = take(tx, minted.id)
    append(adopt(tx), [scribe.change(taken, CLAIM, bodies=[scribe.body("result", "1")])])
    assert bodies(tx) == []


def test_more_events_than_places_are_refused_and_none_is_dropped(connect: Connect, scribe: Scribe):
    tx = connect()
    minted = recorded(tx, scribe.due())
    (taken,) = take(tx, minted.id)
    steps: list[commands.Command] = [CLAIM, commands.HandBack(), CLAIM, commands.HandBack()]
    with pytest.raises(AssertionError, match="4 events"):
        append(adopt(tx), [scribe.change(taken, *steps)])
    assert len(events_of(tx, minted.id)) == 1


def test_nothing_to_append_says_no_statement(connect: Connect):
    assert append(adopt(connect()), []) == []


def test_a_batch_changes_many_at_once(connect: Connect, scribe: Scribe):
    tx = connect()
    ids = [recorded(tx, scribe.due()).id for _ in range(50)]
    taken = take(tx, *ids)
    after = append(adopt(tx), [scribe.change(one, CLAIM, BEGIN) for one in taken])
    tx.commit()
    assert {one.state for one in after} == {State.EXECUTING}
    entries = reading.read_many(adopt(tx), after)
    assert {entry.intent.id: entry.intent for entry in entries} == {one.id: one for one in after}
    assert {entry.bodies["arguments"]["to"] for entry in entries} == {"dana@example.com"}
    assert reading.read(adopt(tx), TENANT, ids[0]) is not None
