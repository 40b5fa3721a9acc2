"""The database goes away in the middle of a command: one message, four, and nothing done twice."""

from collections.abc import Iterator

import pytest

from tests.cli.proxy import Proxy, proxied
from tests.cli.terminal import Terminal, call

# As the driver says it; the word alone is in "READ COMMITTED" too.
END = b"COMMIT\0"


@pytest.fixture
def proxy(kiosk: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What the kiosk's terminal reaches the database through, from here on."""
    with proxied(database_url) as (proxy, url):
        monkeypatch.setenv("TAKEBACK_DATABASE_URL", url)
        yield proxy


def test_the_way_through_the_proxy_is_as_good_as_any(kiosk: Terminal, proxy: Proxy):
    assert kiosk(*call("post", to="dana")).exit == 0


@pytest.mark.parametrize("json_wanted", [True, False], ids=["programs", "people"])
@pytest.mark.parametrize(
    ("verb", "at"),
    [
        (call("post", to="dana"), b"takeback.record"),
        (call("paint", wall="north", colour="green"), b"UPDATE kiosk.walls"),
        (["list"], b"FROM takeback.intents"),
        (["events"], b"takeback.events"),
        (["verify"], b"takeback.intents"),
        (["rebuild"], b"takeback.intents"),
        (["migrate"], b"pg_advisory_xact_lock"),
        (["doctor"], b"takeback.intents"),
    ],
    ids=["call", "local", "list", "events", "verify", "rebuild", "migrate", "doctor"],
)
def test_a_database_that_goes_away_in_the_middle_is_one_message_and_four(
    kiosk: Terminal, proxy: Proxy, verb: list[str], at: bytes, json_wanted: bool
):
    proxy.cut_before = lambda said: at in said
    said = kiosk(*verb, *(["--json"] if json_wanted else []))
    assert proxy.is_cut.is_set()
    assert said.exit == 4
    assert "Traceback" not in said.out + said.err
    if json_wanted:
        assert said.code == "database_unavailable"
        assert said.err == ""
    elif verb != ["doctor"]:
        assert sum(line.startswith(("takeback:", "refused")) for line in said.err.splitlines()) == 1
        assert "Connection refused" in said.err


def test_a_call_whose_commit_was_not_answered_says_so_and_is_found_by_a_repeat(
    kiosk: Terminal, proxy: Proxy, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    proxy.cut_after = lambda said: END in said
    said = kiosk(*call("post", to="dana"), "--json")
    assert (said.exit, said.code) == (4, "database_unavailable")
    assert said.document["effect"] == "unknown"
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    again = kiosk(*call("post", to="dana"), "--json")
    assert (again.exit, again.document["replayed"]) == (0, True)


def test_a_call_before_its_commit_has_left_nothing(
    kiosk: Terminal, proxy: Proxy, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    proxy.cut_before = lambda said: END in said
    said = kiosk(*call("post", to="dana"))
    assert said.exit == 4
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    assert kiosk("list", "--json").document == []
    assert not kiosk(*call("post", to="dana"), "--json").document["replayed"]
