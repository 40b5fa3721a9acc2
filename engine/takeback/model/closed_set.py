"""Closed sets of values: what of them a refusal names, and how the rest is looked up.

A set is declared as a Literal or an Enum, or by a validator that raises InvalidValue with all that
it permits, as ``Currency`` does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from takeback.declare.argument import InvalidValue
from takeback.model.likeness import alike, best_first, nearest_first
from takeback.model.reading import Path
from takeback.model.shape import Shape, parsed
from takeback.model.violation import Repair, Violation, shown

# A larger closed set is not listed: its nearest members, its size and a look-up are.
PERMITTED_MAX = 8

# The tool that every app answers, for what is not listed.
PERMITTED_VALUES = "permitted_values"

_QUERY_LENGTH_MAX = 100

# Sent to a validator that keeps its closed set to itself: no member of any.
_PROBE = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One permitted value, and its name where an Enum gives it one that says more."""

    value: Any
    name: str | None = None

    @property
    def text(self) -> str:
        """The value as it is said in a sentence."""
        return said(self.value)

    def is_spelt(self, received: Any) -> bool:
        """Whether a text or a number is this member's value or name in another spelling.

        >>> Member(value="DE", name="GERMANY").is_spelt("germany"), Member(value=2).is_spelt("2")
        (True, True)
        """
        if not (_is_word(received) and _is_word(self.value)):
            return False
        written = said(received)
        return alike(self.text, written) or (self.name is not None and alike(self.name, written))


def closed_set(model: type[BaseModel], path: Path) -> tuple[Member, ...]:
    """Every permitted value of the argument at ``path``; empty where any value may stand.

    >>> from typing import Literal
    >>> from pydantic import create_model
    >>> Ticket = create_model("Ticket", status=(Literal["open", "closed"], ...))
    >>> [member.value for member in closed_set(Ticket, ("status",))]
    ['open', 'closed']
    """
    # One item of a list is as good as another.
    return _closed_set(model, tuple(0 if isinstance(part, int) else part for part in path))


@lru_cache(maxsize=1024)
def _closed_set(model: type[BaseModel], path: Path) -> tuple[Member, ...]:
    members = Shape(model).members(path)
    if not members:
        members = [(value, None) for value in _kept_by_a_validator(model, path)]
    named: dict[str, Member] = {}
    for value, name in members:
        told = None if name is None or alike(name, said(value)) else name
        named.setdefault(said(value), Member(value=value, name=told))
    return tuple(named.values())


def _kept_by_a_validator(model: type[BaseModel], path: Path) -> Sequence[Any]:
    probe: Any = _PROBE
    for part in reversed(path):
        probe = [probe] if isinstance(part, int) else {part: probe}
    if not isinstance(probe, dict):
        return ()
    try:
        parsed(model, probe)
    except ValidationError as refusal:
        for error in refusal.errors(include_url=False):
            own = error.get("ctx", {}).get("error")
            if isinstance(own, InvalidValue) and own.permitted:
                return own.permitted
    return ()


def not_permitted(field: str, received: Any, members: Sequence[Member]) -> Violation:
    """The violation of a closed set.

    The suggestion is mechanical where the value is one member but for its spelling; everything
    else is a choice.

    >>> members = [Member(value=value) for value in ("open", "pending", "closed")]
    >>> violation = not_permitted("status", "OPEN", members)
    >>> violation.message, violation.suggestion, violation.repair.value
    ('must be one of: open, pending, closed', 'open', 'mechanical')
    >>> not_permitted("status", "opened", members).suggestion is None
    True
    """
    nearest = list(members)
    message = f"must be one of: {', '.join(member.text for member in members)}"
    if len(members) > PERMITTED_MAX:
        nearest = nearest_members(received, members)[:PERMITTED_MAX]
        told = ", ".join(
            member.text if member.name is None else f"{member.text} ({member.name})"
            for member in nearest
        )
        message = f"must be one of {len(members)} values; the nearest are: {told}"
    same = [member.value for member in members if member.is_spelt(received)]
    return Violation(
        field=field,
        code="not_permitted",
        message=message,
        received=shown(received),
        permitted=tuple(member.value for member in nearest),
        permitted_count=len(members),
        suggestion=same[0] if len(same) == 1 else None,
        repair=Repair.MECHANICAL if len(same) == 1 else Repair.CHOICE,
    )


def nearest_members(received: Any, members: Sequence[Member]) -> list[Member]:
    """The members, most like what was received first, in their values or in their names.

    >>> some = [Member(value="AT"), Member(value="DE", name="GERMANY")]
    >>> [member.value for member in nearest_members("Germny", some)]
    ['DE', 'AT']
    """
    return _by_text(nearest_first(said(received), _texts(members)), members)


def best_members(query: str, members: Sequence[Member]) -> list[Member]:
    """The members, best answer to a search first; in declared order when nothing is asked.

    >>> some = [Member(value="AT"), Member(value="DE", name="GERMANY")]
    >>> [member.value for member in best_members("german", some)]
    ['DE', 'AT']
    """
    if not query.strip():
        return list(members)
    return _by_text(best_first(query, _texts(members)), members)


def lookup_of(tool_name: str, field: str, received: Any) -> dict[str, Any]:
    """The ready call that searches the closed set of an argument.

    >>> lookup_of("ship", "country", "Deutschland")["arguments"]
    {'argument': 'ship.country', 'query': 'Deutschland'}
    """
    query = "" if received is None else said(received)[:_QUERY_LENGTH_MAX]
    return {
        "tool": PERMITTED_VALUES,
        "arguments": {"argument": f"{tool_name}.{field}", "query": query},
    }


def said(value: Any) -> str:
    """A value as it stands in a sentence: a text as it is, everything else as JSON.

    >>> said("open"), said(None), said(2)
    ('open', 'null', '2')
    """
    told = shown(value)
    return told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)


def _is_word(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _texts(members: Sequence[Member]) -> list[str]:
    return [text for member in members for text in (member.text, member.name) if text is not None]


def _by_text(texts: Sequence[str], members: Sequence[Member]) -> list[Member]:
    """Each member once, where the first of its texts stands."""
    of: dict[str, list[Member]] = {}
    for member in members:
        for text in (member.text, member.name):
            if text is not None:
                of.setdefault(text, []).append(member)
    found: dict[str, Member] = {}
    for text in texts:
        for member in of[text]:
            found.setdefault(member.text, member)
    return list(found.values())
