"""What the rows of connectors must say, and how those of tools name them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from takeback.catalog.effect_rule import LONGEST, Problem, is_name
from takeback.declare import Breaker, Catalog, Connector, Remote, Tool
from takeback.model.likeness import look_alikes

COUNT_MAX = 1_000_000
"""More at once, or a second, is a slip of the pen."""


def connector_problems(catalog: Catalog) -> Iterator[str]:
    """What is wrong with the connectors of ``catalog``, a line each, with the fix."""
    named = {connector for tool in catalog if (connector := _connector_of(tool)) is not None}
    for row in catalog.connectors:
        for wrong, fix in _row(row, named):
            yield f"connector {row.name!r}: {wrong}; fix: {fix}"
    known = [row.name for row in catalog.connectors]
    for tool in catalog:
        connector = _connector_of(tool)
        if known and connector is not None and connector not in known:
            nearest = [*look_alikes(connector, known), *known][0]
            yield (
                f"row {tool.name!r}: its connector {connector!r} is none of the catalog's; fix: "
                f"add Connector({connector!r}, breaker=None) to connectors, or write {nearest!r}"
            )


def _connector_of(tool: Tool) -> str | None:
    effect = tool.effect
    connector: Any = effect.connector if isinstance(effect, Remote) else None
    return connector if is_name(connector) else None


def _row(row: Connector, named: set[str]) -> Iterator[Problem]:
    if not is_name(row.name):
        yield (
            "its name is not one: expected a lower-case letter, then up to 62 letters, digits or _",
            "rename it",
        )
    elif row.name not in named:
        yield "no tool goes through it", f"write Remote(connector={row.name!r}), or drop it"
    # The row is other people's code: the types say what it should be.
    concurrency: Any = row.concurrency
    if concurrency is not None and not _is_count(concurrency):
        yield f"its concurrency is {concurrency!r}", "write a whole number, 1 or more, or None"
    yield from _rate(row)
    breaker: Any = row.breaker
    if isinstance(breaker, Breaker):
        yield from _breaker(breaker)
    elif breaker is not None:
        yield "its breaker is none", "write breaker=Breaker(...), or None for no breaker"


def _rate(row: Connector) -> Iterator[Problem]:
    rate: Any = row.rate
    burst: Any = row.burst
    if rate is not None and not (_is_number(rate) and 0 < rate <= COUNT_MAX):
        yield f"its rate is {rate!r}", "write how many may begin a second, such as 25.0 or 0.5"
    if burst is not None and not _is_count(burst):
        yield f"its burst is {burst!r}", "write a whole number, 1 or more, or None"
    if burst is not None and rate is None:
        yield "it has a burst and no rate", "add rate=..., or drop burst"


def _breaker(breaker: Breaker) -> Iterator[Problem]:
    if not _is_count(breaker.failures):
        yield f"its breaker opens after {breaker.failures!r} failures", "write 1 or more"
    if not timedelta(0) < breaker.pause <= LONGEST:
        yield "its breaker has a pause that is none", "write pause=seconds(10)"
    elif not breaker.pause <= breaker.pause_max <= LONGEST:
        yield "its breaker's pause_max is none, or less than its pause", "write minutes(5)"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= COUNT_MAX


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
