"""What a person is asked about a call, or can do about one: for programs, and for that person."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from takeback.cli.sheet import field

if TYPE_CHECKING:
    from takeback.client.looking import Shown
    from takeback.model.approval import Decided
    from takeback.model.intent import Intent

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


_CAN = {
    "in_doubt": ("resolve",),
    "parked": ("resolve", "retry"),
    "failed": ("retry",),
}
"""By state, what a person may say about what has begun."""

_IN_DOUBT = {
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
}


def doubt_of(shown: Shown) -> dict[str, Any] | None:
    """Why an intent is in doubt or parked, or is denied to have failed, and since when; None where
    it is none of these.
    """
    from takeback.model.moment import iso

    intent = shown.entry.intent
    is_failed = _is_denied(intent)
    if intent.state.value not in ("in_doubt", "parked") and not is_failed:
        return None
    kinds = ("intent.contradicted",) if is_failed else _DOUBTS
    facts = [stored.fact() for stored in shown.events]
    last = next(fact for fact in reversed(facts) if fact.event.KIND in kinds)
    return {
        "cause": "contradicted" if is_failed else getattr(last.event, "cause", "restore_in_doubt"),
        "since": iso(last.at),
        "attempt": intent.attempt,
        "attempts_unknown": list(intent.attempts_unknown),
        "restore": intent.restored_via if last.event.KIND == "intent.restore_in_doubt" else None,
    }


_DOUBTS = ("intent.in_doubt", "intent.parked", "intent.restore_in_doubt")


def _is_denied(intent: Intent) -> bool:
    from takeback.model.intent import is_denied

    return is_denied(intent) and intent.state.value == "failed"


def can_of(shown: Shown) -> list[str]:
    """The verbs of a person's that apply to an intent, of those that say what became of it."""
    doubt = doubt_of(shown)
    if doubt is not None and doubt["restore"] is not None:
        return []
    if _is_denied(shown.entry.intent):
        return ["resolve"]
    return list(_CAN.get(shown.entry.intent.state.value, ()))


def doubt_lines(document: Mapping[str, Any], app_option: str) -> Iterable[str]:
    """The doubt as people read it, with the commands that end it."""
    doubt, ref = document["doubt"], shlex.quote(document["ref"])
    if doubt is not None and doubt["restore"] is not None:
        yield field("because", "whether it was taken back is in doubt")
        yield field("see", f"takeback {app_option}show {doubt['restore']}")
    elif doubt is not None:
        yield field("because", _IN_DOUBT.get(doubt["cause"], doubt["cause"]))
        yield field("since", doubt["since"])
    for verb in document["can"]:
        said = f"takeback {app_option}{verb} {ref}"
        if verb == "resolve":
            yield field("happened", f"{said} --as succeeded --note '...'")
            yield field("did not", f"{said} --as failed --note '...'")
        else:
            yield field("try again", f"{said}{_twice(doubt)}")


def _twice(doubt: Mapping[str, Any] | None) -> str:
    return "   (it may happen a second time)" if doubt and doubt["attempts_unknown"] else ""


def _affected(approval: Mapping[str, Any]) -> Iterable[str]:
    told = approval["affected"][:LINES_MAX]
    for number, one in enumerate(told):
        label = "" if one["label"] == one["id"] else f" ({one['label']})"
        yield field("affects" if number == 0 else "", f"{one['kind']} {one['id']}{label}")
    if approval["affected_count"] > len(told):
        yield field("affects" if not told else "", f"{approval['affected_count']} in all")
