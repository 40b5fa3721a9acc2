"""What became of each attempt of an intent, why, and who knows: for programs, and for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from takeback.cli.asking import IN_DOUBT
from takeback.cli.sheet import field

if TYPE_CHECKING:
    from takeback.client.looking import Shown

LINES_MAX = 5
"""So many of the last attempts are told to people."""

_DEFERRED = {
    "not_dispatched": "nothing happened, and it is tried again later",
    "outage": "nothing happened: its provider answers nobody at this moment",
    "interrupted": "it was begun and never called",
}

_KNOWN_BY = {
    "find": "its provider was asked and said so",
    "late": "its answer came late",
    "person": "{by} said so",
    "policy": "a limit refused it before it began",
}


def attempts_told(shown: Shown) -> list[dict[str, Any]]:
    """The last attempts, and what ended each as far as that is kept."""
    from takeback.client.looking import ATTEMPTS_SHOWN_MAX
    from takeback.model.moment import iso

    told = []
    for one in shown.attempts[-ATTEMPTS_SHOWN_MAX:]:
        fault = shown.reasons.get(one.number)
        message = fault.details.partition("\n")[0] if fault else ""
        told.append(
            {
                "attempt": one.number,
                "began_at": iso(one.began_at),
                "ended_at": iso(one.ended_at) if one.ended_at else None,
                "became": one.became,
                "cause": one.cause,
                "answered_late": one.answered_late,
                "error": fault
                and {"class": fault.kind, "message": message, "trace_id": fault.trace_id},
            }
        )
    return told


def verdict_of(shown: Shown) -> dict[str, Any] | None:
    """Who has said last whether it happened, and when they did; None while nobody has.

    When it happened is another matter: its attempts say when they began and ended.
    """
    from takeback.model.event import Failed, Succeeded
    from takeback.model.moment import iso

    if shown.entry.intent.settled_at is None:
        return None
    for fact in reversed([stored.fact() for stored in shown.events]):
        event = fact.event
        if isinstance(event, Succeeded | Failed):
            says = "succeeded" if isinstance(event, Succeeded) else "failed"
            return {"says": says, "source": event.source, "by": event.by, "at": iso(fact.at)}
    return None


def attempt_lines(document: Mapping[str, Any], app_option: str) -> Iterable[str]:
    """Who knows what became of it where that is not plain, and attempts that ended badly."""
    verdict = document["verdict"]
    if verdict is not None and verdict["source"] in _KNOWN_BY:
        known = _KNOWN_BY[verdict["source"]].format(by=verdict["by"])
        yield field(verdict["says"], f"{known} at {verdict['at']}")
    attempts = document["attempts"]
    if all(one["became"] == "succeeded" and one["error"] is None for one in attempts):
        return
    for one in attempts[-LINES_MAX:]:
        ended = f" to {one['ended_at']}" if one["ended_at"] else ""
        yield field(f"attempt {one['attempt']}", f"{one['began_at']}{ended}: {_became(one)}")
        if one["error"] is not None:
            kind = one["error"]["class"].removeprefix("builtins.")
            yield field("", f"{kind}: {one['error']['message']}")
            yield field("", f"takeback {app_option}show {shlex.quote(one['error']['trace_id'])}")


def _became(one: Mapping[str, Any]) -> str:
    cause = one["cause"]
    why = IN_DOUBT.get(cause) or _DEFERRED.get(cause) or cause
    late = f"; later it answered that it has {one['answered_late']}" if one["answered_late"] else ""
    return f"{one['became']}{f': {why}' if why else ''}{late}"
