"""Every command in every situation, and the rules that reach beyond the state."""

from dataclasses import replace
from datetime import timedelta
from typing import get_args

import pytest

from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.decide import decide
from takeback.model.errors import InvalidTransition
from takeback.model.evolve import foresee
from takeback.model.intent import CANCELLABLE, FINAL, MAY_BECOME, State, is_cancellable
from tests.model import matrix
from tests.model.history import (
    CANCELLED,
    INTENT,
    MINUTE,
    NOW,
    OTHER,
    RECORD,
    RESTORE_BEGAN,
    SITUATIONS,
    THEN,
    VIA,
    after,
    began,
    claimed,
    deferred,
    given,
    recorded,
    refuses,
    running,
    second,
    situation,
    succeeded,
    us,
)


def test_the_lifecycle_is_the_design_and_what_is_added_to_it():
    expected = {(state, successor) for state, row in matrix.LIFECYCLE.items() for successor in row}
    # "Recorded" is passed through by whatever is not local: one event says what it starts as.
    first = {"awaiting_approval", "waiting", "held", "due"}
    expected -= {("recorded", successor) for successor in first}
    expected |= {("absent", "recorded")} | {("absent", successor) for successor in first}
    expected |= {(state, "purged") for state in matrix.FINAL}
    assert expected.isdisjoint(matrix.ADDED)
    actual = {
        (state.value if state else "absent", successor.value)
        for state, row in MAY_BECOME.items()
        for successor in row
    }
    assert actual == expected | matrix.ADDED.keys()


def test_every_state_has_a_row():
    assert set(MAY_BECOME) == {None, *State}
    assert {state.value for state in FINAL} == matrix.FINAL
    assert len(State) == 18


def test_what_can_be_cancelled_may_become_cancelled():
    assert {state for state, row in MAY_BECOME.items() if State.CANCELLED in row} == CANCELLABLE


def test_the_matrix_is_complete():
    assert matrix.MATRIX.keys() == SITUATIONS.keys()
    assert {name.split(",")[0] for name in SITUATIONS} == {"absent", *State}
    kinds = {type(command) for command in matrix.COMMANDS.values()} | {commands.Record}
    assert kinds == set(get_args(commands.Command))
    for name in matrix.MATRIX:
        assert matrix.answers(name).keys() <= matrix.COMMANDS.keys()


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_is_named_for_its_state(name):
    intent = situation(name)
    assert (intent.state.value if intent else "absent") == name.split(",")[0]


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_command_does_what_the_matrix_says_or_is_refused(name):
    intent = situation(name)
    done: dict[str, matrix.Answer] = {}
    for command, asked in matrix.COMMANDS.items():
        if not refuses(intent, asked):
            following = decide(intent, asked, NOW)
            done[command] = ([event.KIND for event in following], after(intent, asked).state.value)
    assert done == matrix.answers(name)


def test_the_matrix_walks_every_step_of_the_lifecycle():
    walked = set()
    for name in SITUATIONS:
        intent = situation(name)
        for command in matrix.answers(name):
            step = intent
            assert step is not None
            for event in decide(intent, matrix.COMMANDS[command], NOW):
                successor = foresee(step, [event], NOW)
                walked |= {(step.state, successor.state)} - {(step.state, step.state)}
                step = successor
    assert walked == {(s, successor) for s, row in MAY_BECOME.items() if s for successor in row}


@pytest.mark.parametrize("name", [name for name in SITUATIONS if name != "absent"])
def test_what_is_recorded_is_never_recorded_again(name):
    with pytest.raises(InvalidTransition) as refusal:
        decide(situation(name), RECORD, NOW)
    assert (refusal.value.state, refusal.value.command) == (name.split(",")[0], "Record")


def test_a_refusal_names_the_command_and_where_the_intent_stands():
    with pytest.raises(InvalidTransition, match=r"'Approve' is not possible .* 'absent'"):
        decide(None, commands.Approve(by="dana"), NOW)


@pytest.mark.parametrize(
    ("changes", "becomes"),
    [
        ({}, "due"),
        ({"window": MINUTE}, "held"),
        ({"not_before": second(60)}, "held"),
        ({"effect": "local"}, "recorded"),
        ({"effect": "local", "not_before": second(60)}, "held"),
        ({"effect": "local", "after": ("a-1",)}, "waiting"),
        ({"effect": "local", "needs_approval": True}, "awaiting_approval"),
        ({"window": MINUTE, "after": ("a-1",)}, "waiting"),
        ({"window": MINUTE, "needs_approval": True}, "awaiting_approval"),
        ({"after": ("a-1",), "needs_approval": True}, "awaiting_approval"),
    ],
)
def test_an_intent_starts_where_its_call_asks_it_to(changes, becomes):
    (event,) = decide(None, replace(RECORD, **changes), NOW)
    assert isinstance(event, events.Recorded)
    assert event.becomes == becomes
    assert after(None, replace(RECORD, **changes)).state.value == becomes


