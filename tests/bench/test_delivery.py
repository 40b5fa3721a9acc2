"""Delivery, measured in miniature: what is there is taken, and what is promised is judged."""

from dataclasses import replace

import psycopg
import pytest

from takeback.bench.delivery import (
    FUTURE_MIN,
    IDLE_MAX,
    LATENESS_MAX,
    SHARE_MIN,
    SNAPSHOT_MIN,
    Delivery,
    broken_of,
    measure_delivery,
)
from takeback.bench.peers import installed
from takeback.bench.waking import Lateness
from tests.workers.server import free_port

KEPT = Delivery(
    of_floor={
        "drain": SHARE_MIN[1],
        "drain_two_processes": SHARE_MIN[2],
        "drain_in_a_crowd": SHARE_MIN[1] * FUTURE_MIN,
        "drain_old_snapshot": SHARE_MIN[1] * SNAPSHOT_MIN,
    },
    lateness=[Lateness(name=n, p50_ms=a, p99_ms=b) for n, (a, b) in LATENESS_MAX.items()],
    idle_statements_per_second=IDLE_MAX,
)


def test_what_is_just_kept_is_kept():
    assert broken_of(KEPT) == []


@pytest.mark.parametrize("name", list(KEPT.of_floor))
def test_each_share_that_is_too_small_is_named(name: str):
    less = replace(KEPT, of_floor=KEPT.of_floor | {name: KEPT.of_floor[name] * 0.9})
    assert any(name.removeprefix("drain").replace("_", " ").replace(" in", "").strip() in said
               for said in broken_of(less))  # fmt: skip


@pytest.mark.parametrize("word", ["p50", "p99"])
def test_what_is_too_late_or_too_loud_is_named(word: str):
    slow = {"p50": 0.0, "p99": 0.0, word: 1000.0}
    late = Lateness(name="at_once", p50_ms=slow["p50"], p99_ms=slow["p99"])
    (said,) = broken_of(replace(KEPT, lateness=[late]))
    assert word in said and "1000 ms" in said
    (said,) = broken_of(replace(KEPT, idle_statements_per_second=0.6))
    assert "0.60 statements" in said


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_everything_is_taken_once_a_round_and_what_is_not_there_is_said(bench_url: str):
    ticks: list[str] = []
    away = f"redis://127.0.0.1:{free_port()}/0"
    found = measure_delivery(
        bench_url,
        intents=20,
        crowd=30,
        rounds=1,
        tick=ticks.append,
        brokers={"redis": away, "rabbitmq": None},
        arrivals=2,
        idle_seconds=0.5,
    )
    here = {name for name, is_here in installed().items() if is_here}
    drains = {"drain", "drain_two_processes", "drain_blind", "drain_old_snapshot",
              "drain_in_a_crowd"}  # fmt: skip
    assert found.per_second.keys() == found.of_floor.keys() == drains | here
    assert all(speed > 0 for speed in found.per_second.values())
    assert all(share > 0 for share in found.of_floor.values())
    assert set(found.peers_missing) == installed().keys() - here
    assert found.brokers_missing.keys() == {"redis", "rabbitmq"}
    assert found.brokers_missing["rabbitmq"] == "none is set"
    assert "can't be reached" in found.brokers_missing["redis"]
    assert found.lateness_woken == {} and len(found.lateness) == 4
    document = found.document()
    assert document["brokers_missing"] == found.brokers_missing
    with psycopg.connect(bench_url) as tx:
        rows = tx.execute(
            "SELECT tool || ' ' || state, count(*) FROM takeback.intents GROUP BY 1"
        ).fetchall()
    late = 2 + 2 + 2 + 2
    assert dict(rows) == {
        # drained alone, by two, among dead rows twice, in a crowd; late; and those long settled
        "noop succeeded": 20 + 20 + 40 + 20 + 20 + late + 30,
        "noop_blind succeeded": 4,
        "noop due": 30,
    }
