"""Each event changes the fields that it should and no other, and only where it can follow."""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args
from uuid import UUID

import pytest
from hypothesis import given as forall
from hypothesis import strategies as st

from takeback.model import event as events
from takeback.model.errors import LedgerCorrupt
from takeback.model.evolve import evolve, fold, foresee
from takeback.model.intent import MAY_BECOME, Fact, Intent, State, instant, micros
from tests.model.history import (
    CANCELLED,
    INTENT,
    NOW,
    RESTORE_BEGAN,
    SITUATIONS,
    TENANT,
    THEN,
    VIA,
    WAIT_FAILED,
    asked,
    began,
    claimed,
    contradicted,
    deferred,
    doubt,
    facts,
    failed,
    given,
    late,
    parked,
    recorded,
    refused,
    requeued,
    running,
    second,
    situation,
    succeeded,
    us,
)

CHANGES: list[tuple[str, events.Event, dict[str, Any]]] = [
    ("held", events.WindowMoved(until_us=us(7)), {"due_at": second(7)}),
    (
        "awaiting_approval",
        events.Approved(by="dana", becomes="held"),
        {"state": State.HELD, "due_at": second(90), "approved_by": "dana"},
    ),
    (
        "awaiting_approval, open",
        events.Approved(by="dana", becomes="held", saw="ef2d127d"),
        {
            "state": State.HELD,
            "due_at": second(90),
            "expires_at": None,
            "approved_by": "dana",
        },
    ),
    (
        "awaiting_approval, no window",
        events.Approved(by="dana", becomes="due"),
        {"state": State.DUE, "due_at": NOW, "approved_by": "dana"},
    ),
    (
        "awaiting_approval, after another",
        events.Approved(by="dana", becomes="waiting"),
        {"state": State.WAITING, "approved_by": "dana"},
    ),
    (
        "claimed",
        asked(),
        {
            "state": State.AWAITING_APPROVAL,
            "due_at": None,
            "lease_until": None,
            "expires_at": second(90),
        },
    ),
    (
        "claimed, approved before",
        asked(None),
        {
            "state": State.AWAITING_APPROVAL,
            "due_at": None,
            "lease_until": None,
            "approved_by": None,
        },
    ),
    (
        "claimed, first deferred",
        refused(1),
        {"state": State.FAILED, "due_at": None, "lease_until": None, "settled_at": NOW},
    ),
    ("held", events.Postponed(cause="thawed", until_us=us(120)), {"due_at": second(120)}),
    ("due", events.Postponed(cause="thawed", until_us=us(120)), {"due_at": second(120)}),
    (
        "awaiting_approval, open",
        events.Denied(by="dana", reason=None),
        {"state": State.DENIED, "expires_at": None, "settled_at": NOW},
    ),
    (
        "awaiting_approval, lapsed",
        events.ApprovalExpired(),
        {"state": State.EXPIRED, "expires_at": None, "settled_at": NOW},
    ),
    (
        "awaiting_approval, open",
        CANCELLED,
        {
            "state": State.CANCELLED,
            "taken_back_by": "dana",
            "restored_via": VIA,
            "settled_at": NOW,
        },
    ),
    (
        "awaiting_approval",
        events.Denied(by="dana", reason=None),
        {"state": State.DENIED, "settled_at": NOW},
    ),
    (
        "awaiting_approval",
        events.ApprovalExpired(),
        {"state": State.EXPIRED, "settled_at": NOW},
    ),
    ("waiting", events.Awoken(becomes="due"), {"state": State.DUE, "due_at": NOW}),
    (
        "waiting, with a window",
        events.Awoken(becomes="held"),
        {"state": State.HELD, "due_at": second(90)},
    ),
    (
        "waiting",
        WAIT_FAILED,
        {"state": State.CANCELLED, "settled_at": NOW},
    ),
    (
        "waiting",
        events.ApprovalAsked(cause="other_failed", approval_us=90_000_000),
        {"state": State.AWAITING_APPROVAL, "expires_at": second(90)},
    ),
    ("held, window over", events.Due(), {"state": State.DUE}),
    ("due", claimed(), {"state": State.CLAIMED, "lease_until": second(30)}),
    (
        "claimed",
        events.HandedBack(cause="given_up"),
        {"state": State.DUE, "lease_until": None},
    ),
    (
        "claimed",
        began(1, lease=20),
        {"state": State.EXECUTING, "attempt": 1, "due_at": None, "lease_until": second(20)},
    ),
    (
        "recorded",
        succeeded(0),
        {"state": State.SUCCEEDED, "affected_count": 3, "settled_at": NOW},
    ),
    ("recorded", failed(0), {"state": State.FAILED, "settled_at": NOW}),
    (
        "executing",
        succeeded(1),
        {
            "state": State.SUCCEEDED,
            "affected_count": 3,
            "lease_until": None,
            "settled_at": NOW,
        },
    ),
    (
        "executing",
        failed(1),
        {"state": State.FAILED, "lease_until": None, "settled_at": NOW},
    ),
    (
        "executing",
        deferred(1, until=9),
        {"state": State.DUE, "due_at": second(9), "lease_until": None},
    ),
    ("executing", doubt(1), {"state": State.IN_DOUBT, "lease_until": None}),
    ("executing", late(1, "succeeded"), {}),
    ("executing", late(1, "failed"), {}),
    ("in_doubt", parked(1), {"state": State.PARKED, "attempts_unknown": (1,)}),
    (
        "claimed",
        parked(0, "no_upgrade"),
        {"state": State.PARKED, "due_at": None, "lease_until": None},
    ),
    ("in_doubt", requeued("absent"), {"state": State.DUE, "due_at": NOW}),
    (
        "in_doubt",
        requeued("absent", epoch=1),
        {"state": State.DUE, "due_at": NOW, "epoch": 1},
    ),
    (
        "in_doubt",
        requeued("provider_key", begin_before=5),
        {
            "state": State.DUE,
            "due_at": NOW,
            "attempts_unknown": (1,),
            "begin_before": second(5),
        },
    ),
    (
        "in_doubt, first unknown",
        requeued("provider_key", begin_before=5),
        {
            "state": State.DUE,
            "due_at": NOW,
            "attempts_unknown": (1, 2),
            "begin_before": second(5),
        },
    ),
    (
        "in_doubt, first unknown",
        requeued("absent"),
        {"state": State.DUE, "due_at": NOW, "attempts_unknown": (), "begin_before": None},
    ),
    ("parked", requeued("person"), {"state": State.DUE, "due_at": NOW}),
    ("parked, never begun", requeued("person"), {"state": State.DUE, "due_at": NOW}),
    (
        "parked, first unknown",
        requeued("person"),
        {"state": State.DUE, "due_at": NOW, "begin_before": None},
    ),
    (
        "failed",
        requeued("person", epoch=1),
        {"state": State.DUE, "due_at": NOW, "epoch": 1, "settled_at": None},
    ),
    (
        "failed, contradicted",
        requeued("person"),
        {"state": State.DUE, "due_at": NOW, "settled_at": None, "contradicted": False},
    ),
    (
        "parked",
        succeeded(1, "person"),
        {
            "state": State.SUCCEEDED,
            "affected_count": 3,
            "attempts_unknown": (),
            "settled_at": NOW,
        },
    ),
    (
        "in_doubt, first unknown",
        succeeded(2, "find"),
        {"state": State.SUCCEEDED, "affected_count": 3, "settled_at": NOW},
    ),
    (
        "in_doubt, first unknown",
        failed(2, "find"),
        {"state": State.FAILED, "attempts_unknown": (), "settled_at": NOW},
    ),
    (
        "in_doubt, contradicted",
        failed(2, "find"),
        {"state": State.FAILED, "attempts_unknown": (), "settled_at": NOW},
    ),
    (
        "in_doubt, contradicted",
        failed(2, "person"),
        {
            "state": State.FAILED,
            "attempts_unknown": (),
            "settled_at": NOW,
            "contradicted": False,
        },
    ),
    (
        "executing, first unknown",
        failed(2),
        {"state": State.FAILED, "lease_until": None, "settled_at": NOW},
    ),
    ("due, first unknown", late(1, "succeeded"), {}),
    ("due, first unknown", late(1, "failed"), {"attempts_unknown": ()}),
    (
        "due, first deferred",
        contradicted(1, "no_trace", "succeeded"),
        {"attempts_unknown": (1,), "contradicted": True},
    ),
    ("succeeded", contradicted(1, "succeeded", "failed"), {"contradicted": True}),
    (
        "claimed",
        CANCELLED,
        {
            "state": State.CANCELLED,
            "due_at": None,
            "lease_until": None,
            "taken_back_by": "dana",
            "restored_via": VIA,
            "settled_at": NOW,
        },
    ),
    (
        "succeeded",
        RESTORE_BEGAN,
        {"state": State.RESTORING, "taken_back_by": "dana", "restored_via": VIA},
    ),
    ("restoring", events.Restored(via=VIA), {"state": State.RESTORED, "settled_at": NOW}),
    (
        "restoring",
        events.RestoreFailed(via=VIA),
        {"state": State.RESTORE_FAILED, "taken_back_by": None},
    ),
    ("restoring", events.RestoreInDoubt(via=VIA), {"state": State.IN_DOUBT}),
    (
        "failed",
        events.Purged(),
        {"state": State.PURGED, "last_word": State.FAILED},
    ),
]


