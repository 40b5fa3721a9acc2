"""The attempts of an intent as its log tells them: when each began and ended, and as what.

What a person, the provider or a late answer says afterwards is no end of an attempt: it ends the
doubt about it, later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from uuid import UUID

from takeback.model import event as events
from takeback.model.envelope import trace_of
from takeback.model.intent import Fact

Became = Literal["running", "succeeded", "failed", "deferred", "in_doubt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One attempt. ``cause`` is the word of the event that ended it, for a failed one its code;
    ``answered_late`` is what it said after others had decided about it.
    """

    number: int
    began_at: datetime
    ended_at: datetime | None = None
    became: Became = "running"
    cause: str | None = None
    answered_late: events.Outcome | None = None


def attempts_of(facts: Iterable[Fact]) -> list[Tried]:
    """The attempts in their order.

    >>> attempts_of([])
    []
    """
    found: dict[int, Tried] = {}
    for fact in facts:
        match fact.event:
            case events.AttemptBegan(attempt=number):
                found[number] = Tried(number=number, began_at=fact.at)
            case events.Deferred(attempt=number, cause=cause):
                _end(found, number, fact.at, "deferred", cause)
            case events.InDoubt(attempt=number, cause=cause):
                _end(found, number, fact.at, "in_doubt", cause)
            case events.Failed(attempt=number, code=code, source="handler"):
                _end(found, number, fact.at, "failed", code)
            case events.Succeeded(attempt=number, source="handler"):
                _end(found, number, fact.at, "succeeded", None)
            case events.AnsweredLate(attempt=number, outcome=outcome) if number in found:
                found[number] = replace(found[number], answered_late=outcome)
            case _:
                continue
    return [found[number] for number in sorted(found)]


def _end(
    found: dict[int, Tried], number: int, at: datetime, became: Became, cause: str | None
) -> None:
    if number in found:
        found[number] = replace(found[number], ended_at=at, became=became, cause=cause)


def attempt_trace(intent_id: UUID, number: int) -> str:
    """The trace id of what ended one attempt, for operators: that of its intent, and its number.

    >>> attempt_trace(UUID("01890a5d-ac96-774b-bcce-b302099a8057"), 2)
    'bcceb302099a8057-2'
    """
    return f"{trace_of(intent_id)}-{number}"