def test_a_recording_holds_all_of_the_call():
    command = replace(
        RECORD,
        window=timedelta(days=36500, microseconds=1),
        not_before=second(5),
        restores=str(INTENT),
        repeat_of="send_customer_email-1A2B3C4D",
        after=("a-1", "a-2"),
        on_behalf_of="dana",
    )
    assert decide(None, command, NOW) == [
        recorded(
            "waiting",
            window_us=36500 * 86_400_000_000 + 1,
            not_before_us=us(5),
            restores=str(INTENT),
            repeat_of="send_customer_email-1A2B3C4D",
            after=("a-1", "a-2"),
            on_behalf_of="dana",
        )
    ]


def test_a_window_counts_from_the_commit():
    held = given(recorded("held", window_us=60_000_000))
    assert held.due_at == THEN + MINUTE
    moved = after(held, commands.MoveWindow(committed_at=second(-50)))
    assert moved.due_at == second(10)


def test_a_window_is_never_shortened_by_its_commit():
    held = given(recorded("held", window_us=60_000_000))
    moved = after(held, commands.MoveWindow(committed_at=second(-61)))
    assert moved.due_at == held.due_at


def test_a_window_moved_by_a_late_commit_still_ends_no_earlier_than_asked_for():
    held = given(recorded("held", window_us=60_000_000, not_before_us=us(3600)))
    assert held.due_at == second(3600)
    moved = after(held, commands.MoveWindow(committed_at=second(-50)))
    assert moved.due_at == second(3600)


def test_a_window_that_is_longer_than_the_wished_delay_counts():
    held = given(recorded("held", window_us=60_000_000, not_before_us=us(-30)))
    assert held.due_at == second(0)


def test_a_moved_window_still_has_its_length():
    held = given(recorded("held", window_us=60_000_000))
    once = after(held, commands.MoveWindow(committed_at=second(-50)))
    assert once.window == MINUTE
    assert after(once, commands.MoveWindow(committed_at=second(-40))).due_at == second(20)


@pytest.mark.parametrize(
    ("fields", "becomes", "due_at"),
    [
        ({"window_us": 60_000_000}, "held", second(60)),
        ({"not_before_us": us(90)}, "held", second(90)),
        ({"window_us": 60_000_000, "not_before_us": us(90)}, "held", second(90)),
        ({"window_us": 60_000_000, "not_before_us": us(-90)}, "held", second(60)),
        ({}, "due", NOW),
    ],
)
@pytest.mark.parametrize(
    ("waits", "command"),
    [("awaiting_approval", commands.Approve(by="dana")), ("waiting", commands.Awake())],
)
def test_a_window_starts_when_the_waiting_is_over(waits, command, fields, becomes, due_at):
    waiting = given(recorded(waits, **fields))
    assert waiting.due_at is None
    released = after(waiting, command)
    assert (released.state.value, released.due_at) == (becomes, due_at)


def test_what_waits_for_others_and_for_approval_waits_for_both():
    asked = given(recorded("awaiting_approval", after=("a-1",), window_us=60_000_000))
    approved = after(asked, commands.Approve(by="dana"))
    assert (approved.state, approved.due_at) == (State.WAITING, None)
    assert after(approved, commands.Awake()).due_at == second(60)


@pytest.mark.parametrize("command", [commands.Release(), commands.Claim(worker="w", lease=MINUTE)])
def test_nothing_leaves_before_its_window_is_over(command):
    window = 60_000_000
    assert refuses(given(recorded("held", window_us=window + 1)), command)
    assert not refuses(given(recorded("held", window_us=window)), command)


def test_a_backoff_is_waited_for():
    claim = commands.Claim(worker="w", lease=MINUTE)
    assert refuses(given(recorded(), *running(1), deferred(1, until=0.000001)), claim)
    assert not refuses(given(recorded(), *running(1), deferred(1, until=0)), claim)


def test_a_lease_ends_at_its_last_instant_and_no_earlier():
    assert refuses(given(recorded(), claimed(lease=0.000001)), commands.ExpireLease())
    assert not refuses(given(recorded(), claimed(lease=0)), commands.ExpireLease())
    assert refuses(given(recorded(), claimed(), began(1, lease=1)), commands.ExpireLease())


def test_a_renewed_lease_is_not_over_although_no_event_says_so():
    renewed = replace(given(recorded(), claimed(), began(1, lease=0)), lease_until=second(1))
    assert refuses(renewed, commands.ExpireLease())


def test_a_begun_attempt_has_a_lease_of_its_own():
    intent = after(given(recorded(), claimed()), commands.Begin(lease=timedelta(seconds=7)))
    assert (intent.lease_until, intent.attempt, intent.due_at) == (second(7), 1, None)


