"""What a limit must say, on a row or on an app, before anything can be held against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from takeback.catalog.effect_rule import LONGEST, Problem
from takeback.declare import Limit, Local, Read, Tool
from takeback.declare.currency import MINOR_UNIT_EXPONENTS
from takeback.declare.tool import LimitScope, OverLimit
from takeback.model.errors import InvalidCatalog
from takeback.model.limit import CURRENCY
from takeback.model.shape import Shape

BOUND_MAX = 2**63 - 1
"""What the ledger can add up to."""


def limit_problems(tool: Tool) -> Iterator[Problem]:
    """What is wrong with the limits of a row whose argument model is usable."""
    if tool.limits and isinstance(tool.effect, Read):
        yield "it has limits, and only reads: reads are not counted", "drop limits=..."
        return
    for limit in tool.limits:
        yield from _limit(limit)
        yield from _money(tool, limit)
        if limit.strict and not isinstance(tool.effect, Local):
            yield (
                "a limit of it is strict, which says something of Local effects only",
                "drop strict=True: at a remote effect's release nothing overshoots",
            )
    bounding = [limit for limit in tool.limits if limit.money is not None]
    for what in ("argument", *(() if _has_currency(tool) else (CURRENCY,))):
        named = sorted({str(getattr(limit, what)) for limit in bounding})
        if len(named) > 1:
            yield (
                f"its limits of money name several of {what}: {', '.join(named)}",
                f"name one {what} in all of them",
            )


def require_limits(limits: Sequence[Limit]) -> None:
    """Raises InvalidCatalog when a limit of an app says nothing, or what can't be."""
    lines = [f"a limit of the app: {wrong}; {fix}" for one in limits for wrong, fix in _limit(one)]
    if lines:
        raise InvalidCatalog("\n".join(lines))


def _limit(limit: Limit) -> Iterator[Problem]:
    # The row is other people's code: the types say what it should be.
    bounds: dict[str, Any] = {"count": limit.count, "money": limit.money, "rows": limit.rows}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    if not given:
        yield "a limit of it bounds nothing", "give it count=, money= or rows="
    for name, bound in given.items():
        if isinstance(bound, bool) or not isinstance(bound, int) or not 0 <= bound <= BOUND_MAX:
            yield (
                f"a limit of it has {name}={bound!r}, which is no bound",
                "give a whole number, 0 or more (of money: in minor units)",
            )
    if limit.per is not None and not timedelta(0) < limit.per <= LONGEST:
        yield "a limit of it has a time that is none", "write per=hours(24), or None for ever"
    if limit.currency is not None and limit.money is None:
        yield "a limit of it names a currency, and bounds no money", "add money=, or drop it"
    if limit.currency is not None and limit.currency not in MINOR_UNIT_EXPONENTS:
        yield (
            f"a limit of it is in {limit.currency!r}, which is no currency",
            'write a code of ISO 4217, such as "EUR"',
        )
    scope: Any = limit.scope
    over: Any = limit.over
    if not isinstance(scope, LimitScope) or not isinstance(over, OverLimit):
        yield (
            "a limit of it has a scope, or an over, that is none",
            "write scope=PER_RUN, PER_TOOL or PER_TENANT, and over=APPROVE or REFUSE",
        )


def _money(tool: Tool, limit: Limit) -> Iterator[Problem]:
    if limit.money is None:
        return
    if limit.argument not in tool.arguments.model_fields:
        yield (
            f"a limit of it adds up {limit.argument!r}, which is no argument",
            "add argument=...: the one that holds the amount",
        )
    elif Shape(tool.arguments).kinds((limit.argument,)) != {"int"}:
        yield (
            f"a limit of it adds up {limit.argument!r}, which is no whole number",
            "name an argument that is Money or int",
        )
    if limit.currency is None and _has_currency(tool):
        yield (
            "a limit of its money names no currency, and its calls may come in several",
            'add currency="EUR", and a limit for each other one',
        )


def _has_currency(tool: Tool) -> bool:
    return CURRENCY in tool.arguments.model_fields
