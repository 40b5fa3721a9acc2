"""Frozen, nothing begins and everything can be taken back; thawed, it goes on without a burst."""

import dataclasses
from collections import Counter
from typing import Any

import psycopg
import pytest

from takeback.client.batching import Call
from takeback.declare import BLIND, Approval, Local, Remote, seconds
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace
from takeback.model import command as commands
from takeback.model.errors import InvalidArguments, PersonRequired, UnknownTool
from tests.dispatch.office import Office, make_cases, row
from tests.dispatch.step import step

WHY: dict[str, Any] = {"reason": "the agent repeats itself", "principal": "dana"}


def dispatcher(office: Office, **paces: Any) -> Dispatcher:
    return Dispatcher(office.context, Pace(**paces), "w")


def letters(office: Office, count: int, tool: str = "send_letter") -> list[str]:
    calls = [Call(tool=tool, arguments={"to": f"{tool}-{n}"}) for n in range(count)]
    return [answer.ref or "" for answer in office.call_many(None, calls)]


def drain(office: Office, clock: Any) -> int:
    performed: int = office.worker_of("w", sleep=clock.advance).run(drain=True).performed
    return performed


@pytest.mark.parametrize(
    "scope",
    [{"tool": "send_letter"}, {"run": "run-7"}, {"tenant": "default"}, {"everything": True}],
    ids=["tool", "run", "tenant", "everything"],
)
def test_a_remote_call_is_recorded_and_held_while_frozen_and_carried_out_after(
    office, world, clock, scope
):
    office.freeze(**scope, **WHY)

    answer = office.call(None, "send_letter", {"to": "dana"}, run="run-7")

    assert answer.status == "scheduled"
    assert drain(office, clock) == 0 and world.calls == []
    office.thaw(**scope, reason="looked at", principal="dana")
    clock.advance(2)
    assert drain(office, clock) == 1 and world.arrived("dana") == 1


@pytest.mark.parametrize(
    "scope",
    [{"tool": "ship"}, {"run": "run-8"}, {"tenant": "other"}],
    ids=["tool", "run", "tenant"],
)
def test_what_is_not_meant_goes_on(office, world, clock, scope):
    office.freeze(**scope, **WHY)
    office.call(None, "send_letter", {"to": "dana"}, run="run-7")
    office.call(None, "send_letter", {"to": "robin"})

    assert drain(office, clock) == 2
    assert office.call(None, "file_case", {"to": "x"}, run="run-7").status == "done"


def test_what_is_frozen_neither_starves_others_nor_keeps_a_worker_turning(office, world, clock):
    letters(office, 120)
    clock.advance(5)
    office.freeze(tool="send_letter", **WHY)
    (ref,) = letters(office, 1, "ship")

    claimed = dispatcher(office).run_once(10)

    assert [work.intent.ref for work in claimed.works] == [ref]
    assert dispatcher(office).agenda().due_in is None
    assert dispatcher(office).run_once(10).count == 0


def test_several_freezes_have_to_be_thawed_all(office, world, clock):
    office.freeze(tool="send_letter", **WHY)
    office.freeze(run="run-7", **WHY)
    office.call(None, "send_letter", {"to": "dana"}, run="run-7")

    first = office.thaw(tool="send_letter", reason="mended", principal="dana")

    assert [one.scope.tool for one in first.thawed] == ["send_letter"]
    assert [one.scope.run for one in first.in_force] == ["run-7"]
    clock.advance(2)
    assert drain(office, clock) == 0
    second = office.thaw(run="run-7", reason="mended", principal="dana")
    assert second.in_force == () and second.postponed == 1
    clock.advance(2)
    assert drain(office, clock) == 1


def test_taking_back_stays_open(office, world, clock):
    """What is held is cancelled, what has happened is compensated, a Local effect is restored."""
    sent = office.call(None, "ship", {"to": "dana"}).ref
    drain(office, clock)
    held = office.call(None, "hold_letter", {"to": "dana"}).ref
    filed = office.call(None, "file_case", {"to": "dana"}).ref
    office.freeze(everything=True, **WHY)

    answers = [office.restore(None, ref or "") for ref in (sent, held, filed)]

    assert [one.status for one in answers] == ["scheduled", "done", "done"]
    assert drain(office, clock) == 1 and world.called("dana", tool="unship") == 1
    assert [office.state(ref) for ref in (sent, held, filed)] == [
        "restored",
        "cancelled",
        "restored",
    ]
    redone = office.restore(None, answers[2].ref or "")
    assert redone.code == "frozen" and office.state(filed) == "restored"


