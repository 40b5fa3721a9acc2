"""What a tool author writes for a row, and what the engine hands it and takes back.

A handler has up to five faces. Which arguments a face gets depends on the row's effect:

    face      Local                   Remote                    Read
    perform   (session, arguments)    (arguments, attempt)      (session, arguments)
    restore   (session, original)     (original, attempt)       -
    preview   (session, arguments)    (arguments,)              -
    find      -                       (arguments, attempt)      -
    drift     (session, original)     -                         -

Each may be sync or async. A face answers with ``Performed`` or with a plain result.

A face of a Local tool or a Read ends no transaction: it is its caller's, and ``session.commit()``
in there is refused. What it raises undoes what it did. ``drift`` answers with what somebody else
has changed since, an object with ``field`` for each, or with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """One thing in the world that a call affects: its kind, its id and a name a person knows."""

    kind: str
    id: str
    label: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Performed:
    """What a face did: any JSON ``result``, what it ``affected``, and a sentence about it.

    ``affected`` may be a selection; ``affected_count`` then says how many there were in all, and
    ``affected_by_kind`` how many of each kind. ``leaves`` names what taking it back can't take
    back. The result is for the handler's other faces and for the full answer: a lean one has the
    sentence and what is affected.
    """

    result: Any = None
    affected: Sequence[Affected] = ()
    affected_count: int | None = None
    affected_by_kind: Mapping[str, int] | None = None
    summary: str | None = None
    leaves: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group of what a read found: its label, how many are in it, and what they come to."""

    label: str
    count: int
    totals: Mapping[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a read found: the best matches first, and whether there are more than these.

    At most eight matches are an answer, and all are told. Of more, or where there are ``totals``
    or ``groups``, three are told, from across the groups: ``group_field`` is the field of a match
    that has its group's label. All are in the full answer. ``matches`` may be a selection;
    ``matches_count`` then says how many there are in all.

    ``more_matches_exist`` means that whoever was asked has stopped early: then totals are those of
    what was seen. ``not_searched`` names parts that could not be asked. ``result`` is told in the
    full answer alone, such as the text of an export.
    """

    matches: Sequence[Mapping[str, Any]]
    more_matches_exist: bool = False
    summary: str | None = None
    matches_count: int | None = None
    totals: Mapping[str, int | float | str] = field(default_factory=dict)
    groups: Sequence[Group] = ()
    group_field: str | None = None
    not_searched: Sequence[str] = ()
    result: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Answer of ``find``: the provider proves that the attempt never arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a remote effect, as the handler sees it.

    ``provider_key`` is the idempotency key for the provider: equal for every attempt that might
    have reached it, so a repeat there is one effect. ``seconds_max`` bounds the attempt.
    """

    intent_id: str
    ref: str
    tenant: str
    run: str | None
    principal: str
    number: int
    provider_key: str
    seconds_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The intent that is being taken back: what was asked, and what came of it."""

    intent_id: str
    ref: str
    tenant: str
    arguments: Any
    result: Any
    affected: Sequence[Affected] = ()


Face = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """The faces of one tool; only ``perform`` is required."""

    perform: Face
    restore: Face | None = None
    preview: Face | None = None
    find: Face | None = None
    drift: Face | None = None
