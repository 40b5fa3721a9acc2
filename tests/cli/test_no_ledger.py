"""Where nobody has migrated every verb says so, with the next step, and none says to wait."""

import pytest

from tests.cli.terminal import Terminal, call

VERBS = {
    "call": call("post", to="dana"),
    "local": call("paint", wall="north", colour="green"),
    "restore": ["restore", "post-7F3K9QDM"],
    "approve": ["approve", "post-7F3K9QDM"],
    "list": ["list"],
    "show": ["show", "post-7F3K9QDM"],
    "freeze": ["freeze", "--tool", "post", "--reason", "x"],
    "thaw": ["thaw", "--tool", "post", "--reason", "x"],
    "connectors": ["connectors", "list"],
    "resume": ["connectors", "resume", "belfry"],
    "worker": ["worker", "--drain"],
    "events": ["events"],
    "verify": ["verify"],
    "rebuild": ["rebuild"],
}


@pytest.fixture
def bare(terminal: Terminal, empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal whose app is the kiosk, and whose database nobody has migrated."""
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", empty_database_url)
    monkeypatch.setenv("TAKEBACK_APP", "kiosk:app")
    return terminal


@pytest.mark.parametrize("verb", VERBS)
def test_people_are_told_to_migrate_and_not_to_wait(bare: Terminal, verb: str):
    said = bare(*VERBS[verb])
    assert said.exit == 4
    assert said.err.splitlines()[-1] == "  next: `takeback migrate`"
    assert "in 1 s" not in said.err


@pytest.mark.parametrize("verb", VERBS)
def test_programs_are_told_the_same_and_to_ask_seldom(bare: Terminal, verb: str):
    said = bare(*VERBS[verb], "--json")
    assert (said.exit, said.code) == (4, "database_unavailable")
    assert "`takeback migrate`" in said.document["error"]["message"]
    assert said.document["error"]["retry_after_s"] == 60
