"""The lean answer: what a model, a program or a person is told of an intent, on every door.

``Envelope`` is a read-only mapping in the wire shape. It is composed here, from an intent and its
bodies, and nowhere else, so that a first answer, a repeat and a follow-up say the same: byte for
byte while the intent's version is the same, but for what a repeat adds about itself, for what keeps
the intent from beginning, and for what stands in its place, which ``client.amendment`` adds.
Nothing else in it depends on the moment of asking. Its size has a bound, however many rows or
arguments there are; the full answer is made beside it, from the same inputs.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID

from takeback.declare import CANCEL_ONLY, Local, Remote, Tool
from takeback.model.arguments import Difference
from takeback.model.brevity import as_stored, brief, compact
from takeback.model.code import Class, WireEffect, code_of
from takeback.model.hindrance import UNHINDERED, Hindrance
from takeback.model.intent import (
    CANCELLABLE,
    Intent,
    State,
    is_cancellable,
    is_denied,
    is_held_back,
    is_tried_again,
    may_have_happened,
    waited_in_vain,
)
from takeback.model.moment import iso
from takeback.model.payload import Full
from takeback.model.status import STATUS, Status
from takeback.model.violation import shown
from takeback.model.wording import message_of, summary_of, undo_of

RETRY_AFTER_SECONDS = 1

AFFECTED_SHOWN_MAX = 5
"""A lean answer doesn't grow with the rows; ``affected_count`` has the whole number."""

KINDS_SHOWN_MAX = 8
LEAVES_SHOWN_MAX = 5
DIFFERS_SHOWN_MAX = 5
ALTERNATIVES_SHOWN_MAX = 5
WAITS_FOR_SHOWN_MAX = 5

KIND_BYTES_MAX = 40
LABEL_BYTES_MAX = 120
LEAVES_BYTES_MAX = 150
FIELD_BYTES_MAX = 80
VALUE_BYTES_MAX = 250


class Envelope(Mapping[str, Any]):
    """A lean answer in its wire shape; ``answer["status"]`` and ``answer.status`` are the same.

    ``full`` is the full answer that was made with it; without one it is no more than the lean one.
    A pickled or serialised envelope is the lean answer alone.
    """

    __slots__ = ("_document", "_full")

    def __init__(self, document: Mapping[str, Any], full: Full | None = None) -> None:
        self._document = dict(document)
        self._full = full

    def __getitem__(self, name: str) -> Any:
        return self._document[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __repr__(self) -> str:
        return f"Envelope({self._document!r})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Envelope:
        return Envelope(copy.deepcopy(self._document, memo), self._full)

    def __reduce__(self) -> tuple[type[Envelope], tuple[dict[str, Any]]]:
        return Envelope, (self._document,)

    @property
    def full(self) -> Full:
        """Everything: every row, the arguments, the whole result; see ``Full.disclose``."""
        return self._full or Full(str(self.ref or self.status), self._document)

    @property
    def status(self) -> str:
        """The wire word, one of ``Status``."""
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

    def amended(self, more: Mapping[str, Any], *, without: Sequence[str] = ()) -> Envelope:
        """The same answer with ``more`` said, and some fields left out; the full one stays."""
        kept = {name: value for name, value in self._document.items() if name not in without}
        return Envelope(kept | dict(more), self._full)

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
    trace_id: str = "",
    replay: Replay | None = None,
    hindrance: Hindrance = UNHINDERED,
) -> Envelope:
    """The lean answer about ``intent`` as it is now, and the full one with it.

    ``hindrance`` is told while the intent is to be carried out.
    """
    state = _state(intent)
    status = _status(intent)
    hindrance = hindrance if status is Status.SCHEDULED else UNHINDERED
    outcome = bodies.get("result") or {}
    affected = affected_rows(tool, bodies)
    document: dict[str, Any] = {
        "status": status.value,
        "ref": intent.ref,
        "summary": summary_of(intent, state, status, tool, bodies, hindrance=hindrance),
        **_affected(affected, outcome or bodies.get("affected") or {}, intent),
    }
    if state is State.AWAITING_APPROVAL:
        expires_at = None if intent.expires_at is None else iso(intent.expires_at)
        document["approval"] = {"expires_at": expires_at}
    document |= _waits(intent, bodies)
    if hindrance:
        document["hindered_by"] = hindrance.told()
    document["restore"], reason = restore_call(intent, tool, bodies)
    if reason is not None:
        document["no_restore"] = reason
    if outcome.get("result_not_serialisable"):
        document["result_stored"] = False
    if redone := outcome.get("redone"):
        document["redone"] = redone
    if amended := outcome.get("amended"):
        document["amended_by"] = amended
    document["replayed"] = replay is not None
    if replay is not None:
        document |= _replayed(intent, replay)
    if intent.taken_back_by is not None:
        document["taken_back_by"] = brief(intent.taken_back_by, LABEL_BYTES_MAX)
        if document["status"] == "taken_back" and intent.settled_at is not None:
            document["taken_back_at"] = iso(intent.settled_at)
    if document["status"] == "refused":
        document |= _failure(state, bodies)
    elif document["status"] == "in_doubt":
        effect = "none" if is_held_back(intent) else "unknown"
        document |= {"effect": effect, "repeat_can_succeed": False}
    document["trace_id"] = trace_of(intent.id)
    return Envelope(document, _full(intent, affected, document["affected_count"], bodies))


