"""The lean answer: what a model, a program or a person is told of an intent, on every door.

``Envelope`` is a read-only mapping in the wire shape. It is composed here, from an intent and its
bodies, and nowhere else, so that a first answer, a repeat and a follow-up say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from string import Formatter
from typing import Any

from takeback.declare import CANCEL_ONLY, Local, Remote, Tool, Wording
from takeback.model.arguments import Difference
from takeback.model.handler import Found
from takeback.model.intent import CANCELLABLE, Intent, State, is_cancellable
from takeback.model.violation import shown

AFFECTED_SHOWN_MAX = 5
"""A lean answer doesn't grow with the rows; ``affected_count`` has the whole number."""

STATUS: Mapping[State, str] = {
    State.RECORDED: "scheduled",
    State.WAITING: "scheduled",
    State.HELD: "scheduled",
    State.DUE: "scheduled",
    State.CLAIMED: "scheduled",
    State.AWAITING_APPROVAL: "needs_approval",
    State.EXECUTING: "in_progress",
    State.RESTORING: "in_progress",
    State.IN_DOUBT: "in_doubt",
    State.PARKED: "in_doubt",
    State.SUCCEEDED: "done",
    State.RESTORE_FAILED: "done",
    State.FAILED: "refused",
    State.DENIED: "refused",
    State.EXPIRED: "refused",
    State.CANCELLED: "taken_back",
    State.RESTORED: "taken_back",
}
"""The wire word of each state; a purged intent keeps the word of its last one."""


