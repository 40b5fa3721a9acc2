"""``worker`` and ``up`` as processes: told to stop, killed, drained, and started on nothing."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from takeback import embedded
from tests.cli.terminal import Bell, Terminal, call, environment, process, running

LEASE = "2.5"
"""Longer by a second than the bell may ring, as the worker wants it."""

SECONDS_MAX = 10.0
EMBEDDED = (sys.executable, "-m", "takeback_workers.embedded")


def states(terminal: Terminal) -> dict[str, str]:
    return {one["ref"]: one["state"] for one in terminal("list", "--json").document}


def test_a_drain_carries_out_what_is_due_and_ends(kiosk: Terminal):
    due = kiosk.ref(*call("ring", bell="a"))
    held = kiosk.ref(*call("post", to="dana"))
    said = process("worker", "--drain")
    assert said.exit == 0
    at = {one["ref"]: one["due_at"] for one in kiosk("list", "--json").document}[held]
    left = f"left 1 held: the first falls due at {at}\n"
    assert said.out == f"carried out 1, taken over 0\n{left}"
    assert "worker_started" in said.err
    assert states(kiosk) == {due: "succeeded", held: "held"}


def test_a_drain_tells_apart_what_became_of_attempts_and_says_what_is_left(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    """Deferred, failed and in doubt are not carried out; frozen, parked and held are left."""
    for how in ("once", "badly", "later", "never"):
        kiosk.ref(*call("ring", bell=how, how=how))
    kiosk.ref(*call("post", to="dana"))
    kiosk.ref(*call("give", amount=500))
    kiosk.ref(*call("note_down", words="frozen"))
    kiosk("freeze", "--tool", "note_down", "--reason", "x", "--principal", "dana")
    said = kiosk("worker", "--drain", "--json").document
    ends = {name: said[name] for name in ("performed", "failed", "deferred", "in_doubt")}
    assert ends == {"performed": 1, "failed": 1, "deferred": 1, "in_doubt": 1}
    assert {wait: one["count"] for wait, one in said["left"].items()} == {
        "held": 2,
        "frozen": 1,
        "awaiting_approval": 1,
        "in_doubt": 1,
    }
    out = kiosk("worker", "--drain").out
    assert "left 2 held: the first falls due at " in out
    assert "left 1 frozen until a person thaws them: next: `takeback doctor`" in out
    assert "left 1 in doubt: asked about, repeated under the provider's key, or parked" in out


def test_a_drain_counts_for_programs_too_and_logs_elsewhere(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_LOG", "json")
    kiosk.ref(*call("ring", bell="a"))
    said = process("--json", "worker", "--drain", "--concurrency", "1")
    assert said.document == {
        "status": "done",
        "performed": 1,
        "failed": 0,
        "deferred": 0,
        "in_doubt": 0,
        "taken_over": 0,
        "abandoned": 0,
        "left": {},
    }
    logged = [json.loads(line) for line in said.err.splitlines()]
    assert [one["event"] for one in logged] == ["worker_started", "worker_stopped"]
    assert logged[0]["concurrency"] == 1


def test_the_program_of_the_workers_package_is_the_same_worker(kiosk: Terminal):
    ref = kiosk.ref(*call("ring", bell="a"))
    said = process("--drain", program=EMBEDDED)
    assert (said.exit, said.out) == (0, "carried out 1, taken over 0\n")
    assert states(kiosk) == {ref: "succeeded"}
    assert process("--nonsense", program=EMBEDDED).exit == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_an_idle_worker_in_order(kiosk: Terminal, number: signal.Signals):
    with running("worker") as worker:
        worker.error_line("worker_started")
        worker.tell(number)
        ended = worker.ended()
    assert ended.exit == 0
    assert "worker_stopped" in ended.err
    assert "Traceback" not in ended.err


def test_a_worker_that_is_told_to_stop_finishes_what_it_has_begun(kiosk: Terminal, bell: Bell):
    ref = kiosk.ref(*call("ring", bell="a"))
    with running("worker") as worker:
        assert bell.rung() == ref
        worker.tell(signal.SIGTERM)
        assert worker.ended().exit == 0
    assert states(kiosk) == {ref: "succeeded"}


@pytest.mark.slow
def test_a_worker_whose_attempt_hangs_is_gone_within_ten_seconds(kiosk: Terminal, bell: Bell):
    import time

    ref = kiosk.ref(*call("ring", bell="a", how="for_ever"))
    with running("worker") as worker:
        assert bell.rung() == ref
        told_at = time.monotonic()
        worker.tell(signal.SIGTERM)
        ended = worker.ended()
        assert time.monotonic() - told_at < SECONDS_MAX
    assert ended.exit == 0
    assert states(kiosk) == {ref: "in_doubt"}


def test_a_second_signal_ends_a_worker_at_once(kiosk: Terminal, bell: Bell, database_url: str):
    kiosk.ref(*call("ring", bell="a", how="for_ever"))
    with running("worker") as worker:
        bell.rung()
        # Nothing can be settled meanwhile: in order, it would take its time.
        with psycopg.connect(database_url) as connection:
            connection.execute("LOCK TABLE takeback.intents IN ACCESS EXCLUSIVE MODE")
            worker.tell(signal.SIGTERM)
            worker.tell(signal.SIGINT)
            ended = worker.child.wait(timeout=SECONDS_MAX / 2)
    assert ended in (128 + signal.SIGTERM, 128 + signal.SIGINT)


@pytest.mark.slow
def test_a_worker_that_is_stuck_in_the_database_is_gone_within_ten_seconds(
    kiosk: Terminal, database_url: str
):
    import time

    kiosk.ref(*call("ring", bell="a"))
    with psycopg.connect(database_url) as connection:
        connection.execute("LOCK TABLE takeback.intents IN ACCESS EXCLUSIVE MODE")
        with running("worker") as worker, psycopg.connect(database_url, autocommit=True) as look:
            await_blocked(look)
            told_at = time.monotonic()
            worker.tell(signal.SIGTERM)
            ended = worker.ended()
            assert time.monotonic() - told_at < SECONDS_MAX
    assert ended.exit == 1
    assert "stopped_by_force" in ended.err


def await_blocked(look: psycopg.Connection) -> None:
    """Looks until somebody waits for the table; bounded by the test's own time limit."""
    while look.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND datname = current_database()"
    ).fetchone() == (0,):
        pass


