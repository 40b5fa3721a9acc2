"""Recording what waits against whoever settles, or takes back, what it waits for: both mid-flight.

The other party is held at each point of its run in turn, inside its transactions and between them.
Meanwhile a call that comes after its intent is recorded: at once, or in a transaction that stays
open until the other party has ended. However it comes, the two agree in the end.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from takeback.dispatch.waker import Waker
from takeback.testing.crash import Stage, StagedConnection
from tests.dispatch.clock import Clock
from tests.dispatch.halt import SECONDS_MAX
from tests.dispatch.office import Office, World, make_cases
from tests.dispatch.test_waiting import ROWS, drain, refuse, say


class HeldAt(Stage):
    """A process that stops at the point of a number, counted from ``prepare``, until ``go``."""

    def __init__(self, observer: psycopg.Connection[Any]) -> None:
        super().__init__(observer)
        self.prepare(None)

    def prepare(self, number: int | None) -> None:
        self._hold_at = None if number is None else number + len(self.points)
        self.arrived, self._go = threading.Event(), threading.Event()

    def reach(self, name: str, connection: StagedConnection | None) -> None:
        number = len(self.points)
        super().reach(name, connection)
        if number == self._hold_at:
            self.arrived.set()
            assert self._go.wait(SECONDS_MAX), "nobody let it go on"

    def go(self) -> None:
        self._go.set()


class Ring:
    """The office that records, and another process that settles or takes back."""

    def __init__(self, url: str, world: World, clock: Clock, observer: psycopg.Connection) -> None:
        self.url = url
        self.world = world
        self.office = Office(url, world, rows=ROWS, pause=clock.advance)
        self.other = Office(url, world, rows=ROWS, pause=lambda _: None)
        self.party = HeldAt(observer)
        self.party.watch(*self.other.context.database.engines)
        self.threads = ThreadPoolExecutor(1)

    def task(self, how: str, ref: str) -> Callable[[], Any]:
        if how.startswith("take back"):
            return lambda: self.other.restore(None, ref, principal="dana")
        return lambda: self.other.worker_of("w1", concurrency=1).run(drain=True)

    def points(self, how: str) -> int:
        """How many there are when nobody is in its way, its connection being open."""
        count = 0
        for turn in range(2):
            before = len(self.party.points)
            first = say(self.office, FIRST[how], f"{how}-alone-{turn}")
            prepared(self, how)
            self.task(how, first.ref)()
            count = len(self.party.points) - before
        return count

    def close(self) -> None:
        self.party.go()
        self.threads.shutdown()
        self.other.close()
        self.office.close()


FIRST = {
    "succeed": "send_letter",
    "fail": "send_letter",
    "take back": "hold_letter",
    "take back done": "pay",
}


def prepared(ring: Ring, how: str) -> None:
    ring.world.on.clear()
    if how == "fail":
        ring.world.on["send_letter"] = refuse
    if how == "take back done":
        drain(ring.office)


@pytest.fixture
def ring(database_url: str, world: World, clock: Clock) -> Iterator[Ring]:
    make_cases(database_url)
    with psycopg.connect(database_url, autocommit=True) as observer:
        ring = Ring(database_url, world, clock, observer)
        yield ring
        ring.close()


def race(ring: Ring, how: str, point: int, *, across: bool) -> tuple[str, str]:
    """One race; the state of the first in the end, and that of the one which comes after it."""
    name = f"{how}-{point}-{across}"
    first = say(ring.office, FIRST[how], name)
    prepared(ring, how)
    ring.party.prepare(point)
    future = ring.threads.submit(ring.task(how, first.ref))
    assert ring.party.arrived.wait(SECONDS_MAX), f"it never came to {point}"
    with psycopg.connect(ring.url) as tx:
        second = ring.office.call(tx, "cancel", {"to": name}, after=[first.ref])
        if across:
            ring.party.go()
            future.result(SECONDS_MAX)
    ring.party.go()
    future.result(SECONDS_MAX)
    drain(ring.office)
    stands = "refused" if second.ref is None else ring.office.state(second.ref)
    return ring.office.state(first.ref), stands


AGREED = {
    "succeed": {("succeeded", "succeeded")},
    "fail": {("failed", "cancelled"), ("failed", "refused")},
    "take back": {("cancelled", "cancelled"), ("cancelled", "refused")},
    # Recorded first, it holds what has happened: the restore is told to ask again.
    "take back done": {
        ("succeeded", "succeeded"),
        ("restored", "succeeded"),
        ("restored", "cancelled"),
        ("restored", "refused"),
    },
}


@pytest.mark.parametrize("across", [False, True], ids=["at once", "across"])
@pytest.mark.parametrize("how", AGREED)
def test_wherever_the_other_is_when_it_is_recorded_the_two_agree_in_the_end(ring, how, across):
    points = ring.points(how)
    seen = {race(ring, how, point, across=across) for point in range(points)}
    print(f"{points} points: {sorted(seen)}")
    assert seen <= AGREED[how], seen


def test_what_has_happened_is_not_taken_back_before_the_call_after_it_is_there(ring):
    """In one transaction it is looked at and held; a restore meanwhile is told to ask again."""
    first = say(ring.office, "pay", "dana")
    drain(ring.office)
    with psycopg.connect(ring.url) as tx:
        second = ring.office.call(tx, "hold_letter", {"to": "robin"}, after=[first.ref])
        told = ring.other.restore(None, first.ref, principal="mo")
        assert told.status == "in_progress"
    assert ring.office.state(second.ref) == "held"
    assert ring.other.restore(None, first.ref, principal="mo").status == "scheduled"


def test_two_wakers_at_once_awaken_once(ring):
    first = say(ring.office, "send_letter", "dana")
    second = say(ring.office, "cancel", "robin", first.ref)
    ring.other.worker_of("w1", stopping=lambda: ring.world.arrived("dana") > 0).run()
    ring.office.context.pause(60)
    ring.party.prepare(0)
    future = ring.threads.submit(Waker(ring.other.context).run_once)
    assert ring.party.arrived.wait(SECONDS_MAX)
    here = Waker(ring.office.context).run_once()
    ring.party.go()
    there = future.result(SECONDS_MAX)
    assert len([*here, *there]) == 1
    assert ring.office.kinds(second.ref).count("awoken") == 1