class Envelope(Mapping[str, Any]):
    """A lean answer in its wire shape; ``answer["status"]`` and ``answer.status`` are the same."""

    __slots__ = ("_document",)

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = dict(document)

    def __getitem__(self, name: str) -> Any:
        return self._document[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __repr__(self) -> str:
        return f"Envelope({self._document!r})"

    @property
    def status(self) -> str:
        """The wire word, one of those in ``STATUS``; of a read ok, no_matches or unavailable."""
        return str(self._document["status"])

    @property
    def ref(self) -> str | None:
        """The ref of the intent; None when nothing was recorded."""
        return self._document.get("ref")

    @property
    def replayed(self) -> bool:
        """Whether the answer is that of an earlier, equal call."""
        return bool(self._document.get("replayed", False))

    @property
    def summary(self) -> str:
        """One sentence."""
        return str(self._document.get("summary", ""))

    @property
    def affected(self) -> Sequence[Mapping[str, Any]]:
        """What the call affects: at most a few of ``affected_count`` things."""
        return tuple(self._document.get("affected", ()))

    @property
    def restore(self) -> Mapping[str, Any] | None:
        """The call that takes it back, or None."""
        return self._document.get("restore")

    @property
    def error(self) -> Mapping[str, Any] | None:
        """What went wrong, in fields; None when nothing did."""
        return self._document.get("error")

    @property
    def code(self) -> str | None:
        """The stable code of the error, or None."""
        return self.error["code"] if self.error else None

    def to_dict(self) -> dict[str, Any]:
        """A copy as plain dictionaries and lists."""
        copy: dict[str, Any] = json.loads(self.to_json())
        return copy

    def to_json(self) -> str:
        """The document as JSON text."""
        return json.dumps(self._document, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """That an answer repeats an earlier one: ``differs`` names arguments outside the key."""

    differs: Sequence[Difference] = ()
    stands: bool = True


def answer(
    intent: Intent,
    tool: Tool,
    bodies: Mapping[str, Any],
    *,
    trace_id: str,
    replay: Replay | None = None,
) -> Envelope:
    """The lean answer about ``intent`` as it is now."""
    state = _state(intent)
    document: dict[str, Any] = {"status": STATUS[state], "ref": intent.ref}
    document["summary"] = _summary(intent, tool, bodies)
    affected = _affected(tool, bodies)
    outcome = bodies.get("result") or {}
    document["affected"] = affected[:AFFECTED_SHOWN_MAX]
    document["affected_count"] = outcome.get("affected_count", len(affected))
    document["restore"], reason = restore_call(intent, tool, bodies)
    if reason is not None:
        document["no_restore"] = reason
    if redone := outcome.get("redone"):
        document["redone"] = redone
    document["replayed"] = replay is not None
    if replay is not None:
        document["first_called_at"] = iso(intent.recorded_at)
        document["again"] = {"repeat_of": intent.ref}
        if replay.differs:
            document["differs"] = [d.to_json() for d in replay.differs]
        if not replay.stands:
            document["stands"] = False
    if intent.taken_back_by is not None:
        document["taken_back_by"] = intent.taken_back_by
        if document["status"] == "taken_back" and intent.settled_at is not None:
            document["taken_back_at"] = iso(intent.settled_at)
    if state in (State.FAILED, State.DENIED, State.EXPIRED):
        document |= _failure(state, bodies)
    elif document["status"] == "in_doubt":
        document |= {"effect": "unknown", "repeat_can_succeed": False}
    document["trace_id"] = trace_id
    return Envelope(document)


def restore_call(
    intent: Intent, tool: Tool, bodies: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, str | None]:
    """The call that takes the intent back, or None and the reason why there is none."""
    state = _state(intent)
    outcome = bodies.get("result") or {}
    wording = tool.wording
    until: datetime | None = None
    if redone := outcome.get("redone"):
        return _call(redone["ref"], None, "takes back what was done anew", ()), None
    if intent.restores is not None and state in CANCELLABLE:
        return None, "it is on its way to be taken back; ask for its status"
    if is_cancellable(intent):
        if intent.due_at is not None:
            guard_s = tool.effect.guard_s if isinstance(tool.effect, Remote) else 0.0
            until = intent.due_at - timedelta(seconds=guard_s)
    elif state in (State.SUCCEEDED, State.RESTORE_FAILED):
        if isinstance(tool.effect, Remote) and tool.effect.reversal is CANCEL_ONLY:
            return None, "it has happened, and this effect can't be taken back"
        if isinstance(tool.effect, Local) and tool.effect.retention is not None:
            until = (intent.settled_at or intent.recorded_at) + tool.effect.retention
    else:
        return None, _NO_RESTORE.get(state, "nobody can know yet whether it happened")
    does = _fill(wording.undo, bodies) if wording else "takes it back"
    leaves = outcome.get("leaves") or (wording.leaves if wording else ())
    return _call(intent.ref, until, does, leaves), None


def _call(ref: str, until: datetime | None, does: str, leaves: Sequence[str]) -> dict[str, Any]:
    return {
        "tool": "restore",
        "arguments": {"ref": ref},
        "until": iso(until) if until is not None else None,
        "does": does,
        "leaves": list(leaves),
    }


_NO_RESTORE = {
    State.EXECUTING: "it is being carried out at this moment",
    State.RESTORING: "it is being taken back at this moment",
    State.FAILED: "it never happened, so there is nothing to take back",
    State.DENIED: "it never happened, so there is nothing to take back",
    State.EXPIRED: "it never happened, so there is nothing to take back",
    State.CANCELLED: "it was taken back",
    State.RESTORED: "it was taken back",
    State.RECORDED: "it is not decided yet",
    State.PURGED: "its retention is over",
}


def _state(intent: Intent) -> State:
    if intent.state is State.PURGED and intent.last_word is not None:
        return intent.last_word
    return intent.state


def _summary(intent: Intent, tool: Tool, bodies: Mapping[str, Any]) -> str:
    wording = tool.wording
    subject = _fill(wording.subject, bodies) if wording else f"{tool.name}"
    outcome = bodies.get("result") or {}
    state = _state(intent)
    match STATUS[state]:
        case "scheduled":
            until = clock(intent.due_at, intent.recorded_at) if intent.due_at else "its time"
            template = wording.scheduled if wording else Wording(subject="").scheduled
            return f"{subject} {_fill(template, bodies, until=until)}."
        case "done":
            tail = _fill(wording.done, bodies) if wording else "is done"
            return str(outcome.get("summary") or f"{subject} {tail}.")
        case "taken_back":
            tail = _fill(wording.taken_back, bodies) if wording else "was taken back"
            never = " It never happened." if state is State.CANCELLED else ""
            return f"{subject} {tail}.{never}"
        case "needs_approval":
            return f"{subject} waits for a person to approve it."
        case "in_progress":
            doing = "taken back" if state is State.RESTORING else "carried out"
            return f"{subject} is being {doing}."
        case "in_doubt":
            return f"{subject} may or may not have happened; nobody knows yet. It is not repeated."
        case _:
            error = bodies.get("error") or {}
            return f"{subject} was refused: {error.get('message') or _REFUSED.get(state, '')}"


_REFUSED = {
    State.DENIED: "a person denied it",
    State.EXPIRED: "nobody approved it in time",
    State.FAILED: "it can't be done",
}


def _affected(tool: Tool, bodies: Mapping[str, Any]) -> list[dict[str, Any]]:
    outcome = bodies.get("result") or {}
    if "affected" in outcome:
        return list(outcome["affected"])
    if tool.affects is None:
        return []
    value = str(shown((bodies.get("arguments") or {}).get(tool.affects.id, "")))
    return [{"kind": tool.affects.kind, "id": value, "label": value}]


def _failure(state: State, bodies: Mapping[str, Any]) -> dict[str, Any]:
    stored = bodies.get("error") or {}
    return {
        "effect": "none",
        "repeat_can_succeed": False,
        "error": {
            "class": "terminal",
            "code": stored.get("code", "provider_rejected"),
            "message": stored.get("message") or _REFUSED[state],
            "retry_after_s": None,
            "violations": [],
            "next_call": None,
            "alternatives": stored.get("alternatives", []),
        },
    }


class _Gaps(dict[str, Any]):
    """Fills a template even after its arguments were forgotten."""

    def __missing__(self, name: str) -> str:
        return "…"


def _fill(template: str, bodies: Mapping[str, Any], **more: str) -> str:
    """The sentence; of a long argument it has the beginning, since an answer stays short."""
    arguments = bodies.get("arguments") or {}
    values = _Gaps({name: shown(value) for name, value in arguments.items()} | more)
    try:
        return template.format_map(values)
    except (TypeError, ValueError):
        return _PLAINLY.vformat(template, (), values)


class _Plainly(Formatter):
    """A format that doesn't suit a value, since that is null or forgotten, is left out."""

    def format_field(self, value: Any, format_spec: str) -> str:
        try:
            return format(value, format_spec)
        except (TypeError, ValueError):
            return str(value)


_PLAINLY = _Plainly()


def iso(at: datetime) -> str:
    """An instant as RFC 3339 in UTC, without a fraction.

    >>> iso(datetime(2026, 11, 29, 14, 5, 10, 999, tzinfo=UTC))
    '2026-11-29T14:05:10Z'
    """
    return f"{at.astimezone(UTC).replace(tzinfo=None, microsecond=0).isoformat()}Z"


def clock(at: datetime, seen_from: datetime) -> str:
    """The time of day within a day of ``seen_from``, else the date too.

    >>> noon = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
    >>> clock(noon, noon), clock(noon + timedelta(days=2), noon)
    ('12:00:00Z', '2026-12-01T12:00:00Z')
    """
    if abs(at - seen_from) < timedelta(days=1):
        return iso(at)[11:]
    return iso(at)


def refusal(
    code: str,
    class_: str,
    message: str,
    *,
    trace_id: str,
    effect: str = "none",
    repeat_can_succeed: bool = False,
    status: str = "refused",
    extra: Mapping[str, Any] | None = None,
    **details: Any,
) -> Envelope:
    """A refusal in the wire shape. ``details`` fill the error: violations, next_call, alternatives,
    retry_after_s; ``extra`` stands beside it.
    """
    error = {
        "class": class_,
        "code": code,
        "message": message,
        "retry_after_s": details.get("retry_after_s"),
        "violations": list(details.get("violations", ())),
        "next_call": details.get("next_call"),
        "alternatives": list(details.get("alternatives", ())),
    }
    document = {
        "status": status,
        "effect": effect,
        "repeat_can_succeed": repeat_can_succeed,
        **(extra or {}),
        "error": error,
        "trace_id": trace_id,
    }
    return Envelope(document)


def found(answer: Found, trace_id: str) -> Envelope:
    """The answer of a read: nothing matched is a success too."""
    count = len(answer.matches)
    more = ", and there are more" if answer.more_matches_exist else ""
    some = f"{count} match{'' if count == 1 else 'es'}{more}." if count else "Nothing matched."
    return Envelope(
        {
            "status": "ok" if count else "no_matches",
            "summary": answer.summary or some,
            "matches": [dict(match) for match in answer.matches],
            "more_matches_exist": answer.more_matches_exist,
            "trace_id": trace_id,
        }
    )
