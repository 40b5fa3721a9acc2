"""What the processes of a broker tell of themselves: each at a port of its own, under one list."""

import pytest

from takeback.meter import Count, Meter
from takeback_workers.broker import open_broker
from takeback_workers.shift import pass_on
from tests.fetch import Fetched, fetch, free_ports
from tests.workers.server import eventually, free_port
from tests.workers.test_actors import poisons
from tests.workers.yard import TICKER, Yard

pytestmark = pytest.mark.slow


def sum_of(every: list[Fetched], name: str, **labels: str) -> float:
    return sum(one.value(name, **labels) or 0 for one in every)


def test_each_process_of_dramatiq_and_the_ticker_tell_what_they_do(yard: Yard):
    """Three processes, three ports; what two actors have counted is what has left."""
    first = free_ports(3)
    actors = yard.actors(processes=2, TAKEBACK_METRICS=str(first))
    actors.says("metrics_served", 2)
    ticker = yard.run([*TICKER, "--metrics", str(first + 2)])
    ticker.says("ticker_started")
    refs = [*yard.calls("send", 20), *yard.calls("urgent", 3)]
    yard.all_are(refs)

    def told() -> list[Fetched]:
        return [fetch(first), fetch(first + 1)]

    eventually(
        lambda: sum_of(told(), "takeback_wake_ups_received_total", priority="default") >= 20,
        "every wake-up is handled",
    )
    both = told()
    outcome = {"connector": "", "outcome": "succeeded"}
    assert sum_of(both, "takeback_attempts_total", tool="send", **outcome) == 20
    assert sum_of(both, "takeback_attempts_total", tool="urgent", **outcome) == 3
    assert sum_of(both, "takeback_claims_total") == 23
    assert sum_of(both, "takeback_attempt_lateness_seconds_count", tool="send") == 20
    assert [one.value("takeback_ledger_up") for one in both] == [1, 1]
    assert all((one.value("takeback_last_success_age_seconds") or 0) < 20 for one in both)
    sent = fetch(first + 2)
    assert (sent.value("takeback_wake_ups_sent_total", priority="default") or 0) >= 20
    assert (sent.value("takeback_wake_ups_sent_total", priority="high") or 0) >= 3
    assert sent.value("takeback_info", process="ticker", version="0.1.0") == 1
    assert both[0].value("takeback_info", process="actors", version="0.1.0") == 1


def test_what_is_dropped_is_counted_as_poisoned(yard: Yard):
    port = free_ports(1)
    every = list(poisons(yard))
    yard.actors(TAKEBACK_METRICS=str(port))
    for one in every:
        yard.server.put(yard.queue(), one)
    ref = yard.call("send", "dana")
    yard.wake([ref])
    yard.all_are([ref])

    def poisoned() -> float:
        return fetch(port).value("takeback_wake_ups_poisoned_total", priority="default") or 0

    # The last one is whole, and its intent is nobody's; on Redis it says not where it is kept.
    strangers = len(every) - (yard.server.name == "rabbitmq")
    eventually(lambda: poisoned() >= strangers, f"{strangers} are counted: {poisoned()}", 30)
    assert poisoned() == strangers


def test_an_attempt_in_an_actor_is_in_flight_while_it_lasts(yard: Yard):
    port = free_ports(1)
    yard.gate.touch()
    waits = yard.call("freight", "dana", how="at_the_gate")
    yard.wake([waits])
    yard.actors(threads=1, TAKEBACK_METRICS=str(port))
    yard.has_left(waits)
    assert fetch(port).value("takeback_attempts_in_flight") == 1
    yard.gate.unlink()
    yard.all_are([waits])
    eventually(lambda: fetch(port).value("takeback_attempts_in_flight") == 0, "it has ended", 20)


def test_a_wake_up_that_is_put_back_for_others_is_counted_and_one_that_is_lost_is_not(yard: Yard):
    ref = yard.call("send", "dana")
    meter = Meter(yard.app.context.monotonic)
    broker = open_broker(yard.server.url)
    pass_on(broker, yard.message(ref), meter)
    scheme = yard.server.url.partition("://")[0]
    nobody = open_broker(f"{scheme}://127.0.0.1:{free_port()}/0")
    pass_on(nobody, yard.message(ref), meter)
    assert meter.read().counts[Count.WAKE_UPS_PASSED_ON] == {("default",): 1}
    broker.close()
