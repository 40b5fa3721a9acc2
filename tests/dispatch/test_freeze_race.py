"""Whoever is about to begin while a person freezes: it has begun before, or it does not begin.

Both are held in the middle of it. That a statement's snapshot is older than a freeze is brought
about by the barrier: the test holds it alone for a moment, so that a worker or a caller stands in
the queue with its snapshot taken.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from takeback.client.braking import Stopped
from takeback.dispatch.brake import FRESH_SECONDS
from takeback.dispatch.executor import Ended, Executor
from takeback.dispatch.outcome import INTERRUPTED
from takeback.dispatch.pace import Pace
from tests.dispatch.halt import Halt
from tests.dispatch.office import Office, World
from tests.dispatch.shift import SECONDS_MAX, Watch, eventually

WHY: dict[str, Any] = {"reason": "the agent repeats itself", "principal": "dana"}
OWN_BARRIER = "SELECT pg_advisory_xact_lock(31418, 1)"


class Brake:
    """A person who freezes, in a thread; ``waits`` is set once that waits for others."""

    def __init__(self, url: str, world: World) -> None:
        self.waits = threading.Event()
        self._threads = ThreadPoolExecutor(1)
        self.office = Office(url, world, pause=self._pause)

    def _pause(self, seconds: float) -> None:
        self.waits.set()
        threading.Event().wait(0.002)

    def freeze(self, **scope: Any) -> Future[Stopped]:
        """Freezes, and returns as soon as the freeze waits for somebody."""
        frozen = self._threads.submit(
            lambda: self.office.freeze(**scope, **WHY, patience_seconds=SECONDS_MAX * 1000)
        )
        assert self.waits.wait(SECONDS_MAX), "it waits for nobody"
        assert not frozen.done()
        return frozen


@pytest.fixture
def brake(database_url: str, world: World) -> Iterator[Brake]:
    brake = Brake(database_url, world)
    yield brake
    brake._threads.shutdown()
    brake.office.close()


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@contextmanager
def queueing(
    url: str, observer: psycopg.Connection[Any], task: Callable[[], Any]
) -> Iterator[tuple[Callable[[], None], Future[Any]]]:
    """``task`` in a thread, up to the barrier; the first of the pair lets it go on."""
    with psycopg.connect(url) as alone, ThreadPoolExecutor(1) as thread:
        alone.execute(OWN_BARRIER)
        future = thread.submit(task)
        waiting = (
            "SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 31418 AND objid = 1"
            " AND NOT granted"
        )
        eventually(lambda: observer.execute(waiting).fetchone() is not None, "it waits its turn")
        try:
            yield alone.commit, future
        finally:
            alone.rollback()


def test_a_claim_that_is_being_made_is_waited_for_and_is_not_begun(
    database_url, office, world, brake, observer
):
    """Freeze against claim, both in flight: when freeze has answered, the claim begins nothing."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    halt = Halt(observer, at="before COMMIT")
    with halt.watching(Office(database_url, world)) as other, ThreadPoolExecutor(1) as thread:
        claim = thread.submit(other.worker_of("w1")._dispatcher.run_once, 10)
        halt.wait()
        freezing = brake.freeze(tool="send_letter")
        halt.go()
        frozen = freezing.result(SECONDS_MAX)
        (work,) = claim.result(SECONDS_MAX).works
        assert (office.state(ref), frozen.begun, frozen.waits_for) == ("claimed", (), ())

        executor = Executor(context=other.context, pace=Pace(), monotonic=Watch())
        ended = executor.begin(work, 30.0)
    assert isinstance(ended, Ended) and ended.outcome is INTERRUPTED
    assert world.calls == []


def test_what_a_claim_had_begun_is_named(database_url, office, world, brake, observer):
    """For a provider that keeps our key the claim begins: the freeze lists it."""
    ref = office.call(None, "pay", {"to": "dana"}).ref
    halt = Halt(observer, at="before COMMIT")
    with halt.watching(Office(database_url, world)) as other, ThreadPoolExecutor(1) as thread:
        claim = thread.submit(other.worker_of("w1")._dispatcher.run_once, 10)
        halt.wait()
        freezing = brake.freeze(everything=True)
        halt.go()
        assert freezing.result(SECONDS_MAX).begun == (ref,)
        assert claim.result(SECONDS_MAX).count == 1


