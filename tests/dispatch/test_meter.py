"""What a worker counts of its own work is what it has written, and of what nobody else can tell."""

import threading
from typing import Any

import psycopg
import pytest

from takeback.declare import Breaker, seconds
from takeback.dispatch.outcome import Outcome
from takeback.dispatch.reaper import Reaper
from takeback.dispatch.renewer import Renewer, Running
from takeback.dispatch.responder import Responder
from takeback.dispatch.work import Work, identity
from takeback.meter import BOUNDS_SECONDS, EXPECTED_MAX, Count, Meter, Span
from takeback.model.errors import NotDispatched, OutcomeUnknown, Rejected
from tests.dispatch.office import Called, Office, World
from tests.dispatch.post import Post, refs, settle
from tests.dispatch.shift import SECONDS_MAX, Watch


@pytest.fixture
def meter(office: Office) -> Meter:
    return office.metered()


def attempts(meter: Meter) -> dict[tuple[str, ...], int]:
    return dict(meter.read().counts[Count.ATTEMPTS])


def raising(problem: Exception) -> Any:
    def answer(called: Called) -> Any:
        raise problem

    return answer


def test_of_each_attempt_it_counts_what_was_written_down_of_it(
    office: Office, meter: Meter, world: World, clock: Any
):
    world.on |= {
        "send_letter": raising(Rejected("no such street")),
        "wire": raising(OutcomeUnknown("no answer")),
        "ship": raising(NotDispatched("refused")),
    }
    for tool in ("pay", "send_letter", "wire", "ship"):
        office.call(None, tool, {"to": "dana"})
    worker = office.worker_of("w", stopping=lambda: bool(world.calls))
    worker.run()
    found = attempts(meter)
    assert found["pay", "", "succeeded"] == 1
    assert found["send_letter", "", "failed"] == 1
    assert found["wire", "", "in_doubt"] == 1
    assert found["ship", "", "deferred"] == 1
    assert meter.read().counts[Count.CLAIMS] == {(): 4}
    assert meter.read().seconds_since_succeeded is not None


def test_what_was_claimed_and_is_handed_back_is_no_attempt_that_failed(
    office: Office, meter: Meter
):
    office.call(None, "send_letter", {"to": "dana"})
    (work,) = office.worker_of("w")._dispatcher.run_once(1).works
    crew = office.worker_of("w")._crew
    crew._is_stopping = True
    crew.take_on([work], 30.0)
    crew.stop()
    crew.leave()
    assert attempts(meter) == {("send_letter", "", "handed_back"): 1}


def test_an_answer_that_comes_late_is_counted_as_one(office: Office, meter: Meter, clock: Any):
    office.call(None, "pay", {"to": "dana"})
    (work,) = office.worker_of("w")._dispatcher.run_once(1).works
    clock.advance(31)
    assert len(Reaper(office.context).run_once()) == 1
    settle(office, [work])
    assert attempts(meter) == {("pay", "", "answered_late"): 1}


def test_a_local_call_that_a_person_has_approved_is_counted_like_a_remote_one(
    office: Office, meter: Meter
):
    ref = office.call(None, "open_case", {"to": "dana"}, principal="agent:a").ref
    office.approve(None, ref or "", principal="robin")
    office.worker_of("w").run(drain=True)
    assert attempts(meter) == {("open_case", "", "succeeded"): 1}
    assert meter.read().spreads[Span.LATENESS]["open_case",].within()[-1] == 1


def test_lateness_counts_from_the_due_instant_and_includes_the_wait_for_a_thread(
    office: Office, meter: Meter, clock: Any
):
    """By the database's clock up to the claim, and by the worker's own from there."""
    office.call(None, "pay", {"to": "dana"})
    clock.advance(20)
    watch = Watch()
    worker = office.worker_of("w", monotonic=watch)
    claimed = worker._dispatcher.run_once(1)
    (lateness,) = claimed.lateness.values()
    assert 20 <= lateness < 25
    meter.claim(claimed.lateness, count=1, at=office.context.monotonic() - 30)
    settle(office, claimed.works)
    spread = meter.read().spreads[Span.LATENESS]["pay",]
    assert 50 <= spread.seconds < 60
    assert spread.counts[BOUNDS_SECONDS.index(60.0)] == 1


def test_claims_that_are_never_called_are_forgotten(office: Office):
    meter = office.metered()
    with psycopg.connect(office.context.database.url) as tx:
        ids = tx.execute(
            "SELECT gen_random_uuid() FROM generate_series(1, %s)", [EXPECTED_MAX]
        ).fetchall()
    for _ in range(2):
        meter.claim({("default", one): 1.0 for (one,) in ids}, count=len(ids), at=0.0)
    meter.claim({("other", ids[0][0]): 1.0}, count=1, at=0.0)
    assert len(meter._due_at) == 1


def test_a_lease_that_another_has_taken_over_is_counted_as_lost(
    office: Office, meter: Meter, clock: Any
):
    office.call(None, "haul", {"to": "dana"})
    (work,) = office.worker_of("w")._dispatcher.run_once(1).works
    begun = office.worker_of("w")._crew._executor.begin(work, office.context.monotonic() + 30)
    clock.advance(31)
    office.worker_of("other")._sweep.run_once()
    watch = Watch()
    renewer = Renewer(office.context, office.pace, monotonic=watch)
    assert isinstance(begun, Work)
    renewer.hold(Running(work=begun, began_at=0.0, lease_ends_at=30.0))
    watch.seconds = 15.0
    assert renewer.run_once() == 0
    counts = meter.read().counts
    assert counts[Count.LEASES_LOST] == {(): 1}
    assert counts[Count.LEASES_TAKEN_OVER] == {(): 1}


def test_a_connector_that_is_paused_is_counted_by_its_name(post: Any):
    office: Post = post(breaker=Breaker(failures=2, pause=seconds(10)))
    meter = office.metered()
    office.post(2)
    works = office.dispatcher().run_once(2).works
    assert len(refs(works)) == 2
    settle(office, works, Outcome(kind="deferred"))
    assert meter.read().counts[Count.CONNECTOR_PAUSES] == {("post",): 1}
    assert attempts(meter) == {("letter", "post", "deferred"): 2}


def test_who_is_woken_counts_as_a_worker_does_and_says_how_it_is(
    office: Office, meter: Meter, world: World
):
    responder = Responder(office.context, office.pace, name="r", monotonic=office.context.monotonic)
    ref = office.call(None, "ship", {"to": "dana"}).ref or ""
    thread = threading.Thread(target=responder.run)
    thread.start()
    assert responder.carry_out(identity(office.show(ref).entry.intent))
    responder.stop()
    thread.join(SECONDS_MAX)
    assert attempts(meter) == {("ship", "", "succeeded"): 1}
    assert meter.read().counts[Count.CLAIMS] == {(): 1}
    assert meter.read().spreads[Span.DURATION]["ship",].within()[-1] == 1
    pulse = responder.pulse()
    assert pulse.turns > 0 and pulse.performed == 1 and pulse.busy == 0


def test_an_office_that_nobody_watches_has_no_meter(office: Office):
    assert office.context.meter is None
    office.call(None, "pay", {"to": "dana"})
    office.worker_of("w").run(drain=True)
