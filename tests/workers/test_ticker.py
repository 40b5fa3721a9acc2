"""When a ticker wakes whom: once, again only after a while, and at the instant that is due."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import redis

from takeback.client.batching import Call
from takeback.declare import Priority
from takeback_workers.broker import Post
from takeback_workers.ticker import AGAIN_SECONDS, AGAIN_SECONDS_BEHIND, TURN, WINDOW, Ticker
from tests.workers.server import Server
from tests.workers.yard import Yard, open_yard


class Tick:
    """A ticker of the yard whose time passes only where the test says so."""

    def __init__(self, yard: Yard, **more: Any) -> None:
        self.naps: list[float] = []
        self.seconds = 0.0
        self.yard = yard
        self.post = Post(yard.server.url, yard.tenant)
        self.ticker = Ticker(
            yard.app,
            self.post,
            name="t1",
            sleep=self.naps.append,
            stopping=lambda: False,
            monotonic=lambda: self.seconds,
            **more,
        )

    def turn(self) -> int:
        """One look round; answers with how many it has woken for."""
        before = self.ticker.ticked.published
        self.ticker._tried_turn()
        return self.ticker.ticked.published - before

    def turns(self) -> int:
        """As many looks as it takes until it rests; answers with how many it has woken for."""
        before, naps = self.ticker.ticked.published, len(self.naps)
        while len(self.naps) == naps:
            self.turn()
        return self.ticker.ticked.published - before


@pytest.fixture
def redis_yard(database_url: str, redis_server: Server, tmp_path: Any) -> Iterator[Yard]:
    if redis_server.child is None:
        redis_server.start()
    with open_yard(database_url, redis_server, tmp_path, f"tick-{tmp_path.name[-20:]}") as yard:
        yard.server.wipe(yard.tenant)
        yield yard


@pytest.fixture
def tick(redis_yard: Yard) -> Iterator[Tick]:
    tick = Tick(redis_yard)
    yield tick
    tick.post.close()


def test_each_that_is_due_is_woken_for_once_and_what_is_held_is_not(tick: Tick):
    tick.yard.calls("send", 3)
    tick.yard.calls("hold", 2)
    assert [tick.turn() for _ in range(3)] == [3, 0, 0]
    tick.yard.call("send", "another")
    assert [tick.turn() for _ in range(2)] == [1, 0]


def test_what_nobody_claims_is_woken_for_again_ever_more_seldom(tick: Tick):
    tick.yard.call("send", "dana")
    assert tick.turn() == 1
    tick.yard.server.wipe(tick.yard.tenant)
    woken_at = []
    for second in range(1, 64):
        tick.seconds = float(second)
        if tick.turn():
            woken_at.append(second)
            tick.yard.server.wipe(tick.yard.tenant)
    assert woken_at == [2, 6, 14, 30, 46, 62]


def test_what_may_still_stand_in_its_queue_is_left_there_for_a_while(tick: Tick):
    """A backlog is no reason to make it longer."""
    tick.yard.calls("send", 3)
    assert tick.turn() == 3
    tick.seconds = AGAIN_SECONDS_BEHIND - 1
    assert tick.turn() == 0
    tick.seconds = AGAIN_SECONDS_BEHIND + 1
    assert tick.turn() == 3


def test_what_was_claimed_and_handed_back_is_woken_for_at_once(tick: Tick):
    (ref,) = tick.yard.calls("send", 1)
    assert tick.turn() == 1
    worker = tick.yard.app.worker(name="w", sleep=lambda _: None, stopping=lambda: True)
    worker._dispatcher.run_once(1)
    assert tick.yard.state(ref) == "claimed" and tick.turn() == 0
    expire_leases(tick.yard)
    tick.seconds += 1.0
    tick.turn()
    assert tick.yard.state(ref) == "due", "the ticker has swept"
    assert tick.ticker.ticked.taken_over == 1
    assert tick.turn() + tick.ticker.ticked.published >= 2


def expire_leases(yard: Yard) -> None:
    with psycopg.connect(yard.database_url) as tx:
        tx.execute("UPDATE takeback.intents SET lease_until = now() WHERE lease_until IS NOT NULL")


def test_it_sleeps_until_the_next_instant_that_is_due_and_no_longer_than_two_seconds(tick: Tick):
    for _ in range(8):
        tick.turn()
    assert tick.naps[-1] == 2.0
    tick.yard.call("hold", "dana")
    with psycopg.connect(tick.yard.database_url) as tx:
        tx.execute("UPDATE takeback.intents SET due_at = clock_timestamp() + interval '0.7 s'")
    tick.turn()
    assert 0.05 <= tick.naps[-1] <= 0.7
    tick.yard.call("send", "robin")
    tick.turn()
    assert tick.naps[-1] == 0.05, "who has found something looks again soon"


def test_no_more_wait_at_once_than_a_window(tick: Tick):
    """So little is lost with a broker, and so little grows old."""
    more = 5
    calls = [Call(tool="send", arguments={"to": f"dana-{n}"}) for n in range(WINDOW + more)]
    tick.yard.app.call_many(None, calls)
    assert [tick.turns(), tick.turns()] == [WINDOW, 0]
    assert tick.naps[-1] == 0.05, "whoever claims some makes room for others"
    worker = tick.yard.app.worker(name="w", sleep=lambda _: None, stopping=lambda: True)
    claimed = worker._dispatcher.run_once(more).count
    assert tick.turns() == claimed == more


def test_a_backlog_that_fills_its_window_does_not_hide_what_is_urgent(tick: Tick):
    calls = [Call(tool="whenever", arguments={"to": f"dana-{n}"}) for n in range(WINDOW + 5)]
    tick.yard.app.call_many(None, calls)
    tick.yard.call("urgent", "dana")
    tick.yard.call("send", "dana")
    assert tick.turns() == WINDOW + 2
    assert tick.post.lengths() == {Priority.HIGH: 1, Priority.NORMAL: 1, Priority.LOW: WINDOW}


def test_what_is_urgent_does_not_wait_until_a_backlog_is_published(tick: Tick):
    """It looks again in between, without a rest, and then takes the most urgent first."""
    calls = [Call(tool="send", arguments={"to": f"dana-{n}"}) for n in range(TURN * 2 + 1)]
    tick.yard.app.call_many(None, calls)
    assert tick.turn() == TURN and tick.naps == []
    tick.yard.call("urgent", "dana")
    assert tick.turn() == TURN + 1 and tick.naps == []
    assert tick.post.lengths()[Priority.HIGH] == 1
    assert tick.turn() == 1 and len(tick.naps) == 1


def test_a_backlog_of_one_priority_does_not_make_it_patient_with_another(tick: Tick):
    """What was lost of the urgent ones is published again at once, whatever waits elsewhere."""
    tick.yard.calls("whenever", 3)
    assert tick.turn() == 3
    tick.yard.call("urgent", "dana")
    tick.yard.call("send", "robin")
    assert tick.turn() == 2
    with redis.Redis.from_url(tick.yard.server.url) as client:
        client.delete(*(f"takeback:{tick.yard.queue(one)}" for one in Priority if one >= 0))
    tick.seconds = AGAIN_SECONDS
    assert tick.turn() == 2
    assert tick.post.lengths() == {Priority.HIGH: 1, Priority.NORMAL: 1, Priority.LOW: 3}


def test_while_its_broker_is_away_it_waits_ever_longer_and_then_wakes_for_all(tick: Tick):
    refs = tick.yard.calls("send", 3)
    assert tick.turn() == 3
    tick.yard.server.kill()
    later = tick.yard.call("send", "later")
    tick.naps.clear()
    assert [tick.turn() for _ in range(6)] == [0] * 6
    assert tick.naps == [0.1, 0.2, 0.5, 1.0, 2.0, 2.0]
    tick.yard.server.start()
    assert tick.turn() == len([*refs, later])
    assert tick.post.lengths()[Priority.NORMAL] == 4


def test_a_ticker_that_is_new_wakes_for_everything_and_doubles_do_no_harm(tick: Tick):
    tick.yard.calls("send", 3)
    other = Tick(tick.yard)
    assert (tick.turn(), other.turn()) == (3, 3)
    other.post.close()


def test_one_that_stands_in_begins_after_a_while_and_ends_when_its_broker_is_back(
    redis_yard: Yard, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("YARD_BOOK", str(redis_yard.book))
    tick = Tick(redis_yard, stands_in=True)
    redis_yard.server.kill()
    refs = redis_yard.calls("send", 2)
    tick.turn()
    tick.turn()
    assert {redis_yard.state(ref) for ref in refs} == {"due"}
    tick.seconds = 6.0

    def look_again(seconds: float) -> None:
        """Every nap of the worker that stands in: once all have left, the broker comes back."""
        tick.naps.append(seconds)
        tick.seconds += 3.0
        if redis_yard.server.child is None and len(redis_yard.left()) == len(refs):
            redis_yard.server.start()

    tick.ticker._sleep = look_again
    tick.turn()
    assert tick.ticker.ticked.performed == 2
    redis_yard.each_left_once(refs)
    assert tick.turn() == 0
    tick.post.close()


def test_the_patience_of_a_ticker_is_shorter_where_nothing_stands_before_it():
    assert AGAIN_SECONDS < AGAIN_SECONDS_BEHIND
