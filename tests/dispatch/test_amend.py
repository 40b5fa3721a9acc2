"""A held call said otherwise: taken back and recorded anew in one transaction, or neither."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from takeback.declare import (
    BLIND,
    COMPENSATE,
    CONFLICT,
    REFUSE,
    Approval,
    Limit,
    Local,
    Remote,
    seconds,
)
from takeback.declare.tool import PER_TOOL
from tests.dispatch.clock import Clock
from tests.dispatch.halt import Halt
from tests.dispatch.office import Office, World, make_cases, row

ROWS = (
    row("hold_letter", Remote(upstream=BLIND, window=seconds(60), guard_s=2.0)),
    row("ship", Remote(upstream=BLIND, window=seconds(60), reversal=COMPENSATE)),
    row("grant", Remote(upstream=BLIND, window=seconds(60)), approval=Approval()),
    row(
        "few",
        Remote(upstream=BLIND, window=seconds(60)),
        limits=(Limit(count=1, scope=PER_TOOL, over=REFUSE),),
    ),
    row("file_case", Local()),
    row("pay", Remote(upstream=BLIND, window=seconds(60)), on_difference=CONFLICT),
)


@pytest.fixture
def office(database_url: str, world: World, clock: Clock) -> Iterator[Office]:
    """The office; whoever waits in it moves the clock instead."""
    make_cases(database_url)
    office = Office(database_url, world, rows=ROWS, pause=clock.advance)
    yield office
    office.close()


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def held(office: Office, tool: str = "hold_letter", **terms: Any) -> str:
    return office.call(None, tool, {"to": "dana", "note": "one"}, **terms).ref or ""


def drain(office: Office) -> None:
    office.worker_of("w").run(drain=True)


def test_the_new_text_leaves_and_the_old_one_never_does(office, world, clock):
    first = held(office, run="run-1", on_behalf_of="dana")
    clock.advance(30)
    told = office.amend(None, first, {"note": "two"})

    assert (told.status, told.replayed, told["amends"]) == ("scheduled", False, first)
    anew = office.show(told.ref).entry
    assert (anew.intent.repeat_of, anew.intent.run, anew.intent.on_behalf_of) == (
        *(first, "run-1"),
        "dana",
    )
    assert anew.intent.due_at == anew.intent.recorded_at + timedelta(seconds=60)
    assert anew.bodies["arguments"] == {"to": "dana", "note": "two"}
    assert office.state(first) == "cancelled"
    clock.advance(60)
    drain(office)
    assert [(one.to, one.note) for one in world.effects] == [("dana", "two")]


def test_both_tell_of_each_other(office):
    first = held(office)
    told = office.amend(None, first, {"note": "two"})
    before = office.status(first)
    assert (before.status, before["amended_by"]) == ("taken_back", {"ref": told.ref})
    assert office.status(told.ref)["amends"] == first
    retried = office.call(None, "hold_letter", {"to": "dana", "note": "one"})
    assert (retried.replayed, retried.ref, retried["amended_by"]) == (
        *(True, first),
        {"ref": told.ref},
    )


def test_the_same_amendment_again_is_a_replay(office, world, clock):
    first = held(office)
    told = office.amend(None, first, {"note": "two"})
    again = office.amend(None, first, {"note": "two"})
    assert (again.ref, again.replayed, again["amends"]) == (told.ref, True, first)
    clock.advance(120)
    drain(office)
    assert world.arrived("dana") == 1
    late = office.amend(None, first, {"note": "two"})
    assert (late.ref, late.status, late.replayed) == (told.ref, "done", True)


def test_another_amendment_of_what_was_amended_is_told_which_one_stands(office):
    first = held(office)
    second = office.amend(None, first, {"note": "two"}).ref
    third = office.amend(None, second, {"note": "three"}).ref
    told = office.amend(None, first, {"note": "four"})
    assert (told.code, told.error["alternatives"]) == ("too_late", [{"amend": third}])
    assert office.state(third) == "held"
    assert office.amend(None, first, {"note": "two"}).ref == second


def test_what_changes_nothing_takes_nothing_back(office):
    first = held(office)
    told = office.amend(None, first, {"note": "one"})
    assert (told.ref, told.replayed, office.state(first)) == (first, True, "held")


@pytest.mark.parametrize(
    "changes", [{"note": 7}, {"colour": "red"}, {"repeat_of": "a-1"}, ["note"], {"to": None}]
)
def test_what_is_no_valid_call_takes_nothing_back(office, changes):
    first = held(office)
    told = office.amend(None, first, changes)
    assert told.code in ("invalid_argument", "unknown_argument")
    assert office.kinds(first) == ["recorded"]


def test_what_a_limit_refuses_takes_nothing_back(office):
    first = held(office, "few")
    told = office.amend(None, first, {"note": "two"})
    assert (told.status, office.state(first)) in (("refused", "held"), ("scheduled", "cancelled"))


def test_approval_is_asked_anew(office):
    first = held(office, "grant")
    office.approve(None, first, principal="robin")
    told = office.amend(None, first, {"note": "two"})
    assert (told.status, office.state(first)) == ("needs_approval", "cancelled")


def test_only_who_may_take_it_back_may_amend_it(office):
    first = held(office, principal="agent:one", run="run-1")
    told = office.amend(None, first, {"note": "two"}, principal="agent:two", run="run-2")
    assert (told.code, office.state(first)) == ("no_access", "held")
    assert office.amend(None, first, {"note": "two"}, principal="agent:one").status == "scheduled"


def test_what_has_begun_is_too_late_with_what_can_be_done_instead(office, clock):
    letter, parcel = held(office), held(office, "ship")
    clock.advance(60)
    drain(office)
    told = office.amend(None, letter, {"note": "two"})
    assert (told.code, bool(told.error["alternatives"])) == ("too_late", True)
    told = office.amend(None, parcel, {"note": "two"})
    assert told.error["next_call"] == {"tool": "restore", "arguments": {"ref": parcel}}


def test_what_is_no_remote_call_can_not_be_amended(office):
    case = held(office, "file_case")
    assert office.amend(None, case, {"note": "two"}).code == "not_restorable"
    first = held(office)
    back = office.restore(None, first).ref
    assert office.amend(None, back, {"ref": "a-1"}).code == "not_restorable"
    assert office.amend(None, "hold_letter-00000000", {"note": "x"}).code == "no_such_ref"


def test_another_addressee_is_one_call_with_an_equal_one_made_before_or_after(office):
    first = held(office)
    second = office.call(None, "hold_letter", {"to": "robin"}).ref
    told = office.amend(None, first, {"to": "robin", "note": ""})
    assert (told.code, told["ref"], office.state(first)) == ("key_conflict", second, "held")
    moved = office.amend(None, first, {"to": "mo"}).ref
    again = office.call(None, "hold_letter", {"to": "mo", "note": "one"})
    assert (again.replayed, again.ref) == (True, moved)


def test_taking_an_amended_one_back_hands_the_call_that_takes_back_what_stands(office):
    first = held(office)
    second = office.amend(None, first, {"note": "two"}).ref
    told = office.restore(None, first)
    assert (told["amended_by"], told.restore["arguments"]) == ({"ref": second}, {"ref": second})
    assert office.state(second) == "held"
    office.call(None, tool=told.restore["tool"], arguments=told.restore["arguments"])
    assert office.state(second) == "cancelled"


def test_what_waits_for_an_amended_one_waits_for_what_stands_in_its_place(office, world, clock):
    first = held(office)
    waits = office.call(None, "ship", {"to": "robin"}, after=[first]).ref
    second = office.amend(None, first, {"note": "two"}).ref
    drain(office)
    assert office.state(waits) == "waiting"
    clock.advance(60)
    drain(office)
    assert (office.state(second), office.state(waits)) == ("succeeded", "held")


def test_a_rollback_of_the_callers_leaves_it_as_it_was(office, database_url):
    first = held(office)
    with psycopg.connect(database_url) as tx:
        assert office.amend(tx, first, {"note": "two"}).status == "scheduled"
        tx.rollback()
    assert office.kinds(first) == ["recorded"]


@pytest.mark.parametrize("at", ["before COMMIT", "after COMMIT"])
def test_amending_and_releasing_are_one_race(office, world, clock, database_url, observer, at):
    """Held in the middle of the amendment: the letter leaves once, as it was said last."""
    first = held(office)
    clock.advance(60)
    halt = Halt(observer, at=at)
    other = Office(database_url, world, rows=ROWS, pause=lambda _: None)
    with halt.watching(other), ThreadPoolExecutor(1) as thread:
        amending = thread.submit(other.amend, None, first, {"note": "two"})
        halt.wait()
        office.worker_of("w", sleep=lambda _: halt.go()).run(drain=True)
        halt.go()
        told = amending.result(30)
    assert told["amends"] == first
    clock.advance(60)
    drain(office)
    assert [one.note for one in world.effects] == ["two"]


def test_a_release_that_began_first_wins_and_the_amendment_says_so(office, world, clock):
    first = held(office)
    clock.advance(60)
    answers = []

    def meanwhile(called: Any) -> Any:
        answers.append(office.amend(None, first, {"note": "two"}))
        return world.arrive(called)

    world.on["hold_letter"] = meanwhile
    drain(office)
    assert [told.code for told in answers] == ["too_late"]
    assert [one.note for one in world.effects] == ["one"]


# What stands.


def test_an_equal_call_finds_the_one_that_stands_with_the_old_values_and_with_the_new(office):
    first = held(office)
    second = office.amend(None, first, {"note": "two"}).ref
    third = office.amend(None, second, {"note": "three"}).ref
    new = office.call(None, "hold_letter", {"to": "dana", "note": "three"})
    assert (new.ref, new.replayed, new.status, new["amends"]) == (third, True, "scheduled", second)
    assert "differs" not in new
    old = office.call(None, "hold_letter", {"to": "dana", "note": "one"})
    assert (old.ref, old.status, old["amended_by"]) == (first, "taken_back", {"ref": third})
    assert "again" not in old
    other = office.call(None, "hold_letter", {"to": "dana", "note": "four"})
    assert "again" not in other


def test_what_differs_from_the_one_that_stands_is_a_conflict_with_that_one(office):
    first = held(office, "pay")
    second = office.amend(None, first, {"note": "two"}).ref
    new = office.call(None, "pay", {"to": "dana", "note": "two"})
    assert (new.ref, new.replayed, new.status) == (second, True, "scheduled")
    told = office.call(None, "pay", {"to": "dana", "note": "three"})
    assert (told.code, told["ref"]) == ("key_conflict", second)
    (violation,) = told.error["violations"]
    assert (violation["first"], violation["received"]) == ("two", "three")


def test_an_amended_one_is_followed_to_what_was_done_anew_since(office):
    first = held(office)
    second = office.amend(None, first, {"note": "two"}).ref
    back = office.restore(None, second).ref
    assert office.status(first)["amended_by"] == {"ref": second, "stands": False}
    assert office.status(second).summary.endswith(f"It was called in place of {first}.")
    assert "stands in place" not in office.status(second).summary
    third = office.restore(None, back)["redone"]["ref"]
    assert office.status(first)["amended_by"] == {"ref": third}
    told = office.restore(None, first)
    assert (told["amended_by"], told.restore["arguments"]) == ({"ref": third}, {"ref": third})


def test_who_waits_for_an_amended_one_is_told_of_the_one_that_it_waits_for(office, clock, caplog):
    first = held(office)
    before = office.call(None, "ship", {"to": "mo"}, after=[first])
    assert before["waits_for"] == [first]
    second = office.amend(None, first, {"note": "two"}).ref
    third = office.amend(None, second, {"note": "three"}).ref
    told = office.call(None, "ship", {"to": "robin"}, after=[first])
    assert told["waits_for"] == [third]
    assert told.summary.endswith(f"{first} was amended to {third}.")
    for ref in (before.ref, told.ref):
        assert office.status(ref)["waits_for"] == [third]
    clock.advance(60)
    with caplog.at_level("INFO"):
        drain(office)
    said = [one.msg for one in caplog.records if isinstance(one.msg, dict)]
    awoken = {one["ref"]: one["after"] for one in said if one["event"] == "awoken"}
    assert awoken == {before.ref: [third], told.ref: [third]}


# Undo at the edge.


def test_the_visible_window_ends_before_the_release_wherever_it_is_told(office, clock):
    told = office.call(None, "hold_letter", {"to": "dana", "note": "one"})
    intent = office.show(told.ref).entry.intent
    until = (intent.due_at - timedelta(seconds=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    again = office.call(None, "hold_letter", {"to": "dana", "note": "one"})
    for answer in (told, again, office.status(told.ref), office.show(told.ref).envelope):
        assert answer.restore["until"] == until


def test_inside_the_guard_a_restore_may_still_win(office, world, clock):
    """connectonion #1197: the promise is the visible window; what has not begun is taken back."""
    first = held(office)
    clock.advance(59)
    assert office.restore(None, first).status == "done"
    clock.advance(10)
    drain(office)
    assert world.calls == []


