"""The way to the database is down, dead or broken while work is in flight: the worker goes on."""

import re
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from takeback.dispatch.reaper import Reaper
from takeback.ledger.database import Database
from takeback.model.errors import DatabaseUnavailable, TakebackError
from takeback.testing.crash import Fault, Stage, StagedConnection
from tests.dispatch.office import Office, World
from tests.dispatch.shift import Door, Shift, before, eventually
from tests.line import Line, State, line

pytestmark = pytest.mark.chaos

ANSWER_SECONDS = 0.5


@pytest.fixture
def wire(database_url: str) -> Iterator[tuple[Line, str]]:
    with line(database_url) as found:
        yield found


@pytest.fixture
def far(wire: tuple[Line, str], world: World) -> Iterator[Office]:
    """An office whose database is at the other end of the line, and is not waited for long."""
    database = Database(wire[1], answer_seconds_max=ANSWER_SECONDS)
    office = Office(wire[1], world, database=database)
    yield office
    office.close()


@pytest.fixture
def door(world: World) -> Iterator[Door]:
    """Where whoever is sent to "dana" waits before it arrives."""
    with before(world, "send_letter", "pay") as door:
        yield door


def said(caplog: pytest.LogCaptureFixture, word: str) -> list[str]:
    return [r.getMessage() for r in caplog.records if word in r.getMessage()]


@pytest.mark.parametrize("tool", ["send_letter", "pay"])
@pytest.mark.parametrize("seconds", [3, 45])
def test_what_ends_while_the_database_is_away_is_written_when_it_is_back(
    seconds, tool, wire, far, office, world, clock, door, caplog
):
    """FINDINGS: two peers' workers exit when Postgres is away for 3 s, and four lose what ends
    meanwhile. 45 s are longer than the lease: while nobody has taken over, it is still ours."""
    ref = office.call(None, tool, {"to": "dana"}).ref
    with Shift(far) as shift:
        door.knocked()
        wire[0].be(State.DOWN)
        door.open()
        eventually(lambda: bool(said(caplog, "worker_waits")), "it waits")
        assert shift.worker._crew.open == 1
        clock.advance(seconds)
        wire[0].be(State.SOUND)
        eventually(lambda: office.state(ref) == "succeeded", "the outcome is written")
        later = office.call(None, tool, {"to": "robin"}).ref
        eventually(lambda: office.state(later) == "succeeded", "it goes on")

    assert office.kinds(ref) == ["recorded", "claimed", "attempt_began", "succeeded"]
    assert world.called("dana") == 1


def test_what_was_taken_over_while_the_database_was_away_is_recorded_as_late(
    wire, far, office, world, clock, door, caplog
):
    """45 s: another worker has found the lease over, and the letter in doubt."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    with Shift(far):
        door.knocked()
        wire[0].be(State.DOWN)
        door.open()
        eventually(lambda: bool(said(caplog, "worker_waits")), "it waits")
        clock.advance(45)
        assert [i.ref for i in Reaper(office.context).run_once()] == [ref]
        wire[0].be(State.SOUND)
        eventually(lambda: office.state(ref) == "succeeded", "the answer is heard")

    assert office.kinds(ref)[-3:] == ["in_doubt", "answered_late", "succeeded"]
    assert world.called("dana") == 1


def test_a_restart_costs_one_failure_and_not_one_for_each_connection(wire, far, caplog):
    """Ten connections are dead at once: the first that is lost speaks for all of them."""
    with_all_of_its_connections(far.context.database)
    wire[0].be(State.DOWN)
    wire[0].be(State.SOUND)

    with pytest.raises(DatabaseUnavailable):
        select_one(far.context.database)
    for _ in range(10):
        select_one(far.context.database)


def with_all_of_its_connections(database: Database) -> None:
    """Opens as many as the pool keeps."""
    start = threading.Barrier(5)

    def open_one() -> None:
        with database.transaction() as tx:
            start.wait(30)
            tx.raw.execute("SELECT 1")

    threads = [threading.Thread(target=open_one) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def select_one(database: Database) -> None:
    with database.transaction() as tx, tx.session.begin_nested():
        tx.session.connection()


def test_a_line_that_is_dead_and_not_down_is_given_up(wire, far, office, world, caplog):
    """Nobody refuses and nobody answers: keepalives are answered by whoever stands in between. A
    worker without a bound would wait for ever, and say nothing."""
    first = office.call(None, "send_letter", {"to": "first"}).ref
    with Shift(far):
        eventually(lambda: office.state(first) == "succeeded", "it works")
        wire[0].be(State.DEAD)
        eventually(lambda: bool(said(caplog, "worker_waits")), "it notices")
        ref = office.call(None, "send_letter", {"to": "robin"}).ref
        wire[0].be(State.SOUND)
        eventually(lambda: office.state(ref) == "succeeded", "it goes on")

    assert world.called("robin") == 1
    assert all("seconds_since_success" in one for one in said(caplog, "worker_waits"))


def test_an_outcome_is_written_once_although_its_line_was_dead(wire, far, office, world, door):
    """What was said into a dead line may arrive later: it is fenced like any other write."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    with Shift(far) as shift:
        door.knocked()
        wire[0].be(State.DEAD)
        door.open()
        eventually(lambda: shift.worker._crew.open == 1, "it could not be written")
        wire[0].be(State.SOUND)
        eventually(lambda: office.state(ref) == "succeeded", "it is written")

    assert office.kinds(ref) == ["recorded", "claimed", "attempt_began", "succeeded"]


