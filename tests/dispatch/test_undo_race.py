"""A thousand races between taking back and release: one wins, and both are told the truth.

Both parties are in the middle of it: one of them is held at a point, inside its transaction or
behind it, until the other has come as far as it can; or both are let go at once. The points are
those of each party's own run, found by running it alone.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from takeback.dispatch.pace import Pace
from takeback.model.envelope import Envelope
from takeback.testing.crash import Stage, StagedConnection
from tests.dispatch.office import ROWS, Office, World
from tests.dispatch.shift import SECONDS_MAX

RACES = 1000
LOOK_SECONDS = 0.002


class Party(Stage):
    """One side, on connections of its own. Stops at the point that it was told, until ``go``."""

    def __init__(self, observer: psycopg.Connection[Any]) -> None:
        super().__init__(observer)
        self._begin(None)

    def _begin(self, hold_at: int | None) -> None:
        self._hold_at = None if hold_at is None else hold_at + len(self.points)
        self.arrived = threading.Event()
        self.stuck = threading.Event()
        self._soon = threading.Event()
        self._go = threading.Event()

    def prepare(self, hold_at: int | None) -> None:
        """For the next race: it stops at its point of this number, counted from now on."""
        self._begin(hold_at)

    def reach(self, name: str, connection: StagedConnection | None) -> None:
        """Waits at the point."""
        number = len(self.points)
        super().reach(name, connection)
        if number == self._hold_at:
            self.arrived.set()
            assert self._go.wait(SECONDS_MAX), "nobody let it go on"

    def go(self) -> None:
        """Lets it go on."""
        self._go.set()

    def pause(self, seconds: float) -> None:
        """It waits for somebody else: that much is known now, and it looks again soon."""
        self.stuck.set()
        self._soon.wait(LOOK_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """Both parties, the threads that they run in, and who looks on."""

    office: Office
    world: World
    observer: psycopg.Connection[Any]
    parties: Mapping[str, Party]
    offices: Mapping[str, Office]
    threads: ThreadPoolExecutor

    def undo(self, ref: str) -> Envelope:
        """Takes back, and asks again while the answer is that somebody is at work on it."""
        answer = self.offices["undo"].restore(None, ref, principal="robin")
        while answer.status == "in_progress":
            answer = self.offices["undo"].restore(None, ref, principal="robin")
        return answer

    def release(self) -> int:
        """Carries out what is due; answers with how much that was."""
        worker = self.offices["release"].worker_of(
            "w", sleep=self.parties["release"].pause, pace=Pace(concurrency=1)
        )
        return worker.run(drain=True).performed

    def come_as_far_as_possible(self, name: str, future: Future[Any]) -> None:
        """Returns when a party has ended, or waits for the other one, which is held."""
        while not future.done() and not self.parties[name].stuck.wait(LOOK_SECONDS):
            waiting = self.observer.execute(
                "SELECT FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            if waiting is not None:
                return


@pytest.fixture
def ring(office: Office, world: World, database_url: str) -> Iterator[Ring]:
    with (
        psycopg.connect(database_url, autocommit=True) as observer,
        ThreadPoolExecutor(2) as threads,
    ):
        parties = {name: Party(observer) for name in ("undo", "release")}
        offices = {}
        for name, party in parties.items():
            handlers = {
                tool: replace(handler, perform=party.face(tool, handler.perform))
                for tool, handler in vars(world.handlers(ROWS)).items()
            }
            offices[name] = Office(
                database_url, world, handlers=SimpleNamespace(**handlers), pause=party.pause
            )
            party.watch(*offices[name].context.database.engines)
        yield Ring(
            office=office,
            world=world,
            observer=observer,
            parties=parties,
            offices=offices,
            threads=threads,
        )
        for one in offices.values():
            one.close()


def run(ring: Ring, number: int, held: str | None, hold_at: int | None) -> tuple[str, str]:
    """One race; answers with who won, or with what is wrong, and with how it was held."""
    to = f"dana-{number}"
    ref = ring.office.call(None, "send_letter", {"to": to}).ref or ""
    for name, party in ring.parties.items():
        party.prepare(hold_at if name == held else None)
    barrier = threading.Barrier(2 if held is None else 1)

    def start(task: Callable[[], Any]) -> Any:
        barrier.wait(SECONDS_MAX)
        return task()

    tasks = {"undo": lambda: ring.undo(ref), "release": ring.release}
    first = held or "undo"
    other = "release" if first == "undo" else "undo"
    futures = {first: ring.threads.submit(start, tasks[first])}
    if held is not None:
        assert ring.parties[held].arrived.wait(SECONDS_MAX), f"{held} never came to {hold_at}"
    futures[other] = ring.threads.submit(start, tasks[other])
    if held is not None:
        ring.come_as_far_as_possible(other, futures[other])
        ring.parties[held].go()
    answer, performed = futures["undo"].result(SECONDS_MAX), futures["release"].result(SECONDS_MAX)
    return judge(ring, ref, to, answer, performed), held or "nobody"


def judge(ring: Ring, ref: str, to: str, answer: Envelope, performed: int) -> str:
    """Who won, by what both were told and by what has happened; anything else is a sentence."""
    state, called = ring.office.state(ref), ring.world.called(to)
    if (answer.status, performed, state, called) == ("done", 0, "cancelled", 0):
        return "undo"
    if (answer.code, performed, state, called) == ("too_late", 1, "succeeded", 1):
        return "release"
    return f"{ref}: undo heard {answer.status} {answer.code}; {performed} {state} {called}"


def points_alone(ring: Ring, name: str) -> int:
    """How many points a party comes to when nobody is in its way, its connection being open."""
    before = 0
    for turn in range(2):
        before = len(ring.parties[name].points)
        ref = ring.office.call(None, "send_letter", {"to": f"{name}-alone-{turn}"}).ref or ""
        if name == "undo":
            ring.undo(ref)
        else:
            ring.release()
    return len(ring.parties[name].points) - before


def test_a_thousand_races_between_undo_and_release_have_one_winner_each(ring):
    """connectonion #1197: taken back at the last moment, nothing leaves; undo consoles: once."""
    points = {name: points_alone(ring, name) for name in ("undo", "release")}
    winners: Counter[tuple[str, str]] = Counter()
    for number in range(RACES):
        held = (None, "undo", "release")[number % 3]
        hold_at = None if held is None else (number // 3) % points[held]
        winners[run(ring, number, held, hold_at)] += 1

    print(f"points: {points}; (winner, held): {dict(sorted(winners.items()))}")
    assert {winner for winner, _ in winners} == {"undo", "release"}, winners
    assert winners.total() == RACES
    assert {held for _, held in winners} == {"nobody", "undo", "release"}
