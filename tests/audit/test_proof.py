"""The proof of one intent, fed by hand: every history proves, and none that was altered does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from takeback.audit.proof import COMPARED, MISSING_MAX, Proof, differing, named_bodies
from takeback.ledger.audit_reading import Projected, Sealed
from takeback.ledger.reading import Stored
from takeback.model.chain import GENESIS, chain_hash
from takeback.model.event import Event, encode
from takeback.model.evolve import fold
from takeback.model.intent import Intent, State, micros
from tests.model import history
from tests.model.history import INTENT, SITUATIONS, TENANT, THEN

HISTORIES = {name: events for name, events in SITUATIONS.items() if events}
REF = "send_customer_email-7F3K9QDM"
LONGEST = max(HISTORIES.values(), key=len)


def log_of(events: Sequence[Event]) -> list[Stored]:
    """The events as they would be stored."""
    stored: list[Stored] = []
    previous = GENESIS
    for version, event in enumerate(events, 1):
        plain: dict[str, Any] = {
            "tenant": TENANT,
            "intent_id": INTENT,
            "version": version,
            "position": version * 10,
            "kind": event.KIND,
            "schema": event.schema,
            "at_us": micros(THEN),
            "payload": encode(event),
        }
        previous = chain_hash(previous=previous, **plain)
        stored.append(Stored(**plain, hash=previous))
    return stored


def row_of(log: Sequence[Stored]) -> Projected:
    """The row as the library would have left it."""
    intent = fold([one.fact() for one in log])
    assert intent is not None
    return Projected(
        tenant=TENANT,
        id=INTENT,
        ref=intent.ref,
        version=intent.version,
        head_hash=intent.head_hash,
        intent=intent,
    )


def bodies_of(log: Sequence[Stored]) -> Iterator[Sealed]:
    """Every body that the events name."""
    for stored in log:
        for name, digest in named_bodies(stored.fact().event).items():
            yield Sealed(
                tenant=TENANT,
                intent_id=INTENT,
                version=stored.version,
                name=name,
                digest=digest,
            )


def prove(row: Projected | None, log: Sequence[Stored], bodies: Sequence[Sealed]) -> Proof:
    proof = Proof((TENANT, INTENT))
    parts: list[Projected | Stored | Sealed] = [*([row] if row else []), *log, *bodies]
    for part in parts:
        proof.take(part)
    proof.finish()
    return proof


def whole(events: Sequence[Event]) -> tuple[Projected, list[Stored], list[Sealed]]:
    log = log_of(events)
    purged = events[-1].KIND == "intent.purged"
    return row_of(log), log, [] if purged else list(bodies_of(log))


def found(proof: Proof) -> set[tuple[str, int | None]]:
    return {(problem.ref, problem.version) for problem in proof.problems}


@pytest.mark.parametrize("events", HISTORIES.values(), ids=HISTORIES.keys())
def test_every_history_of_the_lifecycle_proves(events: Sequence[Event]):
    proof = prove(*whole(events))
    assert proof.problems == []
    assert proof.is_chained and proof.differing == ()
    assert proof.events == len(events)


CHANGES: dict[str, Callable[[Stored], Any]] = {
    "version": lambda one: one.version + 50,
    "position": lambda one: one.position + 1,
    "kind": lambda one: one.kind + "x",
    "schema": lambda one: one.schema + 1,
    "at_us": lambda one: one.at_us + 1,
    "payload": lambda one: one.payload.replace(":", ": ", 1) + " ",
    "hash": lambda one: bytes([one.hash[0] ^ 1]) + one.hash[1:],
}


@pytest.mark.parametrize("column", CHANGES)
def test_a_change_to_any_column_of_any_event_is_named_by_ref_and_version(column: str):
    for name, events in HISTORIES.items():
        row, log, bodies = whole(events)
        for place, stored in enumerate(log):
            changed = list(log)
            changed[place] = replace(stored, **{column: CHANGES[column](stored)})
            proof = prove(row, sorted(changed, key=lambda one: one.version), bodies)
            assert (REF, stored.version) in found(proof), name
            assert not proof.is_chained


def test_every_column_of_the_log_is_among_those_that_were_changed():
    assert {field.name for field in fields(Stored)} - CHANGES.keys() == {"tenant", "intent_id"}


def test_a_changed_hash_is_named_at_its_own_event_alone():
    row, log, bodies = whole(LONGEST)
    for place, stored in enumerate(log[:-1]):
        changed = [*log[:place], replace(stored, hash=bytes(32)), *log[place + 1 :]]
        assert found(prove(row, changed, bodies)) == {(REF, stored.version)}


def test_a_missing_event_is_named():
    for name, events in HISTORIES.items():
        row, log, bodies = whole(events)
        for place, stored in enumerate(log):
            rest = log[:place] + log[place + 1 :]
            proof = prove(row, rest, bodies)
            assert (REF, stored.version if rest else None) in found(proof), name
            assert not proof.is_chained


def test_of_a_long_gap_the_first_are_named():
    row, log, bodies = whole(LONGEST)
    far = [replace(log[-1], version=1000)]
    named = [version for _, version in found(prove(row, log[:-1] + far, bodies))]
    assert len([version for version in named if version != 1000]) <= MISSING_MAX


def test_two_events_in_each_others_place_are_named():
    row, log, bodies = whole(LONGEST)
    swapped = [
        *log[:1],
        replace(log[2], version=2),
        replace(log[1], version=3),
        *log[3:],
    ]
    assert {(REF, 2), (REF, 3)} <= found(prove(row, swapped, bodies))


def test_an_event_of_another_intent_in_its_place_is_named():
    row, log, bodies = whole(LONGEST)
    other = chain_hash(
        previous=log[0].hash,
        tenant=TENANT,
        intent_id=UUID(int=7),
        version=2,
        position=log[1].position,
        kind=log[1].kind,
        schema=1,
        at_us=log[1].at_us,
        payload=log[1].payload,
    )
    changed = [log[0], replace(log[1], hash=other), *log[2:]]
    assert (REF, 2) in found(prove(row, changed, bodies))


def test_positions_that_do_not_grow_are_named_although_the_chain_holds():
    """Whoever writes past the library could hash any position."""
    log = log_of(LONGEST)
    second = replace(log[1], position=log[0].position)
    link = chain_hash(
        previous=log[0].hash,
        **{f.name: getattr(second, f.name) for f in fields(Stored) if f.name != "hash"},
    )
    forged = [log[0], replace(second, hash=link)]
    assert found(prove(row_of(forged), forged, list(bodies_of(forged[:1])))) == {(REF, 2)}


def test_an_event_that_can_not_follow_is_named_although_the_chain_holds():
    log = log_of([*HISTORIES["held"], history.CANCELLED, history.CANCELLED])
    row = replace(row_of(log[:2]), version=3, head_hash=log[2].hash)
    proof = prove(row, log, list(bodies_of(log[:1])))
    assert found(proof) == {(REF, 3)}
    assert "can't follow" in proof.problems[0].what


def test_an_event_of_a_later_release_is_no_forgery_but_can_not_be_proved():
    log = log_of(HISTORIES["held"])
    plain = {
        **{f.name: getattr(log[0], f.name) for f in fields(Stored) if f.name != "hash"},
        "version": 2,
        "position": 20,
        "kind": "intent.of_the_future",
        "payload": "{}",
    }
    later = Stored(**plain, hash=chain_hash(previous=log[0].hash, **plain))
    row = replace(row_of(log), version=2, head_hash=later.hash)
    proof = prove(row, [*log, later], list(bodies_of(log)))
    assert found(proof) == {(REF, 2)}
    assert "expected an event of this release" in proof.problems[0].what


OTHER_VALUES: dict[str, Any] = {
    "tenant": "other",
    "id": UUID(int=1),
    "state": State.RESTORE_FAILED,
    "last_word": State.DENIED,
    "window": timedelta(days=1),
    "after": ("z-1",),
    "attempts_unknown": (9,),
    "head_hash": bytes(32),
    "restores": UUID(int=1),
}


@pytest.mark.parametrize("column", COMPARED)
def test_a_change_to_any_column_of_the_row_is_named(column: str):
    for name, events in HISTORIES.items():
        row, log, bodies = whole(events)
        assert row.intent is not None
        changed = replace(row.intent, **{column: other_value(row.intent, column)})
        proof = prove(replace(row, intent=changed), log, bodies)
        assert found(proof) == {(REF, len(log))}, name
        assert proof.differing == (column,)
        assert proof.is_chained


def other_value(intent: Intent, column: str) -> Any:
    value = getattr(intent, column)
    if isinstance(value, bool):
        return not value
    if column in OTHER_VALUES:
        return OTHER_VALUES[column] if value != OTHER_VALUES[column] else State.EXPIRED
    if isinstance(value, int):
        return value + 1
    if column.endswith(("_at", "_before")):
        return THEN if value is None else value + timedelta(microseconds=1)
    return "other"


def test_of_the_lease_only_the_presence_is_compared():
    """A lease is renewed without an event."""
    row, log, bodies = whole(HISTORIES["executing"])
    assert row.intent is not None and row.intent.lease_until is not None
    renewed = replace(row.intent, lease_until=row.intent.lease_until + timedelta(hours=1))
    assert prove(replace(row, intent=renewed), log, bodies).problems == []
    given_up = replace(row.intent, lease_until=None)
    assert differing(row.intent, given_up) == ("lease_until",)
    assert prove(replace(row, intent=given_up), log, bodies).differing == ("lease_until",)


def test_a_row_that_knows_another_last_event_is_no_row_to_believe():
    row, log, bodies = whole(LONGEST)
    proof = prove(replace(row, head_hash=bytes(32)), log, bodies)
    assert found(proof) == {(REF, len(log))}
    assert not proof.is_chained


def test_a_row_that_holds_what_no_intent_can_be_is_named():
    row, log, bodies = whole(LONGEST)
    proof = prove(replace(row, intent=None), log, bodies)
    assert found(proof) == {(REF, len(log))}
    assert proof.is_chained and proof.differing == COMPARED


def test_a_row_without_events_and_events_without_a_row_are_named():
    row, log, bodies = whole(LONGEST)
    assert found(prove(row, [], [])) == {(REF, None)}
    assert found(prove(None, log, bodies)) == {(REF, len(log))}
    assert found(prove(None, [], bodies[:1])) == {("", 1)}


def test_the_ref_of_a_proven_event_is_believed_before_that_of_the_row():
    row, log, bodies = whole(LONGEST)
    assert row.intent is not None
    renamed = replace(row, ref="another-00000000", intent=replace(row.intent, ref="another-0"))
    assert found(prove(renamed, log, bodies)) == {(REF, len(log))}


def test_an_erased_body_is_no_fault_once_the_intent_is_carried_out():
    row, log, _ = whole(HISTORIES["succeeded"])
    assert prove(row, log, []).problems == []


@pytest.mark.parametrize(
    "name", ["awaiting_approval", "waiting", "held", "due", "claimed", "executing"]
)
def test_arguments_that_are_still_needed_are_missed(name: str):
    row, log, _ = whole(HISTORIES[name])
    assert found(prove(row, log, [])) == {(REF, 1)}


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "0" * 64},
        {"name": "result"},
        {"version": 2},
    ],
    ids=["bytes", "name", "version"],
)
def test_a_body_that_is_not_the_one_recorded_is_named(change: dict[str, Any]):
    row, log, bodies = whole(HISTORIES["succeeded"])
    changed = replace(bodies[0], **change)
    assert (REF, changed.version) in found(prove(row, log, [changed, *bodies[1:]]))


def test_bodies_that_are_left_of_what_is_purged_are_named():
    row, log, _ = whole(HISTORIES["purged"])
    left = list(bodies_of(log))[:1]
    assert found(prove(row, log, left)) == {(REF, len(log))}
    assert prove(row, log, []).problems == []


def test_a_problem_is_told_in_one_line():
    row, log, bodies = whole(HISTORIES["held"])
    (problem,) = prove(replace(row, head_hash=bytes(32)), log, bodies).problems
    assert str(problem) == f"{REF} event 1: the row knows another event as the last"
    (nobody,) = prove(None, [], bodies).problems
    assert str(nobody) == f"{INTENT} event 1: no event names the body 'arguments'"
    (empty,) = prove(row, [], []).problems
    assert str(empty) == f"{REF}: the intent has no events"