@pytest.mark.parametrize("tool", ["send_letter", "pay"])
def test_a_claim_whose_snapshot_is_older_than_the_freeze_takes_nothing(
    database_url, office, world, brake, observer, tool
):
    ref = office.call(None, tool, {"to": "dana"}).ref
    other = Office(database_url, world)
    claim = other.worker_of("w1")._dispatcher
    with queueing(database_url, observer, lambda: claim.run_once(10)) as (go, claimed):
        freezing = brake.freeze(tool=tool)
        go()
        assert claimed.result(SECONDS_MAX).count == 0
        assert freezing.result(SECONDS_MAX).begun == ()
    assert office.kinds(ref) == ["recorded"] and world.calls == []
    other.close()


def test_an_attempt_that_is_being_begun_is_waited_for_and_named(
    database_url, office, world, brake, observer
):
    """Freeze against begin, both in flight: what had begun is listed, and was begun before."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    (work,) = office.worker_of("w1")._dispatcher.run_once(1).works
    halt = Halt(observer, at="before COMMIT")
    with halt.watching(Office(database_url, world)) as other, ThreadPoolExecutor(1) as thread:
        executor = Executor(context=other.context, pace=Pace(), monotonic=Watch())
        begin = thread.submit(executor.begin, work, 30.0)
        halt.wait()
        freezing = brake.freeze(tool="send_letter")
        halt.go()
        assert freezing.result(SECONDS_MAX).begun == (ref,)
        begin.result(SECONDS_MAX)
    assert office.state(ref) == "executing"


def test_a_begin_whose_snapshot_is_older_than_the_freeze_is_handed_back(
    database_url, office, world, clock, brake, observer
):
    """Freeze against begin: the worker stands in front of the mark, and must not make it."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    (work,) = office.worker_of("w1")._dispatcher.run_once(1).works
    other = Office(database_url, world)
    executor = Executor(context=other.context, pace=Pace(), monotonic=Watch())
    with queueing(database_url, observer, lambda: executor.begin(work, 30.0)) as (go, begun):
        freezing = brake.freeze(tool="send_letter")
        go()
        ended = begun.result(SECONDS_MAX)
        assert freezing.result(SECONDS_MAX).begun == ()
    assert isinstance(ended, Ended) and ended.outcome is INTERRUPTED
    assert office.kinds(ref) == ["recorded", "claimed"] and world.calls == []
    other.close()


def test_a_worker_hands_back_what_it_may_not_begin_and_does_not_come_back_to_it(
    office, world, clock
):
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    worker = office.worker_of("w1", sleep=clock.advance)
    claimed = worker._dispatcher.run_once(10)
    office.freeze(tool="send_letter", **WHY)
    worker._crew.take_on(claimed.works, 1e9)

    assert worker.run(drain=True).performed == 0
    assert office.kinds(ref) == ["recorded", "claimed", "handed_back"]
    assert world.calls == []


def test_what_was_begun_with_its_claim_and_stands_in_line_is_not_called_once_it_is_frozen(
    office, world, clock
):
    """The worker is at the first of twenty when a person stops the tool: after that none is."""
    refs = [office.call(None, "pay", {"to": f"P-{n}"}).ref for n in range(20)]
    for n in range(3):
        office.call(None, "charge", {"to": f"C-{n}"})
    watch = Watch()
    began: list[Any] = []

    def call(called: Any) -> Any:
        if not began:
            began.extend(office.freeze(tool="pay", **WHY).begun)
            watch.seconds += 2 * FRESH_SECONDS
        return world.arrive(called)

    world.on["pay"] = call
    worker = office.worker_of("w1", sleep=clock.advance, monotonic=watch, concurrency=1)
    claimed = worker._dispatcher.run_once(100)
    worker._crew.take_on(claimed.works, watch() + Pace().lease.total_seconds())

    assert worker.run(drain=True).performed == 4
    assert set(began) == set(refs), "all had begun, and were named"
    assert [one.tool for one in world.calls] == ["pay", "charge", "charge", "charge"]
    assert [office.state(ref) for ref in refs[1:]] == ["due"] * 19
    assert office.kinds(refs[1])[-2:] == ["attempt_began", "deferred"]

    office.thaw(tool="pay", reason="mended", principal="dana")
    clock.advance(60)
    office.worker_of("w1", sleep=clock.advance).run(drain=True)
    assert len(world.calls) == 23 and len(world.effects) == 23


