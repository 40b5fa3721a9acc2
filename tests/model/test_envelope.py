"""An answer about an intent: short, and told whatever its arguments are."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from takeback.declare import BLIND, Affects, Remote, Tool, Wording
from takeback.model.envelope import answer
from tests.model.history import given, recorded


class Order(BaseModel):
    what: Any
    amount: int | None = None


ROW = Tool(
    "place_order",
    Order,
    effect=Remote(upstream=BLIND),
    description="Orders it.",
    key=("what",),
    affects=Affects(kind="order", id="what"),
)


def told(arguments: dict[str, Any], subject: str) -> dict[str, Any]:
    """The answer about a held call with those arguments."""
    tool = replace(ROW, wording=Wording(subject=subject, undo=f"undoes {subject}"))
    return answer(given(recorded()), tool, {"arguments": arguments}, trace_id="").to_dict()


@pytest.mark.parametrize(
    "long",
    ["x" * 100_000, list(range(100_000)), {f"k{n}": n for n in range(100_000)}, {"k" * 100_000: 1}],
    ids=["text", "list", "object", "name"],
)
def test_a_sentence_about_a_long_argument_stays_short(long):
    document = told({"what": long}, "Order of {what}")
    assert len(document["summary"]) + len(document["restore"]["does"]) < 700
    assert len(document["affected"][0]["id"]) < 300


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"amount": 1234567}, "Order for 1,234,567 of 'ink' is"),
        ({"amount": None}, "Order for None of 'ink' is"),
        ({}, "Order for \u2026 of 'ink' is"),
    ],
)
def test_a_form_that_does_not_suit_a_value_is_left_out(arguments, said):
    document = told({"what": "ink", **arguments}, "Order for {amount:,} of {what!r}")
    assert document["summary"].startswith(said)


def test_what_an_argument_says_is_never_taken_for_a_template():
    document = told({"what": "{until} {amount.real} {} {0!r:>999}", "amount": 1}, "Order of {what}")
    assert document["summary"].startswith("Order of {until} {amount.real} {} {0!r:>999} is")
