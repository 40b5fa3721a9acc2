"""docker-compose.yml is valid by the specification, and its services wait for one another."""

import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

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
