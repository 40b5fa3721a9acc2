"""The sentence of an answer: the row's wording, filled in with the arguments of the call.

It says the same at any time while the intent's version is the same and nothing keeps it from
beginning, and has a bound: of a long argument it has the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

from takeback.declare import Blind, Keyed, Lookup, Remote, Tool, Wording
from takeback.model.brevity import as_stored, brief
from takeback.model.hindrance import UNHINDERED, Hindrance
from takeback.model.intent import Intent, State, is_denied, is_held_back, is_tried_again
from takeback.model.moment import clock
from takeback.model.status import Status
from takeback.model.violation import shown

SUMMARY_BYTES_MAX = 400
SUBJECT_BYTES_MAX = 200
"""Of what is named before the reason why it does not begin."""

DOES_BYTES_MAX = 250
MESSAGE_BYTES_MAX = 300
REFS_SHOWN_MAX = 2

REFUSED = {
    State.DENIED: "a person denied it",
    State.EXPIRED: "nobody approved it in time",
    State.FAILED: "it can't be done",
    State.CANCELLED: "what it waited for came to nothing",
}
"""Why, where nobody has said more."""

BECAME: Mapping[str, str] = {"failed": "failed", "taken_back": "was taken back"}
"""What is said of another that has come to nothing."""


_UNWORDED = Wording(subject="")
"""The sentences of a row that has none of its own, behind the tool's name."""


def summary_of(
    intent: Intent,
    state: State,
    status: Status,
    tool: Tool,
    bodies: Mapping[str, Any],
    *,
    hindrance: Hindrance = UNHINDERED,
) -> str:
    """One sentence about the intent, which stands in ``state``, in at most SUMMARY_BYTES_MAX."""
    told = _wait_sentence(intent, state, tool, bodies)
    if hindrance:
        return brief(_hindered(intent, told, tool, bodies, hindrance), SUMMARY_BYTES_MAX)
    return brief(told or _sentence(intent, state, status, tool, bodies), SUMMARY_BYTES_MAX)


def undo_of(tool: Tool, bodies: Mapping[str, Any]) -> str:
    """What taking it back does."""
    if tool.wording is None:
        return "takes it back"
    return brief(_fill(tool.wording.undo, bodies), DOES_BYTES_MAX)


def message_of(state: State, bodies: Mapping[str, Any]) -> str:
    """Why it was refused. Who has denied it is told; why they did is for persons, at their doors.

    >>> message_of(State.FAILED, {"error": {"message": "over the ceiling"}})
    'over the ceiling'
    >>> message_of(State.DENIED, {})
    'a person denied it'
    >>> message_of(State.DENIED, {"reason": {"by": "dana", "reason": "too much"}})
    'dana denied it'
    """
    denied_by = (bodies.get("reason") or {}).get("by") if state is State.DENIED else None
    if denied_by is not None:
        return brief(f"{denied_by} denied it", MESSAGE_BYTES_MAX)
    if state is State.CANCELLED and bodies.get("waited_for"):
        return brief(f"it {_waited_for(bodies['waited_for'])}", MESSAGE_BYTES_MAX)
    said = (bodies.get("error") or {}).get("message") or REFUSED.get(state, "")
    return brief(said, MESSAGE_BYTES_MAX)


def _waited_for(other: Mapping[str, Any]) -> str:
    """What became of the other that was waited for; it counts as what was recorded in its place.

    >>> _waited_for({"ref": "a-1", "became": "failed"})
    'waited for a-1, which failed'
    >>> _waited_for({"ref": "a-1", "became": "failed", "amended_by": "a-2"})
    'waited for a-1, which was amended to a-2, which failed'
    """
    became = BECAME.get(other["became"], "came to nothing")
    amended = f", which was amended to {other['amended_by']}" if other.get("amended_by") else ""
    return f"waited for {other['ref']}{amended}, which {became}"


def _subject(tool: Tool, bodies: Mapping[str, Any]) -> str:
    return _fill(tool.wording.subject, bodies) if tool.wording else tool.name


def _hindered(
    intent: Intent,
    waits: str | None,
    tool: Tool,
    bodies: Mapping[str, Any],
    hindrance: Hindrance,
) -> str:
    """What keeps it from beginning. The row's own sentence would promise an instant."""
    subject = brief(_subject(tool, bodies), SUBJECT_BYTES_MAX)
    if is_tried_again(intent):
        waits = f"{subject} may or may not have happened, and is to be tried again."
    if waits is not None:
        return f"{brief(waits, SUBJECT_BYTES_MAX)} It does not begin before {hindrance.sentence()}."
    until = clock(intent.due_at, intent.recorded_at) if intent.due_at else "its time"
    return f"{subject} does not begin before {until}, nor before {hindrance.sentence()}."


