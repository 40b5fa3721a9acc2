"""How much goes through a connector at once and how fast: bounded for all workers together."""

import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from takeback.dispatch.work import identity
from takeback.testing.crash import Stage
from tests.dispatch.halt import Halt
from tests.dispatch.post import Post, instants, lane, refs, settle

ROOT = Path(__file__).parents[2]


def test_who_wakes_others_sees_the_room_while_a_claim_holds_it(post, database_url):
    office = post(concurrency=4)
    office.post(3)
    wakes = office.dispatcher("ticker")
    assert len(wakes.waiting(10).due) == 3
    with psycopg.connect(database_url) as other:
        other.execute("SELECT FROM takeback.connectors FOR UPDATE")
        assert len(wakes.waiting(10).due) == 3


def test_who_claims_by_id_keeps_no_connector_from_others_but_its_own(
    post, database_url, world, observer
):
    other = post(concurrency=4)
    (note,) = other.post(1, "note")
    (letter,) = other.post(1)
    wanted = [identity(other.show(note).entry.intent)]
    halt = Halt(observer, at="before COMMIT")
    with (
        halt.watching(Post(database_url, world, concurrency=4)) as office,
        ThreadPoolExecutor(1) as thread,
    ):
        held = thread.submit(office.dispatcher("w1").claim, wanted)
        halt.wait()
        beside = other.dispatcher("w2").run_once(10).works
        halt.go()
        assert refs(held.result().works) == [note]
    assert refs(beside) == [letter]


def test_no_more_are_under_way_than_the_concurrency_says_whoever_claims(
    post, database_url, world, clock
):
    office = post(concurrency=3)
    office.post(5)
    first, second = office.dispatcher("w1"), office.dispatcher("w2")

    claimed = [first.run_once(2), second.run_once(10), second.run_once(10)]

    assert [one.count for one in claimed] == [2, 1, 0]
    settle(office, claimed[0].works[:1])
    assert second.run_once(10).count == 1


def test_what_has_begun_counts_until_its_end_and_what_a_dead_worker_left_until_its_lease(
    post, clock
):
    office = post(concurrency=1)
    office.post(1, "pay")
    (letter,) = office.post(1, "letter")
    (paid,) = office.dispatcher("dead").run_once(1).works
    assert paid.intent.state.value == "executing"
    assert office.dispatcher("w2").run_once(10).count == 0

    clock.advance(31)
    office.drain(clock)

    assert office.state(letter) == "succeeded"


def test_one_lane_that_is_full_holds_up_no_other(post, database_url, world, clock):
    office = post(concurrency=1)
    office.post(300)
    notes = office.post(5, "note")

    works = office.dispatcher().run_once(50).works

    assert sorted(refs(works))[-5:] == sorted(notes) and len(works) == 6


def test_those_asked_for_by_id_go_through_the_same_room(post, database_url, world, clock):
    """A broker's actor that is told an id is bounded like a worker that looks."""
    office = post(concurrency=2)
    ids = [identity(office.show(ref).entry.intent) for ref in office.post(5)]

    counts = [office.dispatcher(f"a{n}").claim(ids[n:]).count for n in range(3)]

    assert counts == [2, 0, 0]


@pytest.fixture
def observer(database_url: str) -> Any:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("at", ["before in_flight", "before lock_due", "before COMMIT"])
def test_of_two_claims_at_one_moment_one_has_the_room(
    at, post, database_url, world, clock, observer
):
    """The one is held in the middle of its claim; the other neither waits nor oversteps."""
    post(concurrency=2).dispatcher().run_once(1)
    other = post(concurrency=2)
    other.post(5)
    notes = other.post(1, "note")
    halt = Halt(observer, at=at)
    with (
        halt.watching(Post(database_url, world, concurrency=2)) as office,
        ThreadPoolExecutor(1) as thread,
    ):
        held = thread.submit(office.dispatcher("w1").run_once, 2)
        halt.wait()

        beside = other.dispatcher("w2").run_once(10)
        halt.go()

        took = held.result()
    assert set(refs(beside.works)) <= set(notes) and took.count == 2
    assert other.dispatcher("w2").run_once(10).count <= 1


def test_many_workers_never_have_more_under_way_than_allowed(post, database_url, world, clock):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    most, now, lock = [0], [0], threading.Lock()
    waits = threading.Event()

    def carry(called: Any) -> Any:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        waits.wait(random.Random(f"{seed}{called.to}").random() / 200)
        with lock:
            now[0] -= 1
        return world.arrive(called)

    world.on["letter"] = carry
    offices = [post(concurrency=3) for _ in range(3)]
    offices[0].post(60)
    with ThreadPoolExecutor(3) as threads:
        done = list(threads.map(lambda n: offices[n].worker_of(f"w{n}").run(drain=True), range(3)))

    assert sum(one.performed for one in done) == 60 and len(world.effects) == 60
    assert 1 <= most[0] <= 3


