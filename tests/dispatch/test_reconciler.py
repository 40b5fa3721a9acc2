"""How doubts end: found out, repeated under the provider's key, or left to a person."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from takeback.declare import BLIND, KEYED, LOOKUP, Remote, hours
from takeback.dispatch.doubt import DOUBT_SECONDS_MAX
from takeback.dispatch.executor import Ended
from takeback.dispatch.outcome import Outcome, not_reached, of_answer
from takeback.dispatch.pace import Pace
from takeback.dispatch.reaper import Reaper
from takeback.dispatch.reconciler import Reconciler
from takeback.dispatch.settler import Settler
from takeback.dispatch.work import Work
from takeback.model import command as commands
from takeback.model.errors import InvalidSettings, NotDispatched, OutcomeUnknown, Rejected
from takeback.model.handler import Absent, Affected, Performed
from takeback.testing.crash import Died, Fault, Stage
from tests.dispatch.halt import Halt
from tests.dispatch.office import Office, World, row
from tests.dispatch.shift import Door, Shift, Watch, eventually
from tests.dispatch.step import step
from tests.dispatch.test_fencing import begin

RECONCILE_SECONDS = 31.5
"""When the default has come, and a moment more: the database's clock goes on meanwhile."""

SENDS_WITHOUT_KEY = ("send_letter", "wire")


def reconciler(office: Office, **more: Any) -> Reconciler:
    return Reconciler(office.context, Pace(), **({"monotonic": Watch()} | more))


def reconcile(office: Office) -> list[str]:
    """What the doubts that end now have become."""
    return [intent.state.value for intent in reconciler(office).run_once()]


def drain(office: Office, clock: Any) -> None:
    office.worker_of("w", sleep=clock.advance).run(drain=True)


def lost(world: World, *, arrived: bool) -> Any:
    """A provider whose answer never comes; the call itself may have."""

    def handler(called: Any) -> Any:
        if arrived:
            world.arrive(called)
        raise OutcomeUnknown("the connection was cut")

    return handler


def in_doubt(office: Office, world: World, clock: Any, tool: str, *, arrived: bool) -> str:
    """An intent whose only attempt ended without an answer, which may be asked about now."""
    world.on[tool] = lost(world, arrived=arrived)
    ref = office.call(None, tool, {"to": "dana"}).ref
    assert ref is not None
    drain(office, clock)
    del world.on[tool]
    assert office.state(ref) == "in_doubt"
    clock.advance(RECONCILE_SECONDS)
    return ref


def causes(office: Office, ref: str) -> list[Any]:
    """Why it was queued again, or parked, each time."""
    return [
        stored.fact().event.cause  # type: ignore[attr-defined]
        for stored in office.show(ref).events
        if stored.kind in ("intent.requeued", "intent.parked")
    ]


@pytest.mark.parametrize("tool", ["wire", "charge"])
def test_what_the_provider_has_carried_out_has_succeeded(tool, office, world, clock):
    ref = in_doubt(office, world, clock, tool, arrived=True)

    assert reconcile(office) == ["succeeded"]

    last = office.show(ref).events[-1].fact().event
    assert (last.source, world.called("dana"), world.arrived("dana")) == ("find", 1, 1)
    assert office.show(ref).entry.bodies["result"]["result"] == {"number": 1}
    assert office.call(None, tool, {"to": "dana"}).status == "done"


@pytest.mark.parametrize("tool", ["wire", "charge"])
def test_what_never_arrived_is_sent_again(tool, office, world, clock):
    ref = in_doubt(office, world, clock, tool, arrived=False)

    drain(office, clock)

    assert (office.state(ref), causes(office, ref)) == ("succeeded", ["absent"])
    assert (world.called("dana"), world.arrived("dana")) == (2, 1)
    keys = {one.key for one in world.calls}
    assert len(keys) == 1, "what is still under way to the provider does no harm under one key"


@pytest.mark.parametrize("arrived", [True, False])
def test_what_goes_to_a_provider_that_keeps_our_key_is_repeated_under_it(
    arrived, office, world, clock
):
    """Whether it had arrived or not: there is one effect, and the answer is its own."""
    ref = in_doubt(office, world, clock, "pay", arrived=arrived)

    drain(office, clock)

    assert (office.state(ref), causes(office, ref)) == ("succeeded", ["provider_key"])
    assert (world.called("dana"), world.arrived("dana")) == (2, 1)
    assert len({one.key for one in world.calls}) == 1


