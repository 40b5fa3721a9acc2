"""Requests that nobody decides: a worker knows when the next is over, and looks no more often."""

from typing import Any

import pytest

from takeback.dispatch.expirer import BATCH_MAX, Expirer
from tests.dispatch.test_loop import fresh, observer, watch

__all__ = ["fresh", "observer"]  # fixtures

DAY_SECONDS = 24 * 3600


def test_a_worker_sleeps_until_a_request_is_over_and_says_one_statement_meanwhile(
    fresh, office, clock: Any, observer
):
    """DESIGN 11: at most one query in two seconds, with requests waiting too."""
    ref = office.call(None, "grant", {"to": "dana"}).ref
    clock.advance(DAY_SECONDS - 21)

    sleeper = watch(fresh, clock, observer, naps=14)

    assert office.state(ref) == "expired"
    over = next(n for n, nap in enumerate(sleeper.naps) if nap < 1.99)
    assert sum(sleeper.naps[: over + 1]) == pytest.approx(21, abs=3)
    assert sleeper.statements[1 : over + 1] == [1] * over


def test_a_drain_ends_what_is_over_and_does_not_wait_for_what_is_not(office, clock):
    over = office.call(None, "grant", {"to": "dana"}).ref
    clock.advance(DAY_SECONDS)
    waits = office.call(None, "grant", {"to": "robin"}).ref
    naps: list[float] = []

    office.worker_of("w", sleep=naps.append).run(drain=True)

    assert (office.show(over).entry.intent.version, naps) == (2, [])
    assert office.state(waits) == "awaiting_approval"


def test_requests_end_also_under_a_worker_that_always_has_something_to_do(office, world, clock):
    ref = office.call(None, "grant", {"to": "dana"}).ref
    clock.advance(DAY_SECONDS)
    seconds = [0.0]

    def another(called: Any) -> Any:
        seconds[0] += 0.5
        if len(world.calls) < 40:
            office.call(None, "ship", {"to": f"robin-{len(world.calls)}"})
        return world.arrive(called)

    world.on["ship"] = another
    for n in range(3):
        office.call(None, "ship", {"to": f"first-{n}"})
    worker = office.worker_of(
        "w",
        sleep=clock.advance,
        stopping=lambda: office.show(ref).entry.intent.version > 1,
        monotonic=lambda: seconds[0],
        concurrency=1,
    )
    worker.run()

    assert office.kinds(ref) == ["recorded", "approval_expired"] and len(world.calls) < 40


def test_they_are_ended_in_batches(office, clock):
    for n in range(BATCH_MAX + 1):
        office.call(None, "grant", {"to": f"dana-{n}"})
    clock.advance(DAY_SECONDS)
    expirer = Expirer(office.context)
    assert [len(expirer.run_once()) for _ in range(3)] == [BATCH_MAX, 1, 0]
