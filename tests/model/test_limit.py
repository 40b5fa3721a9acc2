"""Sums against bounds: what a call weighs, when it is over, and what is said of it."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from takeback.declare import (
    APPROVE,
    BLIND,
    PER_RUN,
    PER_TENANT,
    REFUSE,
    Currency,
    Limit,
    Remote,
    Tool,
    hours,
)
from takeback.model.limit import Load, Tally, load_of, over_of, scope_of


class Transfer(BaseModel):
    """An amount that may go either way, and a fee."""

    amount: int | None
    fee: int = 0
    currency: Currency = "EUR"


class Fee(BaseModel):
    """An amount that is always in one currency."""

    amount: int


def row(arguments: type[BaseModel] = Transfer) -> Tool:
    return Tool("move", arguments, effect=Remote(upstream=BLIND), description="Moves.", key=())


def load(limit: Limit, arguments: dict[str, Any], *, tool: Tool | None = None) -> Load:
    return load_of([limit], tool or row(), arguments, run="run-1", rows=None)


EUR = Limit(money=500, currency="EUR")


@pytest.mark.parametrize(
    ("arguments", "money"),
    [
        ({"amount": 300, "currency": "EUR"}, 300),
        ({"amount": -300, "currency": "EUR"}, 300),
        ({"amount": None, "currency": "EUR"}, 0),
    ],
    ids=["there", "back", "none"],
)
def test_money_counts_whichever_way_it_goes(arguments: dict[str, Any], money: int):
    """Else an agent would make room for a payment by asking for money back."""
    assert load(EUR, arguments).usage == Tally(count=1, money=money, rows=1)


def test_the_argument_that_a_limit_names_holds_the_money():
    fee = Limit(money=500, currency="EUR", argument="fee")
    assert load(fee, {"amount": 300, "fee": 7, "currency": "EUR"}).usage.money == 7


def test_what_has_no_currency_of_its_own_is_in_that_of_the_limit():
    found = load(EUR, {"amount": 5}, tool=row(Fee))
    assert (found.usage.money, found.currency) == (5, "EUR")


def test_a_tool_without_the_argument_moves_no_money():
    assert load(Limit(money=1, currency="EUR", argument="sum"), {"amount": 5}).usage.money == 0


@pytest.mark.parametrize(
    ("limit", "run", "scope"),
    [
        (Limit(count=1), "run-1", "tool:move"),
        (Limit(count=1, scope=PER_RUN), "run-1", "run:run-1"),
        (Limit(count=1, scope=PER_RUN), None, "run:"),
        (Limit(count=1, scope=PER_TENANT), None, "tenant"),
    ],
)
def test_each_scope_has_its_name(limit: Limit, run: str | None, scope: str):
    assert scope_of(limit, "move", run) == scope


@pytest.mark.parametrize(
    ("limit", "stands", "is_over"),
    [
        (Limit(count=3), Tally(count=2), False),
        (Limit(count=3), Tally(count=3), True),
        (Limit(count=0), Tally(), True),
        (EUR, Tally(money=400), False),
        (EUR, Tally(money=401), True),
        (Limit(rows=9), Tally(rows=8), False),
        (Limit(rows=9), Tally(rows=9), True),
    ],
)
def test_at_the_limit_is_within_and_one_more_is_over(limit: Limit, stands: Tally, is_over: bool):
    asked = load(limit, {"amount": 100, "currency": "EUR"})
    assert (over_of("move", [limit], asked, [stands]) is not None) is is_over


def test_a_currency_that_no_limit_names_has_nothing_left():
    asked = load(EUR, {"amount": 1, "currency": "USD"})
    over = over_of("move", [EUR], asked, [Tally()])
    assert over is not None
    (excess,) = over.excesses
    assert (excess.left, excess.currency) == (0, "USD")
    assert over_of("move", [EUR, Limit(money=9, currency="USD")], asked, [Tally()] * 2) is None


def test_a_limit_that_refuses_decides_before_one_that_asks():
    limits = [Limit(count=1), Limit(count=2, over=REFUSE), Limit(count=9)]
    over = over_of("move", limits, load(limits[0], {"amount": 1}), [Tally(count=5)] * 3)
    assert over is not None and over.wants is REFUSE
    assert [one.bound for one in over.excesses] == [2, 1]
    asking = over_of("move", limits[:1], load(limits[0], {"amount": 1}), [Tally(count=5)])
    assert asking is not None and asking.wants is APPROVE


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (Limit(count=1, per=hours(24)), "at most 1 calls within 1 day by this tool, 0 left"),
        (Limit(rows=1, scope=PER_RUN), "at most 1 rows in one run, 0 left"),
        (
            Limit(money=90, currency="EUR", per=timedelta(seconds=90), scope=PER_TENANT),
            "at most 0.90 EUR within 90 seconds in all, 0.90 EUR left",
        ),
    ],
)
def test_what_is_allowed_and_left_is_said_in_the_units_of_people(limit: Limit, said: str):
    stands = Tally(count=1, rows=1)
    over = over_of("move", [limit], load(limit, {"amount": 100, "currency": "EUR"}), [stands])
    assert over is not None
    problem = over.error()
    assert str(problem) == f"move is limited: {said}"
    assert problem.left[0]["left"] == over.excesses[0].left
