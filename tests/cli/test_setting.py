"""Settings as an operator sees them: what is wrong is said, and what is secret is not."""

import signal
from pathlib import Path

import pytest

from takeback import InvalidSettings, Settings
from takeback.process import stoppable
from takeback.settings import masked, review


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@host/db",
        "postgresql://me:s3cret@host:5432/db?sslmode=require",
        "postgresql://me:s3/cret@host/db",
        "postgresql://me:s3:cret@host/db",
        "postgresql://me:s3@cret@host/db",
        "postgresql://me:s3cret?@host/db",
        "postgresql://me:s3#cret@host/db",
        "postgresql://me:s3cret@a,b:5433/db",
        "postgresql://host/db?user=me&password=s3cret",
        "postgresql://host/db?PASSWORD=s3cret&sslpassword=s3cret",
        "postgresql://host/db?password=s3@cret",
        "postgresql+psycopg://me:s3cret@/db?host=/run/pg",
        "redis://:s3cret@host:6379/0",
        "amqp://me:s3cret@host/",
        "host=a user=me password=s3cret",
        "me:s3cret@host",
        "s3cret",
    ],
)
def test_no_password_is_shown_however_it_is_written(url: str):
    shown = masked(url)
    assert "s3" not in shown
    assert "cret" not in shown


@pytest.mark.parametrize(
    "url", ["postgresql://host:5432/db", "postgresql://me@host/db", "postgresql:///db?host=/run"]
)
def test_a_url_without_a_password_is_shown_as_it_is(url: str):
    assert masked(url) == url


def test_a_wrong_value_is_reviewed_beside_those_that_are_right(tmp_path: Path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.takeback]\ntenant = "two words"\nlog = "json"\nodd = 1\n'
    )
    reviewed = {one.name: one for one in review({"TAKEBACK_LEASE_SECONDS": "x"}, tmp_path)}
    assert {name for name, one in reviewed.items() if one.problem} == {
        "tenant",
        "lease_seconds",
        "odd",
    }
    assert (reviewed["log"].value, reviewed["log"].source) == ("json", "pyproject.toml")
    assert reviewed["lease_seconds"].source == "TAKEBACK_LEASE_SECONDS"
    assert reviewed["key_secret"].source == "default"


@pytest.mark.parametrize(
    "said",
    [
        {"tenant": ""},
        {"tenant": "two words"},
        {"tenant": "a\0b"},
        {"tenant": "x" * 101},
        {"tenant": 7},
        {"key_secret": "short"},
        {"lease_seconds": 0},
        {"log": "loud"},
    ],
)
def test_settings_that_are_made_by_hand_are_held_to_the_same_bounds(said: dict[str, object]):
    (name,) = said
    with pytest.raises(InvalidSettings, match=rf"Settings\({name}=...\) is .*; expected "):
        Settings(**said)  # type: ignore[arg-type]


def test_a_wrong_secret_is_not_shown_in_what_is_said_of_it(tmp_path: Path):
    environ = {"TAKEBACK_KEY_SECRET": "s3cret", "TAKEBACK_BROKER_URL": "x://me:s3cret@host"}
    reviewed = [one for one in review(environ, tmp_path) if one.problem]
    assert len(reviewed) == 2
    assert all("s3cret" not in (one.problem or "") for one in reviewed)


def test_signals_are_as_they_were_once_the_block_is_over():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with stoppable() as stop:
        assert not stop.asked()
        signal.raise_signal(signal.SIGTERM)
        stop.sleep(30)
        assert stop.asked()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