@pytest.mark.slow
@pytest.mark.chaos
def test_what_a_killed_worker_was_executing_is_taken_over_by_the_next(
    kiosk: Terminal, bell: Bell, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_LEASE_SECONDS", LEASE)
    ref = kiosk.ref(*call("ring", bell="a", how="for_ever"))
    other = kiosk.ref(*call("post", to="dana"))
    with running("worker") as worker:
        assert bell.rung() == ref
        worker.tell(signal.SIGKILL)
        worker.child.wait(timeout=SECONDS_MAX)
    assert states(kiosk)[ref] == "executing"
    said = process("worker", "--drain", "--json")
    assert said.exit == 0
    assert said.document["taken_over"] == 1
    assert states(kiosk) == {ref: "parked", other: "held"}


@pytest.mark.slow
@pytest.mark.chaos
def test_with_nothing_configured_what_a_killed_worker_was_at_is_taken_over_within_31_seconds(
    kiosk: Terminal, bell: Bell, database_url: str
):
    """procrastinate #307, pgqueuer #475: jobs of a killed worker were stuck for ever. Nothing is
    set here, and nobody does anything: another worker that runs is enough."""
    import time

    ref = kiosk.ref(*call("ring", bell="a", how="for_ever"))
    with running("worker") as first:
        assert bell.rung() == ref
        first.tell(signal.SIGKILL)
        killed_at = time.monotonic()
        first.child.wait(timeout=SECONDS_MAX)
    with running("worker") as second:
        with psycopg.connect(database_url, autocommit=True) as connection:
            await_state(connection, ref, "in_doubt")
        assert time.monotonic() - killed_at < 31
        second.tell(signal.SIGTERM)
        assert second.ended().exit == 0
    told = kiosk("show", ref, "--json").document["events"]
    doubts = [one["payload"]["cause"] for one in told if one["kind"] == "intent.in_doubt"]
    assert doubts == ["lease_over"]


@pytest.mark.parametrize("arguments", [["worker"], ["worker", "--drain"]])
def test_a_worker_without_a_database_says_so_and_ends_with_four(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", "postgresql://127.0.0.1:1/shop")
    said = process(*arguments)
    assert said.exit == 4
    assert "Connection refused" in said.err
    assert "Traceback" not in said.err


def test_a_worker_without_a_ledger_says_to_migrate(
    terminal: Terminal, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", empty_database_url)
    said = terminal("--app", "kiosk:app", "worker", "--drain", "--json")
    assert (said.exit, said.code) == (4, "database_unavailable")
    assert "takeback migrate" in said.document["error"]["message"]


def test_a_worker_whose_lease_is_too_short_says_which_tool_outlasts_it(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_LEASE_SECONDS", "1")
    said = kiosk("worker", "--drain", "--json")
    assert (said.exit, said.code) == (2, "invalid_settings")
    assert "ring" in said.document["error"]["message"]


@pytest.mark.parametrize("count", ["0", "-1", "65", "four"])
def test_a_concurrency_out_of_bounds_is_a_usage_error(kiosk: Terminal, count: str):
    assert kiosk("worker", f"--concurrency={count}", "--json").code == "usage"


def test_a_worker_waits_for_a_database_that_goes_away(kiosk: Terminal, database_url: str):
    with running("worker") as worker:
        worker.error_line("worker_started")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        worker.error_line("worker_waits")
        ref = kiosk.ref(*call("ring", bell="a"))
        with psycopg.connect(database_url, autocommit=True) as connection:
            await_state(connection, ref, "succeeded")
        worker.tell(signal.SIGTERM)
        assert worker.ended().exit == 0


def await_state(connection: psycopg.Connection, ref: str, state: str) -> None:
    """Looks until the intent is in that state; bounded by the test's own time limit."""
    query = "SELECT state FROM takeback.intents WHERE ref = %s"
    while connection.execute(query, [ref]).fetchone() != (state,):
        pass


@pytest.fixture
def own_directory(tmp_path: Path) -> Iterator[Path]:
    """Where an embedded server may live, and may be reached by whoever it runs as."""
    import shutil
    import tempfile

    directory = Path(tempfile.mkdtemp(prefix="tb-up-"))
    directory.chmod(0o711)
    yield directory
    embedded.discard(directory / "pg")
    shutil.rmtree(directory)


@pytest.mark.slow
def test_up_brings_a_database_the_schema_and_a_worker(own_directory: Path):
    ours = environment(TAKEBACK_DATA_DIRECTORY=str(own_directory / "pg"))
    ours.pop("TAKEBACK_DATABASE_URL", None)
    with running("--app", "kiosk:app", "up", environ=ours) as up:
        lines = [up.line() for _ in range(4)]
        assert [line.split()[0] for line in lines] == ["database", "schema", "app", "worker"]
        assert "embedded" in lines[0]
        up.error_line("worker_started")
        rung = process("--app", "kiosk:app", *call("ring", bell="a"), "--json", environ=ours)
        with psycopg.connect(lines[0].split()[1], autocommit=True) as connection:
            await_state(connection, rung.document["ref"], "succeeded")
        up.tell(signal.SIGINT)
        ended = up.ended()
    assert ended.exit == 0
    assert "Traceback" not in ended.err


def test_a_worker_serves_its_tenant_and_all_of_them_when_told_to(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    kiosk.ref(*call("ring", bell="a"))
    monkeypatch.setenv("TAKEBACK_TENANT", "other")
    kiosk.ref(*call("ring", bell="b"))
    kiosk.ref(*call("ring", bell="c"))
    assert process("worker", "--drain").out == "carried out 2, taken over 0\n"
    assert process("worker", "--drain", "--all-tenants").out == "carried out 1, taken over 0\n"