def test_a_freeze_holds_in_other_processes_and_after_a_restart(database_url, office, world, clock):
    office.freeze(tool="file_case", **WHY)
    office.close()
    later = Office(database_url, world, pause=clock.advance)

    assert later.call(None, "file_case", {"to": "dana"}).code == "frozen"
    (one,) = later.freezes()
    assert (one.scope.tool, one.reason, one.frozen_by) == ("file_case", WHY["reason"], "dana")
    later.close()


def test_who_froze_what_and_who_let_it_go_on_is_kept_for_ever(database_url, office):
    office.freeze(tool="ship", **WHY)
    office.thaw(tool="ship", reason="mended", principal="robin")

    assert office.freezes() == []
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT tool, reason, frozen_by, thawed_by, thaw_reason, thawed_at >= frozen_at"
            " FROM takeback.freezes"
        ).fetchall()
    assert rows == [("ship", WHY["reason"], "dana", "robin", "mended", True)]


def test_thawing_what_is_not_frozen_changes_nothing(office, clock):
    office.freeze(everything=True, **WHY)
    (ref,) = letters(office, 1)
    clock.advance(5)

    thawed = office.thaw(tool="send_letter", reason="a try", principal="dana")

    assert (thawed.thawed, thawed.postponed) == ((), 0)
    assert [one.scope.tool for one in thawed.in_force] == [None]
    assert office.kinds(ref) == ["recorded"]


def test_an_agent_can_neither_freeze_nor_thaw(office):
    with pytest.raises(PersonRequired):
        office.freeze(tool="ship", reason="why", principal="agent:support")
    office.freeze(tool="ship", **WHY)
    with pytest.raises(PersonRequired):
        office.thaw(tool="ship", reason="why", principal="agent:support")
    assert len(office.freezes()) == 1


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"tool": "ship", "run": "run-7"},
        {"tool": "ship", "everything": True},
        {"tool": "ship", "reason": " "},
        {"tool": "ship", "principal": "two words"},
        {"run": "two words"},
        {"tool": "ship", "run": ""},
        {"tool": ""},
        {"tool": ["ship"]},
        {"tool": "ship", "reason": None},
        {"tool": "ship", "reason": "\ud800"},
        {"tool": "ship", "reason": "a\0b"},
        {"tenant": ""},
        {"tenant": "two words"},
        {"tenant": "t" * 101},
        {"tenant": "\ud800"},
        {"tenant": {}},
        {"tool": "ship", "patience_seconds": "long"},
        {"tool": "ship", "patience_seconds": float("nan")},
    ],
    ids=range(19),
)
def test_a_freeze_that_is_not_clear_is_refused(office, said):
    """Before anything is stopped, and in words: whatever it was that came."""
    with pytest.raises(InvalidArguments):
        office.freeze(**(WHY | said))
    assert office.freezes() == []


def test_a_tool_that_is_mistyped_is_not_taken_for_frozen(office):
    with pytest.raises(UnknownTool) as caught:
        office.freeze(tool="send_leter", **WHY)
    assert caught.value.nearest[0] == "send_letter"


