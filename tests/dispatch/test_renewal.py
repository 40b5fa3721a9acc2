"""Attempts that outlast a lease: renewed while they run, given up where they can't be."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from takeback.declare import BLIND, Remote
from takeback.dispatch.pace import Pace, check_pace
from takeback.dispatch.reaper import Reaper
from takeback.dispatch.renewer import Renewer, Running
from takeback.ledger.database import Database
from takeback.model import command as commands
from takeback.model.errors import InvalidSettings
from takeback.testing.crash import Stage
from tests.dispatch.office import Office, World, row
from tests.dispatch.shift import Door, Shift, before, eventually
from tests.dispatch.step import step

TURN_SECONDS = 11.0
"""More than a third of a lease of 30 s."""


@pytest.fixture
def door(world: World) -> Iterator[Door]:
    """Where whoever hauls to "dana" waits."""
    with before(world, "haul", "pay") as door:
        yield door


def pass_time(clock: Any, *shifts: Shift, seconds: float = TURN_SECONDS) -> None:
    """For the database and for these workers, whose heartbeats come then."""
    clock.advance(seconds)
    for shift in shifts:
        shift.watch.seconds += seconds
        shift.worker._crew.renewer.run_once()


def test_an_attempt_of_three_leases_is_one_run(office, world, clock, door):
    """trinity #2846, aegra #547, oban #1141: a live job was run again when its lease was over."""
    ref = office.call(None, "haul", {"to": "dana"}).ref
    reaper, other = Reaper(office.context), office.worker_of("w2")
    with Shift(office) as shift:
        door.knocked()
        for _ in range(9):
            pass_time(clock, shift)
            assert reaper.run_once() == []
            assert other._dispatcher.run_once(10).count == 0
        door.open()
        eventually(lambda: office.state(ref) == "succeeded", "it is settled")

    assert clock.ahead > 3 * 30
    assert office.kinds(ref) == ["recorded", "claimed", "attempt_began", "succeeded"]
    assert world.called("dana") == 1
    assert (office.verify().problems, office.rebuild().differing) == ((), ())


def test_without_its_heartbeat_another_takes_over_and_the_stale_write_is_fenced_off(
    office, world, clock, door
):
    """trinity #2846, aegra #547: two workers, and both of them wrote. Here the heartbeat of the
    first is blocked, the provider keeps our key, and the second one's word is the last."""
    ref = office.call(None, "pay", {"to": "dana"}).ref
    with Shift(office) as shift:
        door.knocked()
        clock.advance(31)
        assert [i.state.value for i in Reaper(office.context).run_once()] == ["in_doubt"]
        step(office, ref, commands.Requeue(cause="provider_key"))
        (again,) = office.worker_of("w2")._dispatcher.run_once(1).works
        assert again.intent.attempt == 2

        door.open()
        eventually(lambda: office.kinds(ref)[-1] == "answered_late", "the first one has answered")
        assert not shift.worker._crew.open

    assert (office.state(ref), len(world.effects)) == ("executing", 1)


def test_a_lease_that_is_lost_is_noticed_and_nothing_is_written_about_it(
    office, clock, door, caplog
):
    """Another has taken over: the heartbeat finds it out, and the worker has a thread again."""
    ref = office.call(None, "haul", {"to": "dana"}).ref
    with Shift(office, concurrency=1) as shift:
        door.knocked()
        clock.advance(31)
        Reaper(office.context).run_once()
        before = office.kinds(ref)
        shift.watch.seconds += TURN_SECONDS
        shift.worker._crew.renewer.run_once()
        eventually(lambda: shift.worker.abandoned == 1, "it is given up")
        other = office.call(None, "haul", {"to": "robin"}).ref
        eventually(lambda: office.state(other) == "succeeded", "another is carried out")
        assert office.kinds(ref) == before

        door.open()
        eventually(lambda: office.state(ref) == "succeeded", "its late answer is heard")

    assert office.kinds(ref)[-3:] == ["in_doubt", "answered_late", "succeeded"]
    assert any("lease_lost" in record.getMessage() for record in caplog.records)


def test_what_can_not_be_renewed_is_given_up_before_its_lease_is_over(office, clock, door):
    """The database may be away all the while: the worker's own clock says so."""
    ref = office.call(None, "haul", {"to": "dana"}).ref
    with Shift(office) as shift:
        door.knocked()
        shift.watch.seconds += 28.0
        assert office.state(ref) == "executing"
        shift.watch.seconds += 1.5
        eventually(lambda: office.state(ref) == "in_doubt", "it is given up")

    (cause,) = [e.fact().event.cause for e in office.show(ref).events if "in_doubt" in e.kind]
    assert cause == "lease_over"


def test_an_attempt_is_renewed_up_to_its_own_time_and_no_further(database_url, world, clock, door):
    """A handler that hangs is taken over like any other, although its worker lives."""
    rows = [row("haul", Remote(upstream=BLIND, attempt_seconds_max=40, renew_lease=True))]
    office = Office(database_url, world, rows=rows, pause=clock.advance)
    ref = office.call(None, "haul", {"to": "dana"}).ref
    with Shift(office) as shift:
        door.knocked()
        (one,) = shift.worker._crew.renewer._running.values()
        for _ in range(3):
            pass_time(clock, shift)
        renewer = Renewer(office.context, Pace(), monotonic=lambda: one.began_at + 45.0)
        renewer.hold(one)
        assert renewer.run_once() == 0
        pass_time(clock, shift)
        eventually(lambda: office.state(ref) == "in_doubt", "it is given up")
    office.close()


