"""A person decides first, in time or not at all; and what a limit or a thaw does to what waits."""

from dataclasses import replace
from datetime import timedelta

import pytest

from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.decide import decide
from takeback.model.errors import InvalidTransition
from takeback.model.intent import State, is_cancellable
from tests.model.history import (
    MINUTE,
    NOW,
    RECORD,
    SITUATIONS,
    VIA,
    after,
    claimed,
    deferred,
    given,
    recorded,
    refuses,
    running,
    second,
    situation,
)

APPROVE = commands.Approve(by="dana", saw="ef2d127d")
DECISIONS: dict[str, commands.Command] = {
    "approve": APPROVE,
    "deny": commands.Deny(by="mo", reason="4e074085"),
    "expire": commands.ExpireApproval(),
    "cancel": commands.Cancel(by="agent:support", via=VIA),
}
RACES = [(one, two) for one in DECISIONS for two in DECISIONS]


@pytest.mark.parametrize("name", ["awaiting_approval, open", "awaiting_approval, lapsed"])
@pytest.mark.parametrize(("first", "second_one"), RACES)
def test_of_approve_deny_expire_and_cancel_the_first_wins_and_the_second_is_refused(
    name, first, second_one
):
    """Approve and expire exclude each other by the clock; whoever may come first, wins."""
    waiting = situation(name)
    if refuses(waiting, DECISIONS[first]):
        assert (first, name.partition(", ")[2]) in {("approve", "lapsed"), ("expire", "open")}
        return
    decided = after(waiting, DECISIONS[first])
    if (first, second_one) == ("approve", "cancel"):
        # It waits in its undo window now: to cancel it there is to take it back, not to decide.
        assert after(decided, DECISIONS["cancel"]).state is State.CANCELLED
        assert after(decided, DECISIONS["cancel"]).approved_by == "dana"
        return
    assert refuses(decided, DECISIONS[second_one])


def test_a_decision_that_lost_leaves_no_mark():
    denied = after(situation("awaiting_approval, open"), DECISIONS["deny"])
    assert (denied.approved_by, denied.taken_back_by, denied.expires_at) == (None, None, None)


@pytest.mark.parametrize(
    ("moment", "in_time"),
    [(timedelta(microseconds=-1), True), (timedelta(0), False), (timedelta(microseconds=1), False)],
)
def test_an_approval_at_its_last_instant_is_too_late(moment, in_time):
    asked_for = given(recorded("awaiting_approval", approval_us=60_000_000))
    assert asked_for.expires_at == second(0)
    at = NOW + moment

    def possible(command: commands.Command) -> bool:
        try:
            return bool(decide(asked_for, command, at))
        except InvalidTransition:
            return False

    assert possible(APPROVE) == in_time
    assert possible(commands.ExpireApproval()) != in_time
    assert possible(DECISIONS["deny"]) and possible(DECISIONS["cancel"])


def test_a_request_that_stands_for_ever_never_lapses_and_can_be_approved_late():
    asked_for = given(recorded("awaiting_approval"))
    year = NOW + timedelta(days=365)
    with pytest.raises(InvalidTransition):
        decide(asked_for, commands.ExpireApproval(), year)
    assert decide(asked_for, APPROVE, year)


def test_what_was_over_a_limit_is_approved_once_and_begins_after_a_window_of_its_own():
    over = given(recorded(window_us=60_000_000), claimed())
    asked_for = after(over, commands.AskApproval(cause="limit", approval_for=MINUTE))
    assert (asked_for.state, asked_for.expires_at) == (State.AWAITING_APPROVAL, second(60))
    assert (asked_for.lease_until, asked_for.due_at) == (None, None)
    for command in (commands.Begin(lease=MINUTE), commands.HandBack(), commands.ExpireLease()):
        assert refuses(asked_for, command)
    approved = after(asked_for, APPROVE)
    assert (approved.state, approved.due_at, approved.approved_by) == (
        State.HELD,
        second(60),
        "dana",
    )
    assert refuses(approved, APPROVE)