def test_what_is_handed_back_can_be_claimed_at_once():
    claim = commands.Claim(worker="w-2", lease=MINUTE)
    back = after(given(recorded(), claimed()), commands.HandBack())
    assert (back.state, back.lease_until) == (State.DUE, None)
    assert after(back, claim).state is State.CLAIMED


@pytest.mark.parametrize("name", ["held", "due", "claimed"])
def test_an_undo_that_comes_first_wins_and_nothing_begins(name):
    undone = after(situation(name), commands.Cancel(by="dana", via=VIA))
    assert undone.state is State.CANCELLED
    for command in (
        commands.Release(),
        commands.Claim(worker="w", lease=MINUTE),
        commands.Begin(lease=MINUTE),
        commands.HandBack(),
        commands.ExpireLease(),
        commands.MoveWindow(committed_at=NOW),
    ):
        assert refuses(undone, command)


def test_an_undo_that_comes_after_the_beginning_loses():
    cancel = commands.Cancel(by="dana", via=VIA)
    executing = after(given(recorded(), claimed()), commands.Begin(lease=MINUTE))
    assert refuses(executing, cancel)
    for end in (
        commands.Succeed(result=None),
        commands.Fail(code="provider_rejected"),
        commands.LoseTrack(cause="exception"),
    ):
        assert refuses(after(executing, end), cancel)


def test_a_second_undo_is_refused():
    assert refuses(given(recorded(), CANCELLED), commands.Cancel(by="mo"))


def test_what_provably_did_nothing_can_be_cancelled():
    intent = given(recorded(), *running(1), deferred(1))
    assert is_cancellable(intent)
    assert after(intent, commands.Cancel(by="dana")).state is State.CANCELLED


@pytest.mark.parametrize(
    "name",
    [name for name in SITUATIONS if name.startswith(("due, ", "claimed, ")) and "unknown" in name]
    + ["due, contradicted", "claimed, contradicted", "claimed, key expired"],
)
def test_what_may_have_happened_is_never_called_cancelled(name):
    intent = situation(name)
    assert intent is not None
    assert not is_cancellable(intent)
    assert refuses(intent, commands.Cancel(by="dana"))


def test_a_restore_leaves_its_ref_and_who_asked():
    done = given(recorded(), *running(1), succeeded(1))
    restoring = after(done, commands.BeginRestore(by="dana", via=VIA))
    assert (restoring.restored_via, restoring.taken_back_by) == (VIA, "dana")
    restored = after(restoring, commands.FinishRestore(via=VIA))
    assert (restored.state, restored.restored_via) == (State.RESTORED, VIA)
    assert (restored.taken_back_by, restored.settled_at) == ("dana", NOW)


def test_a_failed_restore_leaves_the_effect_standing_and_its_own_ref():
    done = given(recorded(), *running(1), succeeded(1))
    failing = foresee(done, [RESTORE_BEGAN, events.RestoreFailed(via=VIA)], NOW)
    assert (failing.restored_via, failing.taken_back_by) == (VIA, None)
    assert (failing.settled_at, failing.affected_count) == (THEN, 3)
    again = after(failing, commands.BeginRestore(by="mo", via=OTHER))
    assert (again.restored_via, again.taken_back_by) == (OTHER, "mo")


def test_a_restore_ends_only_by_its_own_ref():
    for name in ("restoring", "in_doubt, restore"):
        for ending in (commands.FinishRestore, commands.FailRestore):
            assert refuses(situation(name), ending(via=OTHER))
            assert not refuses(situation(name), ending(via=VIA))


def test_a_restore_in_doubt_is_no_doubt_about_the_effect():
    intent = situation("in_doubt, restore")
    assert intent is not None
    assert (intent.restored_via, intent.settled_at) == (VIA, THEN)
    for command in (
        commands.Succeed(result=None, source="find"),
        commands.Fail(code="provider_rejected", source="person", by="dana"),
        commands.Requeue(cause="absent"),
        commands.Requeue(cause="provider_key"),
        commands.Park(),
    ):
        assert refuses(intent, command)


def test_an_effect_in_doubt_has_no_restore_to_end():
    for ending in (commands.FinishRestore, commands.FailRestore, commands.DoubtRestore):
        assert refuses(situation("in_doubt"), ending(via=VIA))


def test_nothing_is_there_to_restore_of_what_never_happened():
    restore = commands.BeginRestore(by="dana", via=VIA)
    for name in SITUATIONS:
        if not name.startswith(("succeeded", "restore_failed")):
            assert refuses(situation(name), restore)


@pytest.mark.parametrize("name", sorted(matrix.FINAL))
def test_a_purge_keeps_the_key_and_the_last_word(name):
    intent = situation(name)
    assert intent is not None
    stub = after(intent, commands.Purge())
    assert (stub.state, stub.last_word) == (State.PURGED, State(name))
    assert (stub.key, stub.generation, stub.ref) == (intent.key, intent.generation, intent.ref)
    assert (stub.settled_at, stub.taken_back_by) == (intent.settled_at, intent.taken_back_by)
