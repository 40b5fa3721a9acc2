"""An outage pauses a connector: nothing is lost by it, no attempt is spent, and a probe ends it."""

import json
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from takeback.declare import KEYED, Breaker, Connector, Remote, Tool, hours, minutes, seconds
from takeback.dispatch.outcome import Outcome, of_answer
from takeback.dispatch.worker import LOOK_QUICK_SECONDS
from takeback.model.errors import NotDispatched, OutcomeUnknown, Rejected
from takeback.testing import FakePayments
from takeback.testing.payments import Charge, refund_handler
from takeback.testing.provider import ProviderFault
from tests.dispatch.halt import Halt
from tests.dispatch.office import Called, Office, World
from tests.dispatch.post import BREAKER, Post, down, lane, refs, settle
from tests.dispatch.shift import Door, Shift, eventually

UNANSWERED = Outcome(kind="deferred")


def pause(office: Post, name: str = "breaking") -> list[str]:
    """Three attempts in a row are not answered; the refs of what is due after that."""
    posted = office.post(3, to=name)
    settle(office, office.dispatcher(name).run_once(3).works, UNANSWERED)
    return posted


def causes(office: Office, ref: str) -> list[str]:
    """Why its attempts were put off."""
    return [
        json.loads(event.payload)["cause"]
        for event in office.show(ref).events
        if event.kind == "intent.deferred"
    ]


def test_after_so_many_failures_in_a_row_nothing_of_the_connector_begins(post, database_url, clock):
    office = post(breaker=BREAKER)
    pause(office)
    office.post(5, "parcel")
    (note,) = office.post(1, "note")

    clock.advance(9)
    assert refs(office.dispatcher().run_once(20).works) == [note]

    row = lane(database_url)
    assert (row["failures"], row["pause_us"]) == (3, 10_000_000)
    assert row["opened_at"] is not None


def test_an_hour_of_outage_fails_nothing_and_everything_leaves_after_it(post, world, clock):
    """One attempt of one is spent; a parcel may be tried three times, and is not given up."""
    world.on |= {"letter": down, "parcel": down}
    office = post(breaker=BREAKER)
    every = office.post(20) + office.post(20, "parcel")
    for _ in range(60):
        office.drain(clock)
        clock.advance(60)

    assert {office.state(ref) for ref in every} == {"due"}
    called = len(world.calls)
    print(f"{called} attempts within the hour, for {len(every)} intents")
    assert called < 40
    counted = [cause for ref in every for cause in causes(office, ref) if cause != "outage"]
    assert counted == ["not_dispatched"]

    world.on.clear()
    clock.advance(300)
    office.drain(clock)
    assert {office.state(ref) for ref in every} == {"succeeded"}
    assert len(world.effects) == 40


@pytest.mark.parametrize(
    "problem", [OutcomeUnknown("no answer"), TimeoutError()], ids=["said", "timeout"]
)
def test_an_hour_of_timeouts_fails_nothing_and_what_has_attempts_left_arrives_once(
    problem, post, world, clock
):
    """What times out may have arrived: it is called again under its key, or parked at last."""

    def cut(called: Called) -> Any:
        world.arrive(called)
        raise problem

    world.on["pay"] = cut
    office = post(breaker=BREAKER)
    every = office.post(20, "pay")
    for _ in range(60):
        office.drain(clock)
        clock.advance(60)

    assert {office.state(ref) for ref in every} <= {"due", "in_doubt", "parked"}
    assert len(world.calls) < 40, "the breaker keeps them few"
    world.on.clear()
    for _ in range(4):
        clock.advance(300)
        office.drain(clock)

    shown = [office.show(ref).entry.intent for ref in every]
    assert {one.state.value for one in shown} <= {"succeeded", "parked"}
    assert all(one.attempt >= 8 for one in shown if one.state.value == "parked")
    assert len({one.to for one in world.effects}) == len(world.effects)
    assert sum(one.state.value == "succeeded" for one in shown) >= 17