def fact(intent: Intent | None, event: events.Event, **changes: Any) -> Fact:
    plain = Fact(
        tenant=TENANT,
        intent_id=INTENT,
        version=1 if intent is None else intent.version + 1,
        position=99,
        at=NOW,
        event=event,
        hash=b"\xff" * 32,
    )
    return replace(plain, **changes)


@pytest.mark.parametrize(("name", "event", "expected"), CHANGES)
def test_an_event_changes_the_fields_that_it_should_and_no_other(name, event, expected):
    before = situation(name)
    assert before is not None
    later = evolve(before, fact(before, event))
    changed = {
        field.name: getattr(later, field.name)
        for field in fields(Intent)
        if getattr(later, field.name) != getattr(before, field.name)
    }
    assert changed == expected | {"version": before.version + 1, "head_hash": b"\xff" * 32}


def test_every_kind_of_event_is_among_these():
    assert {type(event) for _, event, _ in CHANGES} | {events.Recorded} == set(events.EVENTS)


def test_a_recording_sets_every_field_of_a_fresh_intent():
    event = recorded(
        "held",
        window_us=90_000_000,
        not_before_us=us(45),
        restores=str(INTENT),
        repeat_of="send_customer_email-1A2B3C4D",
        after=("a-1", "a-2"),
        on_behalf_of="dana",
        approval_us=5_000_000,
    )
    assert evolve(None, fact(None, event)) == Intent(
        tenant=TENANT,
        id=INTENT,
        ref="send_customer_email-7F3K9QDM",
        tool="send_customer_email",
        tool_version=1,
        effect="remote",
        key="k1:9f86d081",
        generation=0,
        run="run-42",
        principal="agent:support",
        state=State.HELD,
        version=1,
        recorded_at=NOW,
        window=timedelta(seconds=90),
        not_before=second(45),
        after=("a-1", "a-2"),
        due_at=second(90),
        restores=INTENT,
        repeat_of="send_customer_email-1A2B3C4D",
        head_hash=b"\xff" * 32,
        on_behalf_of="dana",
    )


