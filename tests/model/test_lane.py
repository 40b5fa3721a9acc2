"""What may go through a connector: a bucket that never gives more than it holds, and a breaker."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from takeback.declare import Breaker, Connector, minutes, seconds
from takeback.model.lane import ROOM_MAX, Lane, closed, hear, room, take

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FREE = Connector("a", breaker=None)
BREAKER = Breaker(failures=3, pause=seconds(10), pause_max=minutes(1))
GUARDED = Connector("a", breaker=BREAKER)


def lane(**said: Any) -> Lane:
    return replace(Lane(name="a", tokens=1.0, refilled_at=NOON), **said)


def after(seconds_: float) -> datetime:
    return NOON + timedelta(seconds=seconds_)


def fail(one: Lane, times: int, at: datetime = NOON, *, is_probe: bool = False) -> Lane:
    for _ in range(times):
        one = hear(one, BREAKER, "unanswered", at, is_probe=is_probe)
    return one


def test_what_bounds_nothing_has_room_for_all():
    assert room(lane(tokens=0.0), FREE, NOON, in_flight=1000).count == ROOM_MAX


def test_no_more_are_under_way_than_the_concurrency_says():
    four = Connector("a", concurrency=4, breaker=None)
    counts = [room(lane(), four, NOON, in_flight=n).count for n in (0, 3, 4, 9)]
    assert counts == [4, 1, 0, 0]
    assert room(lane(), four, NOON, in_flight=4).ready_at is None


@pytest.mark.parametrize("seed", range(20))
def test_in_no_span_does_a_bucket_give_more_than_its_burst_and_its_rate(seed: int):
    """However the claims fall, and however greedy they are."""
    dice = random.Random(seed)
    rate, burst = dice.choice([0.5, 3.0, 25.0, 1000.0]), dice.choice([None, 1, 7])
    connector = Connector("a", rate=rate, burst=burst, breaker=None)
    one = lane(tokens=connector.tokens_max)
    given: list[tuple[float, int]] = []
    at = 0.0
    for _ in range(200):
        at += dice.expovariate(rate)
        count = min(room(one, connector, after(at), in_flight=0).count, dice.randint(1, 10))
        one = take(one, connector, after(at), count, probe_until=None)
        given.append((at, count))
    for first in range(len(given)):
        for last in range(first, len(given)):
            span = given[last][0] - given[first][0]
            total = sum(count for _, count in given[first : last + 1])
            assert total <= connector.tokens_max + span * rate + 1e-3


def test_an_empty_bucket_says_when_there_is_a_token_and_then_there_is_one():
    connector = Connector("a", rate=3.0, burst=1, breaker=None)
    one = take(lane(), connector, NOON, 1, probe_until=None)
    empty = room(one, connector, NOON, in_flight=0)
    assert empty.count == 0 and empty.ready_at is not None
    assert room(one, connector, empty.ready_at, in_flight=0).count == 1
    assert room(one, connector, empty.ready_at - timedelta(milliseconds=1), in_flight=0).count == 0


def test_a_clock_that_was_set_back_does_not_stop_a_bucket():
    connector = Connector("a", rate=3.0, burst=2, breaker=None)
    ahead = lane(tokens=0.0, refilled_at=NOON + timedelta(hours=1))
    assert room(ahead, connector, NOON, in_flight=0).count == 2


def test_failures_in_a_row_pause_and_one_answer_among_them_does_not():
    twice = fail(lane(), 2)
    assert room(twice, GUARDED, NOON, in_flight=0).count == ROOM_MAX
    answered = hear(twice, BREAKER, "answered", NOON, is_probe=False)
    assert fail(answered, 2).opened_at is None
    paused = fail(twice, 1)
    assert room(paused, GUARDED, after(9.9), in_flight=0).count == 0
    assert room(paused, GUARDED, after(9.9), in_flight=0).ready_at == after(10)


def test_after_the_pause_one_probe_is_let_through_at_a_time():
    paused = fail(lane(), 3)
    probing = room(paused, GUARDED, after(10), in_flight=0)
    assert (probing.count, probing.is_probe) == (1, True)
    taken = take(paused, GUARDED, after(10), 1, probe_until=after(40))
    assert room(taken, GUARDED, after(39), in_flight=0).count == 0
    assert room(taken, GUARDED, after(39), in_flight=0).ready_at == after(40)
    assert room(taken, GUARDED, after(40), in_flight=0).is_probe


def test_each_probe_without_an_answer_doubles_the_pause_up_to_its_bound():
    one, at, pauses = fail(lane(), 3), 10.0, []
    for _ in range(5):
        one = fail(one, 1, after(at), is_probe=True)
        assert one.paused_until is not None
        pauses.append((one.paused_until - after(at)).total_seconds())
        at += pauses[-1]
    assert pauses == [20, 40, 60, 60, 60] and one.opened_at == NOON


def test_what_ends_late_in_an_outage_prolongs_nothing_and_an_answer_ends_it():
    paused = fail(lane(), 3)
    late = fail(paused, 4, after(5))
    assert late.paused_until == after(10) and late.failures == 7
    answered = hear(late, BREAKER, "answered", after(6), is_probe=False)
    assert answered == closed(late)
    assert room(answered, GUARDED, after(6), in_flight=0).count == ROOM_MAX


def test_a_probe_that_was_never_made_makes_way_for_another():
    probing = take(fail(lane(), 3), GUARDED, after(10), 1, probe_until=after(40))
    handed_back = hear(probing, BREAKER, "nothing", after(11), is_probe=True)
    assert room(handed_back, GUARDED, after(11), in_flight=0).is_probe
    assert hear(probing, BREAKER, "nothing", after(11), is_probe=False) == probing


def test_a_row_without_a_breaker_lets_go_what_another_release_has_paused():
    assert room(fail(lane(), 3), FREE, NOON, in_flight=0).count == ROOM_MAX