@pytest.mark.parametrize("answers", [True, False], ids=["it can be asked", "it can't be asked"])
@pytest.mark.parametrize("arrives", [True, False], ids=["arrived", "never arrived"])
def test_an_hour_of_timeouts_at_a_provider_that_can_be_asked(arrives, answers, post, world, clock):
    """What it has got is found, and what it never got is sent again; no hour parks it."""

    def cut(called: Called) -> Any:
        if arrives:
            world.arrive(called)
        raise OutcomeUnknown("no answer")

    def silent(called: Called) -> Any:
        raise TimeoutError

    world.on["wire"] = cut
    if not answers:
        world.on["find_wire"] = silent
    office = post(breaker=BREAKER)
    every = office.post(20, "wire")
    for _ in range(60):
        office.drain(clock)
        clock.advance(60)
    called = len(world.calls)
    states = Counter(office.state(ref) for ref in every)
    print(f"{called} attempts within the hour: {states}")
    assert called < 40, "the breaker keeps them few"
    open_ = {"succeeded"} if arrives and answers else {"due", "in_doubt"}
    assert states.keys() <= open_, "nothing has failed, and nobody is asked to look"

    world.on.clear()
    for _ in range(15):
        clock.advance(300)
        office.drain(clock)

    assert Counter(office.state(ref) for ref in every) == {"succeeded": 20}
    assert Counter(one.to for one in world.effects) == {f"wire-{n}": 1 for n in range(20)}


@pytest.mark.parametrize("tool", ["pay", "note"])
def test_what_was_begun_and_never_called_spends_no_attempt(tool, post, world, clock):
    """Eight deploys over a backlog, and then one refused connection."""
    office = post(breaker=None, rate=100.0)
    (ref,) = office.post(1, tool)
    for _ in range(8):
        settle(office, office.dispatcher().run_once(1).works, Outcome(kind="interrupted"))
    assert causes(office, ref) == ["interrupted"] * 8

    settle(office, office.dispatcher().run_once(1).works, UNANSWERED)
    assert (office.state(ref), causes(office, ref)[-1]) == ("due", "not_dispatched")
    clock.advance(600)
    office.drain(clock)
    assert office.state(ref) == "succeeded"


def test_one_alone_in_its_lane_is_not_given_up_however_long_the_outage(post, world, clock):
    """Three attempts are allowed, and three failures pause: the outage is longer than both."""
    world.on["parcel"] = down
    office = post(breaker=Breaker(failures=5))
    (ref,) = office.post(1, "parcel")
    for _ in range(30):
        office.drain(clock)
        clock.advance(600)

    assert office.state(ref) == "due" and len(world.calls) > 3
    assert causes(office, ref)[:3] == ["not_dispatched", "outage", "outage"]
    world.on.clear()
    clock.advance(600)
    office.drain(clock)
    assert office.state(ref) == "succeeded"


def test_while_others_get_through_each_attempt_counts(post, world, clock):
    world.on["parcel"] = down
    office = post(breaker=BREAKER)
    (ref,) = office.post(1, "parcel")
    for number in range(4):
        office.drain(clock)
        office.post(1, to=f"fine-{number}")
        office.drain(clock)
        clock.advance(600)

    assert office.state(ref) == "failed"
    assert [cause for cause in causes(office, ref) if cause != "outage"] == ["not_dispatched"] * 2
    assert office.status(ref).code == "provider_unavailable"


def test_without_a_breaker_and_without_a_row_attempts_are_counted_as_ever(post, world, clock):
    world.on |= {"parcel": down, "note": down}
    for bounds in ({}, {"breaker": None, "rate": 100.0}):
        office = post(**bounds)
        every = [office.post(1, tool, to=f"{tool}{len(bounds)}")[0] for tool in ("parcel", "note")]
        for _ in range(5):
            office.drain(clock)
            clock.advance(600)
        assert [office.state(ref) for ref in every] == ["failed", "failed"]


def test_one_probe_at_a_time_is_let_through_and_an_answer_lets_all_go_on(post, database_url, clock):
    office = post(breaker=BREAKER)
    pause(office)
    clock.advance(10)
    first, second = office.dispatcher("w1"), office.dispatcher("w2")

    probe = first.run_once(10)
    assert (probe.count, second.run_once(10).count, first.run_once(10).count) == (1, 0, 0)
    settle(office, probe.works)

    assert lane(database_url)["opened_at"] is None
    assert second.run_once(10).count == 2


