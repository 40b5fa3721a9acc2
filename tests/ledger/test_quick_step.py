"""What is said in SQL for many at once is byte by byte what the pure pair says of each."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from takeback.ledger.beginning import Owner, begin_many
from takeback.ledger.locking import LOCK
from takeback.ledger.reading import Stored
from takeback.ledger.settling import Success, settle_many
from takeback.ledger.transaction import adopt
from takeback.model import command as commands
from takeback.model.chain import body_digest, chain_hash
from takeback.model.decide import decide
from takeback.model.errors import InvalidTransition
from takeback.model.event import Event, encode
from takeback.model.evolve import evolve, foresee
from takeback.model.intent import Fact, Intent, State, instant
from tests.ledger.conftest import Connect
from tests.ledger.scribe import Scribe, apply, events_of, intent_of, recorded, take

LEASE = timedelta(seconds=30)
OVER = timedelta(seconds=-1)
CLAIM = commands.Claim(worker="w0", lease=LEASE)
BEGIN = commands.Begin(lease=LEASE)
LOSE = commands.LoseTrack(cause="exception")
DEFER = commands.Defer(wait=OVER)
AGAIN = commands.Requeue(cause="provider_key", wait=OVER)
IN_TIME = commands.Requeue(
    cause="provider_key", wait=OVER, begin_before=instant(4_102_444_800_000_000)
)
PERSON = commands.Requeue(cause="person", by="dana", new_epoch=True)
PARK = commands.Park()
FAIL = commands.Fail(code="provider_rejected")
LATE = commands.AnswerLate(attempt=1, outcome="succeeded", body=None)

HISTORIES: dict[str, Sequence[commands.Command]] = {
    "fresh": (),
    "handed back": (CLAIM, commands.HandBack()),
    "deferred": (CLAIM, BEGIN, DEFER),
    "deferred twice": (CLAIM, BEGIN, DEFER, CLAIM, BEGIN, DEFER),
    "again in doubt": (CLAIM, BEGIN, LOSE, AGAIN),
    "again in doubt, twice": (CLAIM, BEGIN, LOSE, AGAIN, CLAIM, BEGIN, LOSE, AGAIN),
    "again in doubt, in time": (CLAIM, BEGIN, LOSE, IN_TIME),
    "parked, and a person's": (CLAIM, BEGIN, LOSE, PARK, commands.Requeue(cause="person", by="d")),
    "failed, and a person's": (CLAIM, BEGIN, FAIL, PERSON),
    "contradicted": (CLAIM, BEGIN, DEFER, LATE),
    "claimed": (CLAIM,),
    "begun": (CLAIM, BEGIN),
    "settled": (CLAIM, BEGIN, commands.Succeed(result=None)),
    "cancelled": (commands.Cancel(by="dana", via=None),),
}
"""Ways to the row that a claim finds, and some that it does not find."""

FIELDS: dict[str, dict[str, Any]] = {
    "due": {"becomes": "due", "window_us": 0},
    "held": {"becomes": "held", "window_us": 1},
    "not before": {"becomes": "held", "window_us": 0, "not_before_us": 1_000_000},
    "not yet": {"becomes": "held", "window_us": 3_600_000_000},
    "other": {"becomes": "due", "window_us": 0, "run": None, "principal": "zoë \u2028 'q' \"q\""},
}


@pytest.fixture
def shared(connect: Connect) -> psycopg.Connection[Any]:
    """One connection for all that the dice say; each of them is rolled back."""
    return connect()


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def expected(before: Intent, stored: Sequence[Stored], decided: Sequence[Event]) -> Intent:
    """``before`` after what was decided, which must be what is stored, hashes and all."""
    at = instant(stored[0].at_us)
    intent = before
    assert [one.kind for one in stored] == [event.KIND for event in decided]
    for one, event in zip(stored, decided, strict=True):
        link = chain_hash(
            previous=intent.head_hash,
            tenant=intent.tenant,
            intent_id=intent.id,
            version=intent.version + 1,
            position=one.position,
            kind=event.KIND,
            schema=event.schema,
            at_us=one.at_us,
            payload=encode(event),
        )
        assert (one.payload, one.schema, one.hash) == (encode(event), event.schema, link)
        assert (one.tenant, one.intent_id, one.version) == (
            intent.tenant, intent.id, intent.version + 1,
        )  # fmt: skip
        fact = Fact(
            tenant=intent.tenant,
            intent_id=intent.id,
            version=intent.version + 1,
            position=one.position,
            at=at,
            event=event,
            hash=link,
        )
        intent = evolve(intent, fact)
    assert [one.position for one in stored] == sorted(one.position for one in stored)
    return intent


def claim_and_begin(before: Intent, worker: str, lease: timedelta, at: datetime) -> list[Event]:
    """What a dispatcher has the pure pair say."""
    claimed = decide(before, commands.Claim(worker=worker, lease=lease), at)
    between = foresee(before, claimed, at)
    return [*claimed, *decide(between, commands.Begin(lease=lease), at)]


def walk(tx: psycopg.Connection, scribe: Scribe, id_: UUID, history: str) -> Intent:
    """The intent at the end of that history."""
    for command in HISTORIES[history]:
        apply(tx, scribe, id_, command)
    return intent_of(tx, id_)


def rows_of(tx: psycopg.Connection, ids: Sequence[UUID]) -> list[tuple[Any, ...]]:
    """Rows as a claim locks them, whatever their state is."""
    return adopt(tx).rows(LOCK, {"tenant": "default", "ids": [str(one) for one in ids]})


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(HISTORIES)), st.sampled_from(sorted(FIELDS))),
        min_size=1,
        max_size=6,
    ),
    texts,
    st.integers(min_value=1, max_value=10**9),
    st.randoms(use_true_random=False),
)
def test_claiming_and_beginning_many_is_what_the_pure_pair_says_of_each(
    shared: psycopg.Connection, made, worker, seconds, dice
):
    tx, scribe = shared, Scribe(random.Random(dice.random()))
    tx.rollback()
    lease = timedelta(seconds=seconds, microseconds=dice.randrange(10**6))
    ids = []
    for history, fields in made:
        id_ = recorded(tx, scribe.entry(**FIELDS[fields])).id
        if fields != "not yet":
            walk(tx, scribe, id_, history)
        ids.append(id_)
    before = {one: intent_of(tx, one) for one in ids}
    logs = {one: events_of(tx, one) for one in ids}
    rows = rows_of(tx, ids)

    begun = begin_many(adopt(tx), rows, Owner(worker=worker, lease=lease))

    for row, answered in zip(rows, begun, strict=True):
        id_ = UUID(row[1])
        now, log = intent_of(tx, id_), events_of(tx, id_)
        assert log[: len(logs[id_])] == logs[id_]
        stored = log[len(logs[id_]) :]
        if answered is None:
            assert (now, stored) == (before[id_], [])
            with pytest.raises(InvalidTransition):
                claim_and_begin(before[id_], worker, lease, moment(tx))
            continue
        at = instant(stored[0].at_us)
        said = claim_and_begin(before[id_], worker, lease, at)
        after = expected(before[id_], stored, said)
        assert now == after == answered


def moment(tx: psycopg.Connection) -> datetime:
    """The database's clock."""
    (now,) = tx.execute("SELECT takeback.micros(takeback.now())").fetchall()[0]
    return instant(now)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(HISTORIES)),
            texts.map(json.dumps),
            st.integers(min_value=0, max_value=2**63 - 1),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_settling_many_is_what_the_pure_pair_says_of_each(shared: psycopg.Connection, made, dice):
    tx, scribe = shared, Scribe(random.Random(dice.random()))
    tx.rollback()
    ids, successes = [], []
    for history, body, count, is_stale in made:
        id_ = recorded(tx, scribe.due()).id
        now = walk(tx, scribe, id_, history)
        if now.state is State.DUE and not now.contradicted:
            now = apply(tx, scribe, id_, CLAIM, BEGIN)
        ids.append(id_)
        known = replace(now, version=now.version - is_stale)
        salt = scribe.rng.randbytes(32)
        successes.append(Success(intent=known, salt=salt, body=body, affected_count=count))
    before = {one: intent_of(tx, one) for one in ids}
    logs = {one: events_of(tx, one) for one in ids}

    settled = settle_many(adopt(tx), successes)

    for place, (id_, success) in enumerate(zip(ids, successes, strict=True)):
        now = intent_of(tx, id_)
        stored = events_of(tx, id_)[len(logs[id_]) :]
        is_begun = before[id_].state is State.EXECUTING and success.intent.version == now.version
        if place not in settled:
            assert (now, stored, is_begun) == (before[id_], [], False)
            continue
        digest = body_digest(success.salt, success.body)
        succeed = commands.Succeed(result=digest, affected_count=success.affected_count)
        at = instant(stored[0].at_us)
        assert now == expected(before[id_], stored, decide(before[id_], succeed, at))
        kept = tx.execute(
            "SELECT version, salt, body FROM takeback.bodies WHERE intent_id = %s AND name = "
            "'result'",
            [id_],
        ).fetchall()
        assert kept == [(now.version, success.salt, success.body)]


def test_what_somebody_holds_is_left_and_the_others_are_settled(connect: Connect, scribe: Scribe):
    one, two = connect(), connect()
    ids = [recorded(one, scribe.due()).id for _ in range(3)]
    begun = [apply(one, scribe, id_, CLAIM, BEGIN) for id_ in ids]
    one.commit()
    take(two, ids[1])
    successes = [
        Success(intent=intent, salt=bytes(32), body="{}", affected_count=0) for intent in begun
    ]

    assert settle_many(adopt(one), successes) == {0, 2}

    assert [intent_of(one, id_).state.value for id_ in ids] == [
        "succeeded",
        "executing",
        "succeeded",
    ]