def trace_of(intent_id: UUID) -> str:
    """The trace id of every answer about an intent: it tells nothing of who asks, or when.

    >>> trace_of(UUID("01890a5d-ac96-774b-bcce-b302099a8057"))
    'bcceb302099a8057'
    """
    return intent_id.hex[-16:]


def affected_rows(tool: Tool, bodies: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """All that the call affects, as far as it was said: by its outcome, else by what was foreseen,
    else by the row.
    """
    outcome = bodies.get("result") or bodies.get("affected") or {}
    if "affected" in outcome:
        rows: Sequence[Mapping[str, Any]] = outcome["affected"]
        return rows
    if tool.affects is None:
        return ()
    value = str(shown(as_stored((bodies.get("arguments") or {}).get(tool.affects.id, ""))))
    return ({"kind": tool.affects.kind, "id": value, "label": value},)


def _affected(
    rows: Sequence[Mapping[str, Any]], outcome: Mapping[str, Any], intent: Intent
) -> dict[str, Any]:
    """A few of them, how many there are, and of which kinds when there are several."""
    count = outcome.get("affected_count", max(len(rows), intent.affected_count))
    document: dict[str, Any] = {
        "affected": [
            {
                "kind": brief(one["kind"], KIND_BYTES_MAX),
                "id": brief(one["id"], LABEL_BYTES_MAX),
                "label": brief(one["label"], LABEL_BYTES_MAX),
            }
            for one in rows[:AFFECTED_SHOWN_MAX]
        ],
        "affected_count": count,
    }
    kinds = outcome.get("affected_by_kind")
    if kinds is None and len(rows) > 1 and len(rows) == count:
        kinds = Counter(one["kind"] for one in rows)
    if kinds and len(kinds) > 1:
        largest = sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0]))[:KINDS_SHOWN_MAX]
        document["affected_by_kind"] = {brief(kind, KIND_BYTES_MAX): n for kind, n in largest}
    return document


def _waits(intent: Intent, bodies: Mapping[str, Any]) -> dict[str, Any]:
    """The others that it waits for, a few of them; or the one that it waited for in vain."""
    document: dict[str, Any] = {}
    if intent.state is State.WAITING:
        document["waits_for"] = list(intent.after[:WAITS_FOR_SHOWN_MAX])
        if len(intent.after) > WAITS_FOR_SHOWN_MAX:
            document["waits_for_count"] = len(intent.after)
    if other := bodies.get("waited_for"):
        named = ("ref", "became", "amended_by")
        document["waited_for"] = {name: other[name] for name in named if name in other}
    return document


def _replayed(intent: Intent, replay: Replay) -> dict[str, Any]:
    """What an answer that repeats an earlier one says of that."""
    document: dict[str, Any] = {"first_called_at": iso(intent.recorded_at)}
    if is_safe_to_repeat(intent):
        document["again"] = {"repeat_of": intent.ref}
    if replay.differs:
        document["differs"] = [
            {
                "field": brief(one.field, FIELD_BYTES_MAX),
                "first": compact(one.first, VALUE_BYTES_MAX),
                "now": compact(one.now, VALUE_BYTES_MAX),
            }
            for one in replay.differs[:DIFFERS_SHOWN_MAX]
        ]
    if len(replay.differs) > DIFFERS_SHOWN_MAX:
        document["differs_count"] = len(replay.differs)
    if not replay.stands:
        document["stands"] = False
    return document


def is_safe_to_repeat(intent: Intent) -> bool:
    """Whether a repeat on purpose is offered: not while nobody knows whether it has happened.

    What has not even begun before a person has looked can't have happened. What is tried again may
    have, as long as an earlier attempt is unknown.
    """
    status = _status(intent)
    is_open = status in (Status.SCHEDULED, Status.NEEDS_APPROVAL, Status.IN_PROGRESS)
    may_double = status is Status.IN_DOUBT or (is_open and may_have_happened(intent))
    return is_held_back(intent) or not may_double


