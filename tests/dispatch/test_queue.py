"""What is due is found lane by lane, the highest priority first, and nothing is stranded."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace
from takeback.dispatch.queue import LOW_FIRST_EVERY
from tests.dispatch.office import Office


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection]:
    """A connection of somebody else's."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def dispatcher(office: Office, **paces: Any) -> Dispatcher:
    return Dispatcher(office.context, Pace(**paces), "w")


def letter(office: Office, to: str, observer: psycopg.Connection, **columns: object) -> str:
    """One that is due, as some other release has recorded it: in a lane that no row names now."""
    ref = office.call(None, "send_letter", {"to": to}).ref or ""
    for name, value in columns.items():
        observer.execute(f"UPDATE takeback.intents SET {name} = %s WHERE ref = %s", [value, ref])
    return ref


def taken(claims: Dispatcher, limit: int = 10) -> list[str]:
    return [work.intent.ref for work in claims.run_once(limit).works]


def test_what_is_in_a_lane_that_no_row_names_any_more_is_carried_out(office, clock, observer):
    """A connector was renamed; what was recorded under its old name is not stranded."""
    old = letter(office, "dana", observer, lane="renamed", priority=7)

    office.worker_of("w", sleep=clock.advance).run(drain=True)

    assert office.state(old) == "succeeded"


def test_a_lane_that_appears_while_others_are_busy_is_found_by_the_next_look_everywhere(
    office, observer
):
    claims = dispatcher(office)
    first = letter(office, "ann", observer)
    assert taken(claims) == [first]
    usual = letter(office, "bob", observer)
    unknown = letter(office, "dana", observer, lane="new")
    assert taken(claims) == [usual]
    claims.look_everywhere()
    assert taken(claims) == [unknown]


def test_of_what_is_due_the_highest_priority_goes_first_whatever_is_older(office, clock, observer):
    low = letter(office, "low", observer, priority=-1)
    clock.advance(1)
    normal = letter(office, "normal", observer)
    clock.advance(1)
    high = letter(office, "high", observer, priority=1)

    assert taken(dispatcher(office)) == [high, normal, low]


def test_a_low_priority_is_reached_although_something_higher_is_always_due(office, observer):
    low = letter(office, "low", observer, priority=-1)
    claims = dispatcher(office)
    order = []
    for number in range(LOW_FIRST_EVERY):
        letter(office, f"{number}a", observer)
        letter(office, f"{number}b", observer)
        order += taken(claims, 1)
    assert order.index(low) == LOW_FIRST_EVERY - 1


def test_lanes_take_turns_at_being_first(office, observer):
    refs = {
        letter(office, f"{lane}{number}", observer, lane=lane): lane
        for lane in ("a", "b", "c")
        for number in range(4)
    }
    claims = dispatcher(office)
    assert {refs[ref] for _ in range(4) for ref in taken(claims, 1)} == {"a", "b", "c"}


def test_a_lane_gives_no_more_than_it_has_room_for_over_all_priorities(post):
    office = post(concurrency=5)
    office.post(4, "letter")
    urgent = office.post(4, "urgent")
    (other,) = office.post(1, "note")

    first = taken(office.dispatcher())

    assert len(first) == 6 and {other, *urgent} < set(first)
    assert sum(office.state(ref) == "claimed" for ref in first) == 6


def test_a_closed_lane_keeps_nobody_turning_and_is_due_when_it_opens(post):
    office = post(rate=0.05)
    office.post(2)
    claims = office.dispatcher()
    assert len(taken(claims)) == 1

    assert taken(claims) == []
    due_in = claims.agenda().due_in

    assert due_in is not None and timedelta(seconds=15) < due_in <= timedelta(seconds=20)


def test_a_claim_that_finds_nothing_above_its_marks_looks_below_them(office, clock, observer):
    """A caller's transaction that stays open for long commits with a due instant of long ago."""
    claims = dispatcher(office)
    early = letter(office, "early", observer)
    clock.advance(60)
    assert taken(claims) == [early]
    letter(office, "now", observer)
    late = letter(office, "late", observer)
    observer.execute(
        "UPDATE takeback.intents SET due_at = due_at - interval '90 s' WHERE ref = %s", [late]
    )

    assert late not in taken(claims)
    assert taken(claims) == [late]


def test_what_commits_within_a_second_of_its_due_instant_is_found_by_the_next_claim(
    office, clock, observer
):
    claims = dispatcher(office)
    clock.advance(60)
    letter(office, "first", observer)
    assert len(taken(claims)) == 1
    late = letter(office, "late", observer)
    observer.execute(
        "UPDATE takeback.intents SET due_at = due_at - interval '0.9 s' WHERE ref = %s", [late]
    )
    now = letter(office, "now", observer)
    assert taken(claims) == [late, now]
