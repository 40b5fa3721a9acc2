"""Calls that the tests of keys spell in every way, loadable by a bare Python too."""

from typing import Any, Literal

from pydantic import BaseModel

from takeback.declare import BLIND, Currency, Email, Instant, Key, Money, Remote, Text, Tool
from takeback.model.arguments import validate
from takeback.model.key import derive_key


class Refund(BaseModel):
    charge_id: str
    amount: Money
    currency: Currency
    reason: Literal["duplicate", "fraudulent", "requested_by_customer"] = "duplicate"


class Mail(BaseModel):
    to: Email
    template: Literal["refund_issued", "order_delayed", "apology"]
    order_id: str
    note: Text | None = None
    copies: int = 1
    labels: set[str] = set()
    at: Instant | None = None


MODELS: dict[str, type[BaseModel]] = {"refund_charge": Refund, "send_customer_email": Mail}


def row(name: str, *fields: str) -> Tool:
    return Tool(
        name,
        MODELS[name],
        effect=Remote(upstream=BLIND),
        description="Does it.",
        key=fields or tuple(MODELS[name].model_fields),
    )


MAIL = row("send_customer_email")
CALL: dict[str, Any] = {
    "to": "dana@example.com",
    "template": "apology",
    "order_id": "O-1",
    "note": "caf\u00e9",
    "copies": 5,
    "labels": ["b", "a"],
    "at": "2026-11-29T14:05:10Z",
}


def key(arguments: dict[str, Any], *fields: str, **said: Any) -> str:
    """The key of canonical arguments, with what a test doesn't care about filled in."""
    recipe = Key(fields or tuple(arguments))
    others: dict[str, Any] = {
        "tenant": "t",
        "tool": "x",
        "recipe": recipe,
        "run": None,
        "repeat_of": None,
    }
    return derive_key(arguments=arguments, **others | said)


def key_of(received: dict[str, Any], tool: Tool = MAIL) -> str:
    return key(validate(tool, received).canonical, tool=tool.name)
