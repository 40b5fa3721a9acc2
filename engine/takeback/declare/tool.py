"""One row of the catalog: a tool, its arguments, its key, and who may reach it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from pydantic import BaseModel

from takeback.declare.effect import Effect


class Tier(StrEnum):
    """How a tool may be called when it is not in the active set."""

    SILENT = "silent"
    GATED = "gated"
    LOOP = "loop"


SILENT = Tier.SILENT
GATED = Tier.GATED
LOOP = Tier.LOOP


class Exposure(StrEnum):
    """From which scope on a tool is visible at the MCP door; scopes nest in this order."""

    READ_ONLY = "read_only"
    STAGING = "staging"
    FULL = "full"
    EXCLUDED = "excluded"


READ_ONLY = Exposure.READ_ONLY
STAGING = Exposure.STAGING
FULL = Exposure.FULL
EXCLUDED = Exposure.EXCLUDED


class OnDifference(StrEnum):
    """What a repeat with the same key and other arguments is told."""

    CONFLICT = "conflict"
    DIFFERS = "differs"


CONFLICT = OnDifference.CONFLICT
DIFFERS = OnDifference.DIFFERS


class ScopeKind(StrEnum):
    """How far a key reaches."""

    FOREVER = "forever"
    RUN = "run"
    WINDOW = "window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How far a key reaches: for ever, within one run, or for ``length`` after the first call."""

    kind: ScopeKind
    length: timedelta | None = None


FOREVER = Scope(kind=ScopeKind.FOREVER)
RUN = Scope(kind=ScopeKind.RUN)


def window(length: timedelta) -> Scope:
    """A scope in which an equal call is a repeat for ``length`` after the first one.

    Longer while the first may still come about: held, in doubt, or waiting for a person.

    >>> window(timedelta(hours=24)).length
    datetime.timedelta(days=1)
    """
    return Scope(kind=ScopeKind.WINDOW, length=length)


@dataclass(frozen=True, slots=True)
class Key:
    """The recipe of a tool's idempotency key.

    ``fields`` are the arguments that make two calls the same one. ``former`` keeps the recipes of
    earlier releases, so that nothing done becomes undone by a deploy.
    """

    fields: tuple[str, ...]
    version: int = field(default=1, kw_only=True)
    scope: Scope = field(default=FOREVER, kw_only=True)
    former: tuple[Key, ...] = field(default=(), kw_only=True)


class LimitScope(StrEnum):
    """Whose calls a limit adds up: those of one run, of the tool, or of the whole tenant."""

    RUN = "run"
    TOOL = "tool"
    TENANT = "tenant"


PER_RUN = LimitScope.RUN
PER_TOOL = LimitScope.TOOL
PER_TENANT = LimitScope.TENANT


class OverLimit(StrEnum):
    """What becomes of a call that is over a limit: a person decides, or it is refused."""

    APPROVE = "approve"
    REFUSE = "refuse"


APPROVE = OverLimit.APPROVE
REFUSE = OverLimit.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most ``count`` calls, ``money`` minor units of ``currency`` or ``rows`` rows within
    ``per`` (None: for ever), added up over ``scope``.

    ``argument`` is the argument that holds the money. Over it a call waits for a person, or is
    refused, as ``over`` says. For a Local effect two calls at the same moment may overshoot it
    together, unless it is ``strict``: then they are made one after the other.
    """

    per: timedelta | None = None
    count: int | None = None
    money: int | None = None
    currency: str | None = None
    rows: int | None = None
    argument: str = "amount"
    scope: LimitScope = PER_TOOL
    over: OverLimit = APPROVE
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person decides first: of every call, or where any of the conditions given holds.

    The integer argument ``argument`` is greater than ``over``; more than ``rows_over`` rows would
    be affected; with ``repeats`` it is meant once more (``repeat_of``). ``expires`` is how long a
    request stays open; nobody's decision in that time means no.
    """

    argument: str | None = None
    over: int | None = None
    rows_over: int | None = None
    repeats: bool = False
    expires: timedelta = timedelta(days=1)

    @property
    def is_of_every_call(self) -> bool:
        """Whether no condition is given."""
        return self.over is None and self.rows_over is None and not self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Affects:
    """What a call affects, said before it runs: a kind, and the argument that identifies it."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The sentences of a tool's answers; ``{argument}`` and ``{until}`` are filled in.

    ``subject`` opens every sentence; the others go on from it. ``undo`` says what taking it back
    does, ``leaves`` what it can't take back.
    """

    subject: str
    scheduled: str = "is carried out at {until} unless taken back"
    done: str = "is done"
    taken_back: str = "was taken back"
    undo: str = "takes it back"
    leaves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A row: one capability, its argument model, its effect and its key.

    ``on_difference`` is what a repeat with other arguments outside the key is told: one word for
    all of them, or one per argument; it must be said when there are such arguments.
    ``upgrades`` maps a former ``version`` to a pure function that turns arguments held by that
    release into arguments of the next.
    """

    name: str
    arguments: type[BaseModel]
    effect: Effect = field(kw_only=True)
    description: str = field(kw_only=True)
    key: Key | tuple[str, ...] = field(default=(), kw_only=True)
    tier: Tier = field(default=GATED, kw_only=True)
    inline: bool = field(default=False, kw_only=True)
    exposure: Exposure = field(default=EXCLUDED, kw_only=True)
    triggers: tuple[str, ...] = field(default=(), kw_only=True)
    affects: Affects | None = field(default=None, kw_only=True)
    wording: Wording | None = field(default=None, kw_only=True)
    on_difference: OnDifference | Mapping[str, OnDifference] | None = field(
        default=None, kw_only=True
    )
    approval: Approval | None = field(default=None, kw_only=True)
    limits: tuple[Limit, ...] = field(default=(), kw_only=True)
    version: int = field(default=1, kw_only=True)
    upgrades: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(
        default_factory=dict, kw_only=True
    )

    @property
    def recipe(self) -> Key:
        """The key recipe, also when the row gave only its fields."""
        return self.key if isinstance(self.key, Key) else Key(tuple(self.key))
