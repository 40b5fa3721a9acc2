"""What a person is asked about a call, or can do about one: for programs, and for that person."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from takeback.cli.sheet import field

if TYPE_CHECKING:
    from takeback.client.looking import Shown
    from takeback.model.approval import Decided
    from takeback.model.intent import Fact, Intent

WAITS = "awaiting_approval"

AFFECTED_SHOWN_MAX = 100
"""So many are told to programs; ``affected_count`` has the whole number."""

LINES_MAX = 10
"""So many are told to people."""

_WHY = {
    "row": "its row wants a person for such a call",
    "repeat": "it is meant once more",
    "rows": "it affects many rows",
    "limit": "it is over a limit",
    "policy": "the app's policy wants a person",
    "other_failed": "what it waited for has failed, or was taken back",
}


def approval_of(shown: Shown) -> dict[str, Any] | None:
    """What was asked of a person, and what became of that; None where nobody was asked."""
    from takeback.client.approving import told_of
    from takeback.model.moment import iso

    asked, decided = shown.asked, shown.decided
    if asked is None:
        return None
    intent, bodies = shown.entry.intent, shown.entry.bodies
    foreseen = bodies.get("affected") or shown.envelope
    return {
        "state": _state(intent.state.value, decided),
        "cause": asked.cause,
        "asked_at": iso(asked.at),
        "asked_by": intent.principal,
        "asked_of": f"a person other than {intent.principal}",
        "expires_at": iso(asked.expires_at) if asked.expires_at else None,
        "expect": asked.expect,
        "affected": [dict(one) for one in foreseen["affected"][:AFFECTED_SHOWN_MAX]],
        "affected_count": foreseen["affected_count"],
        "decided": told_of(decided, bodies) if decided else None,
    }


def _state(state: str, decided: Decided | None) -> str:
    """A request that is over is expired before anybody has written that down."""
    if decided is not None:
        return decided.how
    return "expired" if state == "expired" else WAITS


def approval_lines(document: Mapping[str, Any], app_option: str) -> Iterable[str]:
    """The request as people read it, with the commands that decide about it while it waits."""
    approval = document.get("approval")
    if approval is None:
        return
    decided = approval["decided"]
    if decided is not None:
        by = f" by {decided['by']}" if decided["by"] else ""
        yield field(decided["how"], f"{by} at {decided['at']}".strip())
        if decided.get("reason"):
            yield field("because", decided["reason"])
    if approval["state"] != WAITS:
        return
    yield field("asked by", f"{approval['asked_by']} at {approval['asked_at']}")
    yield field("because", _WHY.get(approval["cause"], approval["cause"]))
    yield field("asked of", approval["asked_of"])
    yield from _affected(approval)
    yield field("until", approval["expires_at"] or "somebody decides")
    ref = shlex.quote(document["ref"])
    yield field("approve", f"takeback {app_option}approve {ref} --expect {approval['expect']}")
    yield field("deny", f"takeback {app_option}deny {ref} --reason '...'")


IN_DOUBT = {
    "exception": "its attempt ended in an exception",
    "outcome_unknown": "nobody could say what became of its attempt",
    "timed_out": "its attempt took too long",
    "interrupted": "its worker was stopped in the middle of it",
    "lease_over": "its worker was gone before it had an answer",
    "no_upgrade": "its arguments are of a version that no upgrade leads away from",
    "unreadable": "its arguments can't be read",
    "altered": "its arguments are not those that were approved",
    "key_expired": "its provider keeps our key no longer",
    "contradicted": "a late answer denies what was decided",
    "person": "a person has stopped it",
}
"""Why nobody knows, or why it was left to a person, by the word of the event."""


def doubt_of(shown: Shown) -> dict[str, Any] | None:
    """Why nobody knows whether an intent has happened, and since when; None where that is known.

    So it is of what is in doubt or parked, is tried again meanwhile, or is denied to have failed.
    ``cause`` is that of the latest doubt, ``since`` when the first attempt came to be unknown that
    is so still; ``parked`` says why and when it was left to a person.
    """
    from takeback.model.event import Parked
    from takeback.model.intent import is_denied, is_tried_again
    from takeback.model.moment import iso

    intent = shown.entry.intent
    is_open = intent.state.value in ("in_doubt", "parked") or is_tried_again(intent)
    if not (is_open or (is_denied(intent) and intent.state.value == "failed")):
        return None
    facts = [stored.fact() for stored in shown.events]
    doubts = [fact for fact in facts if fact.event.KIND in _DOUBTS]
    parked = [(fact.at, fact.event) for fact in facts if isinstance(fact.event, Parked)]
    left = None
    if intent.state.value == "parked":
        at, event = parked[-1]
        left = {"cause": event.cause, "at": iso(at), "by": event.by}
    if left is None or (doubts and left["cause"] not in _BEFORE_IT_BEGAN):
        last = doubts[-1]
        cause = _CAUSES.get(last.event.KIND) or getattr(last.event, "cause", "")
        since = _first_unknown(intent, doubts).at
    else:
        cause, since = parked[-1][1].cause, parked[-1][0]
    is_about_restore = intent.state.value == "in_doubt" and intent.restored_via is not None
    return {
        "cause": cause,
        "since": iso(since),
        "attempt": intent.attempt,
        "attempts_unknown": list(intent.attempts_unknown),
        "restore": intent.restored_via if is_about_restore else None,
        "parked": left,
    }


def _first_unknown(intent: Intent, doubts: Sequence[Fact]) -> Fact:
    """Since when nobody knows: a repeat that ends in doubt too makes it no younger."""
    from takeback.model.event import InDoubt

    last = doubts[-1]
    if not isinstance(last.event, InDoubt):
        return last
    unknown = {*intent.attempts_unknown, last.event.attempt}
    return next(
        fact for fact in doubts if isinstance(fact.event, InDoubt) and fact.event.attempt in unknown
    )


_DOUBTS = ("intent.in_doubt", "intent.restore_in_doubt", "intent.contradicted")

_CAUSES = {
    "intent.restore_in_doubt": "restore_in_doubt",
    "intent.contradicted": "contradicted",
}

_BEFORE_IT_BEGAN = ("no_upgrade", "unreadable", "altered")
"""Why an intent is parked that would have been begun, whatever became of it before."""


def can_of(shown: Shown) -> list[str]:
    """The verbs of a person's that apply to an intent, of those that say what became of it."""
    from takeback.model.ruling import verbs_for

    return list(verbs_for(shown.entry.intent))


