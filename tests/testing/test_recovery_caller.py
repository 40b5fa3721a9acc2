"""The caller of the recovery trials: it knows answers alone, and keeps to its rules."""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from takeback.testing.recovery import caller
from takeback.testing.recovery.caller import CALLS_MAX, converse

CALL = {"tool": "close", "arguments": {"ticket": "T-7", "status": "OPEN"}}
WANTED = {"tool": "close", "arguments": {"ticket": "T-7", "status": "open"}}
DONE = {"status": "done"}


class World:
    """Answers in turn, and remembers what it was asked."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []

    def send(self, call: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(call)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def refusal(*violations: dict[str, Any], **error: Any) -> dict[str, Any]:
    told = {
        "class": "invalid_request",
        "violations": list(violations),
        "next_call": None,
        "alternatives": [],
    }
    return {"status": "refused", "error": told | error}


def wrong(field: str, repair: str = "choice", **more: Any) -> dict[str, Any]:
    return {"field": field, "code": "not_permitted", "repair": repair} | more


def test_the_caller_imports_nothing_of_takeback():
    """Whatever it gets right, the answers told it."""
    source = Path(str(caller.__file__)).read_text()
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
            assert node.level == 0
    assert imported <= set(sys.stdlib_module_names)
    assert "import_module" not in source
    assert "message" not in {
        node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)
    }


def test_a_call_that_is_taken_is_made_once():
    world = World(DONE)
    talk = converse(world.send, CALL, None)
    assert (talk.reason, talk.attempts, world.asked) == ("taken", 1, [CALL])


def test_the_next_call_is_sent_word_for_word_by_who_knows_nothing():
    world = World(refusal(wrong("status"), next_call=WANTED), DONE)
    assert converse(world.send, CALL, None).reason == "taken"
    assert world.asked == [CALL, WANTED]


def test_who_knows_what_is_wanted_goes_by_that_and_not_by_the_next_call():
    misleading = {"tool": "close", "arguments": {"ticket": "T-7", "status": "closed"}}
    world = World(refusal(wrong("status"), next_call=misleading), DONE)
    converse(world.send, CALL, WANTED)
    assert world.asked[-1] == WANTED


@pytest.mark.parametrize("repair, reason", [("choice", "choice"), ("ask_user", "ask_user")])
def test_who_knows_nothing_stops_where_meaning_is_asked_for(repair, reason):
    world = World(refusal(wrong("status", repair, permitted=["open"], suggestion="open")), DONE)
    assert converse(world.send, CALL, None).reason == reason
    assert world.asked == [CALL]


def test_what_is_wanted_is_spelt_as_it_is_permitted():
    intent = {"tool": "close", "arguments": {"ticket": "T-7", "status": "Open "}}
    world = World(refusal(wrong("status", permitted=["closed", "open"])), DONE)
    converse(world.send, CALL, intent)
    assert world.asked[-1] == WANTED


def test_what_is_not_among_the_nearest_is_looked_up():
    look_up = {"tool": "permitted_values", "arguments": {"argument": "ship.to", "query": "x"}}
    intent = {"tool": "ship", "arguments": {"to": "New Zealand"}}
    found = {"status": "ok", "matches": [{"value": "NL"}, {"value": "NZ", "name": "NEW_ZEALAND"}]}
    world = World(refusal(wrong("to", permitted=["AA"], lookup=look_up)), found, DONE)
    talk = converse(world.send, {"tool": "ship", "arguments": {"to": "x"}}, intent)
    assert world.asked[1]["arguments"]["query"] == "New Zealand"
    assert world.asked[2] == {"tool": "ship", "arguments": {"to": "NZ"}}
    assert (talk.attempts, talk.lookups) == (2, 1)


def test_a_misspelt_name_keeps_what_it_held():
    violation = {
        "field": "tikcet",
        "code": "unknown_argument",
        "repair": "mechanical",
        "suggestion": "ticket",
    }
    world = World(refusal(violation), DONE)
    converse(world.send, {"tool": "close", "arguments": {"tikcet": "T-7"}}, None)
    assert world.asked[-1] == {"tool": "close", "arguments": {"ticket": "T-7"}}


def test_a_transient_refusal_is_sent_again_and_a_terminal_one_is_not():
    world = World(refusal(**{"class": "transient"}), DONE)
    assert converse(world.send, CALL, None).attempts == 2
    assert converse(World(refusal(**{"class": "terminal"})).send, CALL, None).reason == "terminal"


def test_a_refusal_without_fields_is_sent_once_more_and_given_up():
    world = World({"status": "refused", "error": {"message": "status: must be one of: open"}})
    talk = converse(world.send, CALL, WANTED)
    assert (talk.reason, world.asked) == ("unreadable", [CALL, CALL])


def test_what_was_refused_is_not_sent_a_second_time():
    world = World(refusal(wrong("status", permitted=["open"])))
    talk = converse(world.send, CALL, WANTED)
    assert (talk.reason, talk.attempts) == ("stuck", 2)


def test_no_more_calls_are_made_than_the_budget_has():
    world = World(refusal(**{"class": "transient"}))
    assert converse(world.send, CALL, None).attempts == CALLS_MAX
