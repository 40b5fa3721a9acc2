"""What a call weighs, and whether it is over a limit, on top of what stands. Sums only.

Money is summed by currency. A call in a currency that no limit of its row names is over them:
nothing is left in it. Calls without a run count as one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal, assert_never

from takeback.declare import REFUSE, Limit, OverLimit, Tool
from takeback.declare.currency import MINOR_UNIT_EXPONENTS
from takeback.declare.tool import LimitScope
from takeback.model.errors import LimitExceeded

CURRENCY = "currency"
"""The argument beside an amount that says in which currency it is."""

Counted = Literal["count", "money", "rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many intents, minor units of one currency, and rows."""

    count: int = 0
    money: int = 0
    rows: int = 0

    def plus(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            count=self.count + other.count,
            money=self.money + other.money,
            rows=self.rows + other.rows,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one call counts, and in which scopes."""

    scopes: tuple[str, ...]
    usage: Tally
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """One bound that a call is over: what stands, and what the call adds."""

    limit: Limit
    of: Counted
    bound: int
    used: int
    asked: int
    currency: str = ""

    @property
    def left(self) -> int:
        """What would still be within; nothing in a currency that the limit does not name."""
        if self.of == "money" and self.limit.currency not in (None, self.currency):
            return 0
        return max(self.bound - self.used, 0)

    def to_json(self) -> dict[str, Any]:
        """As programs read it; money in minor units."""
        document: dict[str, Any] = {
            "limit": self.of,
            "scope": self.limit.scope.value,
            "within_s": None if self.limit.per is None else self.limit.per.total_seconds(),
            "at_most": self.bound,
            "left": self.left,
        }
        return document | {"currency": self.currency} if self.currency else document

    def sentence(self) -> str:
        """What is allowed and what is left of it."""
        within = "" if self.limit.per is None else f" within {_span(self.limit.per)}"
        whose = _WHOSE[self.limit.scope]
        if self.of != "money":
            unit = "calls" if self.of == "count" else "rows"
            return f"at most {self.bound} {unit}{within} {whose}, {self.left} left"
        most = _amount(self.bound, self.limit.currency or self.currency)
        return f"at most {most}{within} {whose}, {_amount(self.left, self.currency)} left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """A call is over limits: ``excesses`` are all of them, the one that decides first."""

    tool: str
    excesses: tuple[Excess, ...]

    @property
    def limit(self) -> Limit:
        """The limit that decides: one that refuses before one that asks."""
        return self.excesses[0].limit

    @property
    def wants(self) -> OverLimit:
        """What becomes of the call: a person decides, or it is refused."""
        return self.limit.over

    def error(self) -> LimitExceeded:
        """What the caller is told where the call is refused."""
        sentences = "; ".join(one.sentence() for one in self.excesses)
        return LimitExceeded(
            f"{self.tool} is limited: {sentences}", left=[one.to_json() for one in self.excesses]
        )


def load_of(
    limits: Sequence[Limit],
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    run: str | None,
    rows: int | None,
) -> Load:
    """What a call counts; ``rows`` None is unknown and counts as one."""
    money, currency = _money(limits, tool, arguments)
    return Load(
        scopes=tuple(dict.fromkeys(scope_of(limit, tool.name, run) for limit in limits)),
        usage=Tally(count=1, money=money, rows=1 if rows is None else rows),
        currency=currency,
    )


def scope_of(limit: Limit, tool: str, run: str | None) -> str:
    """What the limit adds up, as it is stored.

    >>> scope_of(Limit(count=3), "send_letter", "run-42")
    'tool:send_letter'
    """
    match limit.scope:
        case LimitScope.RUN:
            return f"run:{run or ''}"
        case LimitScope.TOOL:
            return f"tool:{tool}"
        case LimitScope.TENANT:
            return "tenant"
        case _:
            assert_never(limit.scope)


def over_of(tool: str, limits: Sequence[Limit], load: Load, stands: Sequence[Tally]) -> Over | None:
    """Whether ``load`` is over a limit, on top of what ``stands`` for each; at it is within.

    >>> load = Load(scopes=("tenant",), usage=Tally(count=1, money=40, rows=1), currency="EUR")
    >>> limit = Limit(money=100, currency="EUR")
    >>> over_of("pay", [limit], load, [Tally(money=60)]) is None
    True
    >>> over_of("pay", [limit], load, [Tally(money=61)]).excesses[0].left
    39
    """
    named = {limit.currency for limit in limits if limit.money is not None}
    is_unnamed = None not in named and load.currency not in named
    excesses = []
    for limit, stood in zip(limits, stands, strict=True):
        for of, bound in bounds_of(limit):
            used, asked = getattr(stood, of), getattr(load.usage, of)
            currency = load.currency if of == "money" else ""
            counts = of != "money" or limit.currency in (None, currency)
            is_over = used + asked > bound if counts else is_unnamed
            if asked and is_over:
                excesses.append(
                    Excess(
                        limit=limit, of=of, bound=bound, used=used, asked=asked, currency=currency
                    )
                )
    if not excesses:
        return None
    refusing_first = sorted(excesses, key=lambda one: one.limit.over is not REFUSE)
    return Over(tool=tool, excesses=tuple(refusing_first))


def bounds_of(limit: Limit) -> list[tuple[Counted, int]]:
    """What the limit bounds.

    >>> bounds_of(Limit(count=3, rows=10))
    [('count', 3), ('rows', 10)]
    """
    bounds: tuple[tuple[Counted, int | None], ...] = (
        ("count", limit.count),
        ("rows", limit.rows),
        ("money", limit.money),
    )
    return [(of, bound) for of, bound in bounds if bound is not None]


def _money(limits: Sequence[Limit], tool: Tool, arguments: Mapping[str, Any]) -> tuple[int, str]:
    """How much a call moves, in either direction, and in which currency.

    The row's own limits say which argument holds it, before the app's.
    """
    known = tool.arguments.model_fields
    for limit in limits:
        if limit.money is not None and limit.argument in known:
            amount = arguments.get(limit.argument)
            currency = arguments.get(CURRENCY) if CURRENCY in known else limit.currency
            return (abs(amount) if isinstance(amount, int) else 0), str(currency or "")
    return 0, ""


_WHOSE = {
    LimitScope.RUN: "in one run",
    LimitScope.TOOL: "by this tool",
    LimitScope.TENANT: "in all",
}

_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def _span(per: timedelta) -> str:
    seconds = per.total_seconds()
    for length, unit in _UNITS:
        if seconds % length == 0:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return f"{seconds:g} seconds"


def _amount(minor: int, currency: str) -> str:
    exponent = MINOR_UNIT_EXPONENTS.get(currency)
    if exponent is None:
        return f"{minor} {currency}".strip()
    return f"{Decimal(minor).scaleb(-exponent)} {currency}"