def _full(
    intent: Intent, affected: Sequence[Mapping[str, Any]], count: int, bodies: Mapping[str, Any]
) -> Full:
    content = {
        "ref": intent.ref,
        "tool": intent.tool,
        "tool_version": intent.tool_version,
        "state": intent.state.value,
        "version": intent.version,
        "run": intent.run,
        "principal": intent.principal,
        "on_behalf_of": intent.on_behalf_of,
        "approved_by": intent.approved_by,
        "recorded_at": intent.recorded_at,
        "due_at": intent.due_at,
        "settled_at": intent.settled_at,
        "attempt": intent.attempt,
        "affected": affected,
        "affected_count": count,
        "bodies": bodies,
    }
    return Full(intent.ref, content)


def restore_call(
    intent: Intent, tool: Tool, bodies: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, str | None]:
    """The call that takes the intent back, or None and the reason why there is none."""
    state = _state(intent)
    outcome = bodies.get("result") or {}
    until: datetime | None = None
    if redone := outcome.get("redone") or outcome.get("amended"):
        return _call(redone["ref"], None, "takes back what was done anew", ()), None
    if intent.restores is not None and state in CANCELLABLE:
        return None, "its own taking back is still on its way; ask for its status"
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
        if is_held_back(intent):
            return None, "it has not begun, and a person has to look before it can"
        if is_tried_again(intent):
            return None, "an earlier attempt may have happened; a person can stop it (`resolve`)"
        if waited_in_vain(intent):
            state = State.FAILED
        known = None if is_denied(intent) else _NO_RESTORE.get(state)
        return None, known or "nobody can know yet whether it happened"
    leaves = outcome.get("leaves") or (tool.wording.leaves if tool.wording else ())
    return _call(intent.ref, until, undo_of(tool, bodies), leaves), None


def _call(ref: str, until: datetime | None, does: str, leaves: Sequence[str]) -> dict[str, Any]:
    return {
        "tool": "restore",
        "arguments": {"ref": ref},
        "until": iso(until) if until is not None else None,
        "does": does,
        "leaves": _few(leaves),
    }


def _few(leaves: Sequence[str]) -> list[str]:
    told = [brief(one, LEAVES_BYTES_MAX) for one in leaves[:LEAVES_SHOWN_MAX]]
    more = len(leaves) - len(told)
    return [*told, f"and {more} more"] if more else told


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


def _status(intent: Intent) -> Status:
    """Another than that of its state where it has failed and may have happened all the same, and
    where nobody has taken it back.
    """
    if is_denied(intent):
        return Status.IN_DOUBT
    return Status.REFUSED if waited_in_vain(intent) else STATUS[_state(intent)]


_CODES = {
    State.FAILED: "provider_rejected",
    State.DENIED: "approval_denied",
    State.EXPIRED: "approval_expired",
    State.CANCELLED: "waited_in_vain",
}
"""What is said when the ledger holds no more than the state."""


def _failure(state: State, bodies: Mapping[str, Any]) -> dict[str, Any]:
    stored = bodies.get("error") or {}
    code = code_of(stored.get("code") or _CODES[state])
    return {
        "effect": "none",
        "repeat_can_succeed": False,
        "error": {
            "class": code.settled_class.value,
            "code": code.name,
            "message": message_of(state, bodies),
            "retry_after_s": None,
            "violations": [],
            "next_call": None,
            "alternatives": [
                compact(one, VALUE_BYTES_MAX)
                for one in stored.get("alternatives", [])[:ALTERNATIVES_SHOWN_MAX]
            ],
        },
    }


def refusal(
    code: str,
    message: str,
    *,
    trace_id: str,
    effect: WireEffect = "none",
    status: str = "refused",
    extra: Mapping[str, Any] | None = None,
    **details: Any,
) -> Envelope:
    """A refusal in the wire shape; what may be relied on is read from the list of codes.

    ``details`` fill the error: violations, next_call, alternatives, retry_after_s; ``extra`` stands
    beside it.
    """
    known = code_of(code)
    wait = details.get("retry_after_s") or RETRY_AFTER_SECONDS
    error = {
        "class": known.class_.value,
        "code": known.name,
        "message": message,
        "retry_after_s": wait if known.class_ is Class.TRANSIENT else None,
        "violations": list(details.get("violations", ())),
        "next_call": details.get("next_call"),
        "alternatives": list(details.get("alternatives", ())),
    }
    document = {
        "status": status,
        "effect": effect,
        "repeat_can_succeed": known.repeat_can_succeed,
        **(extra or {}),
        "error": error,
        "trace_id": trace_id,
    }
    return Envelope(document)
