"""``ticker`` and what ``doctor`` says of a broker: started on nothing, told to stop."""

import signal
import sys
from collections.abc import Iterator

import pytest

from tests import services
from tests.cli.terminal import Bell, Terminal, call, process, running
from tests.workers.server import Redis, Server, free_port


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    services.require("redis")
    server = Redis(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.close()


@pytest.fixture
def woken(kiosk: Terminal, broker: Server, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A kiosk that has a broker."""
    monkeypatch.setenv("TAKEBACK_BROKER_URL", broker.url)
    return kiosk


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_ticker_wakes_until_it_is_told_to_stop_and_says_how_often(
    woken: Terminal, broker: Server, number: signal.Signals
):
    broker.wipe("default")
    woken.ref(*call("ring", bell="a"))
    with running("ticker", "--json") as ticker:
        ticker.error_line("ticker_started")
        woken.ref(*call("ring", bell="b"))
        ticker.tell(number)
        ended = ticker.ended()
    assert ended.exit == 0
    ends = {"performed", "failed", "deferred", "in_doubt"}
    assert ended.document.keys() == {"status", "published", "taken_over"} | ends
    assert "Traceback" not in ended.err


def test_a_ticker_without_a_broker_says_which_setting_is_missing(kiosk: Terminal):
    said = kiosk("ticker", "--json")
    assert (said.exit, said.code) == (2, "invalid_settings")
    assert "TAKEBACK_BROKER_URL" in said.document["error"]["message"]


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_ticker_whose_broker_is_not_there_ends_with_four(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch, scheme: str
):
    port = free_port()
    monkeypatch.setenv("TAKEBACK_BROKER_URL", f"{scheme}://dana:s3cret@127.0.0.1:{port}/0")
    said = kiosk("ticker", "--json")
    assert (said.exit, said.code) == (4, "broker_unavailable")
    people = process("ticker")
    assert people.exit == 4
    whereabouts = f"the broker is {scheme}://dana:***@127.0.0.1:{port}/0 (from TAKEBACK_BROKER_URL)"
    for told in (said.document["error"]["message"], people.err):
        assert whereabouts in told
        assert "Connection refused" in told
        assert "s3cret" not in told
    assert "next: `takeback doctor`" in people.err


@pytest.mark.slow
def test_a_ticker_that_stands_in_begins_without_the_broker_and_carries_out_what_is_due(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch, bell: Bell
):
    monkeypatch.setenv("TAKEBACK_BROKER_URL", f"redis://127.0.0.1:{free_port()}/0")
    ref = kiosk.ref(*call("ring", bell="a"))
    with running("ticker", "--stand-in", "--json") as ticker:
        assert "Connection refused" in ticker.error_line("broker_away")
        assert bell.rung() == ref
        ticker.tell(signal.SIGTERM)
        ended = ticker.ended()
    assert (ended.exit, ended.document["performed"]) == (0, 1)


def test_a_ticker_whose_database_is_not_there_ends_with_four(
    woken: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", "postgresql://127.0.0.1:1/shop")
    said = woken("ticker", "--json")
    assert (said.exit, said.code) == (4, "database_unavailable")


def test_the_doctor_says_that_a_broker_answers_and_how_many_wake_ups_wait(
    woken: Terminal, broker: Server
):
    broker.wipe("default")
    document = woken("doctor", "--json").document
    assert document["broker"] == {
        "url": broker.url,
        "source": "TAKEBACK_BROKER_URL",
        "queues": {"high": 0, "default": 0, "low": 0},
        "problem": None,
    }
    assert "none waits" in woken("doctor").out


def test_the_doctor_says_that_a_broker_is_away_and_hides_its_password(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_BROKER_URL", f"amqp://dana:s3cret@127.0.0.1:{free_port()}/")
    said = kiosk("doctor", "--json")
    assert (said.exit, said.code) == (4, "broker_unavailable")
    assert "s3cret" not in said.out and "dana:***@" in said.document["broker"]["url"]
    assert said.document["queue"] is not None, "it looks on"
    shown = kiosk("doctor", "--show-secrets", "--json").document["broker"]["url"]
    assert "s3cret" in shown


def test_without_a_broker_the_doctor_has_nothing_to_say_of_one(kiosk: Terminal):
    said = kiosk("doctor", "--json")
    assert said.document["broker"] is None
    assert not [note for note in said.document["notes"] if "broker" in note]


def test_a_worker_that_is_embedded_does_not_look_for_the_broker(
    kiosk: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_BROKER_URL", f"redis://127.0.0.1:{free_port()}/0")
    ref = kiosk.ref(*call("ring", bell="a"))
    assert process("worker", "--drain").exit == 0
    listed = {one["ref"]: one["state"] for one in kiosk("list", "--json").document}
    assert listed == {ref: "succeeded"}


def test_a_ticker_which_asks_by_the_handlers_of_the_app_is_bound_to_the_memory_that_is_set(
    woken: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TAKEBACK_MEMORY_MB", "64")
    said = process("ticker", "--json")
    assert said.exit == 2 and "memory_mb is 64; this process needs" in said.out + said.err


def test_the_actors_without_a_broker_or_with_times_that_contradict_do_not_start(
    woken: Terminal, monkeypatch: pytest.MonkeyPatch
):
    program = (sys.executable, "-m", "dramatiq", "takeback_workers.actors", "--processes", "1")
    with monkeypatch.context() as short:
        short.setenv("TAKEBACK_LEASE_SECONDS", "1")
        said = process(program=program)
        assert said.exit != 0 and "attempt_seconds_max" in said.err
    with monkeypatch.context() as small:
        small.setenv("TAKEBACK_MEMORY_MB", "64")
        said = process(program=program)
        assert said.exit != 0 and "memory_mb is 64" in said.err
    monkeypatch.delenv("TAKEBACK_BROKER_URL")
    said = process(program=program)
    assert said.exit != 0 and "broker_url is not set" in said.err


def test_without_the_extra_a_ticker_says_what_to_install_and_the_doctor_looks_on(
    woken: Terminal, monkeypatch: pytest.MonkeyPatch
):
    for name in [name for name in sys.modules if name.startswith("takeback_workers.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dramatiq", None)
    said = woken("ticker", "--json")
    assert (said.exit, said.code) == (2, "invalid_settings")
    assert 'pip install "takeback[dramatiq]"' in said.document["error"]["message"]
    found = woken("doctor", "--json")
    assert found.exit == 1 and "takeback[dramatiq]" in found.document["broker"]["problem"]
    assert found.document["queue"] is not None
