"""What `takeback bench` measures of brokers is done by real processes, which end with it."""

from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from takeback.bench.delivery import measure_delivery
from takeback.bench.place import own_database
from takeback.bench.subject import prepare_database
from takeback.bench.woken import drain_woken, latenesses_woken, reachable
from tests.workers.server import Server, free_port


@pytest.mark.slow
def test_no_op_intents_are_drained_by_actors_and_nobody_stays(database_url: str, server: Server):
    assert drain_woken(database_url, server.url, intents=60, threads=4) > 0
    with psycopg.connect(database_url) as tx:
        rows = tx.execute(
            "SELECT state, attempt, count(*) FROM takeback.intents GROUP BY 1, 2"
        ).fetchall()
    assert rows == [("succeeded", 1, 60)]
    assert processes_of(database_url) == 0


@pytest.mark.slow
def test_how_late_actors_begin_is_read_from_the_ledger(database_url: str, server: Server):
    found = latenesses_woken(database_url, server.url, count=3)
    assert [one.name for one in found] == ["at_once", "spread", "immediate"]
    assert all(0 <= one.p50_ms <= one.p99_ms for one in found)
    with psycopg.connect(database_url) as tx:
        rows = tx.execute(
            "SELECT tool, state, attempt, count(*) FROM takeback.intents GROUP BY 1, 2, 3"
        ).fetchall()
    assert rows == [("noop_blind", "succeeded", 1, 9)]
    assert processes_of(database_url) == 0


@pytest.mark.slow
def test_delivery_is_measured_through_a_broker_that_is_there(
    database_url: str, redis_server: Server, monkeypatch: pytest.MonkeyPatch
):
    if redis_server.child is None:
        redis_server.start()
    assert reachable(redis_server.url) is None
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    with own_database() as (url, _):
        prepare_database(url)
        found = measure_delivery(
            url,
            intents=20,
            crowd=5,
            rounds=1,
            tick=lambda what: None,
            brokers={"redis": redis_server.url},
            arrivals=2,
            idle_seconds=0.1,
        )
    assert found.per_second["woken_redis"] > 0 and found.of_floor["woken_redis"] > 0
    assert [one.name for one in found.lateness_woken["redis"]] == ["at_once", "spread", "immediate"]
    assert found.brokers_missing == {}


def processes_of(url: str) -> int:
    """Those of the measurement on this database, by what stands in their environment."""
    found = 0
    of_database = f"TAKEBACK_DATABASE_URL={url}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            held = path.read_bytes().split(b"\0")
            found += {b"TAKEBACK_APP=takeback.bench.noop:app", of_database} <= set(held)
    return found


@pytest.mark.slow
def test_a_measurement_whose_broker_is_not_there_says_so_and_leaves_nobody(database_url: str):
    with pytest.raises(RuntimeError, match="can't be reached"):
        drain_woken(database_url, f"redis://127.0.0.1:{free_port()}/0", intents=1)
