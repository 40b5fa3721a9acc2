"""Metrics are served where they were said to be, and keep neither a worker nor a fetch waiting."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from takeback.app import Takeback
from takeback.bench.subject import CATALOG, HANDLERS, arguments_of
from takeback.dispatch.pulse import Pulse
from takeback.ledger.backlog import Backlog
from takeback.ledger.health import OPEN, LaneHealth
from takeback.meter import Count, Meter
from takeback.metrics import Exposition, Watched, expose
from takeback.metrics.collector import LOOK_SECONDS
from takeback.metrics.family import FAMILIES, OF_LEDGER, Kind
from takeback.model.errors import DatabaseUnavailable, InvalidSettings
from takeback.model.lane import Lane
from takeback.settings import Settings
from tests.fetch import fetch, free_ports

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECONDS_MAX = 20.0


def lane(name: str, **more: Any) -> LaneHealth:
    return LaneHealth(
        lane=Lane(name=name, tokens=0.0, refilled_at=NOON, **more), in_flight=2, due=3
    )


BACKLOG = Backlog(
    now=NOON,
    due={"pay": 7},
    oldest_due_seconds=12.5,
    stopped={("in_doubt", "pay"): 2, ("parked", "ship"): 1},
    expired_leases=1,
    freezes=0,
    lanes=(
        lane("a"),
        lane("b", failures=4, opened_at=NOON),
        lane("c", opened_at=NOON, probe_until=NOON + timedelta(seconds=1)),
        lane("d", opened_at=NOON, probe_until=NOON),
    ),
)


class Worker:
    """Something that is watched; its seconds pass only where the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.looks = 0
        self.meter = Meter(lambda: self.seconds)
        self.backlog: Callable[[], Backlog] = lambda: BACKLOG

    def look(self) -> Backlog:
        self.looks += 1
        return self.backlog()

    def watched(self) -> Watched:
        return Watched(
            process="worker",
            version="9.9",
            meter=self.meter,
            pulse=lambda: Pulse(
                turns=1,
                seconds_since_success=4.5,
                busy=3,
                open=2,
                abandoned=1,
                performed=0,
                taken_over=0,
            ),
            backlog=self.look,
            monotonic=lambda: self.seconds,
        )


@pytest.fixture
def worker() -> Worker:
    return Worker()


@pytest.fixture
def served(worker: Worker) -> Iterator[Exposition]:
    with expose(str(free_ports(1)), worker.watched()) as served:
        yield served


def test_each_metric_of_the_list_is_told_once_and_no_other(worker: Worker, served: Exposition):
    worker.meter.settle([("pay", "a", "succeeded")])
    worker.meter.end("pay", 0.3)
    for count in Count:
        if count is not Count.ATTEMPTS:
            worker.meter.add(count, *["word"] * (count not in PLAIN))
    found = fetch(served.port)
    ours = {name for name in found.families if name.startswith("takeback_")}
    told = {one.name.removesuffix("_total") if one.kind is Kind.COUNTER else one.name
            for one in FAMILIES}  # fmt: skip
    assert ours == told
    for one in FAMILIES:
        if one.kind is not Kind.HISTOGRAM:
            assert found.labels(one.name) == {frozenset(one.labels)}
    assert found.value("takeback_info", process="worker", version="9.9") == 1
    assert found.value("takeback_attempts_in_flight") == 3
    assert found.value("takeback_outcomes_open") == 2
    assert found.value("takeback_threads_abandoned") == 1
    assert found.value("takeback_last_success_age_seconds") == 4.5
    assert found.value("process_resident_memory_bytes")


PLAIN = (Count.CLAIMS, Count.LEASES_LOST, Count.LEASES_TAKEN_OVER)


