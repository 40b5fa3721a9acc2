"""Attempts that hang, end late or are cut short, and who has to wait for them: nobody."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from takeback.declare import BLIND, Remote
from takeback.dispatch.crew import BESIDE_MIN
from takeback.dispatch.pace import GRACE_SECONDS, Pace, check_pace
from takeback.model.errors import InvalidSettings, NotDispatched, Rejected
from tests.dispatch.office import Office, World, row
from tests.dispatch.shift import SECONDS_MAX, Door, Shift, Watch, eventually

OVERDUE_SECONDS = 20.0 + GRACE_SECONDS + 1.0


@pytest.fixture
def door() -> Any:
    """Where "dana" waits; opened at the end, so that no thread is left."""
    door = Door()
    yield door
    door.open()


def hang(world: World, door: Door, tool: str = "send_letter", outcome: Any = None) -> None:
    """Whoever writes to dana waits at the door, and then arrives, or raises ``outcome``."""

    def call(called: Any) -> Any:
        if called.to == "dana":
            door.wait()
            if outcome is not None:
                raise outcome
        return world.arrive(called)

    world.on[tool] = call


def causes(office: Office, ref: str | None) -> list[str]:
    events = office.show(ref or "").events
    ends: list[Any] = [e.fact().event for e in events if e.kind == "intent.in_doubt"]
    return [end.cause for end in ends]


def test_an_attempt_that_hangs_stops_nobody_and_is_given_up_in_time(office, world, door):
    """It costs one thread; whatever is recorded meanwhile is carried out by the others."""
    hang(world, door)
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    with Shift(office, concurrency=2) as shift:
        door.knocked()
        other = office.call(None, "send_letter", {"to": "robin"}).ref
        eventually(lambda: office.state(other) == "succeeded", "others are carried out")
        assert office.state(ref) == "executing"

        shift.watch.seconds += OVERDUE_SECONDS
        eventually(lambda: office.state(ref) == "in_doubt", "it is given up")

        assert causes(office, ref) == ["timed_out"] and shift.worker.abandoned == 1
        third = office.call(None, "send_letter", {"to": "alex"}).ref
        eventually(lambda: office.state(third) == "succeeded", "its thread has been replaced")


@pytest.mark.parametrize(
    "outcome, state",
    [(None, "succeeded"), (Rejected("no"), "failed"), (NotDispatched("refused"), "failed")],
    ids=["arrived", "rejected", "never got through"],
)
def test_the_answer_of_an_attempt_that_was_given_up_settles_it_after_all(
    outcome, state, office, world, door
):
    hang(world, door, outcome=outcome)
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    with Shift(office) as shift:
        door.knocked()
        shift.watch.seconds += OVERDUE_SECONDS
        eventually(lambda: office.state(ref) == "in_doubt", "it is given up")

        door.open()
        eventually(lambda: office.state(ref) == state, "its answer is heard")

    assert office.kinds(ref)[-3:] == ["in_doubt", "answered_late", state]
    assert shift.worker.abandoned == 0


def test_attempts_that_all_hang_are_replaced_and_then_the_worker_ends(office, world, caplog):
    """Python can't stop a thread: only a new process is rid of them."""
    door = Door()
    world.on["send_letter"] = lambda called: door.wait()
    shift = Shift(office, concurrency=1)
    with shift:
        for turn in range(8):
            office.call(None, "send_letter", {"to": f"dana-{turn}"})
            door.knocked()
            shift.watch.seconds += OVERDUE_SECONDS
        shift.join()
    door.open()

    assert any("worker_exhausted" in record.getMessage() for record in caplog.records)


def test_what_was_begun_with_its_claim_and_waited_too_long_is_not_called(office, world, door):
    """Its lease could be over while it runs: handed back, it is called by whoever has time."""
    hang(world, door, "pay")
    first = office.call(None, "pay", {"to": "dana"}).ref
    rest = [office.call(None, "pay", {"to": f"robin-{n}"}).ref for n in range(3)]
    worker = office.worker_of("w1", pace=Pace(concurrency=1), monotonic=(watch := Watch()))
    claimed = worker._dispatcher.run_once(10)
    worker._crew.take_on(claimed.works, watch() + 30.0)
    door.knocked()
    watch.seconds += 15.0
    door.open()
    eventually(lambda: worker._crew.look(0.1) >= 0 and not worker._crew.busy, "all have ended")
    worker._crew.leave()

    assert office.state(first) == "succeeded"
    assert [office.state(ref) for ref in rest] == ["due"] * 3
    assert [office.kinds(ref) for ref in rest] == [
        ["recorded", "claimed", "attempt_began", "deferred"]
    ] * 3
    assert [world.called(f"robin-{n}") for n in range(3)] == [0] * 3