def test_of_what_was_begun_nothing_that_stood_in_line_is_called_while_the_database_is_away(
    office, world
):
    """Nobody knows then whether it is frozen: it is handed back, and asked about once for all."""
    refs = [office.call(None, "pay", {"to": f"P-{n}"}).ref for n in range(3)]
    claimed = office.worker_of("w1")._dispatcher.run_once(100)
    nowhere = Office("postgresql://postgres@127.0.0.1:1/postgres", world)
    watch = Watch()
    executor = Executor(context=nowhere.context, pace=Pace(), monotonic=watch)
    watch.seconds = 2 * FRESH_SECONDS

    ended = [executor.begin(work, Pace().lease.total_seconds()) for work in claimed.works]

    assert [one.outcome for one in ended if isinstance(one, Ended)] == [INTERRUPTED] * len(refs)
    nowhere.close()


def test_a_local_effect_in_an_open_transaction_is_waited_for(database_url, office, brake):
    """Freeze against a Local effect in somebody's transaction: it ends first, then freeze does."""
    with psycopg.connect(database_url) as caller:
        assert office.call(caller, "file_case", {"to": "dana"}).status == "done"
        freezing = brake.freeze(tool="file_case")
        refused = office.call(None, "file_case", {"to": "robin"})
        assert (refused.status, refused.code) == ("refused", "frozen")
        assert not freezing.done()
        caller.commit()
    assert freezing.result(SECONDS_MAX).waits_for == ()


def test_a_local_effect_whose_recording_is_older_than_the_freeze_is_not_performed(
    database_url, office, brake, observer
):
    other = Office(database_url, World())

    def file():
        return other.call(None, "file_case", {"to": "dana"})

    with queueing(database_url, observer, file) as (go, filing):
        freezing = brake.freeze(tool="file_case")
        go()
        refused = filing.result(SECONDS_MAX)
        freezing.result(SECONDS_MAX)
    assert (refused.status, refused.code) == ("refused", "frozen")
    assert observer.execute("SELECT count(*) FROM public.cases").fetchone() == (0,)
    other.close()


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE", "READ COMMITTED"])
def test_no_snapshot_is_old_enough_to_miss_a_freeze(database_url, office, observer, level):
    """A transaction that began before the freeze, and sees none, performs nothing after it."""
    with psycopg.connect(database_url) as caller:
        caller.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        caller.execute("SELECT count(*) FROM public.cases")
        office.freeze(tool="file_case", **WHY)

        refused = office.call(caller, "file_case", {"to": "dana"})
        caller.commit()

    error = refused.error or {}
    assert (refused.code, error["class"], refused["repeat_can_succeed"]) == (
        "frozen",
        "transient",
        True,
    )
    assert observer.execute("SELECT count(*) FROM public.cases").fetchone() == (0,)
    assert observer.execute("SELECT count(*) FROM takeback.intents").fetchone() == (0,)


def test_a_transaction_that_does_not_end_is_named_and_the_freeze_is_in_force_all_the_same(
    database_url, office
):
    with psycopg.connect(database_url) as caller:
        office.call(caller, "file_case", {"to": "dana"})

        frozen = office.freeze(run="run-7", **WHY)

        (holder,) = frozen.waits_for
        assert holder.pid == caller.info.backend_pid and holder.age_seconds > 0
        refused = office.call(None, "file_case", {"to": "robin"}, run="run-7")
        assert refused.code == "frozen"
        caller.commit()
    assert office.freeze(run="run-7", **WHY).waits_for == ()
