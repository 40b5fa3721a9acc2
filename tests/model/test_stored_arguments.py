"""Stored arguments: revived under a later release, compared with a repeat."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from takeback.model.arguments import Difference, differences, revive, validate
from takeback.model.errors import InvalidArguments, InvalidCatalog
from tests.model.ticket import RIGHT, TOOL, canonical, tool

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NEARLY_RIGHT = st.fixed_dictionaries(
    {"ticket_id": st.text(), "status": st.sampled_from(["open", "pending", "closed"])},
    optional={
        "count": st.integers() | st.floats() | st.decimals(),
        "ratio": st.floats() | st.integers(),
        "note": st.text() | st.none(),
        "lines": st.lists(st.fixed_dictionaries({"amount": st.integers(1, 9)}), max_size=3),
        "at": st.datetimes(timezones=st.timezones()),
        "plain_at": st.datetimes(timezones=st.none() | st.timezones()),
        "labels": st.dictionaries(st.text(), st.integers(), max_size=3),
        "numbers": st.sets(st.integers(), max_size=5),
        "price": st.decimals() | st.floats() | st.integers(),
        "free": JSON | st.sets(st.text()) | st.tuples(st.text(), st.binary()),
    },
)


@given(NEARLY_RIGHT)
def test_what_is_taken_is_revived_as_it_was(received):
    try:
        arguments = validate(TOOL, received)
    except InvalidArguments:
        return
    stored = json.loads(json.dumps(arguments.canonical, allow_nan=False))
    assert revive(TOOL, 1, stored).canonical == arguments.canonical


# ── held across a deploy ──


class Second(BaseModel):
    ticket: str
    status: Literal["open", "done"]


def renamed(arguments: dict[str, Any]) -> dict[str, Any]:
    arguments["ticket"] = arguments.pop("ticket_id")
    return arguments


def finished(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments | {"status": "done" if arguments["status"] == "closed" else "open"}


def test_stored_arguments_are_revived_as_they_were():
    received = RIGHT | {
        "at": "2026-11-29T15:05:10+01:00",
        "lines": [{"amount": 5}],
        "price": "1.50",
        "numbers": [3, 1],
        "pay": {"kind": "card", "number": "1"},
        "from": "dana@example.com",
    }
    arguments = validate(TOOL, received)
    assert revive(TOOL, 1, json.loads(json.dumps(arguments.canonical))) == arguments


def test_held_arguments_go_through_every_upgrade_in_order():
    row = tool(Second, version=3, upgrades={1: renamed, 2: finished})
    held = {"ticket_id": "T-7", "status": "closed"}
    assert revive(row, 1, held).canonical == {"ticket": "T-7", "status": "done"}
    assert revive(row, 2, {"ticket": "T-7", "status": "pending"}).canonical["status"] == "open"
    assert held == {"ticket_id": "T-7", "status": "closed"}


def test_a_missing_upgrade_is_named():
    row = tool(Second, version=3, upgrades={1: renamed})
    with pytest.raises(InvalidCatalog, match="'update_ticket': no upgrade from version 2 to 3"):
        revive(row, 1, {"ticket_id": "T-7", "status": "closed"})


def test_arguments_of_a_later_release_are_refused():
    with pytest.raises(InvalidCatalog, match="version 2, and this release has version 1"):
        revive(TOOL, 2, RIGHT)


def test_an_upgrade_that_breaks_is_named():
    row = tool(Second, version=2, upgrades={1: renamed})
    with pytest.raises(InvalidCatalog, match="from version 1 raised KeyError"):
        revive(row, 1, {"status": "open"})
    row = tool(Second, version=2, upgrades={1: lambda arguments: None})
    with pytest.raises(InvalidCatalog, match="answered NoneType"):
        revive(row, 1, {"status": "open"})


def test_held_arguments_that_are_no_call_any_more_are_refused_in_fields():
    row = tool(Second, version=2, upgrades={1: renamed})
    with pytest.raises(InvalidArguments) as caught:
        revive(row, 1, {"ticket_id": "T-7", "status": "pending"})
    assert [each.field for each in caught.value.violations] == ["status"]


# ── two calls compared ──


def test_differences_name_each_field_with_both_values_in_order():
    first = {"b": 1, "a": {"y": 1, "x": [1, 2, 3]}, "list": [1], "same": "x", "n": list(range(12))}
    now = {"b": True, "a": {"y": 2, "x": [1, 5, 3]}, "list": [1, 2], "same": "x", "more": 0}
    now["n"] = [*range(2), 9, *range(3, 10), 0, 11]
    assert [(each.field, each.first, each.now) for each in differences(first, now)] == [
        ("a.x.1", 2, 5),
        ("a.y", 1, 2),
        ("b", 1, True),
        ("list", [1], [1, 2]),
        ("more", None, 0),
        ("n.2", 2, 9),
        ("n.10", 10, 0),
    ]


def test_equal_calls_do_not_differ():
    assert differences(canonical(RIGHT | {"count": 5}), canonical(RIGHT | {"count": 5.0})) == ()


def test_a_difference_is_told_in_its_wire_shape():
    assert Difference(field="note", first=None, now="x").to_json() == {
        "field": "note",
        "first": None,
        "now": "x",
    }
