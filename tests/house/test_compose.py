"""docker-compose.yml is valid by the specification, and its services wait for one another."""

import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from takeback.connectors.smtp import SmtpServer
from takeback.dispatch.pulse import Pulse
from takeback.meter import Meter
from takeback.metrics import Watched, expose
from takeback.model.errors import DatabaseUnavailable
from tests.fetch import free_ports

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"


def problems(path: Path) -> str:
    """What the specification's schema, as check-jsonschema ships it, says about the file."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run([*command, str(path)], check=False, capture_output=True, text=True)
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr


@pytest.fixture
def compose():
    return YAML(typ="safe").load(COMPOSE)


def test_the_file_is_valid_by_the_specification():
    assert problems(COMPOSE) == ""


def test_a_misspelt_key_is_noticed(tmp_path):
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text("services: {db: {image: postgres, helthcheck: {}}}")
    assert "helthcheck" in problems(wrong)


def test_every_service_that_stays_tells_whether_it_is_well(compose):
    once = {"migrate"}
    silent = {name for name, it in compose["services"].items() if "healthcheck" not in it}
    assert silent == once


def test_whoever_waits_for_a_service_waits_until_it_is_ready(compose):
    services = compose["services"]
    conditions = {
        (name, other): wait["condition"]
        for name, it in services.items()
        for other, wait in it.get("depends_on", {}).items()
    }
    assert conditions
    for (_, other), condition in conditions.items():
        ready = "service_healthy" if "healthcheck" in services[other] else None
        assert condition == (ready or "service_completed_successfully")


def test_actors_and_ticker_are_woken_by_a_broker_that_is_there(compose):
    services = compose["services"]
    url = services["ticker"]["environment"]["TAKEBACK_BROKER_URL"]
    assert url == services["actors"]["environment"]["TAKEBACK_BROKER_URL"]
    user, password = (
        services["rabbitmq"]["environment"][f"RABBITMQ_DEFAULT_{one}"] for one in ("USER", "PASS")
    )
    assert f"amqp://{user}:{password}@rabbitmq:5672/" in url
    assert {"redis", "rabbitmq", "migrate"} <= services["actors"]["depends_on"].keys()


def test_the_image_has_what_its_programs_want(compose):
    """One image for all of them, and dramatiq is an extra."""
    extras = (ROOT / "Dockerfile").read_text().partition("ARG EXTRAS=")[2].splitlines()[0]
    assert "dramatiq" in extras
    assert compose["services"]["actors"]["entrypoint"] == ["dramatiq"]


def test_what_is_built_here_is_built_from_the_file_beside_it(compose):
    built = [it["build"] for it in compose["services"].values() if "build" in it]
    assert built
    assert all((ROOT / "Dockerfile").exists() and it["context"] == "." for it in built)


def test_one_service_builds_the_image_and_the_others_look_for_it_nowhere_else(compose):
    """Several that build one image at the same time collide: "image already exists"."""
    of_ours = {name: it for name, it in compose["services"].items() if it["image"] == "takeback"}
    assert [name for name, it in of_ours.items() if "build" in it] == ["migrate"]
    assert {it["pull_policy"] for name, it in of_ours.items() if name != "migrate"} == {"never"}
    assert all("migrate" in it["depends_on"] for name, it in of_ours.items() if name != "migrate")


def test_every_port_is_open_on_this_machine_alone_and_to_one_service(compose):
    ports = [port for it in compose["services"].values() for port in it.get("ports", ())]
    assert len(ports) >= 7
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_mails_go_to_the_server_that_is_there(compose):
    server = SmtpServer.from_url(compose["services"]["worker"]["environment"]["SHOP_SMTP_URL"])
    assert server.host in compose["services"]


@pytest.mark.parametrize(
    ("age", "is_well"), [(0.5, True), (59.0, True), (61.0, False), (None, False)]
)
def test_whoever_has_looked_round_within_a_minute_is_well(compose, age, is_well):
    """The check itself, run against metrics that are served; ``None``: it has not begun yet."""
    services = compose["services"]
    (port,) = {
        it["environment"]["TAKEBACK_METRICS"].rpartition(":")[2]
        for name, it in services.items()
        if name in ("worker", "ticker", "actors")
    }
    command = services["worker"]["healthcheck"]["test"]
    assert command == services["ticker"]["healthcheck"]["test"]
    assert command == services["actors"]["healthcheck"]["test"]
    assert command[:3] == ["CMD", "python", "-c"] and f"127.0.0.1:{port}/" in command[3]
    assert "$" not in command[3], "compose would take it for a variable"
    with expose(str(free_ports(1)), watched(age)) as served:
        code = command[3].replace(port, str(served.port))
        checked = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert (checked.returncode == 0) == is_well, checked.stderr


def watched(age):
    """Something that has looked round so long ago."""
    pulse = Pulse(
        turns=1, seconds_since_success=age or 0.0, busy=0, open=0, abandoned=0, performed=0,
        taken_over=0,
    )  # fmt: skip

    def away():
        raise DatabaseUnavailable("the database can't be reached, or went away")

    return Watched(
        process="worker",
        version="1",
        meter=Meter(lambda: 0.0),
        pulse=lambda: None if age is None else pulse,
        backlog=away,
        monotonic=lambda: 0.0,
    )
