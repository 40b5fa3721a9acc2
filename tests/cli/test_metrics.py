"""``--metrics``: what a worker says of itself while it works, fetched from its process."""

import json

import pytest

from tests.cli.terminal import Bell, Terminal, call, process, running
from tests.fetch import fetch, free_ports
from tests.workers.server import eventually


def test_a_worker_that_is_watched_tells_what_it_does(kiosk: Terminal, bell: Bell):
    """One mail is posted, one bell rings, one is out of order."""
    port = free_ports(1)
    with running("worker", "--metrics", str(port)) as worker:
        served = worker.error_line("metrics_served")
        assert "127.0.0.1" in served and str(port) in served
        worker.error_line("worker_started")
        assert fetch(port).value("takeback_claims_total") == 0
        ringing = kiosk.ref(*call("ring", bell="a", how="for_ever"))
        assert bell.rung() == ringing
        found = fetch(port)
        assert found.value("takeback_attempts_in_flight") == 1
        assert found.value("takeback_claims_total") == 1
        assert found.value("takeback_attempt_lateness_seconds_count", tool="ring") == 1
        assert found.value("takeback_info", process="worker", version="0.1.0") == 1
        assert ringing not in found.words(), "no series is of one intent"
        badly = kiosk.ref(*call("ring", bell="b", how="badly"))
        assert bell.rung() == badly
        eventually(lambda: (attempts(port, "in_doubt") or 0) >= 1, "it is counted", 20)
        held = {"connector": "belfry", "state": "closed"}
        # The ledger was looked at a moment ago, before anything went through the connector.
        eventually(
            lambda: fetch(port).value("takeback_connector_state", **held) == 1, "it is seen", 20
        )
        assert (fetch(port).value("takeback_last_success_age_seconds") or 0) < 20
    assert kiosk("show", badly, "--json").document["state"] in ("in_doubt", "parked")


def attempts(port: int, outcome: str) -> float | None:
    labels = {"tool": "ring", "connector": "belfry", "outcome": outcome}
    return fetch(port).value("takeback_attempts_total", **labels)


def test_a_worker_that_nobody_watches_listens_nowhere(kiosk: Terminal):
    port = free_ports(1)
    with running("worker") as worker:
        worker.error_line("worker_started")
        with pytest.raises(OSError, match="refused"):
            fetch(port)


def test_the_setting_serves_them_too_and_the_option_wins(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    first = free_ports(2)
    monkeypatch.setenv("TAKEBACK_METRICS", f"127.0.0.1:{first}")
    with running("worker") as one:
        one.error_line("metrics_served")
        assert fetch(first).value("takeback_ledger_up") == 1
        with running("worker", "--metrics", str(first + 1)) as other:
            other.error_line("metrics_served")
            assert fetch(first + 1).value("takeback_ledger_up") == 1


def test_a_port_that_is_taken_is_refused_before_anything_is_carried_out(kiosk: Terminal):
    port = free_ports(1)
    with running("worker", "--metrics", str(port)) as worker:
        worker.error_line("metrics_served")
        said = process("worker", "--drain", "--metrics", str(port))
    assert said.exit == 2
    assert f"'{port}': its port is taken" in said.err and "Traceback" not in said.err


@pytest.mark.parametrize("verb", ["worker", "ticker"])
@pytest.mark.parametrize("where", ["here", "127.0.0.1", "127.0.0.1:0", "a:b:9464", "65536"])
def test_what_is_no_address_is_refused_by_name(kiosk: Terminal, verb: str, where: str):
    said = kiosk(verb, "--json", "--metrics", where)
    assert said.exit == 2
    message = json.dumps(said.document)
    assert "--metrics" in message and "127.0.0.1:9464" in message and where in message


def test_a_setting_that_is_no_address_is_refused_by_name(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_METRICS", "localhost")
    said = kiosk("list", "--json")
    assert said.exit == 2
    assert (
        "TAKEBACK_METRICS is 'localhost'; expected HOST:PORT" in said.document["error"]["message"]
    )
