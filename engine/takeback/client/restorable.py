"""Whether there is something to take back, and whether it still is as it was left: the refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from takeback.client.body import words
from takeback.client.restore_tool import RESTORE
from takeback.declare import CANCEL_ONLY, COMPENSATE, Local, Remote, Tool
from takeback.ledger.reading import Entry
from takeback.model import errors
from takeback.model.intent import (
    Intent,
    State,
    is_cancellable,
    is_denied,
    is_held_back,
    is_tried_again,
    may_have_happened,
    waited_in_vain,
)
from takeback.model.moment import clock
from takeback.model.ruling import steps_for


def require_restorable(original: Entry, tool: Tool) -> None:
    """What can be seen without a lock; the state is looked at again under one."""
    intent, effect = original.intent, tool.effect
    if intent.tool == RESTORE.name:
        if intent.state is State.SUCCEEDED:
            return
        raise errors.NotRestorable(f"{intent.ref} has taken nothing back yet: {_stands(intent)}")
    if is_cancellable(intent):
        return
    if intent.state is State.EXECUTING and isinstance(effect, Remote):
        if effect.reversal is CANCEL_ONLY:
            raise too_late(original, tool)
        raise errors.InProgress(
            f"{intent.ref} is being carried out at this moment; ask for its status, and when it "
            "has succeeded, restore it: that compensates it",
            next_call={"tool": RESTORE.name, "arguments": {"ref": intent.ref}},
        )
    if intent.state not in (State.SUCCEEDED, State.RESTORE_FAILED):
        steps = _steps(intent)
        refused = "it can't be taken back" if steps else "there is nothing to take back"
        raise errors.NotRestorable(f"{refused}: {_stands(intent)}", alternatives=steps)
    if isinstance(effect, Remote) and effect.reversal is CANCEL_ONLY:
        raise too_late(original, tool)
    if isinstance(effect, Local) and effect.retention is not None:
        settled_at = intent.settled_at or intent.recorded_at
        if original.now > settled_at + effect.retention:
            raise errors.RestoreExpired(
                f"what {intent.ref} changed was kept until "
                f"{clock(settled_at + effect.retention, original.now)}"
            )


def too_late(original: Entry, tool: Tool) -> errors.TooLate:
    """That it has begun, or is over, and what can be done instead."""
    intent, effect = original.intent, tool.effect
    back = {"tool": RESTORE.name, "arguments": {"ref": intent.ref}}
    reverses = isinstance(effect, Remote) and effect.reversal is COMPENSATE
    leaves = list(tool.wording.leaves) if tool.wording else []
    is_open = intent.state in (State.EXECUTING, State.IN_DOUBT, State.PARKED)
    if is_open or is_denied(intent) or is_tried_again(intent):
        asks = "ask for its status: if it is refused in the end, nothing has happened"
        return errors.TooLate(
            f"{intent.ref} {_under_way(intent)}", alternatives=[asks, *steps_for(intent)]
        )
    if intent.state in (State.SUCCEEDED, State.RESTORE_FAILED) and reverses:
        return errors.TooLate(
            f"{intent.ref} {_happened(original)}; restore it, and call again",
            next_call=back,
        )
    if intent.state in (State.SUCCEEDED, State.RESTORE_FAILED):
        return errors.TooLate(
            f"{intent.ref} {_happened(original)} and can't be taken back",
            alternatives=["tell the user, or make another call that puts it right", *leaves],
        )
    return errors.TooLate(f"{intent.ref} can't be changed any more: {_stands(intent)}")


def _under_way(intent: Intent) -> str:
    if intent.state is State.EXECUTING:
        return "is being carried out at this moment; ask for its status"
    if is_held_back(intent):
        return "has not begun, and can't be changed before a person has looked at it"
    if is_tried_again(intent):
        return "may have happened, and is to be tried again; ask for its status"
    if intent.restored_via is not None:
        return f"has happened, and whether {intent.restored_via} has taken it back is in doubt"
    return "has begun, and nobody knows yet whether it happened; ask for its status"


def require_no_drift(drifted: Any, ref: str) -> None:
    """Raises RestoreConflict for what a handler's drift says that somebody has changed since."""
    if not drifted:
        return
    several = isinstance(drifted, Iterable) and not isinstance(drifted, str | Mapping)
    differences = tuple(drifted) if several else (drifted,)
    fields = ", ".join(
        words(one.get("field", "")) if isinstance(one, Mapping) else words(one)
        for one in differences
    )
    raise errors.RestoreConflict(
        f"somebody else has changed it since {ref}: {fields}; a person may force the restore",
        differences,
    )


def _happened(entry: Entry) -> str:
    """When it happened, or when that was found out: of what was in doubt nobody knows more."""
    result = entry.bodies.get("result") or {}
    at = clock(entry.intent.settled_at or entry.intent.recorded_at, entry.now)
    if result.get("by"):
        return f"has happened, as {result['by']} said at {at},"
    return (
        f"has happened, as was found out at {at}," if result.get("found") else f"happened at {at}"
    )


def _steps(intent: Intent) -> list[dict[str, Any]]:
    """What a person can do about what may have happened, or was held back."""
    is_open = intent.state is State.PARKED or may_have_happened(intent)
    return steps_for(intent) if is_open or intent.state is State.IN_DOUBT else []


def _stands(intent: Intent) -> str:
    if is_tried_again(intent):
        return "it may have happened, and is to be tried again; a person can stop it"
    if waited_in_vain(intent):
        return "what it waited for came to nothing, so it never happens"
    if is_denied(intent):
        return "it was called failed, and may have happened all the same; a person has to look"
    if is_held_back(intent):
        return "it has not begun, and a person has to look before it can"
    return {
        State.FAILED: "it never happened",
        State.DENIED: "it was denied and never happened",
        State.EXPIRED: "it expired and never happened",
        State.IN_DOUBT: "nobody knows yet whether it happened; a person has to look",
        State.PARKED: "nobody knows yet whether it happened; a person has to look",
        State.RESTORING: "it is being taken back at this moment",
    }.get(intent.state, f"it is {intent.state.value}")