def test_what_nobody_can_be_asked_about_is_parked_and_not_repeated(office, world, clock):
    """orbit #407, prosper202 #147: a stale claim repeated a committed write."""
    ref = in_doubt(office, world, clock, "send_letter", arrived=True)

    assert reconcile(office) == ["parked"]
    drain(office, clock)

    assert causes(office, ref) == ["outcome_unknown"]
    assert (world.called("dana"), office.status(ref).status) == (1, "in_doubt")


def test_nothing_is_asked_before_its_time(office, world, clock):
    """Whoever made the attempt has given it up by then: attempt timeout < lease < reconcile."""
    world.on["wire"] = lost(world, arrived=False)
    ref = office.call(None, "wire", {"to": "dana"}).ref
    drain(office, clock)

    assert reconcile(office) == [] and reconcile(office) == []
    clock.advance(29)
    assert reconcile(office) == [] and world.questions == []
    clock.advance(2.5)

    assert reconcile(office) == ["due"] and len(world.questions) == 1
    assert office.state(ref) == "due"


def test_a_reconcile_that_is_no_longer_than_the_lease_is_refused_at_start(office):
    with pytest.raises(InvalidSettings, match=r"reconcile is 30 s.*the lease of 30 s"):
        office.worker_of("w", reconcile=timedelta(seconds=30))
    with pytest.raises(InvalidSettings, match="reconcile"):
        office.worker_of("w", reconcile=timedelta(0))