def test_a_request_for_approval_lapses_so_long_after_it_was_asked():
    event = recorded("awaiting_approval", approval_us=5_000_000, window_us=90_000_000)
    assert evolve(None, fact(None, event)).expires_at == second(5)
    event = recorded("awaiting_approval", approval_us=None)
    assert evolve(None, fact(None, event)).expires_at is None


@pytest.mark.parametrize("name", SITUATIONS)
def test_whatever_may_be_claimed_has_an_instant_and_whatever_is_owned_a_lease(name):
    intent = situation(name)
    if intent is None:
        return
    if intent.state in (State.HELD, State.DUE):
        assert intent.due_at is not None
    assert (intent.lease_until is not None) == (intent.state in (State.CLAIMED, State.EXECUTING))
    assert (intent.last_word is not None) == (intent.state is State.PURGED)


# What can't follow is refused: the table is held by whoever folds the log, too.


def every_event() -> Sequence[events.Event]:
    """A sample of every kind, and of each state that an event can name."""
    return [event for _, event, _ in CHANGES]


@pytest.mark.parametrize("name", [name for name in SITUATIONS if name != "absent"])
def test_no_event_leaves_the_lifecycle(name):
    before = situation(name)
    assert before is not None
    for event in every_event():
        try:
            state = evolve(before, fact(before, event)).state
        except LedgerCorrupt:
            continue
        told = isinstance(event, events.AnsweredLate | events.Contradicted)
        moved = isinstance(event, events.WindowMoved) and before.state is State.HELD
        moved |= isinstance(event, events.Postponed) and before.state in (State.HELD, State.DUE)
        said = isinstance(event, events.Failed) and before.contradicted
        stays = (told or moved or said) and state is before.state
        assert state in MAY_BECOME[before.state] or stays


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("held", claimed()),
        ("due", events.WindowMoved(until_us=0)),
        ("claimed", events.Postponed(cause="thawed", until_us=0)),
        ("awaiting_approval", events.Postponed(cause="thawed", until_us=0)),
        ("claimed", failed(0)),
        ("claimed", failed(0, "person")),
        ("executing", refused(1)),
        ("in_doubt", refused(1)),
        ("recorded", refused()),
        ("due", asked()),
        ("executing", asked()),
        ("awaiting_approval", asked()),
        ("due", began(1)),
        ("due", deferred(1)),
        ("executing", began(2)),
        ("executing", CANCELLED),
        ("succeeded", failed(1)),
        ("succeeded", succeeded(1)),
        ("failed", succeeded(1)),
        ("cancelled", events.Awoken(becomes="due")),
        ("recorded", CANCELLED),
        ("purged", events.Purged()),
    ],
)
def test_an_event_that_cannot_follow_means_that_the_log_is_corrupt(name, event):
    before = situation(name)
    with pytest.raises(LedgerCorrupt, match="can't follow"):
        evolve(before, fact(before, event))