def test_a_restore_that_loses_says_what_can_be_done_instead(office, world, clock):
    letter, parcel = held(office), held(office, "ship")
    clock.advance(60)
    answers = {}

    def meanwhile(called: Any) -> Any:
        ref = letter if called.tool == "hold_letter" else parcel
        answers[called.tool] = office.restore(None, ref)
        return world.arrive(called)

    world.on = {"hold_letter": meanwhile, "ship": meanwhile}
    drain(office)
    assert (answers["hold_letter"].code, bool(answers["hold_letter"].error["alternatives"])) == (
        "too_late",
        True,
    )
    assert answers["ship"].status == "in_progress"
    assert answers["ship"].error["next_call"] == {"tool": "restore", "arguments": {"ref": parcel}}
    assert office.restore(None, letter).error["alternatives"]
    assert office.call(None, **answers["ship"].error["next_call"]).status == "scheduled"


def test_both_ends_are_named_at_every_door_with_the_same_bytes(office):
    first = held(office, "grant")
    told = office.amend(None, first, {"note": "two"})
    office.approve(None, told.ref, principal="robin")

    lines = {line["ref"]: line["summary"] for line in office.list()}
    ends = ((first, f"It stands anew as {told.ref}."), (told.ref, f"in place of {first}."))
    for ref, words in ends:
        everywhere = [office.status(ref), office.show(ref).envelope]
        assert len({one.to_json() for one in everywhere}) == 1
        assert everywhere[0].summary.endswith(words) and lines[ref] == everywhere[0].summary
    assert told.summary.endswith(ends[1][1])
    said = office.approve(None, told.ref, principal="robin")
    assert said["amends"] == first and said.summary == lines[told.ref]
    again = office.call(None, "grant", {"to": "dana", "note": "one"})
    assert (again.ref, again["amended_by"]) == (first, {"ref": told.ref})
    assert again.summary == lines[first]
