"""docs/errors.md lists every code with what a caller may rely on, and shows answers as they are."""

import json

import pytest

from takeback.cli import failure
from takeback.client import refusing
from takeback.model import errors
from tests.docs import code
from tests.docs.page import read, unquoted
from tests.docs.refusal import ANSWERS, World, steady

PAGE = read("docs/errors.md")
REFUSALS = PAGE.table("code", "class", "effect", "repeat can succeed")
RAISED = PAGE.table("code", "exception", "retryable")
BRANCHES = next(table for table in PAGE.tables if table.header == ("code", "exception"))
MESSAGES = PAGE.table("code", "message")
SHOWN = {block.said["of"]: json.loads(block.text) for block in PAGE.blocks if "of" in block.said}


def words(cell: str) -> list[str]:
    return [word.strip("`, ") for word in cell.partition(":")[0].split(",")]


def test_every_code_of_a_refusal_is_told_and_no_other():
    told = [unquoted(cell) for cell in REFUSALS.column("code")]
    assert len(set(told)) == len(told)
    assert set(told) == code.of_refusals()


def test_every_code_of_an_exception_is_told_and_no_other():
    told = {unquoted(row[0]) for table in (REFUSALS, RAISED, BRANCHES) for row in table.rows}
    assert told == set(code.of_exceptions()) | code.of_refusals()


def test_every_code_of_a_violation_is_told_and_no_other():
    table = PAGE.table("violation", "meaning")
    assert {unquoted(cell) for cell in table.column("violation")} == code.of_violations()


def test_every_code_of_the_command_line_is_told_with_its_exit_and_no_other():
    table = PAGE.table("code", "exit", "meaning")
    told = {unquoted(row[0]): int(row[1]) for row in table.rows}
    assert set(told) == code.of_the_command_line()
    assert told.pop("interrupted") == failure.INTERRUPTED
    assert told == {name: failure.exit_of(name) for name in told}


@pytest.mark.parametrize("problem", refusing._SAID, ids=lambda problem: problem.__name__)
def test_class_and_repeat_of_a_refusal_are_told_as_they_are(problem: type[errors.TakebackError]):
    name, class_, can_succeed = refusing._SAID[problem]
    (row,) = (row for row in REFUSALS.rows if unquoted(row[0]) == name)
    assert (row[1], row[3]) == (class_, "yes" if can_succeed else "no")


@pytest.mark.parametrize("row", RAISED.rows, ids=lambda row: row[0])
def test_each_exception_that_is_raised_has_its_code_and_its_word_on_retrying(row: tuple[str, ...]):
    for name in words(row[1]):
        kind = getattr(errors, name, None)
        if kind is None:
            assert name.startswith("and every"), name
        else:
            assert (kind.code, kind.retryable) == (unquoted(row[0]), row[2] == "yes")


@pytest.mark.parametrize("row", BRANCHES.rows, ids=lambda row: row[0])
def test_each_branch_has_its_code(row: tuple[str, ...]):
    (name,) = words(row[1])
    assert getattr(errors, name).code == unquoted(row[0])


@pytest.mark.parametrize("name", SHOWN)
def test_an_answer_is_shown_as_it_is(name: str, world: World):
    assert SHOWN[name] == steady(ANSWERS[name](world).to_dict())


@pytest.mark.parametrize("row", MESSAGES.rows, ids=lambda row: row[0])
def test_a_message_is_shown_as_it_is(row: tuple[str, ...], world: World):
    answer = ANSWERS[unquoted(row[0])](world)
    assert answer.code == unquoted(row[0])
    assert steady((answer.error or {})["message"]) == row[1]


def test_every_answer_that_is_made_is_on_the_page():
    assert set(ANSWERS) == set(SHOWN) | {unquoted(cell) for cell in MESSAGES.column("code")}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_fields_of_a_refusal_are_those_in_the_table(name: str, world: World):
    """What the table says of effect and repeating is true of the very answers."""
    answer = ANSWERS[name](world)
    if answer.code is None:
        return
    (row,) = (row for row in REFUSALS.rows if unquoted(row[0]) == answer.code)
    assert (answer["effect"], answer["repeat_can_succeed"]) == (row[2], row[3] == "yes")
    assert (answer.error or {})["class"] == row[1]
