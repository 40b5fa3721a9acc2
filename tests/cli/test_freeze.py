"""``freeze`` and ``thaw``: what a person types when an agent has to stop, and when it may go on."""

import os
import pty
import subprocess
from typing import Any

import psycopg
import pytest

from tests.cli.terminal import FOLDER, PATIENCE_S, PROGRAM, Terminal, call, environment, process

WHY = ("--reason", "rings too often")


def freezes(terminal: Terminal) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = terminal("doctor", "--json").document["freezes"]
    return found


def test_a_tool_is_frozen_and_thawed(kiosk: Terminal):
    ref = kiosk.ref(*call("ring", bell="a"))
    said = kiosk("freeze", "--tool", "ring", *WHY, "--principal", "dana")
    assert said.exit == 0
    assert said.out.startswith("  frozen       tool ring, tenant default: since ")
    assert "by dana, 'rings too often'" in said.out
    drained = process("worker", "--drain").out
    assert drained.startswith("carried out 0, taken over 0\nleft 1 frozen until a person thaws")

    thawed = kiosk("thaw", "--tool", "ring", "--reason", "mended", "--principal", "dana")

    assert (thawed.exit, freezes(kiosk)) == (0, [])
    assert "1, released 20 a second" in thawed.out
    assert [one["state"] for one in kiosk("list", "--json").document] == ["due"]
    assert kiosk("restore", ref).exit == 0


def test_programs_are_told_in_one_document(kiosk: Terminal):
    said = kiosk("--json", "freeze", "--run", "run-7", *WHY, "--principal", "dana")
    document = said.document
    freeze = document.pop("freeze")
    assert (said.exit, document) == (0, {"status": "done", "begun": [], "waits_for": []})
    at, number = freeze.pop("frozen_at"), freeze.pop("number")
    assert at.endswith("Z") and number > 0
    assert freeze == {
        "tenant": "default",
        "tool": None,
        "run": "run-7",
        "reason": "rings too often",
        "frozen_by": "dana",
    }
    thawed = kiosk("--json", "thaw", "--run", "run-7", "--reason", "mended", "--rate", "5")
    assert [one["run"] for one in thawed.document["thawed"]] == ["run-7"]
    assert (thawed.document["rate"], thawed.document["in_force"]) == (5, [])


def test_a_local_call_is_refused_while_its_tool_is_frozen(kiosk: Terminal):
    kiosk("freeze", "--tenant", "default", *WHY)
    said = kiosk("--json", *call("paint", wall="north", colour="green"))
    assert (said.exit, said.code) == (1, "frozen")
    error = said.document["error"]
    assert error["class"] == "transient" and said.document["repeat_can_succeed"]


def test_an_agent_can_do_neither(kiosk: Terminal):
    for verb in ("freeze", "thaw"):
        said = kiosk("--json", verb, "--tool", "ring", *WHY, "--principal", "agent:support")
        assert (said.exit, said.code) == (1, "no_access")
    assert freezes(kiosk) == []


@pytest.mark.parametrize(
    "scope",
    [
        [],
        ["--tool", "ring", "--run", "run-7"],
        ["--all", "--tenant", "default"],
        ["--tool", ""],
        ["--all"],
    ],
    ids=["none", "two", "all and one", "empty", "all, unasked"],
)
def test_what_is_not_clear_is_usage(kiosk: Terminal, scope: list[str]):
    said = kiosk("--json", "freeze", *scope, *WHY)
    assert (said.exit, said.code) == (2, "usage")
    assert freezes(kiosk) == []


def test_a_reason_is_wanted(kiosk: Terminal):
    assert kiosk("freeze", "--tool", "ring").exit == 2
    assert kiosk("freeze", "--tool", "ring", "--reason", " ").exit != 0
    assert freezes(kiosk) == []


def test_a_tool_that_is_none_is_refused_with_what_is_like_it(kiosk: Terminal):
    said = kiosk("freeze", "--tool", "rin", *WHY)
    assert said.exit == 1 and "did you mean 'ring'?" in said.err


def test_everything_wants_a_yes_where_nobody_can_be_asked(kiosk: Terminal):
    said = kiosk("freeze", "--all", *WHY)
    assert said.exit == 2 and "expected --yes" in said.err
    assert kiosk("freeze", "--all", "--yes", *WHY).exit == 0
    (one,) = freezes(kiosk)
    assert (one["tool"], one["run"], one["tenant"]) == (None, None, None)
    assert kiosk("thaw", "--all", "--yes", "--reason", "mended").exit == 0