def doubt_lines(document: Mapping[str, Any], app_option: str) -> Iterable[str]:
    """The doubt as people read it, with the commands that end it."""
    doubt, ref = document["doubt"], shlex.quote(document["ref"])
    if doubt is not None and doubt["restore"] is not None:
        yield field("because", "whether it was taken back is in doubt")
        yield field("see", f"takeback {app_option}show {doubt['restore']}")
    elif doubt is not None:
        yield field("because", IN_DOUBT.get(doubt["cause"], doubt["cause"]))
        yield field("since", doubt["since"])
        yield from _parked(doubt)
    for verb in document["can"]:
        said = f"takeback {app_option}{verb} {ref}"
        if verb == "resolve":
            yield field("happened", f"{said} --as succeeded --note '...'")
            yield field("did not", f"{said} --as failed --note '...'")
            if document["state"] not in ("parked", "failed"):
                yield field(_stops(document["state"]), f"{said} --as unknown")
        else:
            yield field("try again", said)
            if doubt and doubt["attempts_unknown"]:
                yield field("", "it may happen a second time")


def _stops(state: str) -> str:
    """What it is to say that nobody knows: of what is asked about, and of what would begin."""
    return "park it" if state == "in_doubt" else "stop it"


def _parked(doubt: Mapping[str, Any]) -> Iterable[str]:
    """Why and when it was left to a person, where that is not the doubt itself."""
    parked = doubt["parked"]
    if parked is None or (parked["cause"] == doubt["cause"] and not parked["by"]):
        return
    by = f" by {parked['by']}" if parked["by"] else ""
    why = "" if parked["by"] else f": {IN_DOUBT.get(parked['cause'], parked['cause'])}"
    yield field("parked", f"{by} at {parked['at']}{why}".strip())


def _affected(approval: Mapping[str, Any]) -> Iterable[str]:
    told = approval["affected"][:LINES_MAX]
    for number, one in enumerate(told):
        label = "" if one["label"] == one["id"] else f" ({one['label']})"
        yield field("affects" if number == 0 else "", f"{one['kind']} {one['id']}{label}")
    if approval["affected_count"] > len(told):
        yield field("affects" if not told else "", f"{approval['affected_count']} in all")