def most_beyond(at: list[float], *, rate: float, burst: float) -> float:
    """By how much the fullest span went over what a bucket gives in it."""
    return max(
        last - first + 1 - (burst + rate * (at[last] - at[first]))
        for first in range(len(at))
        for last in range(first, len(at))
    )


WORKER = """
import sys
from tests.dispatch.office import World
from tests.dispatch.post import Post

url, name = sys.argv[1:]
office = Post(url, World(), rate=20.0, burst=3)
print(office.worker_of(name).run(drain=True).performed)
office.close()
office.close()
"""


KEEP_DECISIONS = """
CREATE TABLE public.decisions (number bigserial, at timestamptz, tokens float8);
CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.decisions (at, tokens) VALUES (NEW.refilled_at, NEW.tokens);
    RETURN NEW;
END $$;
CREATE TRIGGER keep AFTER UPDATE ON takeback.connectors
    FOR EACH ROW EXECUTE FUNCTION public.keep();
"""


def decisions(url: str, *, rate: float, burst: float) -> list[float]:
    """The instant of each token that was taken, as the claims decided by; the bucket was full."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT extract(epoch FROM at)::float8, tokens FROM public.decisions ORDER BY number"
        ).fetchall()
    taken: list[float] = []
    before, tokens = rows[0][0], burst
    for at, left in rows:
        tokens = min(tokens + (at - before) * rate, burst)
        taken += [at] * round(tokens - left)
        before, tokens = at, left
    return taken


def test_a_rate_holds_in_every_span_and_a_drain_waits_for_it(
    post, database_url, world, clock, observer
):
    office = post(rate=4.0, burst=2)
    office.post(20)
    office.dispatcher().run_once(0)
    observer.execute(KEEP_DECISIONS)

    assert office.drain(clock) == 20

    taken = decisions(database_url, rate=4.0, burst=2)
    assert len(taken) == 20 and most_beyond(taken, rate=4.0, burst=2) <= 0.001


def test_several_worker_processes_share_one_rate(post, database_url, observer):
    """Held against the instants that the claims decided by, however slow a process is after it."""
    office = post(rate=20.0, burst=3)
    office.post(40)
    office.dispatcher().run_once(0)
    observer.execute(KEEP_DECISIONS)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, database_url, f"w{n}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(3)
    ]

    performed = [int(process.communicate(timeout=60)[0]) for process in processes]

    print(f"performed by each process: {performed}")
    taken = decisions(database_url, rate=20.0, burst=3)
    assert sum(performed) == len(instants(database_url, "claimed")) == len(taken) == 40
    assert most_beyond(taken, rate=20.0, burst=3) <= 0.001


class Naps:
    """Sleeps by moving the clock, and keeps how long each nap was."""

    def __init__(self, clock: Any) -> None:
        self.seconds: list[float] = []
        self._clock = clock

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._clock.advance(seconds)


def test_a_worker_sleeps_until_the_next_token_and_no_longer(post, database_url, world, clock):
    office = post(rate=0.5)
    office.post(4)
    naps = Naps(clock)

    office.worker_of("w", sleep=naps).run(drain=True)

    assert len(world.effects) == 4
    assert max(naps.seconds) <= 2.0 and len(naps.seconds) < 15, naps.seconds
    assert sum(naps.seconds) < 7.0, naps.seconds


def test_a_connector_without_a_row_costs_no_statement(post, database_url, world, clock, observer):
    said = {}
    for name, bounds in {"none": {}, "row": {"concurrency": 2}}.items():
        post(**bounds).post(1, "letter", to=name)
        office = post(**bounds)
        stage = Stage(observer)
        stage.watch(*office.context.database.engines)
        office.dispatcher().run_once(1)
        said[name] = [p for p in stage.points if p.startswith("before") and "lane" in p]
    assert said["none"] == [] and said["row"]


def test_a_worker_with_other_bounds_shares_the_row_and_holds_to_its_own(
    post, database_url, world, clock
):
    """As in a rolling deploy."""
    wide = post(rate=0.1, burst=10)
    narrow = post(rate=0.1, burst=2)
    wide.post(20)
    assert narrow.dispatcher().run_once(20).count == 2
    assert lane(database_url)["tokens"] < 1
    assert wide.dispatcher().run_once(20).count == 0
    clock.advance(100)
    assert wide.dispatcher().run_once(20).count == 10


def test_a_freeze_stops_a_connector_that_has_room_and_spends_no_token(post, database_url, clock):
    office = post(concurrency=2, rate=5.0, burst=2)
    office.dispatcher().run_once(1)
    office.post(2)
    office.freeze(reason="a look", principal="dana", tool="letter")
    before = lane(database_url)["refilled_at"]

    assert office.dispatcher().run_once(5).count == 0

    assert lane(database_url)["refilled_at"] == before
    office.thaw(reason="on", principal="dana", tool="letter")
    clock.advance(5)
    assert office.dispatcher().run_once(5).count == 2
