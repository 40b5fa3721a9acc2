"""Who is woken for an intent carries it out as a worker does, and nobody waits for nothing."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from takeback.declare import BLIND, PER_TENANT, Limit, Remote
from takeback.dispatch.pace import Pace
from takeback.dispatch.responder import (
    LEFT_SECONDS,
    LEFT_SECONDS_MAX,
    LEFT_TIMES_MAX,
    Responder,
)
from takeback.dispatch.work import Identity, identity
from takeback.ledger.limiting import scope_lock
from takeback.model.errors import InvalidSettings
from tests.dispatch.office import Called, Office, World, row
from tests.dispatch.post import Post
from tests.dispatch.shift import SECONDS_MAX, Door, Watch, eventually


class Respond:
    """A responder at work, and callers that wait for it."""

    def __init__(
        self, office: Office, *, monotonic: Callable[[], float] | None = None, **paces: Any
    ) -> None:
        self.office = office
        self.watch = Watch()
        self.responder = Responder(
            office.context, Pace(**paces), name="r1", monotonic=monotonic or self.watch
        )
        self._callers = ThreadPoolExecutor(16)
        self._thread = threading.Thread(target=self.responder.run)

    def start(self) -> None:
        self._thread.start()

    def wake(self, ref: str | None) -> Future[bool]:
        """Somebody was woken for it."""
        return self._callers.submit(self.responder.carry_out, named(self.office, ref))

    def stop(self) -> None:
        self.responder.stop()
        if self._thread.ident is not None:
            self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive()
        self._callers.shutdown()


def keep_behind(door: Door, world: World) -> None:
    """What is shipped waits there before it arrives."""

    def ship(called: Called) -> Any:
        door.wait()
        return world.arrive(called)

    world.on["ship"] = ship


def named(office: Office, ref: str | None) -> Identity:
    return identity(office.show(ref or "").entry.intent)


@pytest.fixture
def respond(office: Office) -> Iterator[Respond]:
    respond = Respond(office)
    respond.start()
    yield respond
    respond.stop()


def test_who_is_woken_for_something_due_returns_when_it_is_settled(respond, office, world):
    refs = [office.call(None, tool, {"to": "dana"}).ref for tool in ("send_letter", "pay", "ship")]
    woken = [respond.wake(ref) for ref in refs]
    assert [one.result(SECONDS_MAX) for one in woken] == [True] * 3
    assert [office.state(ref) for ref in refs] == ["succeeded"] * 3
    assert respond.responder.claimed == 3


def test_an_approved_local_call_is_carried_out_too(respond, office):
    ref = office.call(None, "open_case", {"to": "dana"}, principal="agent:a").ref
    office.approve(None, ref or "", principal="robin")
    assert respond.wake(ref).result(SECONDS_MAX)
    assert office.state(ref) == "succeeded"


def test_who_is_woken_for_nothing_returns_at_once(respond, office, world):
    held = office.call(None, "hold_letter", {"to": "held"}).ref
    assert respond.wake(held).result(SECONDS_MAX)
    assert respond.responder.carry_out(("default", UUID(int=7)))
    assert respond.responder.carry_out(("somebody else", UUID(int=7)))
    assert office.state(held) == "held" and world.calls == []


def test_two_that_are_woken_for_one_wait_for_one_attempt(respond, office, world):
    door = Door()
    keep_behind(door, world)
    ref = office.call(None, "ship", {"to": "dana"}).ref
    first = respond.wake(ref)
    door.knocked()
    second = respond.wake(ref)
    other = office.call(None, "send_letter", {"to": "robin"}).ref
    assert respond.wake(other).result(SECONDS_MAX), "who is busy with one goes on with others"
    assert not first.done() and not second.done()
    door.open()
    assert first.result(SECONDS_MAX) and second.result(SECONDS_MAX)
    assert world.called("dana") == 1


def test_no_more_is_claimed_than_threads_are_free(office, world):
    """What waits in a process of ours would be claimed and not begun, and others could do it."""
    respond = Respond(office, concurrency=2)
    door = Door()
    keep_behind(door, world)
    refs = [office.call(None, "ship", {"to": f"dana-{n}"}).ref for n in range(4)]
    respond.start()
    woken = [respond.wake(ref) for ref in refs]
    door.knocked(2)
    assert sorted(office.state(ref) for ref in refs) == ["due", "due", "executing", "executing"]
    door.open()
    assert all(one.result(SECONDS_MAX) for one in woken)
    respond.stop()
    assert [office.state(ref) for ref in refs] == ["succeeded"] * 4


def test_an_attempt_that_hangs_is_given_up_and_who_waited_for_it_goes_on(respond, office, world):
    door = Door()
    keep_behind(door, world)
    ref = office.call(None, "ship", {"to": "dana"}).ref
    woken = respond.wake(ref)
    door.knocked()
    respond.watch.seconds += 3600
    assert woken.result(SECONDS_MAX)
    assert office.state(ref) == "in_doubt" and respond.responder.abandoned == 1
    door.open()
    eventually(lambda: office.state(ref) == "succeeded", "its late answer is written down")


def test_who_is_told_to_stop_finishes_what_runs_and_says_what_it_has_not_begun(office, world):
    respond = Respond(office, concurrency=1)
    door = Door()
    keep_behind(door, world)
    running, waiting = (office.call(None, "ship", {"to": to}).ref for to in ("a", "b"))
    respond.start()
    first = respond.wake(running)
    door.knocked()
    second = respond.wake(waiting)
    eventually(lambda: len(respond.responder._handed) == 1, "the second is handed over")
    respond.responder.stop()
    door.open()
    assert first.result(SECONDS_MAX) is True
    assert second.result(SECONDS_MAX) is False, "somebody else has to be woken"
    assert not respond.wake(waiting).result(SECONDS_MAX)
    respond.stop()
    assert (office.state(running), office.state(waiting)) == ("succeeded", "due")


def test_while_the_database_is_away_who_was_woken_waits(respond, office, database_url, caplog):
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    wanted = named(office, ref)
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute("ALTER TABLE takeback.intents RENAME TO gone")
        admin.execute(BROKEN)
        woken = ThreadPoolExecutor(1).submit(respond.responder.carry_out, wanted)
        eventually(lambda: "responder_waits" in caplog.text, "it waits")
        assert not woken.done()
        admin.execute("DROP VIEW takeback.intents")
        admin.execute("ALTER TABLE takeback.gone RENAME TO intents")
    assert woken.result(SECONDS_MAX)
    assert office.state(ref) == "succeeded"


BROKEN = """
CREATE VIEW takeback.intents AS SELECT g.* FROM takeback.gone AS g
WHERE pg_terminate_backend(pg_backend_pid())
"""


def test_times_that_contradict_are_refused_at_the_start(office):
    with pytest.raises(InvalidSettings, match="concurrency"):
        Responder(office.context, Pace(concurrency=0), name="r", monotonic=Watch())


def test_what_is_due_and_passed_by_for_a_moment_is_asked_for_again(database_url: str, world: World):
    """Somebody else adds up the sum of its limit: nobody is woken for it a second time."""
    limit = Limit(count=9, scope=PER_TENANT)
    bounded = replace(row("send_letter", Remote(upstream=BLIND)), limits=(limit,))
    office = Office(database_url, world, rows=(bounded,))
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    respond = Respond(office)
    with psycopg.connect(database_url) as other:
        sum_ = scope_lock("default", "tenant")
        other.execute("SELECT pg_advisory_xact_lock(31418, %s)", [sum_])
        respond.start()
        woken = respond.wake(ref)
        kept = respond.responder._handed
        eventually(lambda: any(one.at > 0 for one in kept), "it is passed by, and kept")
        assert office.state(ref) == "due" and not woken.done()
        other.rollback()
    respond.watch.seconds += 0.1
    assert woken.result(SECONDS_MAX)
    assert office.state(ref) == "succeeded"
    respond.stop()
    office.close()


def test_for_what_finds_no_room_somebody_else_is_woken_and_not_for_ever(
    database_url: str, world: World
):
    office = Post(database_url, world, concurrency=1)
    office.post(1, to="in the way")
    assert office.dispatcher("other").run_once(1).count == 1
    (ref,) = office.post(1, "parcel")
    respond = Respond(office)
    kept = respond.responder._handed
    respond.start()

    def tried() -> bool:
        """It is kept for a moment, and that moment passes."""
        woken = respond.wake(ref)
        eventually(lambda: any(one.at > one.handed_at for one in list(kept)), "it is kept")
        respond.watch.seconds += LEFT_SECONDS_MAX + LEFT_SECONDS
        return woken.result(SECONDS_MAX)

    assert [tried() for _ in range(LEFT_TIMES_MAX + 1)] == [False] * LEFT_TIMES_MAX + [True]
    assert office.state(ref) == "due"
    respond.stop()
    office.close()


@pytest.mark.parametrize(("tool", "bounds"), [("letter", {"concurrency": 1}), ("turn", {})])
def test_what_goes_one_at_a_time_does_so_whoever_is_woken_and_in_whatever_order(
    database_url: str, world: World, tool: str, bounds: dict[str, Any]
):
    """A connector with room for one, or an ordering of one addressee."""
    office = Post(database_url, world, **bounds)
    under_way: list[int] = []
    most: list[int] = []

    def count(called: Called) -> Any:
        under_way.append(1)
        most.append(len(under_way))
        threading.Event().wait(0.02)
        under_way.pop()
        return world.arrive(called)

    world.on[tool] = count
    refs = office.post(4, tool, to="dana")
    respond = Respond(office, monotonic=time.monotonic)
    respond.start()
    waiting = list(reversed(refs))
    for _ in range(100):
        for one in [respond.wake(ref) for ref in waiting]:
            one.result(SECONDS_MAX)
        waiting = [ref for ref in waiting if office.state(ref) == "due"]
        if not waiting:
            break
    respond.stop()
    assert [office.state(ref) for ref in refs] == ["succeeded"] * 4
    assert max(most) == 1 and world.called("dana") == 4
    if tool == "turn":
        assert [one.note for one in world.effects] == ["0", "1", "2", "3"]
    office.close()