def test_what_the_ledger_holds_is_told_beside_it(served: Exposition):
    found = fetch(served.port)
    assert found.value("takeback_ledger_up") == 1
    assert found.value("takeback_intents_due", tool="pay") == 7
    assert found.value("takeback_oldest_due_age_seconds") == 12.5
    assert found.value("takeback_intents_stopped", state="in_doubt", tool="pay") == 2
    assert found.value("takeback_intents_stopped", state="parked", tool="ship") == 1
    states = {
        name: [
            state
            for state in ("closed", "paused", "probing")
            if found.value("takeback_connector_state", connector=name, state=state)
        ]
        for name in "abcd"
    }
    assert states == {"a": ["closed"], "b": ["paused"], "c": ["probing"], "d": ["paused"]}
    assert found.value("takeback_connector_failures", connector="b") == 4
    assert found.value("takeback_connector_in_flight", connector="a") == 2
    assert found.value("takeback_connector_due", connector="a") == 3


def test_spans_are_told_in_buckets_that_grow(worker: Worker, served: Exposition):
    for seconds in (0.02, 0.3, 500.0):
        worker.meter.end("pay", seconds)
    found = fetch(served.port)
    name = "takeback_attempt_duration_seconds"
    within = [
        found.value(f"{name}_bucket", tool="pay", le=le) for le in ("0.01", "0.025", "0.5", "+Inf")
    ]
    assert within == [0, 1, 2, 3]
    assert found.value(f"{name}_count", tool="pay") == 3
    assert found.value(f"{name}_sum", tool="pay") == pytest.approx(500.32)


def test_the_age_of_the_last_success_grows_until_the_next(worker: Worker, served: Exposition):
    name = "takeback_last_succeeded_age_seconds"
    assert fetch(served.port).value(name) is None, "nothing has succeeded yet"
    worker.meter.settle([("pay", "", "succeeded")])
    worker.seconds = 40.0
    worker.meter.settle([("pay", "", "in_doubt")])
    assert fetch(served.port).value(name) == 40
    worker.meter.settle([("pay", "", "succeeded")])
    assert fetch(served.port).value(name) == 0


def test_however_many_fetch_the_ledger_is_looked_at_once_in_a_while(
    worker: Worker, served: Exposition
):
    for _ in range(5):
        fetch(served.port)
    assert worker.looks == 1
    worker.seconds = LOOK_SECONDS
    fetch(served.port)
    assert worker.looks == 2


def test_a_ledger_that_does_not_answer_is_down_and_everything_else_is_told(
    worker: Worker, served: Exposition
):
    """Several fetch while it hangs: it is asked by one of them, and all are answered."""
    hangs = threading.Event()

    def hang() -> Backlog:
        assert hangs.wait(SECONDS_MAX)
        return BACKLOG

    worker.backlog = hang
    fetched: list[Any] = []
    fetchers = [
        threading.Thread(target=lambda: fetched.append(fetch(served.port))) for _ in range(3)
    ]
    for one in fetchers:
        one.start()
    for one in fetchers:
        one.join(SECONDS_MAX)
    assert [one.value("takeback_ledger_up") for one in fetched] == [0, 0, 0]
    assert {one.value("takeback_attempts_in_flight") for one in fetched} == {3}
    assert {one.name for one in OF_LEDGER} & fetched[0].families.keys() == {"takeback_ledger_up"}
    assert worker.looks == 1
    hangs.set()
    worker.backlog = lambda: BACKLOG
    while fetch(served.port).value("takeback_ledger_up") == 0:
        assert worker.looks < 10


def test_a_ledger_that_is_away_is_down_until_it_is_back(worker: Worker, served: Exposition):
    def away() -> Backlog:
        raise DatabaseUnavailable("the database can't be reached, or went away")

    worker.backlog = away
    assert fetch(served.port).value("takeback_ledger_up") == 0
    worker.backlog = lambda: BACKLOG
    assert fetch(served.port).value("takeback_ledger_up") == 1


def test_without_a_host_nobody_but_this_machine_can_fetch(served: Exposition):
    assert served._server.server_address[0] == "127.0.0.1"
    with expose(f"0.0.0.0:{free_ports(1)}", Worker().watched()) as everywhere:
        assert everywhere._server.server_address[0] == "0.0.0.0"


