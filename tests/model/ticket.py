"""A row with an argument of every kind, and what the tests ask of it."""

import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from takeback.declare import OMIT, Currency, Email, Instant, Money, Read, Text, Tool
from takeback.model.arguments import validate
from takeback.model.errors import InvalidArguments
from takeback.model.violation import Violation

SUBDIVISIONS = tuple(f"{a}{b}" for a in "ABCDEFGHJKLMN" for b in "ABCDEFGHJKLMNOPQRSTV")[:249]


class Reason(StrEnum):
    DUPLICATE = "duplicate"
    REQUESTED = "requested_by_customer"


class Line(BaseModel):
    amount: Money
    reason: Reason = Reason.DUPLICATE


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Transfer(BaseModel):
    kind: Literal["transfer"]
    iban: str


class Everything(BaseModel):
    # What an author allows of its own accord is refused all the same.
    model_config = ConfigDict(extra="allow")

    ticket_id: str
    status: Literal["open", "pending", "closed"]
    count: int = 1
    ratio: float = 1.0
    note: Text | None = None
    lines: list[Line] = []
    currency: Currency = "EUR"
    limit: int | Literal["all"] = "all"
    pay: Annotated[Card | Transfer, Field(discriminator="kind")] | None = None
    at: Instant | None = None
    plain_at: datetime | None = None
    labels: dict[str, int] = {}
    numbers: set[int] = set()
    price: Decimal | None = None
    region: Literal[SUBDIVISIONS] | None = None  # type: ignore[valid-type]
    free: Any = None
    sender: Email | None = Field(default=None, alias="from")


def tool(model: type[BaseModel], **row: Any) -> Tool:
    effect = Read(on_forbidden=OMIT)
    return Tool("update_ticket", model, effect=effect, description="Changes a ticket.", **row)


TOOL = tool(Everything)
RIGHT = {"ticket_id": "T-7", "status": "open"}


def violations(received: Any, row: Tool = TOOL) -> dict[str, Violation]:
    with pytest.raises(InvalidArguments) as caught:
        validate(row, received)
    found = caught.value.violations
    assert len({each.field for each in found}) == len(found)
    json.dumps([each.to_json() for each in found])
    return {each.field: each for each in found}


def canonical(received: Mapping[str, Any], row: Tool = TOOL) -> dict[str, Any]:
    return validate(row, received).canonical


def only(received: Mapping[str, Any], row: Tool = TOOL) -> Violation:
    (violation,) = violations(received, row).values()
    return violation
