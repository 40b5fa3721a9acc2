"""Rows of each effect, and what the tests ask of a catalog of them."""

import dataclasses
import re
from datetime import timedelta
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from takeback.catalog.registry import Registry, build
from takeback.declare import (
    COMPENSATE,
    CONFLICT,
    KEYED,
    OMIT,
    Affects,
    Approval,
    Catalog,
    Currency,
    Local,
    Money,
    Read,
    Remote,
    Tool,
    Wording,
    hours,
)
from takeback.model.errors import InvalidCatalog
from takeback.model.handler import Handler


class Refund(BaseModel):
    """What a developer reads."""

    charge_id: str
    amount: Money
    currency: Currency
    reason: Literal["duplicate", "fraudulent"] = "duplicate"


class Ticket(BaseModel):
    ticket_id: str
    status: Literal["open", "closed"]


class Query(BaseModel):
    query: str = Field(description="what to look for")


def face(*_: Any) -> None:
    """A face that does nothing."""


REFUND = Tool(
    "refund_charge",
    Refund,
    effect=Remote(window=timedelta(minutes=10), upstream=KEYED(ttl=hours(24)), reversal=COMPENSATE),
    description="Refunds a charge.",
    key=("charge_id", "amount", "currency"),
    on_difference=CONFLICT,
    approval=Approval(argument="amount", over=50000),
    affects=Affects(kind="charge", id="charge_id"),
    wording=Wording(subject="Refund of {amount} {currency}", scheduled="leaves at {until}"),
)
CLOSE = Tool(
    "update_ticket",
    Ticket,
    effect=Local(),
    description="Changes a ticket.",
    key=("ticket_id", "status"),
)
SEARCH = Tool("search_orders", Query, effect=Read(on_forbidden=OMIT), description="Finds orders.")

WHOLE = Handler(perform=face, restore=face, preview=face, find=face, drift=face)


def registry(*tools: Tool, handlers: Any = None) -> Registry:
    return build(Catalog(*tools), handlers or {tool.name: WHOLE for tool in tools})


def problems(*tools: Tool, handlers: Any = None) -> list[str]:
    """The lines of the refusal."""
    with pytest.raises(InvalidCatalog) as caught:
        registry(*tools, handlers=handlers)
    lines = str(caught.value).splitlines()
    for line in lines:
        assert re.fullmatch(r"(row|handler) '.*': .+; fix: .+", line), line
    return lines


def problem(tool: Tool, **change: Any) -> str:
    """The one line about a row that has been changed."""
    (line,) = problems(dataclasses.replace(tool, **change))
    return line
