"""A database URL with several hosts: libpq tries them in turn, at every door."""

import psycopg
import pytest

from tests.cli.terminal import Terminal, call, process


@pytest.fixture
def two_hosts(kiosk: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kiosk's database behind two hosts, of which the first is not there."""
    with psycopg.connect(database_url) as connection:
        info = connection.info
        user, name, host, port = info.user, info.dbname, info.host, info.port
    if host.startswith("/"):
        url = f"postgresql://{user}:s3cret@/{name}?host=127.0.0.1,{host}&port=1,{port}"
    else:
        url = (
            f"postgresql://{user}:s3cret@127.0.0.1:1,{host}:{port}/{name}"
            "?target_session_attrs=read-write"
        )
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", url)
    return url


def test_every_verb_gets_to_the_host_that_is_there(kiosk: Terminal, two_hosts: str):
    assert kiosk("migrate").exit == 0
    ref = kiosk.ref(*call("ring", bell="a"))
    assert process("worker", "--drain").out == "carried out 1, taken over 0\n"
    assert [one["ref"] for one in kiosk("list", "--json").document] == [ref]
    assert kiosk("verify").exit == 0


def test_doctor_names_the_hosts_and_no_password(kiosk: Terminal, two_hosts: str):
    said = kiosk("doctor", "--json")
    url = said.document["database"]["url"]
    assert url == two_hosts.replace("s3cret", "***")
    assert "s3cret" not in said.out + kiosk("doctor").out