def test_what_waits_for_half_its_lease_behind_attempts_that_last_is_handed_back(
    office, world, door
):
    """Nobody has called it, and others may have time: it never comes to be in doubt."""
    hang(world, door, "pay")
    running = office.call(None, "pay", {"to": "dana"}).ref
    rest = [office.call(None, "pay", {"to": f"robin-{n}"}).ref for n in range(3)]
    worker = office.worker_of("w1", pace=Pace(concurrency=1), monotonic=(watch := Watch()))
    claimed = worker._dispatcher.run_once(10)
    worker._crew.take_on(claimed.works, watch() + 30.0)
    door.knocked()
    watch.seconds += 15.0
    worker._crew.look(0.0)
    assert [office.state(ref) for ref in rest] == ["executing"] * 3, "a thread may come in time"

    watch.seconds += 1.0
    worker._crew.look(0.0)

    assert [office.state(ref) for ref in (running, *rest)] == ["executing", *["due"] * 3]
    assert office.kinds(rest[0]) == ["recorded", "claimed", "attempt_began", "deferred"]
    door.open()
    eventually(lambda: worker._crew.look(0.1) >= 0 and not worker._crew.busy, "all have ended")
    worker._crew.leave()
    assert office.state(running) == "succeeded"
    assert [world.called(f"robin-{n}") for n in range(3)] == [0] * 3


def test_a_worker_that_is_told_to_stop_hands_back_what_it_has_not_called(office, world, door):
    """Others need not wait for its lease, and what was begun and not called is no doubt."""
    hang(world, door)
    running = office.call(None, "send_letter", {"to": "dana"}).ref
    refs = [office.call(None, "pay", {"to": f"robin-{n}"}).ref for n in range(2)]
    refs += [office.call(None, "ship", {"to": f"robin-{n}"}).ref for n in range(2)]
    shift = Shift(office, concurrency=1)
    shift.worker._batch = 10
    with shift:
        door.knocked()
        assert [office.state(ref) for ref in refs] == ["executing"] * 2 + ["claimed"] * 2

        shift.tell_to_stop()
        eventually(lambda: {office.state(ref) for ref in refs} == {"due"}, "they are handed back")
        assert office.state(running) == "executing"
        door.open()

    assert office.state(running) == "succeeded"
    assert world.arrived("dana") == 1 and len(world.calls) == 1


def test_a_worker_that_must_stop_at_once_says_what_it_leaves_in_doubt(office, world, door):
    """Nobody has to wait for its lease to know that nobody knows."""
    hang(world, door)
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    with Shift(office, stop_seconds_max=5.0) as shift:
        door.knocked()
        shift.tell_to_stop()
        eventually(lambda: shift.worker._crew._is_stopping, "it stops")
        shift.watch.seconds += 6.0
        shift.join()

        assert (office.state(ref), causes(office, ref)) == ("in_doubt", ["interrupted"])


def test_what_a_stop_leaves_in_doubt_is_written_down_before_it_returns(office, world, door):
    """However many it is: nothing is left to be written beside whoever stops."""
    world.on["send_letter"] = lambda called: door.wait()
    refs = [office.call(None, "send_letter", {"to": f"dana-{n}"}).ref for n in range(BESIDE_MIN)]
    watch = Watch()
    pace = Pace(concurrency=BESIDE_MIN, stop_seconds_max=5.0)
    worker = office.worker_of("w1", pace=pace, monotonic=watch)
    crew = worker._crew
    crew.take_on(worker._dispatcher.run_once(BESIDE_MIN).works, watch() + 30.0)
    door.knocked(BESIDE_MIN)
    with ThreadPoolExecutor(1) as thread:
        stopped = thread.submit(crew.stop)
        eventually(lambda: crew._is_stopping, "it stops")
        watch.seconds += 6.0
        assert stopped.result(SECONDS_MAX) == BESIDE_MIN
    assert (crew.open, crew._clerk) == (0, None)
    crew.leave()
    assert {office.state(ref) for ref in refs} == {"in_doubt"}


@pytest.mark.parametrize("seconds, allowed", [(28.9, True), (29.0, False), (30.0, False)])
def test_an_attempt_is_given_up_before_its_lease_is_over(seconds, allowed, database_url):
    """Checked when the worker starts, by name."""
    rows = [row("send_letter", Remote(upstream=BLIND, attempt_seconds_max=seconds))]
    office = Office(database_url, World(), rows=rows)

    if allowed:
        check_pace(Pace(), office.registry)
        return
    with pytest.raises(InvalidSettings, match="send_letter: attempt_seconds_max is"):
        check_pace(Pace(), office.registry)


@pytest.mark.parametrize(
    "paces",
    [
        {"lease": timedelta(0)},
        {"concurrency": 0},
        {"batch_max": -1},
        {"idle_seconds_max": 0.0},
        {"idle_seconds_max": float("inf")},
        {"idle_seconds_max": float("nan")},
        {"stop_seconds_max": -1.0},
    ],
    ids=str,
)
def test_a_pace_that_makes_no_sense_is_refused_at_start_by_name(paces, office):
    """powertools-python #4759: a zero was read as None."""
    with pytest.raises(InvalidSettings, match=next(iter(paces))):
        office.worker_of("w", **paces)
