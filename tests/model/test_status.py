"""Status words are two closed sets, and no code says another one."""

import ast
from pathlib import Path

import takeback
from takeback.model.intent import State
from takeback.model.status import OF_READS, OF_WRITES, STATUS, Status

OF_FAILED_COMMANDS = "error"
"""What the command line says of itself, where there is no answer to hand out."""

ROOMS = ("model", "client", "cli", "mcp", "console", "adapters")
TOP = Path(takeback.__file__ or "").parent
SOURCES = [*TOP.glob("*.py"), *(path for room in ROOMS for path in TOP.glob(f"{room}/**/*.py"))]
"""Wherever an answer is made or handed out."""


def test_the_words_are_these():
    """S0.8: a closed set for reads, a closed set for writes."""
    assert {word.value for word in OF_READS} == {"ok", "no_matches", "unavailable"}
    assert {word.value for word in OF_WRITES} == {
        "done", "scheduled", "in_progress", "needs_approval", "in_doubt", "refused", "taken_back",
    }  # fmt: skip
    assert set(Status) == OF_READS | OF_WRITES


def test_every_state_but_a_purged_one_has_a_word_of_writes():
    assert set(STATUS) == set(State) - {State.PURGED}
    assert set(STATUS.values()) == OF_WRITES


def words_said(tree: ast.AST) -> set[str]:
    """Literals that stand where a status does: ``{"status": "x"}`` and ``status="x"``."""
    said: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            said += [
                value
                for key, value in zip(node.keys, node.values, strict=True)
                if isinstance(key, ast.Constant) and key.value == "status"
            ]
        if isinstance(node, ast.keyword) and node.arg == "status":
            said.append(node.value)
    return {
        inner.value
        for value in said
        for inner in ast.walk(value)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    }


def test_no_code_says_another_word():
    """S0.8: pinned against the sources."""
    said = {word for path in SOURCES for word in words_said(ast.parse(path.read_text()))}
    assert said <= {word.value for word in Status} | {OF_FAILED_COMMANDS}
    assert len(said) >= 2


def test_a_word_that_is_none_is_noticed():
    planted = 'Envelope({"status": "sent"}); refusal("x", status="maybe" if late else "refused")'
    assert words_said(ast.parse(planted)) == {"sent", "maybe", "refused"}