def due_by_second(url: str) -> Counter[int]:
    """How many fall due in each second from now on, by the ledger's clock."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT CAST(floor(extract(epoch FROM due_at - takeback.now())) AS int)"
            " FROM takeback.intents WHERE state IN ('held', 'due')"
        ).fetchall()
    return Counter(second for (second,) in rows)


@pytest.mark.parametrize("rate", [20.0, 7.0])
def test_a_thaw_releases_what_is_overdue_at_its_rate(database_url, office, world, clock, rate):
    """No burst: so many a second fall due, and before that each rests a second at least."""
    letters(office, 100)
    office.freeze(everything=True, **WHY)
    clock.advance(3600)

    thawed = office.thaw(everything=True, reason="mended", principal="dana", rate=rate)

    by_second = due_by_second(database_url)
    print(dict(sorted(by_second.items())))
    assert thawed.postponed == 100 and by_second.total() == 100
    assert min(by_second) >= 0 and max(by_second.values()) <= rate + 1
    assert dispatcher(office).run_once(100).count == 0
    released: list[int] = []
    while sum(released) < 100:
        clock.advance(1)
        released.append(dispatcher(office).run_once(100).count)
        assert len(released) < 60, released
    assert max(released) <= rate * 1.5 + 1
    assert office.verify().problems == ()


def test_what_was_overdue_can_be_taken_back_after_the_thaw_for_its_guard(
    database_url, world, clock
):
    guarded = row("warn", Remote(upstream=BLIND, window=seconds(60), guard_s=30))
    office = Office(database_url, world, rows=[guarded], pause=clock.advance)
    ref = office.call(None, "warn", {"to": "dana"}).ref
    clock.advance(3600)
    office.freeze(tool="warn", **WHY)
    office.thaw(tool="warn", reason="mended", principal="dana")

    clock.advance(29)
    assert dispatcher(office).run_once(10).count == 0
    assert office.kinds(ref) == ["recorded", "postponed"]
    assert office.restore(None, ref or "").status == "done"
    assert office.state(ref) == "cancelled"
    office.close()


def test_a_long_thaw_goes_on_in_batches_and_tells_how_far_it_is(database_url, office, clock):
    letters(office, 1200)
    office.freeze(tool="send_letter", **WHY)
    clock.advance(60)
    told: list[tuple[int, int]] = []

    thawed = office.thaw(
        tool="send_letter",
        reason="mended",
        principal="dana",
        rate=1000,
        progress=lambda done, total: told.append((done, total)),
    )

    assert thawed.postponed >= 1200
    assert told[:3] == [(500, 1200), (1000, 1200), (1200, 1200)]
    assert len(office.freezes()) == 0


def test_who_sits_on_an_overdue_intent_does_not_hold_up_a_thaw(database_url, office, clock):
    first, *_ = letters(office, 3)
    office.freeze(tool="send_letter", **WHY)
    clock.advance(60)
    with psycopg.connect(database_url) as caller:
        caller.execute("SELECT FROM takeback.intents WHERE ref = %s FOR UPDATE", [first])

        thawed = office.thaw(tool="send_letter", reason="mended", principal="dana")

    assert (thawed.postponed, len(thawed.thawed)) == (2, 1)


def test_a_freeze_of_a_tool_that_the_catalog_no_longer_has_can_be_ended(
    database_url, office, world, clock
):
    """A deploy may take away the row; what was held is put off with the others."""
    (ref,) = letters(office, 1, "ship")
    office.freeze(tool="ship", **WHY)
    later = Office(database_url, world, rows=[row("send_letter", Remote(upstream=BLIND))])
    try:
        thawed = later.thaw(tool="ship", reason="mended", principal="dana")
        with pytest.raises(UnknownTool):
            later.thaw(tool="ship", reason="mended", principal="dana")
    finally:
        later.close()
    assert (len(thawed.thawed), thawed.postponed) == (1, 1)
    assert office.freezes() == []
    clock.advance(5)
    assert drain(office, clock) == 1 and office.state(ref) == "succeeded"


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), 5000.0, "5", None])
def test_a_rate_that_is_none_is_refused(office, rate):
    office.freeze(tool="ship", **WHY)
    with pytest.raises(InvalidArguments):
        office.thaw(tool="ship", reason="mended", principal="dana", rate=rate)
    assert len(office.freezes()) == 1


class Interrupted(BaseException):
    """Somebody pressed Ctrl-C."""


def test_a_thaw_that_is_interrupted_leaves_all_frozen_and_is_done_again(office, world, clock):
    letters(office, 600)
    office.freeze(tool="send_letter", **WHY)
    clock.advance(60)

    def interrupt(done: int, total: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        office.thaw(tool="send_letter", reason="mended", principal="dana", progress=interrupt)
    clock.advance(3600)
    assert drain(office, clock) == 0 and len(office.freezes()) == 1

    thawed = office.thaw(tool="send_letter", reason="mended", principal="dana", rate=1000)
    assert (thawed.postponed, len(thawed.thawed)) == (600, 1)
    assert dispatcher(office).run_once(100).count == 0


def test_an_approved_local_call_is_not_performed_while_it_is_frozen(database_url, world, clock):
    filed = dataclasses.replace(row("file_case", Local()), approval=Approval())
    office = Office(database_url, world, rows=[filed], pause=clock.advance)
    make_cases(database_url)
    ref = office.call(None, "file_case", {"to": "dana"}).ref
    office.freeze(tool="file_case", **WHY)
    step(office, ref, commands.Approve(by="dana"))

    assert drain(office, clock) == 0 and office.state(ref) == "due"
    office.thaw(tool="file_case", reason="mended", principal="dana")
    clock.advance(2)
    assert drain(office, clock) == 1 and office.state(ref) == "succeeded"
    office.close()