def _wait_sentence(
    intent: Intent, state: State, tool: Tool, bodies: Mapping[str, Any]
) -> str | None:
    """What it waits for, or waited for in vain; None where it does neither."""
    if state is State.WAITING:
        return f"{_subject(tool, bodies)} waits for {_few(intent.after)} to succeed first."
    other = bodies.get("waited_for")
    if other is None:
        return None
    return f"{_subject(tool, bodies)} never happens: it {_waited_for(other)}."


def _sentence(
    intent: Intent, state: State, status: Status, tool: Tool, bodies: Mapping[str, Any]
) -> str:
    wording = tool.wording
    subject = _subject(tool, bodies)
    match status:
        case Status.SCHEDULED:
            return _scheduled(intent, subject, tool, bodies)
        case Status.DONE:
            tail = _fill((wording or _UNWORDED).done, bodies)
            return str((bodies.get("result") or {}).get("summary") or f"{subject} {tail}.")
        case Status.TAKEN_BACK:
            tail = _fill((wording or _UNWORDED).taken_back, bodies)
            never = " It never happened." if state is State.CANCELLED else ""
            return f"{subject} {tail}.{never}"
        case Status.NEEDS_APPROVAL:
            return f"{subject} waits for a person to approve it."
        case Status.IN_PROGRESS:
            doing = "taken back" if state is State.RESTORING else "carried out"
            return f"{subject} is being {doing}."
        case Status.IN_DOUBT:
            return f"{subject} {_doubt(intent, state, tool)}"
        case _:
            found_out_by = _found_out_by(bodies)
            if found_out_by is None:
                return f"{subject} was refused: {message_of(state, bodies)}"
            return f"{subject} did not happen, as {found_out_by} has found out."


def _found_out_by(bodies: Mapping[str, Any]) -> str | None:
    """Who has said of what was in doubt that it did not happen: nobody has refused it."""
    error = bodies.get("error") or {}
    return error.get("by") if error.get("code") == "resolved_failed" else None


def _scheduled(intent: Intent, subject: str, tool: Tool, bodies: Mapping[str, Any]) -> str:
    until = clock(intent.due_at, intent.recorded_at) if intent.due_at else "its time"
    if is_tried_again(intent):
        return f"{subject} may or may not have happened, and is tried again at {until}."
    return f"{subject} {_fill((tool.wording or _UNWORDED).scheduled, bodies, until=until)}."


def _doubt(intent: Intent, state: State, tool: Tool) -> str:
    if is_held_back(intent):
        return "has not begun, and can't before a person has looked at it."
    if is_denied(intent):
        return "was called failed, and a late answer says that it happened. It is not repeated."
    if state is State.PARKED:
        return "may or may not have happened; a person has to find out. It is not repeated."
    return f"may or may not have happened; nobody knows yet. {_engine_does(tool)}"


def _engine_does(tool: Tool) -> str:
    """What the engine does about a doubt of ``tool``: true at any time while it lasts."""
    match tool.effect:
        case Remote(upstream=Keyed()):
            return (
                "It is repeated under the same key alone, while its provider keeps that: "
                "this doubles nothing."
            )
        case Remote(upstream=Lookup()):
            return "Its provider is asked; it is repeated only if that says that nothing arrived."
        case Remote(upstream=Blind()):
            return "It is not repeated."
        case _:
            return "It is found out, or left to a person."


def _few(refs: Sequence[str]) -> str:
    """The refs as a sentence has them: a few, and how many more.

    >>> _few(["a-1"]), _few(["a-1", "b-2"]), _few(["a-1", "b-2", "c-3", "d-4"])
    ('a-1', 'a-1 and b-2', 'a-1, b-2 and 2 more')
    """
    told = list(refs[:REFS_SHOWN_MAX])
    more = len(refs) - len(told)
    last = f"{more} more" if more else told.pop()
    return f"{', '.join(told)} and {last}" if told else last


class _Values(dict[str, Any]):
    """What fills a template: arguments as it names them, and a gap for what was forgotten."""

    def __init__(self, arguments: Mapping[str, Any], more: Mapping[str, str]) -> None:
        super().__init__(more)
        self._arguments = arguments

    def __missing__(self, name: str) -> Any:
        if name not in self._arguments:
            return "…"
        return shown(as_stored(self._arguments[name]))


def _fill(template: str, bodies: Mapping[str, Any], **more: str) -> str:
    """The sentence; of a long argument it has the beginning, since an answer stays short."""
    values = _Values(bodies.get("arguments") or {}, more)
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
