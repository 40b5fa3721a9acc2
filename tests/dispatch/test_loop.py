"""How a worker spends its time: asleep until it is needed, and never for long when it is."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from takeback.client.batching import Call
from takeback.dispatch.crew import BESIDE_MIN
from takeback.dispatch.dispatcher import Claimed
from takeback.dispatch.executor import Ended
from takeback.dispatch.pace import Pace
from takeback.dispatch.settler import Settler
from takeback.dispatch.worker import LOOK_AGAIN_SECONDS, Worker
from takeback.testing.crash import Stage
from tests.dispatch.office import Called, Office
from tests.dispatch.shift import Door, Shift, eventually


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


class Sleeper:
    """Sleeps by moving the clock; what it did in between is counted; stops after ``naps_max``."""

    def __init__(self, clock: Any, stage: Stage, naps_max: int) -> None:
        self.naps: list[float] = []
        self.statements: list[int] = []
        self._clock, self._stage, self._naps_max = clock, stage, naps_max
        self._seen = 0

    def sleep(self, seconds: float) -> None:
        said = sum(name.startswith("before ") for name in self._stage.points)
        self.statements.append(said - self._seen)
        self._seen = said
        self.naps.append(seconds)
        self._clock.advance(seconds)

    def stopping(self) -> bool:
        return len(self.naps) >= self._naps_max


def watch(office: Office, clock: Any, observer: Any, *, naps: int, **paces: Any) -> Sleeper:
    """How a worker spends so many naps."""
    stage = Stage(observer)
    stage.watch(*office.context.database.engines)
    sleeper = Sleeper(clock, stage, naps)
    office.worker_of("w", sleep=sleeper.sleep, stopping=sleeper.stopping, pace=Pace(**paces)).run()
    return sleeper


@pytest.fixture
def fresh(database_url: str, world: Any, clock: Any) -> Iterator[Office]:
    """An office whose connections nobody has opened yet."""
    office = Office(database_url, world, pause=clock.advance)
    yield office
    office.close()


def test_an_idle_worker_says_one_statement_in_two_seconds(fresh, clock, observer):
    """DESIGN 11: at most one query in two seconds per worker. Counted, not timed."""
    sleeper = watch(fresh, clock, observer, naps=20)

    assert sleeper.naps == [2.0] * 20
    assert sleeper.statements == [2, *[1] * 19], "the first connects as well"


def test_a_worker_never_idles_in_silence(fresh, clock, caplog):
    """chancy #88: once a minute it says how it is, also when there is nothing to do."""
    naps = iter(range(100))
    fresh.worker_of(
        "w",
        sleep=clock.advance,
        stopping=lambda: next(naps) == 95,
        monotonic=lambda: clock.ahead,
    ).run()

    said = [r.getMessage() for r in caplog.records if "worker_pulse" in r.getMessage()]
    assert len(said) == 3 and all("seconds_since_success" in line for line in said)


def test_a_worker_sleeps_until_the_next_instant_that_is_due(fresh, office, clock, observer):
    ref = office.call(None, "hold_letter", {"to": "dana"}).ref

    sleeper = watch(fresh, clock, observer, naps=31)

    assert office.state(ref) == "succeeded"
    short = next(nap for nap in sleeper.naps if nap < 1.99)
    assert sum(sleeper.naps[: sleeper.naps.index(short) + 1]) == pytest.approx(60, abs=3)


def test_after_work_a_worker_looks_often_for_a_while_and_then_ever_less(fresh, office, clock):
    """Where something was to be done, more comes soon: found within the shortest sleep."""
    office.call(None, "send_letter", {"to": "dana"})
    naps: list[float] = []
    seen: list[str] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 20:
            seen.append(office.call(None, "send_letter", {"to": "robin"}).ref or "")
        if len(naps) == 21:
            seen.append(office.state(seen[0]))
        clock.advance(seconds)

    fresh.worker_of("w", sleep=sleep, stopping=lambda: len(naps) >= 140).run()

    assert seen[1] == "succeeded"
    assert naps[:20] == [LOOK_AGAIN_SECONDS] * 20
    assert naps[21:] == sorted(naps[21:]) and naps[-1] == 2.0