@pytest.mark.parametrize(
    "answer",
    [
        NotDispatched("refused", retry_after_s=5),
        OutcomeUnknown("cut off"),
        Rejected("no right to ask"),
        ValueError("broken"),
        SystemExit(3),
        None,
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_no_answer_is_no_verdict_and_is_asked_again_ever_later(answer, office, world, clock):
    """Down is never the same as absent: what is raised, whatever it is, says nothing."""
    ref = in_doubt(office, world, clock, "wire", arrived=False)

    def silent(called: Any) -> Any:
        if answer is not None:
            raise answer
        return None

    world.on["find_wire"] = silent
    dispatcher = office.worker_of("w")._dispatcher
    asked_at: list[float] = []
    while office.state(ref) == "in_doubt" and len(asked_at) < 100:
        asked_at.append(clock.ahead)
        reconcile(office)
        assert len(world.questions) == len(asked_at)
        clock.advance((dispatcher.agenda().ask_in or timedelta(0)).total_seconds())

    pauses = [round(then - now) for now, then in itertools.pairwise(asked_at)]
    assert pauses == sorted(pauses) and pauses[0] >= 60 and pauses[-1] == 3600
    assert asked_at[-1] - asked_at[0] >= DOUBT_SECONDS_MAX
    assert (office.state(ref), causes(office, ref)) == ("parked", ["outcome_unknown"])
    assert world.called("dana") == 1


def test_a_key_that_the_provider_has_forgotten_is_not_used(office, world, clock):
    ref = in_doubt(office, world, clock, "pay", arrived=True)
    clock.advance(24 * 3600)

    assert reconcile(office) == ["parked"]

    assert (causes(office, ref), world.called("dana")) == (["key_expired"], 1)


def test_a_repeat_begins_only_while_the_provider_keeps_the_key(office, world, clock):
    """Counted from the first attempt under it, less a margin, however often it was repeated."""
    ref = in_doubt(office, world, clock, "pay", arrived=True)
    first = office.show(ref).entry.intent
    assert reconcile(office) == ["due"]
    once = office.show(ref).entry.intent.begin_before
    world.on["pay"] = lost(world, arrived=True)
    drain(office, clock)
    clock.advance(RECONCILE_SECONDS)

    assert reconcile(office) == ["due"]

    twice = office.show(ref).entry.intent.begin_before
    assert once is not None and once == twice
    assert timedelta(hours=22) < once - first.recorded_at < timedelta(hours=23)


def test_what_is_asked_after_the_key_has_expired_begins_anew_under_another(office, world, clock):
    ref = in_doubt(office, world, clock, "charge", arrived=False)
    clock.advance(24 * 3600)

    drain(office, clock)

    assert (office.state(ref), causes(office, ref)) == ("succeeded", ["absent"])
    assert (world.arrived("dana"), len({one.key for one in world.calls})) == (1, 2)


def test_a_provider_that_keeps_our_key_is_asked_first_and_repeated_when_it_is_silent(
    office, world, clock
):
    ref = in_doubt(office, world, clock, "charge", arrived=True)
    world.on["find_charge"] = lambda called: None

    drain(office, clock)

    assert len(world.questions) == 1 and causes(office, ref) == ["provider_key"]
    assert (office.state(ref), world.arrived("dana")) == ("succeeded", 1)


@pytest.mark.parametrize(
    ("tool", "upstream", "becomes"),
    [("pay", KEYED(ttl=hours(24)), "parked"), ("wire", LOOKUP, "failed")],
    ids=["keyed", "lookup"],
)
def test_attempts_that_end_in_doubt_have_a_budget(
    tool, upstream, becomes, database_url, world, clock
):
    """``attempts_max`` counts them too. What never arrived has failed then, the rest is parked."""
    office = Office(
        database_url,
        world,
        rows=[row(tool, Remote(upstream=upstream, attempts_max=3))],
        pause=clock.advance,
    )
    world.on[tool] = lost(world, arrived=False)
    ref = office.call(None, tool, {"to": "dana"}).ref or ""

    for _ in range(6):
        drain(office, clock)
        clock.advance(600)

    assert (office.state(ref), world.called("dana")) == (becomes, 3)
    assert office.status(ref).code == ("provider_unavailable" if becomes == "failed" else None)
    office.close()


@pytest.mark.parametrize("answer", [0, "", [], {}, False, Performed(affected_count=2)])
def test_whatever_else_a_provider_answers_means_that_it_happened(answer, office, world, clock):
    """powertools-python #4759: a zero was read as None."""
    ref = in_doubt(office, world, clock, "wire", arrived=True)
    world.on["find_wire"] = lambda called: answer

    assert reconcile(office) == ["succeeded"]

    kept = office.show(ref).entry
    if isinstance(answer, Performed):
        assert kept.intent.affected_count == 2
    else:
        stored = kept.bodies["result"]["result"]
        assert stored == answer and type(stored) is type(answer)


def test_what_is_found_has_what_it_affected_as_its_own_answer_would(office, world, clock):
    ref = in_doubt(office, world, clock, "wire", arrived=True)
    world.on["find_wire"] = lambda called: Performed(
        result=7, affected=[Affected(kind="account", id="A-1")], summary="It arrived."
    )
    reconcile(office)

    told = office.status(ref)

    assert told.summary == "It arrived." and told.affected[0]["id"] == "A-1"


async def _asked(called: Any) -> Any:
    return Absent()


def test_an_async_find_is_awaited(office, world, clock):
    ref = in_doubt(office, world, clock, "wire", arrived=False)
    world.on["find_wire"] = _asked

    assert reconcile(office) == ["due"] and office.state(ref) == "due"


def test_of_two_workers_one_asks(office, world, clock):
    """It is held while it is asked about; and who only looks takes nothing."""
    ref = in_doubt(office, world, clock, "wire", arrived=True)
    door = Door()

    def slow(called: Any) -> Any:
        door.wait()
        return world.look_up(called)

    world.on["find_wire"] = slow
    first, second = reconciler(office), reconciler(office)
    assert first.run_once() == []
    door.knocked()

    assert second.run_once() == [] and not second.busy
    door.open()
    eventually(lambda: bool(first.look()), "the first one writes down what it heard")

    assert (office.state(ref), len(world.questions)) == ("succeeded", 1)


def test_a_question_that_hangs_is_given_up_and_asked_again_by_whoever(office, world, clock):
    ref = in_doubt(office, world, clock, "wire", arrived=True)
    door, watch = Door(), Watch()

    def hangs(called: Any) -> Any:
        door.wait()

    world.on["find_wire"] = hangs
    stuck = reconciler(office, monotonic=watch)
    stuck.run_once()
    door.knocked()
    watch.seconds += 22

    assert stuck.look() == [] and not stuck.busy and stuck.abandoned == 1
    del world.on["find_wire"]
    clock.advance(120)

    assert reconcile(office) == ["succeeded"] and office.state(ref) == "succeeded"
    door.open()
    eventually(lambda: stuck.abandoned == 0, "the thread is free")


@pytest.mark.parametrize("upstream", [LOOKUP, KEYED(ttl=hours(24))], ids=["lookup", "keyed"])
def test_an_attempt_that_may_outlast_its_lease_is_not_asked_about_while_it_may_run(
    upstream, database_url, world, clock
):
    """Its lease was lost, its thread runs on: that nothing is there yet proves nothing."""
    tool = "wire" if upstream is LOOKUP else "charge"
    effect = Remote(upstream=upstream, attempt_seconds_max=600, renew_lease=True)
    office = Office(database_url, world, rows=[row(tool, effect)], pause=clock.advance)
    door = Door()

    def slow(called: Any) -> Any:
        if called.number == 1:
            door.wait()
        return world.arrive(called)

    world.on[tool] = slow
    ref = office.call(None, tool, {"to": "dana"}).ref
    with Shift(office) as shift:
        door.knocked()
        clock.advance(31)
        Reaper(office.context).run_once()
        shift.watch.seconds += 11
        shift.worker._crew.renewer.run_once()
        eventually(lambda: shift.worker.abandoned == 1, "it is given up")
        clock.advance(590)
        assert reconcile(office) == [] and world.questions == []
        door.open()
        eventually(lambda: office.state(ref) == "succeeded", "its late answer is heard")

    assert (world.called("dana"), world.arrived("dana")) == (1, 1)
    office.close()


def test_an_attempt_that_can_run_no_longer_is_asked_about_at_last(database_url, world, clock):
    effect = Remote(upstream=LOOKUP, attempt_seconds_max=600, renew_lease=True)
    office = Office(database_url, world, rows=[row("wire", effect)], pause=clock.advance)
    ref = in_doubt(office, world, clock, "wire", arrived=True)
    assert reconcile(office) == []
    clock.advance(601)

    assert (reconcile(office), office.state(ref)) == (["succeeded"], "succeeded")
    office.close()


@pytest.mark.parametrize("at", ["after move_asks", "before call find wire", "before append"])
def test_whoever_dies_while_asking_is_followed_by_another(at, office, world, clock, database_url):
    ref = in_doubt(office, world, clock, "wire", arrived=True)
    with psycopg.connect(database_url, autocommit=True) as observer:
        stage = _Dies(observer, at)
        other = _staged(stage, database_url, world)
        with suppress(Died):
            reconciler(other).run_once()
        assert stage.struck == [at]
    assert office.state(ref) == "in_doubt"

    clock.advance(60)

    assert reconcile(office) == ["succeeded"]
    assert (world.called("dana"), world.arrived("dana")) == (1, 1)


class _Dies(Stage):
    """A process that dies where ``at`` is said."""

    def __init__(self, observer: psycopg.Connection[Any], at: str) -> None:
        super().__init__(observer)
        self._at = at

    def fault_at(self, number: int, name: str) -> Fault | None:
        return Fault.DEATH if name == self._at else None


def _staged(stage: Stage, url: str, world: World) -> Office:
    office = Office(url, world)
    bound = office.registry.tool("wire")
    assert bound.handler.find is not None
    handler = replace(bound.handler, find=stage.face("find wire", bound.handler.find))
    object.__setattr__(bound, "handler", handler)
    stage.watch(*office.context.database.engines)
    return office


def _late(office: Office, work: Work, outcome: Outcome) -> None:
    assert Settler(office.context).settle([Ended(work=work, outcome=outcome)]) == []


def left_behind(office: Office, world: World, clock: Any, tool: str) -> Work:
    """An attempt that has reached the provider, whose worker has slept through its lease."""
    office.call(None, tool, {"to": "dana"})
    work = begin(office)
    world.call_of(work)
    clock.advance(31)
    Reaper(office.context).run_once()
    clock.advance(1.5)
    return work


def test_the_own_answer_that_comes_while_it_is_asked_about_is_the_better_one(office, world, clock):
    work = left_behind(office, world, clock, "wire")
    ref = work.intent.ref

    def answers_late(called: Any) -> Any:
        _late(office, work, of_answer("its own"))
        return Absent()

    world.on["find_wire"] = answers_late

    assert reconcile(office) == []

    assert office.state(ref) == "succeeded" and world.called("dana") == 1
    assert office.show(ref).entry.bodies["result"]["result"] == "its own"


def test_the_own_answer_that_comes_after_it_was_queued_again_is_written_down(office, world, clock):
    """It is repeated all the same, under the same key: one effect."""
    work = left_behind(office, world, clock, "pay")
    assert reconcile(office) == ["due"]

    _late(office, work, of_answer("its own"))
    drain(office, clock)

    kinds = office.kinds(work.intent.ref)
    assert kinds[-5:] == ["requeued", "answered_late", "claimed", "attempt_began", "succeeded"]
    assert (world.called("dana"), world.arrived("dana")) == (2, 1)


def test_the_own_answer_settles_what_was_parked(office, world, clock):
    work = left_behind(office, world, clock, "send_letter")
    assert reconcile(office) == ["parked"]

    _late(office, work, of_answer("its own"))

    assert office.kinds(work.intent.ref)[-3:] == ["parked", "answered_late", "succeeded"]


def test_the_own_answer_that_denies_what_was_found_is_told_and_flips_nothing(office, world, clock):
    work = left_behind(office, world, clock, "wire")
    assert reconcile(office) == ["succeeded"]

    _late(office, work, not_reached("nothing happened"))

    kinds = office.kinds(work.intent.ref)
    assert kinds[-3:] == ["succeeded", "answered_late", "contradicted"]
    assert office.state(work.intent.ref) == "succeeded"


def test_what_was_said_never_to_have_arrived_and_did_is_parked_before_it_is_sent_again(
    office, world, clock
):
    work = left_behind(office, world, clock, "wire")
    world.on["find_wire"] = lambda called: Absent()
    assert reconcile(office) == ["due"]

    _late(office, work, of_answer("it did"))
    drain(office, clock)

    assert causes(office, work.intent.ref) == ["absent", "contradicted"]
    assert (office.state(work.intent.ref), world.called("dana")) == ("parked", 1)


def test_a_settling_that_was_under_way_when_the_lease_ended_stands(
    office, world, clock, database_url
):
    """river #1302: the rescuer overwrote a finished job."""
    office.call(None, "pay", {"to": "dana"})
    work = begin(office)
    world.call_of(work)
    clock.advance(60)
    with psycopg.connect(database_url, autocommit=True) as observer:
        halt = Halt(observer, at="before COMMIT")
        slow = Office(database_url, world)
        with ThreadPoolExecutor(1) as thread, halt.watching(slow):
            settling = thread.submit(_late, slow, work, of_answer("done"))
            halt.wait()
            assert Reaper(office.context).run_once() == [] and reconcile(office) == []
            halt.go()
            settling.result()

    assert Reaper(office.context).run_once() == [] and reconcile(office) == []
    assert office.kinds(work.intent.ref)[-1] == "succeeded" and world.called("dana") == 1


def test_a_compensation_is_repeated_under_its_own_key_and_the_original_follows(
    office, world, clock
):
    ref = office.call(None, "pay", {"to": "dana"}).ref
    drain(office, clock)
    world.on["unpay"] = lost(world, arrived=True)
    restore = office.restore(None, ref or "").ref or ""
    drain(office, clock)
    assert (office.state(restore), office.state(ref)) == ("in_doubt", "in_doubt")
    del world.on["unpay"]
    clock.advance(RECONCILE_SECONDS)

    drain(office, clock)

    assert (office.state(restore), office.state(ref)) == ("succeeded", "restored")
    assert causes(office, restore) == ["provider_key"]
    assert world.arrived("dana", tool="unpay") == 1


def test_a_compensation_that_nobody_can_be_asked_about_is_parked(office, world, clock):
    ref = office.call(None, "ship", {"to": "dana"}).ref
    drain(office, clock)
    world.on["unship"] = lost(world, arrived=True)
    restore = office.restore(None, ref or "").ref or ""
    drain(office, clock)
    clock.advance(RECONCILE_SECONDS)

    drain(office, clock)

    assert (office.state(restore), office.state(ref)) == ("parked", "in_doubt")
    assert world.called("dana", tool="unship") == 1


def test_a_later_attempt_that_is_refused_proves_nothing_about_an_earlier_one(office, world, clock):
    """It may have happened already, and is refused for that: in doubt, and never failed."""
    ref = in_doubt(office, world, clock, "send_letter", arrived=True)
    reconcile(office)
    step(office, ref, commands.Requeue(cause="person", by="dana"))

    def refuses(called: Any) -> Any:
        raise Rejected("it was sent already")

    world.on["send_letter"] = refuses
    drain(office, clock)

    assert office.state(ref) == "in_doubt"


def test_a_killed_workers_payment_is_taken_over_and_carried_out_in_one_drain(office, world, clock):
    """procrastinate #307, pgqueuer #475: nobody configured anything.

    Its lease is over after 30 s, and a second later it is repeated under its key.
    """
    ref = office.call(None, "pay", {"to": "dana"}).ref
    world.call_of(begin(office))

    drain(office, clock)

    assert office.state(ref) == "succeeded" and clock.ahead < 32
    assert (world.called("dana"), world.arrived("dana")) == (2, 1)


def test_a_drain_does_not_wait_for_what_is_asked_later(office, world, clock):
    world.on["pay"] = lost(world, arrived=True)
    ref = office.call(None, "pay", {"to": "dana"}).ref

    drain(office, clock)

    assert office.state(ref) == "in_doubt" and clock.ahead < 1


def test_the_doubts_of_other_releases_tools_are_left_to_them(office, world, clock, database_url):
    ref = in_doubt(office, world, clock, "wire", arrived=True)
    other = Office(database_url, World(), rows=[row("send_letter", Remote(upstream=BLIND))])

    assert reconcile(other) == [] and office.state(ref) == "in_doubt"
    other.close()
