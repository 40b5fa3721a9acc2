"""``migrate``, ``verify`` and ``rebuild``, to people and to programs."""

import json
import os
import pty
import subprocess

import psycopg
import pytest

from tests.cli.terminal import FOLDER, PROGRAM, Terminal, call, environment

BREAK = "UPDATE takeback.events SET payload = replace(payload, '\"held\"', '\"due\"')"


@pytest.fixture
def empty(terminal: Terminal, empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal on a database that nobody has migrated, without an app."""
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", empty_database_url)
    return terminal


def break_a_chain(url: str) -> None:
    """Changes what no one may change, as only an owner who means harm can."""
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE takeback.events DISABLE TRIGGER events_are_append_only")
        connection.execute(BREAK)
        connection.execute(
            "ALTER TABLE takeback.events ENABLE ALWAYS TRIGGER events_are_append_only"
        )


def shift_a_row(url: str) -> None:
    """Changes what is shown, and not what was recorded."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE takeback.intents SET state = 'cancelled'")


def test_migrating_says_from_where_to_where_and_can_be_repeated(empty: Terminal):
    first, second = empty("migrate", "--json"), empty("migrate", "--json")
    assert (first.exit, second.exit) == (0, 0)
    assert first.document["before"] is None
    assert first.document["after"] == second.document["before"] == second.document["after"]


def test_migrating_without_an_app_migrates_the_ledger_and_says_so(empty: Terminal):
    said = empty("migrate")
    assert (said.exit, said.out) == (0, "the schema went from nothing to 0004\n")
    assert "only the ledger was migrated" in said.err
    assert empty("migrate").out == "the schema is at 0004 already\n"


def test_migrating_runs_the_apps_own_step(empty: Terminal, empty_database_url: str):
    assert empty("--app", "kiosk:app", "migrate").exit == 0
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("SELECT count(*) FROM kiosk.walls").fetchone() == (2,)


def test_a_step_of_the_app_that_fails_is_told_in_one_line(empty: Terminal, empty_database_url: str):
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("CREATE SCHEMA kiosk CREATE TABLE walls (other int)")
    said = empty("--app", "kiosk:app", "migrate")
    assert said.exit == 1
    assert said.err.startswith("takeback: the migration failed: SyntaxError: INSERT ")
    assert "Traceback" not in said.err
    assert empty("--app", "kiosk:app", "migrate", "--json").code == "internal_error"


def test_every_verb_of_the_ledger_says_that_there_is_none(empty: Terminal):
    for verb in (["list"], ["show", "post-00000000"], ["events"], ["verify"], ["rebuild"]):
        said = empty(*verb)
        assert said.exit == 4, verb
        assert "takeback migrate" in said.err
        assert "it answers now" not in said.err
    said = empty("verify", "--json")
    assert (said.exit, said.code) == (4, "database_unavailable")


def test_a_sound_log_verifies_and_rebuilds_to_itself(kiosk: Terminal):
    kiosk.ref(*call("post", to="dana"))
    verified = kiosk("verify", "--json")
    assert (verified.exit, verified.document) == (
        0,
        {"status": "done", "intents": 1, "events": 1, "problems": [], "unlisted": 0},
    )
    rebuilt = kiosk("rebuild", "--json")
    assert (rebuilt.exit, rebuilt.document) == (
        0,
        {"status": "done", "intents": 1, "differing": [], "refused": []},
    )
    assert kiosk("verify").out == "1 intents, 1 events: all of it proves\n"
    assert kiosk("rebuild").out == "1 intents: each is shown as the log says\n"


def test_the_ledger_is_proved_without_an_app(kiosk: Terminal, monkeypatch: pytest.MonkeyPatch):
    kiosk.ref(*call("post", to="dana"))
    monkeypatch.delenv("TAKEBACK_APP")
    assert (kiosk("verify").exit, kiosk("rebuild").exit) == (0, 0)


def test_a_changed_event_is_named_by_ref_and_number(kiosk: Terminal, database_url: str):
    ref = kiosk.ref(*call("post", to="dana"))
    break_a_chain(database_url)
    said = kiosk("verify", "--json")
    assert (said.exit, said.code) == (1, "ledger_corrupt")
    assert said.document["problems"][0]["ref"] == ref
    assert said.document["problems"][0]["version"] == 1
    people = kiosk("verify")
    assert people.exit == 1
    assert people.out.splitlines()[0].split() == ["REF", "EVENT", "PROBLEM"]
    assert people.out.splitlines()[1].split()[:2] == [ref, "1"]
    refused = kiosk("rebuild", "--json")
    assert (refused.exit, refused.code) == (1, "ledger_corrupt")
    assert refused.document["refused"][0]["ref"] == ref
    assert ref in kiosk("rebuild").out


def test_a_row_that_is_not_what_the_log_says_is_named_and_put_right(
    kiosk: Terminal, database_url: str
):
    ref = kiosk.ref(*call("post", to="dana"))
    shift_a_row(database_url)
    said = kiosk("rebuild", "--json")
    assert (said.exit, said.code) == (1, "ledger_corrupt")
    assert said.document["differing"][0]["ref"] == ref
    assert "state" in said.document["differing"][0]["columns"]
    assert kiosk("rebuild").exit == 0
    assert kiosk("show", ref, "--json").document["state"] == "held"


def test_people_are_told_what_was_put_right(kiosk: Terminal, database_url: str):
    ref = kiosk.ref(*call("post", to="dana"))
    shift_a_row(database_url)
    said = kiosk("rebuild")
    assert said.exit == 1
    assert [ref, "state"] in [line.split() for line in said.out.splitlines()]
    assert "1 shown differently, and put right" in said.err


def test_a_bar_is_drawn_on_a_terminal_and_the_document_stays_alone_on_stdout(kiosk: Terminal):
    kiosk.ref(*call("post", to="dana"))
    mine, theirs = pty.openpty()
    done = subprocess.run(
        [*PROGRAM, "verify", "--json"],
        cwd=FOLDER,
        env=environment(TERM="xterm", COLUMNS="80"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=30,
        check=False,
    )
    os.close(theirs)
    drawn = os.read(mine, 10_000)
    os.close(mine)
    assert json.loads(done.stdout)["status"] == "done"
    assert b"verifying" in drawn