def test_the_newer_kind_of_address_is_served_too(worker: Worker):
    with suppress(InvalidSettings), expose(f"[::1]:{free_ports(1)}", worker.watched()) as served:
        assert fetch(served.port, "[::1]").value("takeback_ledger_up") == 1


def test_a_port_that_is_taken_is_refused_by_name(worker: Worker, served: Exposition):
    with pytest.raises(InvalidSettings, match=rf"'{served.port}': its port is taken.*--metrics"):
        expose(str(served.port), worker.watched())


def test_an_address_of_another_machine_is_refused(worker: Worker):
    with pytest.raises(InvalidSettings, match="can't be served"):
        expose("203.0.113.7:9464", worker.watched())


def test_processes_that_are_started_alike_take_a_port_each(worker: Worker):
    first = free_ports(3)
    with (
        expose(str(first), worker.watched(), ports=2) as one,
        expose(str(first), worker.watched(), ports=2) as two,
    ):
        assert [one.port, two.port] == [first, first + 1]
        with pytest.raises(InvalidSettings, match=f"the ports {first} to {first + 1} are taken"):
            expose(str(first), worker.watched(), ports=2)


def test_who_hangs_up_or_says_nothing_keeps_nobody_from_fetching(
    served: Exposition, capfd: pytest.CaptureFixture[str]
):
    with socket.create_connection(("127.0.0.1", served.port)):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", served.port)) as hasty:
                hasty.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
                hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert fetch(served.port).value("takeback_ledger_up") == 1
    assert "Traceback" not in "".join(capfd.readouterr())


def test_what_is_closed_answers_nobody(worker: Worker):
    with expose(str(free_ports(1)), worker.watched()) as served:
        pass
    with pytest.raises(OSError, match="refused"):
        fetch(served.port)


def test_what_is_in_a_ledger_is_counted_by_tool_and_state(database_url: str):
    settings = Settings(database_url=database_url)
    app = Takeback(CATALOG, handlers=HANDLERS, settings=settings)
    for number in range(6):
        app.call(None, "noop", arguments_of("due", number))
    app.call(None, "noop_held", arguments_of("held", 0))
    assert app.backlog().due == {"noop": 6} and app.backlog().stopped == {}
    states = ["in_doubt", "in_doubt", "parked", "executing", "due", "due"]
    with psycopg.connect(database_url) as tx:
        ids = tx.execute("SELECT id FROM takeback.intents WHERE tool = 'noop'").fetchall()
        for (one,), state in zip(ids, states, strict=True):
            tx.execute(
                "UPDATE takeback.intents SET state = %s::text::takeback.state,"
                " due_at = now() - interval '90 s', lease_until = now() - interval '1 s'"
                " WHERE id = %s",
                [state, one],
            )
    app.freeze(reason="why", principal="dana", tool="noop")
    found = app.backlog()
    assert found.due == {"noop": 2}
    assert 90 <= found.oldest_due_seconds < 120
    assert found.stopped == {("in_doubt", "noop"): 2, ("parked", "noop"): 1}
    assert (found.expired_leases, found.freezes) == (1, 1)
    app.close()


def test_what_waits_for_others_hides_nothing_that_waits_for_a_person(database_url: str):
    """A look counts each kind up to a bound, and no kind uses up that of another."""
    settings = Settings(database_url=database_url)
    app = Takeback(CATALOG, handlers=HANDLERS, settings=settings)
    for number in range(6):
        app.call(None, "noop", arguments_of("due", number))
    app.close()
    with psycopg.connect(database_url) as tx:
        tx.execute("UPDATE takeback.intents SET state = 'waiting'")
        tx.execute(
            "UPDATE takeback.intents SET state = 'parked'"
            " WHERE id = (SELECT id FROM takeback.intents ORDER BY id DESC LIMIT 1)"
        )
        rows = tx.execute(OPEN.sql.encode(), {"counted_max": 3}).fetchall()
    assert {(row[2], row[3]) for row in rows} == {("waiting", 3), ("parked", 1)}
