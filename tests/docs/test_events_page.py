"""docs/events.md lays out the log as the code writes it."""

import ast
import dataclasses
import inspect
import re
from typing import get_args

import psycopg
import pytest

from takeback.model import command, decide, event
from takeback.model.intent import MAY_BECOME, State
from takeback.model.status import STATUS
from tests.docs.page import read, unquoted

PAGE = read("docs/events.md")
EVENTS = PAGE.table("kind", "schema", "meaning", "fields")
STATES = PAGE.table("state", "status", "meaning", "may become")
CAUSES = PAGE.table("event", "causes")


def words(cell: str) -> list[str]:
    """What stands between backticks in a cell, but not what a parenthesis says about it."""
    return re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cell))


def test_every_kind_of_event_is_in_the_table_with_its_schema_and_nothing_else():
    told = [(unquoted(row[0]), int(row[1])) for row in EVENTS.rows]
    assert told == [(kind.KIND, kind.SCHEMA) for kind in event.EVENTS]


@pytest.mark.parametrize("kind", event.EVENTS, ids=lambda kind: kind.KIND)
def test_each_event_is_told_with_all_of_its_fields(kind: type[event.Event]):
    (row,) = (row for row in EVENTS.rows if unquoted(row[0]) == kind.KIND)
    assert words(row[3]) == [field.name for field in dataclasses.fields(kind)]


def test_every_state_is_in_the_table_with_its_word_and_nothing_else():
    told = {unquoted(row[0]): row[1] for row in STATES.rows}
    assert told.pop("purged") == "its last word"
    assert told == {state.value: word for state, word in STATUS.items()}


@pytest.mark.parametrize("state", State)
def test_each_state_is_told_with_all_that_may_follow_it(state: State):
    (row,) = (row for row in STATES.rows if unquoted(row[0]) == state.value)
    assert sorted(words(row[3])) == sorted(after.value for after in MAY_BECOME[state])


def test_the_first_states_are_those_of_a_new_intent():
    (line,) = (line for line in PAGE.prose.splitlines() if line.startswith("A new intent is"))
    assert set(re.findall(r"`(\w+)`", line)) == {state.value for state in MAY_BECOME[None]}


def test_every_cause_that_can_be_written_is_explained():
    told = {kinds(row[0])[0]: set(words(row[1])) for row in CAUSES.rows}
    assert told == {
        "intent.recorded": set(get_args(command.ApprovalCause)),
        "intent.wait_failed": set(get_args(command.WaitCause)),
        "intent.postponed": set(get_args(command.PostponeCause)),
        "intent.handed_back": written("HandedBack"),
        "intent.deferred": set(get_args(command.DeferCause)),
        "intent.in_doubt": set(get_args(command.DoubtCause)) | written("InDoubt"),
        "intent.parked": set(get_args(command.ParkCause)),
        "intent.requeued": set(get_args(event.RequeueCause)),
    }


def kinds(cell: str) -> list[str]:
    """The kinds of events that a cell names."""
    return re.findall(r"`(intent\.\w+)`", cell)


def written(event_name: str) -> set[str]:
    """The words that ``decide`` itself gives as the cause of an event."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(decide))):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), keywords=keywords) if name == event_name:
                for keyword in keywords:
                    match keyword:
                        case ast.keyword(arg="cause", value=ast.Constant(value=str(word))):
                            found.add(word)
    return found


def test_every_column_of_the_log_is_told(database_url: str):
    told = {word for row in PAGE.table("column", "meaning").rows for word in words(row[0])}
    with psycopg.connect(database_url) as tx:
        found = tx.execute(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = 'takeback' AND table_name = 'events'"
        )
        assert told == {name for (name,) in found}