@pytest.mark.parametrize("becomes", ["executing", "succeeded", "purged", "elsewhere"])
def test_an_intent_starts_in_no_other_state(becomes):
    with pytest.raises(LedgerCorrupt):
        evolve(None, fact(None, recorded(becomes)))


def test_a_history_begins_with_a_recording_and_has_no_second_one():
    with pytest.raises(LedgerCorrupt, match="begins with its recording"):
        evolve(None, fact(None, events.Due()))
    before = given(recorded())
    with pytest.raises(LedgerCorrupt, match="begins with its recording"):
        evolve(before, fact(before, recorded()))


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_history_has_no_gap_and_no_repeat(version):
    before = given(recorded())
    with pytest.raises(LedgerCorrupt, match=f"from version 1 to {version}"):
        evolve(before, fact(before, claimed(), version=version))
    with pytest.raises(LedgerCorrupt, match="from version 0 to 2"):
        evolve(None, fact(None, recorded(), version=2))


@pytest.mark.parametrize("changes", [{"tenant": "other"}, {"intent_id": UUID(int=7)}])
def test_a_history_is_about_one_intent(changes):
    before = given(recorded())
    with pytest.raises(LedgerCorrupt, match="is given an event of"):
        evolve(before, fact(before, claimed(), **changes))


@pytest.mark.parametrize(
    "event",
    [
        recorded(restores="no-uuid"),
        recorded(window_us=2**62),
        recorded("held", not_before_us=2**62),
        recorded("held", window_us=86_400_000_000 * 999_999_999),
    ],
)
def test_a_recording_that_makes_no_sense_means_that_the_log_is_corrupt(event):
    with pytest.raises(LedgerCorrupt, match="makes no sense"):
        evolve(None, fact(None, event))


def test_an_instant_beyond_the_calendar_means_that_the_log_is_corrupt():
    before = given(recorded("held"))
    with pytest.raises(LedgerCorrupt, match="makes no sense"):
        evolve(before, fact(before, events.WindowMoved(until_us=2**62)))


# Folding.


def test_an_empty_history_is_no_intent():
    assert fold([]) is None


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_history_folds_to_what_its_steps_lead_to(name):
    intent = None
    for one in facts(*SITUATIONS[name]):
        intent = evolve(intent, one)
    assert fold(facts(*SITUATIONS[name])) == intent
    if intent is not None:
        assert intent.version == len(SITUATIONS[name])
        assert intent.head_hash == intent.version.to_bytes(32, "big")


def test_evolving_leaves_the_intent_before_as_it_was():
    before, twin = given(recorded()), given(recorded())
    evolve(before, fact(before, claimed()))
    assert before == twin


def test_what_will_follow_can_be_seen_before_it_is_stored():
    before = given(recorded(), at=THEN)
    seen = foresee(before, [*running(1), succeeded(1)], NOW)
    assert (seen.state, seen.settled_at, seen.version) == (State.SUCCEEDED, NOW, 4)
    assert foresee(before, [], NOW) == before


# Instants.


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 0),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), 253_402_300_799_999_999),
        (datetime(1, 1, 1, tzinfo=UTC), -62_135_596_800_000_000),
    ],
)
def test_instants_are_whole_microseconds_since_1970(at, expected):
    assert micros(at) == expected
    assert instant(expected) == at


@forall(st.datetimes(timezones=st.just(UTC)))
def test_no_microsecond_is_lost_on_the_way_to_the_log_and_back(at):
    assert instant(micros(at)) == at


@forall(
    st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3650)),
    st.integers(0, micros(datetime(2100, 1, 1, tzinfo=UTC))).map(instant),
)
def test_a_window_ends_to_the_microsecond(window, at):
    event = recorded("held", window_us=window // timedelta(microseconds=1))
    assert given(event, at=at).due_at == at + window


def test_the_states_that_an_event_can_name_are_states():
    for words in (events.FirstState, events.ApprovedState, events.AwokenState):
        assert set(get_args(words)) <= {state.value for state in State}
