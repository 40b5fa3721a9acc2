"""The list of codes is closed and pinned: a change of it is seen, and comes from nowhere else."""

import json
from pathlib import Path

import pytest

from takeback.model.code import CODES, Class, Code, Where, code_of

GOLDEN = Path(__file__).parent / "golden" / "codes.json"


def pinned(code: Code) -> dict[str, object]:
    return {
        "class": code.class_.value,
        "effects": list(code.effects),
        "repeat_can_succeed": code.repeat_can_succeed,
    }


def test_codes_are_as_they_were_pinned():
    """S2.18: the list is a snapshot. A code may join it; none changes, and none leaves."""
    assert {name: pinned(code) for name, code in CODES.items()} == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.name)
def test_a_code_says_all_that_a_caller_needs(code: Code):
    """S2.2, S2.14: class, effect and repeat of every one."""
    assert code.effects
    assert code.meaning[0].islower() or code.meaning.startswith("`")
    assert not code.meaning.endswith(".") and not code.advice.endswith(".")
    assert len(set(code.where)) == len(code.where)


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.name)
def test_what_is_transient_may_be_repeated_and_what_is_terminal_may_not(code: Code):
    if code.class_ is Class.TRANSIENT:
        assert code.repeat_can_succeed
    if code.class_ is Class.TERMINAL:
        assert not code.repeat_can_succeed
    if Where.STAYS in code.where:
        assert code.settled_class is not Class.TRANSIENT


def test_a_code_that_is_in_no_list_is_told_as_a_fault():
    assert code_of("disk_on_fire") is CODES["internal_error"]