@pytest.mark.parametrize(("answer", "exit_", "frozen"), [("y", 0, 1), ("n", 1, 0), ("", 1, 0)])
def test_everything_is_asked_about_on_a_terminal(
    kiosk: Terminal, answer: str, exit_: int, frozen: int
):
    own, its = pty.openpty()
    try:
        child = subprocess.Popen(
            [*PROGRAM, "freeze", "--all", *WHY],
            cwd=FOLDER,
            env=environment(),
            stdin=its,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.write(own, f"{answer}\n".encode())
        _, err = child.communicate(timeout=PATIENCE_S)
    finally:
        os.close(own)
        os.close(its)
    assert b"Freeze everything, of every tenant? [y/N]" in err
    assert (child.returncode, len(freezes(kiosk))) == (exit_, frozen)


def test_a_freeze_needs_no_app_and_a_thaw_does(
    terminal: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """How long what is overdue rests is its row's word, so a thaw asks the app."""
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    assert terminal("freeze", "--tool", "ring", *WHY).exit == 0
    said = terminal("thaw", "--tool", "ring", "--reason", "mended")
    assert said.exit == 2 and "needs an app" in said.err


def test_the_doctor_lists_what_is_frozen_and_takes_no_frozen_intent_for_forgotten(
    kiosk: Terminal, database_url: str
):
    kiosk.ref(*call("ring", bell="a"))
    with psycopg.connect(database_url) as tx:
        tx.execute("UPDATE takeback.intents SET due_at = due_at - interval '1 hour'")
    assert kiosk("doctor").exit == 1
    kiosk("freeze", "--tool", "ring", *WHY)
    said = kiosk("doctor")
    assert said.exit == 0
    assert "  - frozen: tool ring, tenant default: since " in said.out


def test_another_freeze_that_is_still_in_force_is_named(kiosk: Terminal):
    kiosk("freeze", "--tool", "ring", *WHY)
    kiosk("freeze", "--run", "run-7", *WHY)
    said = kiosk("thaw", "--tool", "ring", "--reason", "mended")
    assert "still frozen run run-7, tenant default: since " in said.out
    again = kiosk("thaw", "--tool", "ring", "--reason", "mended")
    assert again.exit == 0 and "nothing: no freeze has this scope" in again.out


@pytest.mark.parametrize("verb", ["freeze", "thaw"])
def test_what_is_refused_in_any_case_is_refused_before_anybody_is_asked(kiosk: Terminal, verb: str):
    said = kiosk(verb, "--all", *WHY, "--principal", "agent:support", "--json")
    assert (said.exit, said.code) == (1, "no_access")
    unsaid = kiosk(verb, "--all", "--reason", " ", "--json")
    assert (unsaid.exit, unsaid.code) == (1, "invalid_argument")


def test_the_same_freeze_said_twice_is_one_and_another_reason_is_another(kiosk: Terminal):
    numbers = [
        kiosk("freeze", "--tool", "ring", "--reason", why, "--principal", who, "--json").document[
            "freeze"
        ]["number"]
        for why, who in (("loud", "dana"), ("loud", "dana"), ("louder", "dana"), ("loud", "olu"))
    ]
    assert len(set(numbers)) == 3 and numbers[0] == numbers[1]
    assert [one["number"] for one in freezes(kiosk)] == sorted(set(numbers))
    kiosk("thaw", "--tool", "ring", "--reason", "mended")
    again = kiosk("freeze", "--tool", "ring", "--reason", "loud", "--principal", "dana", "--json")
    assert again.document["freeze"]["number"] not in numbers


def test_two_that_freeze_the_same_at_once_make_one(kiosk: Terminal, database_url: str):
    """Whoever comes second waits until the first is written down, and finds it."""
    command = [*PROGRAM, "freeze", "--tool", "ring", *WHY, "--principal", "dana"]
    with psycopg.connect(database_url) as turn:
        turn.execute("SELECT pg_advisory_xact_lock(31418, 3)")
        children = [
            subprocess.Popen(command, cwd=FOLDER, env=environment(), stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        with psycopg.connect(database_url, autocommit=True) as look:
            while look.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 3"
                " AND NOT granted AND database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
            ).fetchone() != (2,):
                pass
        turn.rollback()
        for child in children:
            child.communicate(timeout=PATIENCE_S)
    assert [child.returncode for child in children] == [0, 0]
    assert len(freezes(kiosk)) == 1
