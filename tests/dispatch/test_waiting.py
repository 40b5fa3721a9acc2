"""Calls that come after others: awakened by their success, ended as their row says, never lost."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from takeback.catalog.effect_rule import effect_problems
from takeback.declare import (
    ASK,
    BLIND,
    CANCEL,
    COMPENSATE,
    GO_ON,
    KEYED,
    Approval,
    Local,
    Remote,
    hours,
    seconds,
)
from takeback.declare.effect import IfOtherFails
from takeback.dispatch.waker import BATCH_MAX, Waker
from takeback.model import command as commands
from takeback.model.errors import Rejected
from tests.dispatch.clock import Clock
from tests.dispatch.office import Office, World, make_cases, row
from tests.dispatch.step import step

DAY_SECONDS = 24 * 3600
LEASE = timedelta(seconds=30)
CLAIM = commands.Claim(worker="w", lease=LEASE)
AT_ONCE = commands.Defer(wait=timedelta(0))

ROWS = (
    row("send_letter", Remote(upstream=BLIND)),
    row("hold_letter", Remote(upstream=BLIND, window=seconds(60))),
    row("pay", Remote(upstream=KEYED(ttl=hours(24)), reversal=COMPENSATE)),
    row("cancel", Remote(upstream=BLIND, if_other_fails=CANCEL)),
    row("go_on", Remote(upstream=BLIND, if_other_fails=GO_ON)),
    row("ask", Remote(upstream=BLIND, if_other_fails=ASK)),
    row("grant", Remote(upstream=BLIND), approval=Approval()),
    row("file_case", Local()),
)


@pytest.fixture
def office(database_url: str, world: World, clock: Clock) -> Iterator[Office]:
    """The office; whoever waits in it moves the clock instead."""
    make_cases(database_url)
    office = Office(database_url, world, rows=ROWS, pause=clock.advance)
    yield office
    office.close()


def say(office: Office, tool: str, to: str, *after: str | None, **terms: Any) -> Any:
    return office.call(None, tool, {"to": to}, after=[ref for ref in after if ref], **terms)


def drain(office: Office) -> None:
    office.worker_of("w").run(drain=True)


def wake(office: Office) -> list[str]:
    """One look at what is to be looked at, and the states of what it has looked at."""
    return [intent.state.value for intent in Waker(office.context).run_once()]


def refuse(_: Any) -> Any:
    raise Rejected("no such address")


# Success.


def test_a_call_after_another_waits_for_its_success_and_says_so(office, world):
    first = say(office, "hold_letter", "dana")
    second = say(office, "send_letter", "robin", first.ref)

    assert (second.status, office.state(second.ref)) == ("scheduled", "waiting")
    assert second["waits_for"] == [first.ref]
    assert second.summary == f"send_letter waits for {first.ref} to succeed first."
    assert second.restore["until"] is None
    drain(office)
    assert (world.called("robin"), office.state(second.ref)) == (0, "waiting")


def test_it_is_carried_out_once_the_others_have_succeeded_also_in_one_drain(office, world, clock):
    first = say(office, "hold_letter", "dana")
    other = say(office, "pay", "mo")
    second = say(office, "send_letter", "robin", first.ref, other.ref)
    drain(office)
    assert (world.arrived("mo"), world.called("robin")) == (1, 0)

    clock.advance(60)
    drain(office)

    assert [one.to for one in world.effects] == ["mo", "dana", "robin"]
    kinds = office.kinds(second.ref)
    assert kinds == ["recorded", "awoken", "claimed", "attempt_began", "succeeded"]


def test_a_chain_runs_in_its_order_in_one_drain(office, world):
    ref = None
    for n in range(5):
        ref = say(office, "send_letter", f"dana-{n}", ref).ref
    drain(office)
    assert [one.to for one in world.effects] == [f"dana-{n}" for n in range(5)]


def test_one_recorded_in_the_same_transaction_may_be_named(office, world, database_url):
    with psycopg.connect(database_url) as tx:
        first = office.call(tx, "send_letter", {"to": "dana"})
        second = office.call(tx, "send_letter", {"to": "robin"}, after=[first.ref])
        assert second.status == "scheduled"
    assert office.state(second.ref) == "waiting"
    drain(office)
    assert [one.to for one in world.effects] == ["dana", "robin"]


def test_when_the_others_have_succeeded_already_there_is_no_waiting(office):
    first = say(office, "send_letter", "dana")
    drain(office)
    second = say(office, "hold_letter", "robin", first.ref)
    assert (office.state(second.ref), office.kinds(second.ref)) == ("held", ["recorded"])
    assert "waits_for" not in second


def test_a_local_call_and_a_restore_can_be_waited_for(office, world):
    case = say(office, "file_case", "dana")
    assert office.state(say(office, "send_letter", "robin", case.ref).ref) == "due"
    paid = say(office, "pay", "mo")
    drain(office)
    undone = office.restore(None, paid.ref, principal="dana")
    waits = say(office, "send_letter", "kim", undone.ref)
    assert office.state(waits.ref) == "waiting"
    drain(office)
    assert [one.tool for one in world.effects][-2:] == ["unpay", "send_letter"]


def test_its_window_starts_when_it_is_awakened(office, clock):
    first = say(office, "hold_letter", "dana")
    second = say(office, "hold_letter", "robin", first.ref)
    clock.advance(60)
    drain(office)
    intent = office.show(second.ref).entry.intent
    awoken = office.show(second.ref).events[1].fact().at
    assert (intent.state, intent.due_at) == ("held", awoken + timedelta(seconds=60))
    told = office.status(second.ref)
    assert told.restore["until"] is not None


def test_after_and_not_before_hold_together(office, world, clock):
    now = office.show(say(office, "hold_letter", "x").ref).entry.now
    first = say(office, "send_letter", "dana")
    second = say(office, "send_letter", "robin", first.ref, not_before=now + timedelta(hours=1))
    drain(office)
    assert (world.arrived("dana"), office.state(second.ref)) == (1, "held")
    clock.advance(3600)
    drain(office)
    assert world.arrived("robin") == 1


def test_what_a_person_approves_waits_on_for_the_others(office, world):
    first = say(office, "hold_letter", "dana")
    second = say(office, "grant", "robin", first.ref)
    assert second.status == "needs_approval"
    told = office.approve(None, second.ref, principal="mo")
    assert (told.status, office.state(second.ref)) == ("scheduled", "waiting")


# Failure and undo, as declared.


def lost(office: Office, world: World, clock: Clock, how: str) -> str:
    """An intent that comes to nothing, once somebody waits for it."""
    if how == "failed":
        world.on["send_letter"] = refuse
        return say(office, "send_letter", "dana").ref
    return say(office, "grant" if how in ("denied", "expired") else "hold_letter", "dana").ref


def lose(office: Office, clock: Clock, ref: str, how: str) -> None:
    if how == "taken back":
        office.restore(None, ref, principal="dana")
    elif how == "denied":
        office.deny(None, ref, principal="mo")
    elif how == "expired":
        clock.advance(DAY_SECONDS)
    drain(office)


HOW = {
    "failed": ("failed", "other_failed"),
    "denied": ("failed", "other_failed"),
    "expired": ("failed", "other_failed"),
    "taken back": ("was taken back", "other_taken_back"),
}


@pytest.mark.parametrize("how", HOW)
def test_when_another_comes_to_nothing_it_never_happens_and_says_why(office, world, clock, how):
    first = lost(office, world, clock, how)
    second = say(office, "cancel", "robin", first)
    lose(office, clock, first, how)

    told = office.status(second.ref)
    words, cause = HOW[how]
    assert (told.status, office.state(second.ref)) == ("refused", "cancelled")
    assert (told.code, told["effect"]) == ("waited_in_vain", "none")
    assert told.error is not None and told.error["message"].endswith(f"{first}, which {words}")
    assert "taken_back_by" not in told and "never happened" in told["no_restore"]
    assert "never happens" in office.restore(None, second.ref).error["message"]
    assert told.summary == f"cancel never happens: it waited for {first}, which {words}."
    assert told["waited_for"]["ref"] == first
    assert told.restore is None
    event = office.show(second.ref).events[-1].fact().event
    assert event.cause == cause
    assert world.called("robin") == 0
    again = say(office, "cancel", "robin", first)
    assert (again.replayed, again.summary) == (True, told.summary)


@pytest.mark.parametrize("how", HOW)
def test_a_row_may_say_to_go_on_without(office, world, clock, how):
    first = lost(office, world, clock, how)
    other = say(office, "pay", "mo")
    second = say(office, "go_on", "robin", first, other.ref)
    lose(office, clock, first, how)
    assert (office.state(second.ref), world.arrived("robin")) == ("succeeded", 1)


def test_a_row_may_ask_a_person_once_the_rest_is_over(office, world, clock):
    first = say(office, "hold_letter", "dana")
    other = say(office, "hold_letter", "mo")
    second = say(office, "ask", "robin", first.ref, other.ref)
    office.restore(None, first.ref, principal="dana")
    drain(office)
    assert office.state(second.ref) == "waiting"
    clock.advance(60)
    drain(office)
    assert office.state(second.ref) == "awaiting_approval"
    assert office.show(second.ref).asked.cause == "other_failed"

    office.approve(None, second.ref, principal="kim")
    assert office.state(second.ref) == "due"
    drain(office)
    assert world.arrived("robin") == 1


def test_who_would_never_happen_is_refused_at_once(office, world):
    first = say(office, "hold_letter", "dana")
    office.restore(None, first.ref, principal="dana")
    told = say(office, "cancel", "robin", first.ref)
    assert (told.code, told.error["violations"][0]["field"]) == ("invalid_argument", "after")
    assert "was taken back" in told.error["violations"][0]["message"]
    assert told.ref is None
    assert office.state(say(office, "go_on", "robin", first.ref).ref) == "due"
    assert office.state(say(office, "ask", "robin", first.ref).ref) == "waiting"
    drain(office)
    assert world.arrived("robin", tool="go_on") == 1


def test_a_retry_is_answered_as_the_first_also_when_the_other_has_failed_since(office):
    first = say(office, "hold_letter", "dana")
    second = say(office, "cancel", "robin", first.ref)
    office.restore(None, first.ref, principal="dana")
    again = say(office, "cancel", "robin", first.ref)
    assert (again.replayed, again.ref) == (True, second.ref)
    assert "differs" not in again


def test_it_can_be_taken_back_while_it_waits(office, world):
    first = say(office, "hold_letter", "dana")
    second = say(office, "send_letter", "robin", first.ref)
    assert office.restore(None, second.ref, principal="dana").status == "done"
    assert office.state(second.ref) == "cancelled"
    via = office.show(second.ref).entry.intent.restored_via
    again = office.restore(None, via, principal="dana")
    anew = office.show(again["redone"]["ref"]).entry.intent
    assert (anew.state, anew.after) == ("waiting", (first.ref,))


def test_a_restore_after_it_was_awakened_changes_nothing(office, world, clock):
    first = say(office, "pay", "dana")
    second = say(office, "hold_letter", "robin", first.ref)
    drain(office)
    assert office.state(second.ref) == "held"
    office.restore(None, first.ref, principal="dana")
    clock.advance(60)
    drain(office)
    assert world.arrived("robin") == 1


def test_a_succeeded_one_that_is_restored_while_it_waits_for_a_second_counts_as_taken_back(
    office, world, clock
):
    first = say(office, "pay", "dana")
    other = say(office, "hold_letter", "mo")
    second = say(office, "cancel", "robin", first.ref, other.ref)
    drain(office)
    office.restore(None, first.ref, principal="dana")
    drain(office)
    assert office.state(first.ref) == "restored"
    assert office.state(second.ref) == "cancelled"


def test_while_another_is_in_doubt_or_parked_it_waits_on(office, world, clock):
    def vanish(_: Any) -> Any:
        raise OSError("no answer")

    world.on["send_letter"] = vanish
    first = say(office, "send_letter", "dana")
    second = say(office, "cancel", "robin", first.ref)
    drain(office)
    clock.advance(3600)
    drain(office)
    assert office.state(first.ref) in ("in_doubt", "parked")
    assert office.state(second.ref) == "waiting"


# What is refused.


def test_an_unknown_ref_is_no_such_ref_with_the_nearest(office):
    first = say(office, "hold_letter", "dana").ref
    wrong = first[:-1] + ("A" if first[-1] != "A" else "B")
    told = say(office, "send_letter", "robin", wrong)
    assert (told.code, told.error["alternatives"]) == ("no_such_ref", [first])


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("send_letter-7F3K9QDM", "must be a list of refs"),
        ([7], "must be a list of refs"),
        (7, "must be a list of refs"),
        ([f"a-{n}" for n in range(17)], "must be at most 16 refs"),
    ],
)
def test_what_is_no_list_of_a_few_refs_is_refused(office, after, said):
    told = office.call(None, "send_letter", {"to": "robin"}, after=after)
    assert (told.code, told.error["violations"][0]["message"]) == ("invalid_argument", said)


def test_only_a_remote_effect_can_wait(office):
    first = say(office, "hold_letter", "dana").ref
    told = say(office, "file_case", "robin", first)
    assert told.code == "unknown_argument"
    assert told.error["violations"][0]["message"] == "only a remote effect can wait; leave it out"


def test_a_call_can_not_wait_for_itself_however_long_the_way_round(office):
    """Nothing in the ledger can name what is not there yet; a repeat can try."""
    first = say(office, "hold_letter", "dana")
    second = say(office, "hold_letter", "robin", first.ref)
    third = say(office, "hold_letter", "mo", second.ref)
    for after in (first, second, third):
        told = say(office, "hold_letter", "dana", after.ref)
        (violation,) = told.error["violations"]
        assert violation["message"].startswith("must not go round in a circle"), after.ref
    assert say(office, "hold_letter", "dana").replayed


def test_a_row_says_one_of_three_words():
    assert [word.value for word in IfOtherFails] == ["cancel", "go_on", "ask"]
    odd: Any = "retry"
    wrong = row("send_letter", Remote(upstream=BLIND, if_other_fails=odd))
    assert [what for what, _ in effect_problems(wrong, None)] == ["its if_other_fails is none"]


def test_other_terms_of_a_repeat_are_told_and_change_nothing(office, world):
    now = office.show(say(office, "hold_letter", "x").ref).entry.now
    at = now + timedelta(hours=1)
    first = say(office, "send_letter", "dana", not_before=at)
    again = say(office, "send_letter", "dana", not_before=at + timedelta(hours=1))
    (difference,) = again["differs"]
    assert (again.replayed, difference["field"]) == (True, "not_before")
    assert again.ref == first.ref
    other = say(office, "hold_letter", "mo")
    (_, difference) = say(office, "send_letter", "dana", other.ref)["differs"]
    assert difference == {"field": "after", "first": [], "now": [other.ref]}


# Nobody loses a wake-up.


def test_each_look_is_put_off_until_something_may_have_happened(office, clock):
    first = say(office, "hold_letter", "dana")
    say(office, "send_letter", "robin", first.ref)
    assert wake(office) == ["waiting"]
    assert wake(office) == []
    clock.advance(1)
    assert wake(office) == ["waiting"]


def test_a_worker_wakes_up_for_it_without_being_told(office, world, clock):
    """Somebody else settles the other one; this worker only sleeps and looks."""
    first = say(office, "grant", "dana")
    second = say(office, "send_letter", "robin", first.ref)
    naps: list[float] = []

    def sleep(span: float) -> None:
        naps.append(span)
        clock.advance(span)
        if len(naps) == 20:
            office.deny(None, first.ref, principal="mo")

    worker = office.worker_of(
        "w", sleep=sleep, stopping=lambda: office.state(second.ref) != "waiting" or len(naps) > 60
    )
    worker.run()
    assert office.state(second.ref) == "cancelled"
    assert sum(naps[20:]) <= max(sum(naps[:20]) / 8, 0.25) + 2


def test_a_batch_at_a_time_is_looked_at(office):
    first = say(office, "hold_letter", "dana")
    for n in range(BATCH_MAX + 1):
        say(office, "send_letter", f"robin-{n}", first.ref)
    assert [len(wake(office)) for _ in range(3)] == [BATCH_MAX, 1, 0]


def test_a_waker_leaves_what_somebody_decides_about_and_finds_it_later(
    office, world, database_url, clock
):
    first = say(office, "send_letter", "dana")
    second = say(office, "send_letter", "robin", first.ref)
    drain_first = office.worker_of("w", concurrency=1)
    with psycopg.connect(database_url) as tx:
        office.restore(tx, second.ref, principal="dana")
        drain_first.run(drain=True)
        assert world.arrived("dana") == 1
        tx.rollback()
    assert wake(office) == ["due"]


@pytest.mark.parametrize("tool", ["cancel", "ask"])
def test_what_may_have_happened_is_never_said_to_have_waited_in_vain(tool, office, world, clock):
    """It waits once more, after a person's yes, and the answer of its first attempt came late."""
    first = say(office, "pay", "dana")
    drain(office)
    second = say(office, tool, "robin", first.ref)
    late = commands.AnswerLate(attempt=1, outcome="succeeded")
    step(office, second.ref, CLAIM, commands.Begin(lease=LEASE), AT_ONCE)
    step(office, second.ref, CLAIM, commands.AskApproval(cause="limit"))
    step(office, second.ref, late, commands.Approve(by="dana"))
    assert office.state(second.ref) == "waiting"
    office.restore(None, first.ref, principal="dana")
    drain(office)

    clock.advance(DAY_SECONDS)
    drain(office)

    assert (world.called("robin"), office.state(second.ref)) == (0, "parked")
    assert office.verify().problems == ()


