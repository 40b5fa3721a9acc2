"""What is frozen, or behind a paused connector, is told what keeps it and who ends that."""

import psycopg
import pytest

from tests.cli.terminal import Terminal, call

WHO = ("--principal", "dana")
PAUSED = """
INSERT INTO takeback.connectors
    (name, tokens, refilled_at, failures, opened_at, paused_until, pause_us)
VALUES ('belfry', 1000, takeback.now(), 50, takeback.now(), takeback.now() + interval '5 minutes',
        300000000)
"""
"""The belfry has not answered fifty times in a row."""


@pytest.fixture
def paused(database_url: str) -> str:
    """The name of a connector that is paused."""
    with psycopg.connect(database_url) as tx:
        tx.execute(PAUSED)
    return "belfry"


def test_a_frozen_call_is_told_that_a_person_has_to_let_it_go_on(kiosk: Terminal):
    kiosk("freeze", "--tool", "post", "--reason", "posts too much", *WHO)
    first = kiosk(*call("post", to="dana"), "--json").document
    assert first["status"] == "scheduled"
    assert first["hindered_by"] == [{"kind": "freeze", "ends_when": "a person lets it go on"}]
    assert "Z, nor before a person lets it go on: it is frozen." in first["summary"]
    assert "leaves at" not in first["summary"]
    again = kiosk(*call("post", to="dana"), "--json").document
    assert (again["hindered_by"], again["replayed"]) == (first["hindered_by"], True)
    (line,) = kiosk("list", "--json").document
    assert (line["hindered_by"], line["summary"]) == (first["hindered_by"], first["summary"])


def test_show_names_the_freeze_and_the_command_that_ends_it(kiosk: Terminal):
    ref = kiosk.ref(*call("post", "--run", "run-7", to="dana"))
    kiosk("freeze", "--run", "run-7", "--reason", "we look first", *WHO)
    kiosk("freeze", "--all", "--reason", "all", "--yes", *WHO)
    document = kiosk("show", ref, "--json").document
    commands = [one["command"] for one in document["hindered_by"]]
    assert commands == ["thaw --run run-7 --reason '...'", "thaw --all --reason '...'"]
    assert [one["frozen_by"] for one in document["hindered_by"]] == ["dana", "dana"]
    people = kiosk("show", ref).out
    assert "frozen       run run-7, tenant default: since " in people
    assert "to go on     takeback thaw --run run-7 --reason '...'" in people
    for scope in (("--run", "run-7"), ("--all", "--yes")):
        kiosk("thaw", *scope, "--reason", "seen", *WHO)
    after = kiosk("show", ref, "--json").document
    assert "hindered_by" not in after
    assert "leaves at" in after["summary"]


def test_behind_a_paused_connector_the_answer_names_it_and_the_command(
    kiosk: Terminal, paused: str
):
    ref = kiosk.ref(*call("ring", bell="a"))
    document = kiosk("show", ref, "--json").document
    (one,) = document["hindered_by"]
    assert (one["connector"], one["ends_when"]) == (paused, "its provider answers again")
    assert one["command"] == "connectors resume belfry"
    assert "its connector belfry is paused" in document["summary"]
    assert "to go on     takeback connectors resume belfry" in kiosk("show", ref).out
    post = kiosk("show", kiosk.ref(*call("post", to="dana")), "--json").document
    assert "hindered_by" not in post, "it goes another way"


def test_a_compensation_behind_a_paused_connector_says_so_and_is_never_frozen(
    kiosk: Terminal, paused: str, database_url: str
):
    ref = kiosk.ref(*call("ring", bell="a"))
    kiosk("connectors", "resume", paused, *WHO)
    kiosk("worker", "--drain")
    with psycopg.connect(database_url) as tx:
        tx.execute("DELETE FROM takeback.connectors")
        tx.execute(PAUSED)
    kiosk("freeze", "--tool", "ring", "--reason", "stop", *WHO)
    restore = kiosk("restore", ref, "--json").document
    assert [one["kind"] for one in restore["hindered_by"]] == ["connector"]
    shown = kiosk("show", restore["ref"], "--json").document
    assert [one["kind"] for one in shown["hindered_by"]] == ["connector"]


def test_what_has_ended_or_waits_for_approval_is_hindered_by_nothing(kiosk: Terminal):
    done = kiosk.ref(*call("paint", wall="north", colour="green"))
    waits = kiosk.ref(*call("give", amount=101))
    kiosk("freeze", "--all", "--reason", "all", "--yes", *WHO)
    for ref in (done, waits):
        assert "hindered_by" not in kiosk("show", ref, "--json").document
    approved = kiosk("approve", waits, *WHO, "--json").document
    assert [one["kind"] for one in approved["hindered_by"]] == ["freeze"]


def test_the_connectors_are_listed_and_a_pause_is_ended(kiosk: Terminal, paused: str):
    (one,) = kiosk("connectors", "list", "--json").document["connectors"]
    assert (one["connector"], one["failures"]) == (paused, 50)
    people = kiosk("connectors", "list")
    assert people.exit == 0
    assert "paused until" in people.out
    assert "`takeback connectors resume belfry`" in people.out
    refused = kiosk("connectors", "resume", paused, "--principal", "agent:a", "--json")
    assert (refused.exit, refused.code) == (1, "no_access")
    resumed = kiosk("connectors", "resume", paused, *WHO, "--json").document
    assert (resumed["failures"], resumed["paused_since"]) == (50, one["paused_since"])
    again = kiosk("connectors", "resume", paused, *WHO)
    assert (again.exit, again.out) == (0, "  resumed      belfry\n  was          not paused\n")
    assert kiosk("connectors", "list", "--json").document["connectors"][0]["failures"] == 0


def test_a_connector_that_no_worker_has_come_to_is_listed_and_is_not_paused(kiosk: Terminal):
    (one,) = kiosk("connectors", "list", "--json").document["connectors"]
    assert (one["connector"], one["due"], one["paused_since"]) == ("belfry", None, None)
    assert kiosk("connectors", "resume", "belfry", *WHO).exit == 0


def test_a_connector_that_there_is_not_is_refused_with_those_that_there_are(kiosk: Terminal):
    refused = kiosk("connectors", "resume", "belfrey", *WHO)
    assert refused.exit == 1
    assert "connector: is 'belfrey'; expected one of: belfry" in refused.err