def test_a_probe_without_an_answer_doubles_the_pause(post, database_url, clock):
    office = post(breaker=BREAKER)
    pause(office)
    spans = []
    for _ in range(6):
        clock.advance(lane(database_url)["pause_us"] / 1_000_000)
        settle(office, office.dispatcher().run_once(10).works, UNANSWERED)
        spans.append(lane(database_url)["pause_us"] // 1_000_000)
    assert spans == [20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize("at", ["before in_flight", "before COMMIT"])
def test_of_two_workers_after_a_pause_one_probes(at, post, database_url, world, clock):
    """The one is held in the middle of its claim."""
    other = post(breaker=BREAKER)
    pause(other)
    clock.advance(10)
    with (
        psycopg.connect(database_url, autocommit=True) as observer,
        ThreadPoolExecutor(1) as thread,
    ):
        halt = Halt(observer, at=at)
        with halt.watching(Post(database_url, world, breaker=BREAKER)) as office:
            held = thread.submit(office.dispatcher("w1").run_once, 10)
            halt.wait()
            beside = other.dispatcher("w2").run_once(10).count
            halt.go()
            counts = sorted([held.result().count, beside])
    assert counts == [0, 1]
    assert other.dispatcher("w3").run_once(10).count == 0


def test_a_probe_that_was_handed_back_makes_way_for_the_next(post, clock):
    office = post(breaker=BREAKER)
    pause(office)
    clock.advance(10)
    settle(office, office.dispatcher().run_once(1).works, Outcome(kind="interrupted"))
    assert office.dispatcher("w2").run_once(10).count == 1


def test_a_probe_whose_worker_dies_is_followed_by_another(post, clock):
    office = post(breaker=BREAKER)
    pause(office)
    clock.advance(10)
    assert office.dispatcher("dead").run_once(1).count == 1
    clock.advance(31)
    assert office.dispatcher("w2").run_once(10).count == 0
    clock.advance(30)
    assert office.dispatcher("w2").run_once(10).count == 1


@pytest.mark.parametrize(
    ("problem", "pauses"),
    [
        (NotDispatched("refused"), True),
        (OutcomeUnknown("no answer"), True),
        (TimeoutError(), True),
        (Rejected("no such address"), False),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_not_answered_pauses_and_a_refusal_is_an_answer(
    problem, pauses, post, database_url, world, clock
):
    """What is in doubt stays in doubt: to the breaker it is a failure, and proves nothing."""

    def perform(called: Called) -> Any:
        raise problem

    world.on["letter"] = perform
    office = post(breaker=BREAKER)
    every = office.post(6)
    office.worker_of("w", sleep=clock.advance, concurrency=1).run(drain=True)

    assert (lane(database_url)["opened_at"] is not None) is pauses
    states = sorted({office.state(ref) for ref in every})
    expected = {"Rejected": ["failed"], "NotDispatched": ["due"]}
    assert states == expected.get(type(problem).__name__, ["due", "in_doubt"])


def test_one_answer_in_between_begins_the_row_of_failures_anew(post, database_url):
    office = post(breaker=BREAKER)
    office.post(6)
    first = office.dispatcher()
    settle(office, first.run_once(2).works, UNANSWERED)
    settle(office, first.run_once(1).works)
    assert lane(database_url)["failures"] == 0
    settle(office, first.run_once(2).works, UNANSWERED)
    assert (lane(database_url)["failures"], lane(database_url)["opened_at"]) == (2, None)


@pytest.mark.parametrize(
    ("failing", "failures"), [((3, 30, 60, 90, 95), 0), ((3, 98, 99), 2), ((97, 98, 99), 3)]
)
def test_failures_are_in_a_row_only_where_no_answer_lies_between(
    failing, failures, post, database_url
):
    """All of them were claimed at once, while nobody had heard of a failure."""
    office = post(breaker=BREAKER)
    office.post(100)
    works = office.dispatcher(batch_max=100).run_once(100).works
    ends = [UNANSWERED if n in failing else of_answer("done") for n in range(100)]
    settle(office, works, *ends)
    row = lane(database_url)
    assert (row["failures"], row["opened_at"] is None) == (failures, failures < 3)


def test_an_answer_ends_a_row_that_has_begun_after_its_claim(post, database_url):
    office = post(breaker=BREAKER)
    office.post(3)
    early = office.dispatcher("w1").run_once(1).works
    settle(office, office.dispatcher("w2").run_once(2).works, UNANSWERED)
    assert lane(database_url)["failures"] == 2
    settle(office, early)
    assert lane(database_url)["failures"] == 0


@pytest.mark.parametrize("late", [TimeoutError(), NotDispatched("refused")], ids=repr)
def test_an_attempt_that_hangs_is_one_failure_whatever_comes_of_it(late, post, world, database_url):
    door = Door()

    def hang(called: Called) -> Any:
        door.wait()
        raise late

    world.on["letter"] = hang
    office = post(breaker=BREAKER)
    (ref,) = office.post(1)
    with Shift(office) as shift:
        door.knocked()
        shift.watch.seconds += 60
        eventually(lambda: lane(database_url)["failures"] == 1, "it is given up and told")
        door.open()
        crew = shift.worker._crew
        eventually(lambda: not crew._late and not crew._done, "its end has been seen")
    assert office.state(ref) in ("in_doubt", "failed")
    assert lane(database_url)["failures"] == 1


def test_while_all_is_well_an_answer_writes_nothing(post, database_url):
    office = post(breaker=BREAKER)
    office.post(3)
    claims = office.dispatcher()
    works = claims.run_once(3).works
    with psycopg.connect(database_url) as other:
        other.execute("SELECT FROM takeback.connectors FOR UPDATE")
        settle(office, works)
    assert lane(database_url)["failures"] == 0


def test_who_can_not_tell_the_breaker_has_settled_all_the_same(post, database_url, caplog):
    """Somebody holds the connector's row for longer than anybody waits."""
    office = post(breaker=BREAKER)
    posted = office.post(1)
    works = office.dispatcher().run_once(1).works
    with psycopg.connect(database_url) as other:
        other.execute("SELECT FROM takeback.connectors FOR UPDATE")
        settle(office, works, UNANSWERED)
    assert office.state(posted[0]) == "due"
    assert "breaker_not_told" in caplog.text
    assert lane(database_url)["failures"] == 0


def test_a_freeze_stops_a_probe_and_the_pause_is_no_thaw(post, clock):
    office = post(breaker=BREAKER)
    pause(office)
    office.freeze(reason="a look", principal="dana", everything=True)
    clock.advance(600)
    assert office.dispatcher().run_once(10).count == 0
    office.thaw(reason="on", principal="dana", everything=True)
    clock.advance(600)
    assert office.dispatcher().run_once(10).count == 1


class Naps:
    """Sleeps by moving the clock; after so long the provider is back."""

    def __init__(self, clock: Any, world: World, *, back_after: float) -> None:
        self.seconds: list[float] = []
        self._clock, self._world, self._back_after = clock, world, back_after

    def __call__(self, seconds_: float) -> None:
        self.seconds.append(seconds_)
        self._clock.advance(seconds_)
        if sum(self.seconds) >= self._back_after:
            self._world.on.clear()


def test_in_an_outage_a_worker_neither_spins_nor_oversleeps(post, database_url, world, clock):
    world.on["letter"] = down
    office = post(breaker=BREAKER)
    office.post(3)
    naps = Naps(clock, world, back_after=20)
    office.worker_of("w", sleep=naps, stopping=lambda: len(world.effects) == 3).run()

    slept = sum(naps.seconds)
    quick = [one for one in naps.seconds if one <= LOOK_QUICK_SECONDS]
    print(f"{len(naps.seconds)} naps of {slept:.1f} s in all, {len(quick)} of them quick")
    # After each probe it looks often for a moment, as after any work.
    assert 20 <= slept < 40 and len(naps.seconds) - len(quick) < 80
    assert sum(quick) < slept / 10


def test_a_drain_ends_in_an_outage_and_leaves_what_is_paused_as_it_is(post, world, clock):
    world.on["letter"] = down
    office = post(breaker=BREAKER)
    every = office.post(10)
    assert office.drain(clock) <= 10
    assert {office.state(ref) for ref in every} == {"due"}


class Refund(BaseModel):
    """What the fake provider wants to know."""

    charge_id: str
    amount: int
    currency: str


REFUND = Tool(
    "refund",
    Refund,
    description="Refunds.",
    effect=Remote(upstream=KEYED(ttl=hours(24)), connector="payments", attempts_max=2),
    key=("charge_id", "amount", "currency"),
)


@pytest.fixture
def payments(tmp_path: Path) -> FakePayments:
    charges = [Charge(id=f"ch_{n}", amount=100, currency="EUR") for n in range(10)]
    return FakePayments(tmp_path, charges=charges)


def test_the_shipped_provider_is_down_for_a_while_and_each_refund_is_made_once(
    payments: FakePayments, database_url, clock
):
    office = _paying(database_url, payments, clock.advance)
    every = [
        office.call(None, "refund", {"charge_id": f"ch_{n}", "amount": 100, "currency": "EUR"}).ref
        for n in range(10)
    ]
    payments.inject(ProviderFault.DOWN, times=12)
    for _ in range(30):
        office.worker_of("w", sleep=clock.advance).run(drain=True)
        clock.advance(60)

    assert {office.state(ref) for ref in every} == {"succeeded"}
    assert len(payments.refunds) == 10 == len(payments.requests)
    office.close()


def _paying(url: str, payments: FakePayments, pause_: Callable[[float], None]) -> Office:
    breaker = Breaker(failures=3, pause=seconds(10), pause_max=minutes(2))
    return Office(
        url,
        World(),
        rows=[REFUND],
        connectors=(Connector("payments", breaker=breaker),),
        handlers={"refund": refund_handler(payments)},
        pause=pause_,
    )