def test_who_waited_for_what_was_amended_is_told_which_one_it_came_to(office, world, clock):
    """The first was not taken back: it was said otherwise, and then denied by its provider."""
    first = office.call(None, "hold_letter", {"to": "dana"}).ref
    anew = office.amend(None, first, {"note": "x"}).ref
    second = say(office, "cancel", "robin", first)

    def refuses(called: Any) -> Any:
        raise Rejected("no stamp")

    world.on["hold_letter"] = refuses
    clock.advance(61)
    drain(office)

    told = office.status(second.ref)
    assert told["waited_for"] == {"ref": first, "became": "failed", "amended_by": anew}
    assert f"it waited for {first}, which was amended to {anew}, which failed." in told.summary
    late = say(office, "cancel", "mo", first)
    assert f"{first} was amended to {anew}, which failed" in str(late.error["violations"])


def test_who_waits_for_one_that_waited_in_vain_is_not_told_that_it_was_taken_back(
    office, world, clock
):
    first = office.call(None, "hold_letter", {"to": "dana"}).ref
    second = say(office, "cancel", "robin", first)
    third = say(office, "cancel", "mo", second.ref)
    office.restore(None, first)
    drain(office)
    clock.advance(31)
    drain(office)

    assert office.status(third.ref)["waited_for"] == {"ref": second.ref, "became": "failed"}


def test_what_a_late_answer_denies_is_waited_for_until_a_person_has_looked(office, world, clock):
    """It was called failed, and may have happened all the same."""
    from tests.dispatch.test_resolving import DANA, denied

    first = denied(office, world, clock)
    second = say(office, "cancel", "robin", first)
    drain(office)
    assert (second.status, office.state(second.ref)) == ("scheduled", "waiting")

    office.resolve(None, first, "succeeded", principal=DANA)
    clock.advance(31)
    drain(office)
    assert office.state(second.ref) == "succeeded"