def test_what_was_approved_and_is_over_a_limit_needs_another_yes():
    """The earlier yes was to the call, and is over: a request shows nobody who has approved it."""
    again = after(situation("claimed, approved before"), commands.AskApproval(cause="limit"))
    assert again.approved_by is None
    assert after(again, DECISIONS["deny"]).approved_by is None


def test_what_was_over_a_limit_waits_for_the_others_once_more():
    """Until a person has decided, what it was made after may have been taken back."""
    woken = given(recorded("waiting", after=("a-1",)), events.Awoken(becomes="due"), claimed())
    asked_for = after(woken, commands.AskApproval(cause="limit"))
    assert after(asked_for, APPROVE).state is State.WAITING


def test_a_local_call_that_is_approved_is_carried_out_by_the_engine():
    """It was recorded and not performed: nothing of it stands in the caller's transaction."""
    asked_for = given(recorded("awaiting_approval", effect="local"))
    approved = after(asked_for, APPROVE)
    assert (approved.state, approved.due_at) == (State.DUE, NOW)


@pytest.mark.parametrize(
    "command",
    [commands.AskApproval(cause="limit"), commands.Refuse(code="limit_exceeded")],
    ids=["ask", "refuse"],
)
@pytest.mark.parametrize("name", [name for name in SITUATIONS if name != "absent"])
def test_nobody_is_asked_and_nothing_refused_where_an_attempt_may_be_in_the_world(name, command):
    """Both say that it never happened, which only what was not begun, or left no trace, can say."""
    intent = situation(name)
    assert intent is not None
    safe = intent.state is State.CLAIMED and is_cancellable(intent)
    assert refuses(intent, command) != safe


def test_a_refusal_by_policy_is_settled_and_of_no_attempt():
    (event,) = decide(situation("claimed"), commands.Refuse(code="limit_exceeded"), NOW)
    assert event == events.Failed(attempt=0, source="policy", code="limit_exceeded", error=None)
    refused_one = after(situation("claimed"), commands.Refuse(code="limit_exceeded"))
    assert (refused_one.state, refused_one.settled_at, refused_one.due_at) == (
        State.FAILED,
        NOW,
        None,
    )


@pytest.mark.parametrize(("until", "moves"), [(29.999999, False), (30, False), (30.000001, True)])
@pytest.mark.parametrize(
    "waiting",
    [
        given(recorded("held", window_us=90_000_000)),
        given(recorded(), *running(1), deferred(1, until=30)),
    ],
    ids=["held", "due"],
)
def test_what_is_put_off_is_never_brought_forward(waiting, until, moves):
    assert waiting.due_at == second(30)
    later = after(waiting, commands.Postpone(until=second(until)))
    assert later.due_at == (second(until) if moves else second(30))
    assert (later.version > waiting.version) == moves
    assert (later.state, later.window) == (waiting.state, waiting.window)


def test_what_is_put_off_is_not_claimed_before_and_can_be_taken_back():
    later = after(situation("due"), commands.Postpone(until=second(0.000001)))
    assert refuses(later, commands.Claim(worker="w", lease=MINUTE))
    assert after(later, commands.Cancel(by="dana")).state is State.CANCELLED


def test_a_recording_that_asks_nobody_says_nothing_of_an_approval():
    given_all = replace(RECORD, approval_for=MINUTE, affected="ef2d127d", approval_cause="limit")
    (plain,) = decide(None, given_all, NOW)
    assert isinstance(plain, events.Recorded)
    assert (plain.approval_cause, plain.approval_us, plain.affected) == (None, None, None)
    (asking,) = decide(None, replace(given_all, needs_approval=True), NOW)
    assert isinstance(asking, events.Recorded)
    assert (asking.approval_cause, asking.approval_us) == ("limit", 60_000_000)
    assert asking.affected == "ef2d127d"