def test_a_row_that_somebody_holds_is_renewed_at_the_next_turn(office, clock, door, database_url):
    ref = office.call(None, "haul", {"to": "dana"}).ref
    with Shift(office) as shift, psycopg.connect(database_url) as caller:
        door.knocked()
        caller.execute("SELECT FROM takeback.intents WHERE ref = %s FOR UPDATE", [ref])
        pass_time(clock, shift)
        assert shift.worker._crew.renewer.run_once() == 0
        caller.rollback()
        assert shift.worker._crew.renewer.run_once() == 1
        door.open()
        eventually(lambda: office.state(ref) == "succeeded", "it is settled")


def test_a_database_that_is_away_stops_no_heartbeat(office, clock, door, caplog, monkeypatch):
    """The next turn tries again."""
    ref = office.call(None, "haul", {"to": "dana"}).ref
    with Shift(office) as shift:
        door.knocked()
        (one,) = shift.worker._crew.renewer._running.values()
        away = Database("postgresql://127.0.0.1:1/nowhere")
        with monkeypatch.context() as patch:
            patch.setattr(office.context.database, "internal", away.internal)
            shift.watch.seconds += TURN_SECONDS
            assert shift.worker._crew.renewer.run_once() == 0
        assert shift.worker._crew.renewer.is_owned(one)
        clock.advance(TURN_SECONDS)
        assert shift.worker._crew.renewer.run_once() == 1
        door.open()
        eventually(lambda: office.state(ref) == "succeeded", "it is settled")

    said = [r.getMessage() for r in caplog.records if "renewal_delayed" in r.getMessage()]
    assert said and all("seconds_left" in line for line in said)


def test_the_heartbeat_beats_by_itself(database_url, world):
    """With nobody's help: a lease that is a second long is renewed again and again."""
    rows = [row("haul", Remote(upstream=BLIND, attempt_seconds_max=600, renew_lease=True))]
    office, door, stop = Office(database_url, world, rows=rows), Door(), threading.Event()

    def haul(called: Any) -> Any:
        door.wait()
        return world.arrive(called)

    world.on["haul"] = haul
    ref = office.call(None, "haul", {"to": "dana"}).ref
    worker = office.worker_of(
        "w1", sleep=stop.wait, stopping=stop.is_set, lease=timedelta(seconds=1)
    )
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        door.knocked()
        with psycopg.connect(database_url, autocommit=True) as look:
            first = lease_until(look, ref)
            eventually(lambda: (lease_until(look, ref) - first).total_seconds() > 3, "it is kept")
        assert office.state(ref) == "executing"
    finally:
        door.open()
        stop.set()
        thread.join(30)
    assert office.state(ref) == "succeeded" and world.called("dana") == 1
    office.close()


def lease_until(look: psycopg.Connection[Any], ref: str | None) -> Any:
    query = "SELECT coalesce(lease_until, now()) FROM takeback.intents WHERE ref = %s"
    (instant,) = look.execute(query, [ref]).fetchone() or (None,)
    return instant


def test_quick_attempts_cost_no_heartbeat(database_url, office, world, clock):
    with psycopg.connect(database_url, autocommit=True) as observer:
        stage = Stage(observer)
        fresh = Office(database_url, world, pause=clock.advance)
        stage.watch(*fresh.context.database.engines)
        for n in range(20):
            office.call(None, "haul", {"to": f"robin-{n}"})
        worker = fresh.worker_of("w1", sleep=clock.advance)
        worker.run(drain=True)
        assert worker._crew.renewer.run_once() == 0
        fresh.close()

    assert world.called("robin-0") == 1
    assert not [name for name in stage.points if "renew" in name]


def test_what_has_ended_is_not_kept(office, clock, world):
    office.call(None, "haul", {"to": "robin"})
    worker = office.worker_of("w1", sleep=clock.advance)
    worker.run(drain=True)
    assert worker._crew.renewer._running == {} == worker._crew.renewer._ends


@pytest.mark.parametrize(
    "renew_lease, allowed", [(True, True), (False, False)], ids=["renewed", "not renewed"]
)
def test_a_row_may_outlast_the_lease_only_when_it_says_so(renew_lease, allowed, database_url):
    effect = Remote(upstream=BLIND, attempt_seconds_max=600, renew_lease=renew_lease)
    office = Office(database_url, World(), rows=[row("haul", effect)])
    if allowed:
        check_pace(Pace(), office.registry)
        return
    with pytest.raises(InvalidSettings, match="unless the row says renew_lease=True"):
        check_pace(Pace(), office.registry)


def test_what_was_begun_with_its_claim_is_called_while_there_is_time_to_renew(
    database_url, world, clock
):
    """An attempt of ten minutes fits into no lease: half of one has to be left, to renew it."""
    effect = Remote(upstream=BLIND, attempt_seconds_max=600, renew_lease=True)
    office = Office(database_url, world, rows=[row("haul", effect)], pause=clock.advance)
    ref = office.call(None, "haul", {"to": "robin"}).ref
    office.worker_of("w1", sleep=clock.advance).run(drain=True)
    assert office.state(ref) == "succeeded"
    office.close()


def test_a_running_attempt_is_known_by_its_number(office, clock):
    """The same intent may be run again by this worker, while the first thread still hangs."""
    ref = office.call(None, "haul", {"to": "dana"}).ref
    (work,) = office.worker_of("w1")._dispatcher.run_once(1).works
    renewer = Renewer(office.context, Pace(), monotonic=lambda: 0.0)
    first, second = (
        Running(
            work=work.with_intent(replace(work.intent, attempt=attempt)),
            began_at=0.0,
            lease_ends_at=30.0,
        )
        for attempt in (1, 2)
    )
    renewer.hold(first)
    renewer.hold(second)
    renewer.let_go(first)
    assert list(renewer._running.values()) == [second]
    assert office.state(ref) == "claimed"