def test_a_call_of_ones_own_is_not_kept_waiting_by_a_dead_line(wire, far):
    wire[0].be(State.DEAD)
    with pytest.raises((DatabaseUnavailable, TakebackError)):
        far.show("send_letter-7F3K9QDM")
    wire[0].be(State.SOUND)


class Breaks(Stage):
    """Where ``at`` is said for the first time the statement fails, and its connection lives."""

    def __init__(self, observer: psycopg.Connection[Any], at: str) -> None:
        super().__init__(observer)
        self._at = at

    def reach(self, name: str, connection: StagedConnection | None) -> None:
        """Breaks once."""
        super().reach(name, connection)
        if name == self._at and name not in self.struck:
            self.struck.append(name)
            raise psycopg.errors.InternalError_(f"broken once: {name}")


class Loses(Breaks):
    """The same, and the connection is gone too."""

    def fault_at(self, number: int, name: str) -> Fault | None:
        """Strikes once."""
        return Fault.LOST if name == self._at and not self.struck else None

    def reach(self, name: str, connection: StagedConnection | None) -> None:
        """As any stage."""
        Stage.reach(self, name, connection)


def played(office: Office, world: World, number: int | str) -> list[str | None]:
    """A letter, a payment, a deferred one, a restore of a payment: what a worker has to say."""
    refs = [office.call(None, t, {"to": f"{t}-{number}"}).ref for t in ("send_letter", "pay")]
    refs.append(office.call(None, "open_case", {"to": f"case-{number}"}).ref)
    office.approve(None, refs[-1] or "", principal="robin")
    return refs


@pytest.mark.parametrize("how", [Breaks, Loses])
def test_every_query_is_broken_once_and_the_worker_goes_on(
    how, database_url, office, world, clock, caplog
):
    """dramatiq #258, chancy #88: a worker stayed up and idled for ever after an error."""
    with psycopg.connect(database_url, autocommit=True) as observer:
        points = drained(Breaks(observer, "nowhere"), office, world, clock, "whole")
        broken = [p for p in dict.fromkeys(points) if re.match(r"before (?!call|connect)", p)]
        for number, point in enumerate(broken):
            stage = how(observer, point)
            drained(stage, office, world, clock, number)
            assert stage.struck, f"it never came to {point}"

    print(f"{len(broken)} statements broken once each: {broken}")
    assert len(broken) >= 8
    assert said(caplog, "seconds_since_success")
    assert office.verify().problems == ()


def drained(stage: Stage, office: Office, world: World, clock: Any, number: int | str) -> list[str]:
    refs = played(office, world, number)
    staged = Office(office.settings.database_url or "", world, pause=clock.advance)
    stage.watch(*staged.context.database.engines)
    staged.worker_of("w", sleep=clock.advance).run(drain=True)
    staged.close()
    # What broke in a Local effect undid it, and is tried again after a while.
    clock.advance(600)
    office.worker_of("w", sleep=clock.advance).run(drain=True)
    states = [office.state(ref) for ref in refs]
    # Broken at its own end, nobody knows what became of a letter; a payment and a case neither.
    assert set(states) <= {"succeeded", "in_doubt"}, states
    assert states[2] == "succeeded", "a Local effect is never in doubt"
    assert [world.called(f"{t}-{number}") for t in ("send_letter", "pay")] in ([1, 1], [1, 0])
    return stage.points


def test_a_worker_says_how_long_it_has_not_succeeded(far, wire, caplog):
    """In its log, and to whoever asks it."""
    with Shift(far) as shift:
        eventually(lambda: shift.worker.pulse().turns > 0, "it turns")
        assert shift.worker.pulse().seconds_since_success < 5
        wire[0].be(State.DOWN)
        eventually(lambda: len(said(caplog, "worker_waits")) > 3, "it waits")
        assert shift.worker.pulse().seconds_since_success > 0
        wire[0].be(State.SOUND)
        turns = shift.worker.pulse().turns
        eventually(lambda: shift.worker.pulse().turns > turns, "it is back")
    words = re.findall(r"'seconds_since_success': ([0-9.]+)", "".join(said(caplog, "worker_waits")))
    ages = [float(word) for word in words]
    assert ages == sorted(ages) and ages[-1] > ages[0]
