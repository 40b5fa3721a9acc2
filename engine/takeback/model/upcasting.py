"""Payloads of former schemas, brought to the present one step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from takeback.model.errors import LedgerCorrupt

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

_UNASKED = dict.fromkeys(("on_behalf_of", "approval_cause", "approval_us", "affected"))

IN_NO_LANE: Mapping[str, Any] = {"lane": "", "priority": 0, "ordering": None}
"""What an intent has that goes through no connector, before nobody and in no order."""

BY_NOBODY: Mapping[str, Any] = {"by": None}
"""Whose wish it was to have an intent parked: nobody's, the engine did it."""


def _with(fields: dict[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, and what those that a later schema added mean where nothing was known of them."""
    if not fields.keys().isdisjoint(added):
        raise ValueError("a field of a later schema")
    return {**fields, **added}


UPCASTERS: Mapping[tuple[str, int], Upcaster] = {
    ("intent.recorded", 1): lambda fields: _with(fields, _UNASKED),
    ("intent.recorded", 2): lambda fields: _with(fields, IN_NO_LANE),
    ("intent.parked", 1): lambda fields: _with(fields, BY_NOBODY),
    ("intent.approved", 1): lambda fields: _with(fields, {"saw": None}),
}
"""(kind, schema) -> the payload of the next schema."""


def upcast(
    fields: Any,
    written: tuple[str, int],
    present: int,
    upcasters: Mapping[tuple[str, int], Upcaster],
) -> Any:
    """The fields ``written`` as (kind, schema), brought to the schema ``present`` step by step.

    >>> rename = {("intent.denied", 1): lambda old: {"by": old["who"]}}
    >>> upcast({"who": "dana"}, ("intent.denied", 1), 2, rename)
    {'by': 'dana'}

    Raises LedgerCorrupt when a step is missing, or can't do with what it is given.
    """
    kind, schema = written
    try:
        for step in range(schema, present):
            fields = upcasters[kind, step](fields)
    except (ValueError, TypeError, LookupError, AttributeError) as problem:
        raise LedgerCorrupt(f"{kind!r} schema {schema} can't be brought to {present}") from problem
    return fields