def test_a_worker_sleeps_until_the_next_lease_is_over(fresh, office, clock, observer):
    """Recovery lies in the lease: no later than that, whoever died."""
    office.call(None, "send_letter", {"to": "dana"})
    office.worker_of("gone")._dispatcher.run_once(1)

    sleeper = watch(fresh, clock, observer, naps=17)

    assert office.list(state="succeeded"), "it was due again, and carried out"
    short = next(nap for nap in sleeper.naps if nap < 1.99)
    assert sum(sleeper.naps[: sleeper.naps.index(short) + 1]) == pytest.approx(30, abs=3)


@pytest.mark.parametrize("state", ["due", "claimed"])
def test_a_row_that_somebody_holds_is_looked_at_less_and_less_often(
    state, fresh, office, database_url, clock, observer
):
    """Due, or left behind by the dead, and locked by an open transaction: no busy loop."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    if state == "claimed":
        office.worker_of("gone")._dispatcher.run_once(1)
        clock.advance(31)
    with psycopg.connect(database_url) as caller:
        caller.execute("SELECT FROM takeback.intents WHERE ref = %s FOR UPDATE", [ref])
        sleeper = watch(fresh, clock, observer, naps=20)

    assert sleeper.naps == sorted(sleeper.naps) and sleeper.naps[-1] == 0.25
    assert sum(sleeper.statements[10:]) <= 9 * 10
    assert office.state(ref) == state


def test_a_drain_ends_when_nothing_is_due_and_nothing_executes(office, world, clock):
    held = office.call(None, "hold_letter", {"to": "later"}).ref
    sent = office.call(None, "send_letter", {"to": "now"}).ref
    naps: list[float] = []

    office.worker_of("w", sleep=naps.append).run(drain=True)

    assert (office.state(sent), office.state(held)) == ("succeeded", "held")
    assert naps == [], "it does not wait for what is not due yet"


def test_a_drain_waits_out_the_leases_of_the_dead(office, world, clock):
    """CONTRACT: at most 31 seconds."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    office.worker_of("gone")._dispatcher.run_once(1)
    before = clock.ahead

    tally = office.worker_of("w", sleep=clock.advance).run(drain=True)

    assert office.state(ref) == "succeeded" and tally.taken_over == 1
    assert clock.ahead - before < 31


def test_leases_end_also_under_a_worker_that_always_has_something_to_do(office, world, clock):
    """A queue that is never empty must not keep the reaper away."""
    left = office.call(None, "send_letter", {"to": "left"}).ref
    office.worker_of("gone")._dispatcher.run_once(1)
    clock.advance(31)
    seconds = [0.0]

    def another(called: Any) -> Any:
        seconds[0] += 0.5
        if called.number == 1 and len(world.calls) < 40:
            office.call(None, "ship", {"to": f"robin-{len(world.calls)}"})
        return world.arrive(called)

    world.on["ship"] = another
    for n in range(3):
        office.call(None, "ship", {"to": f"first-{n}"})
    worker = office.worker_of(
        "w",
        sleep=clock.advance,
        stopping=lambda: world.arrived("left") > 0,
        monotonic=lambda: seconds[0],
        pace=Pace(concurrency=1),
    )
    worker.run()

    assert office.state(left) == "succeeded" and len(world.calls) < 40


