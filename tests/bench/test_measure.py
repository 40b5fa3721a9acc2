"""What is measured really happens: each measurement is run in miniature, and its ledger looked at.

No speed is judged: only that what is counted was done, once, and that nothing is left behind.
"""

import sys
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from takeback.app import Takeback
from takeback.bench import peers
from takeback.bench.backlog import fill, old_snapshot
from takeback.bench.draining import drain, floor_drain, record
from takeback.bench.place import brokers_of, own_database
from takeback.bench.recording import DRIVERS, VARIANTS, WARM_UP, rates
from takeback.bench.repeating import measure
from takeback.bench.starting import starts
from takeback.bench.subject import CATALOG, HANDLERS
from takeback.bench.waking import Watched, idle_statements, latenesses, summed
from takeback.model.errors import InvalidSettings
from takeback.settings import Settings

States = Callable[[], dict[tuple[str, str, int], int]]


def silent(what: str) -> None:
    """Nobody watches."""


def test_repeats_are_one_intent_and_batches_are_carried_out_in_the_end(
    bench_url: str, states: States
):
    ticks: list[str] = []
    found = measure(bench_url, intents=40, rounds=2, tick=ticks.append)
    assert [one.name for one in found] == ["replay", "call_many"]
    assert all(one.per_second > 0 for one in found)
    assert ticks == ["replay", "call many"] * 2
    assert states() == {("noop", "succeeded", 1): 80, ("noop_held", "held", 0): 2}


@pytest.mark.parametrize("processes", [1, 2])
def test_a_drain_carries_out_each_once(bench_url: str, states: States, processes: int):
    assert record(bench_url, "s", "noop", 30) > 0
    assert record(bench_url, "s", "noop_blind", 10) > 0
    assert states() == {("noop", "due", 0): 30, ("noop_blind", "due", 0): 10}
    assert drain(bench_url, processes=processes) > 0
    assert states() == {("noop", "succeeded", 1): 30, ("noop_blind", "succeeded", 1): 10}
    assert drain(bench_url) == 0, "nothing was left"