def test_a_fault_that_passes_is_lived_through_and_said(database_url, office, world, clock, caplog):
    """dramatiq #258, chancy #88: a worker stayed up and idled for ever after an error."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    naps: list[float] = []
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(BROKEN_CLOCK)

        def sleep(seconds: float) -> None:
            naps.append(seconds)
            if len(naps) == 5:
                admin.execute("DROP FUNCTION takeback.now_broken(); ")
                admin.execute(WHOLE_CLOCK)

        office.worker_of("w", sleep=sleep).run(drain=True)

    assert office.state(ref) == "succeeded" and naps[:5] == [0.1, 0.2, 0.5, 1.0, 2.0]
    said = [r.getMessage() for r in caplog.records]
    assert any("worker_failed" in line for line in said)
    assert any("seconds_since_success" in line for line in said)


def test_a_fault_that_stays_ends_the_worker_loudly(database_url, office, caplog):
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(BROKEN_CLOCK)
        with pytest.raises(psycopg.errors.DivisionByZero):
            office.worker_of("w", sleep=lambda seconds: None).run()
        admin.execute(WHOLE_CLOCK)


BROKEN_CLOCK = """
CREATE FUNCTION takeback.now_broken() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN RETURN now() + (1 / 0) * interval '1 s'; END $$;
CREATE OR REPLACE FUNCTION takeback.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT takeback.now_broken() $$;
"""

WHOLE_CLOCK = """
CREATE OR REPLACE FUNCTION takeback.now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT clock_timestamp() $$;
"""


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        # At most four times as many as before, and as many as begin within a second.
        (0.001, [1, 4, 16, 64, 200]),
        (0.25, [1, *[4] * 10]),
        (0.5, [1, *[2] * 10]),
        # One that takes longer is claimed alone: it keeps nobody waiting behind it.
        (30.0, [1] * 10),
    ],
)
def test_a_claim_is_as_large_as_what_begins_within_a_second(office, world, clock, seconds, sizes):
    """By how long the attempts of the claim before took, on one thread."""
    now = [0.0]

    def call(called: Called) -> dict[str, Any]:
        now[0] += seconds
        return world.arrive(called)

    world.on["pay"] = call
    count = sum(sizes)
    office.call_many(None, [Call(tool="pay", arguments={"to": str(n)}) for n in range(count)])
    worker = office.worker_of(
        "w", sleep=clock.advance, monotonic=lambda: now[0], concurrency=1, lease=timedelta(hours=1)
    )
    claimed = sizes_claimed(worker)
    worker.run(drain=True)
    assert [one for one in claimed if one] == sizes


def test_a_claim_that_leaves_threads_free_says_nothing_of_how_quick_attempts_are(
    office, world, clock
):
    """Of a few that begin at once, each on a thread of its own, none has waited for another."""
    now = [0.0]

    def call(called: Called) -> dict[str, Any]:
        now[0] += 0.001
        number = int(called.to)
        if number < 5:
            office.call(None, "pay", {"to": str(number + 1)})
        elif number == 5:
            crowd = [Call(tool="pay", arguments={"to": str(n)}) for n in range(6, 106)]
            office.call_many(None, crowd)
        return world.arrive(called)

    world.on["pay"] = call
    office.call(None, "pay", {"to": "0"})
    worker = office.worker_of(
        "w", sleep=clock.advance, monotonic=lambda: now[0], concurrency=4, lease=timedelta(hours=1)
    )
    sizes = sizes_claimed(worker)
    worker.run(drain=True)
    first = [one for one in sizes if one][:7]
    assert first[:6] == [1] * 6 and first[6] <= 16, "four for each thread, as at the start"


def sizes_claimed(worker: Worker) -> list[int]:
    """Grows by how many intents ``worker`` takes with each claim."""
    claimed: list[int] = []
    run_once = worker._dispatcher.run_once

    def counted(limit: int) -> Claimed:
        found = run_once(limit)
        claimed.append(found.count)
        return found

    object.__setattr__(worker._dispatcher, "run_once", counted)
    return claimed


class LateSettler:
    """Writes down what ``settler`` would, once the door is open."""

    def __init__(self, settler: Settler, door: Door) -> None:
        self.ends = settler.ends
        self._settler, self._door = settler, door

    def settle(self, ended: Sequence[Ended]) -> list[Ended]:
        self._door.wait()
        return self._settler.settle(ended)


def test_outcomes_are_written_down_beside_the_next_claim(office):
    """The worker has claimed again while the first outcomes are held where they are written."""
    count = BESIDE_MIN * 10
    calls = [Call(tool="pay", arguments={"to": str(n)}) for n in range(count)]
    refs = [answer.ref for answer in office.call_many(None, calls)]
    door = Door()
    shift = Shift(office, concurrency=BESIDE_MIN)
    crew: Any = shift.worker._crew
    crew._settler = LateSettler(crew._settler, door)
    with shift:
        door.knocked()
        first = BESIDE_MIN
        eventually(lambda: len(states(office, "executing")) > first, "it has claimed again")
        assert not states(office, "succeeded")
        door.open()
        eventually(lambda: len(states(office, "succeeded")) == count, "all are written down")
    assert {office.state(ref) for ref in refs} == {"succeeded"}


def states(office: Office, state: str) -> Sequence[Any]:
    return office.list(state=state, limit=1000)