def test_the_floor_claims_and_settles_every_bare_row(bench_url: str):
    assert floor_drain(bench_url, 250) > 0
    with psycopg.connect(bench_url) as tx:
        jobs = tx.execute("SELECT state, count(*) FROM bench.jobs GROUP BY 1").fetchall()
        events = tx.execute(
            "SELECT kind, count(*) FROM bench.job_events GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert jobs == [("done", 250)] and events == [("claimed", 250), ("done", 250)]


def test_a_crowd_is_there_and_nobody_carries_it_out(bench_url: str, states: States):
    fill(bench_url, settled=7, held=5)
    crowd = {("noop", "succeeded", 1): 7, ("noop", "due", 0): 5}
    assert states() == crowd
    record(bench_url, "s", "noop_blind", 3)
    assert drain(bench_url) > 0
    assert states() == crowd | {("noop_blind", "succeeded", 1): 3}
    with psycopg.connect(bench_url) as tx:
        assert tx.execute(
            "SELECT count(*) FROM takeback.events AS e JOIN takeback.intents AS i"
            " ON (i.tenant, i.id) = (e.tenant, e.intent_id) WHERE i.tool = 'noop'"
        ).fetchone() == (7 * 4 + 5,)


def test_an_old_snapshot_is_held_for_as_long_as_it_says(bench_url: str):
    query = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND state = 'idle in transaction'
    """
    with psycopg.connect(bench_url, autocommit=True) as look:
        with old_snapshot(bench_url):
            assert look.execute(query).fetchone() == (1,)
        assert look.execute(query).fetchone() == (0,)


@pytest.mark.slow
def test_each_variant_of_recording_does_what_it_is_called(bench_url: str, states: States):
    """Every round, the warm-up included: so many business writes, so many calls, so many rows."""
    found = rates(bench_url, clients=2, count=3, rounds=1, tick=silent)
    assert [(one.driver, one.variant) for one in found] == [
        (driver, variant) for driver in DRIVERS for variant in VARIANTS
    ]
    assert [one.statements for one in found] == [1, 2, 2, 2] * len(DRIVERS)
    each = (WARM_UP + 3) * 2 * len(DRIVERS)
    assert states() == {("noop", "due", 0): each, ("noop_held", "held", 0): each}
    with psycopg.connect(bench_url) as tx:
        assert tx.execute("SELECT count(*) FROM bench.job_events").fetchone() == (each,)
        assert tx.execute("SELECT sum(version) FROM bench.tickets").fetchone() == (each * 4,)


@pytest.mark.slow
def test_how_late_things_begin_is_told_of_every_kind_of_arrival(bench_url: str, states: States):
    found = latenesses(bench_url, count=3)
    assert [one.name for one in found] == ["at_once", "spread", "immediate", "after_rest"]
    assert all(0 <= one.p50_ms <= one.p99_ms for one in found)
    assert states() == {("noop", "succeeded", 1): 3 + 3 + 3 + 2}


@pytest.mark.slow
def test_a_worker_that_is_watched_says_when_it_begins_and_ends_with_the_block(bench_url: str):
    with Watched(bench_url) as worker:
        record(bench_url, "s", "noop", 2)
        assert worker.starts(2).keys() == {0, 1}
    assert worker._process.exitcode == 0
    assert idle_statements(bench_url, seconds=4.0) >= 0


def test_lateness_is_summed_up_as_quantiles_in_milliseconds():
    found = summed("x", [n / 1000 for n in range(101)])
    assert (found.name, found.p50_ms, found.p99_ms) == ("x", 50, 99)


@pytest.mark.slow
def test_a_cold_start_and_a_warm_one_both_answer():
    ticks: list[str] = []
    found = starts(rounds=1, tick=ticks.append)
    assert found.cold_seconds > 0 and found.warm_seconds > 0
    assert ticks == ["embedded, cold", "embedded, warm"]


@pytest.mark.parametrize("name", list(peers.PEERS))
def test_a_peer_that_is_here_drains_its_own_jobs_and_leaves_nothing(bench_url: str, name: str):
    if not peers.installed()[name]:
        pytest.skip(f"{name} is not installed (dependency group: peers)")
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    tables = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    with psycopg.connect(bench_url, autocommit=True) as look:
        before = [look.execute(one).fetchall() for one in (schemas, tables)]
        assert peers.drain_peer(bench_url, name, 20) > 0
        assert [look.execute(one).fetchall() for one in (schemas, tables)] == before


def test_a_peer_without_what_it_needs_is_not_here(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    assert peers.installed()["pgqueuer"] is False
    monkeypatch.setitem(sys.modules, "procrastinate", None)
    assert peers.installed()["procrastinate"] is False


def test_measurements_have_a_database_of_their_own_which_is_dropped(
    database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    with own_database() as (url, version):
        with psycopg.connect(url) as tx:
            name = tx.execute("SELECT current_database()").fetchone()
        assert version[:2].isdigit()
    with psycopg.connect(database_url) as tx:
        query = "SELECT count(*) FROM pg_database WHERE datname = %s"
        assert tx.execute(query, name).fetchone() == (0,)


@pytest.mark.parametrize(
    ("setting", "given", "found"),
    [
        ("", [], {"redis": None, "rabbitmq": None}),
        ("rediss://a", [], {"redis": "rediss://a", "rabbitmq": None}),
        ("redis://a", ["amqp://b"], {"redis": None, "rabbitmq": "amqp://b"}),
        ("", ["amqps://b", "redis://a"], {"redis": "redis://a", "rabbitmq": "amqps://b"}),
    ],
)
def test_the_brokers_are_those_that_are_named_else_the_one_that_is_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, setting: str, given: list[str], found: Any
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TAKEBACK_BROKER_URL", setting)
    assert brokers_of(given) == found


def test_what_is_no_broker_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSettings, match="'http://a'; expected redis"):
        brokers_of(["http://a"])


def test_the_tools_that_are_measured_do_nothing(bench_url: str):
    app = Takeback(CATALOG, handlers=HANDLERS, settings=Settings(database_url=bench_url))
    assert {one.name for one in app.catalog.tools} == {"noop", "noop_held", "noop_blind"}
    app.close()
