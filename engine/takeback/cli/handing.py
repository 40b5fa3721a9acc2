"""Where the command line hands answers out: lean as a model has them, full to an operator alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from takeback.cli.asking import approval_lines, doubt_lines
from takeback.cli.attempt import attempt_lines
from takeback.cli.door import Door
from takeback.cli.failure import DONE, NO_SUCH_REF, REFUSED, SEE_LIST, UNAVAILABLE, exit_of
from takeback.cli.hindering import hindrance_lines
from takeback.cli.sheet import answer_block, columns, field, full_lines, timeline
from takeback.cli.voice import plain
from takeback.model.door import Door as Exit

if TYPE_CHECKING:
    from takeback.model.envelope import Envelope


RETRIED = "retried"

_STATES = {"parked": "parked: it waits for a person"}
"""A state that its word doesn't tell."""


def say_answer(
    door: Door,
    answer: Envelope,
    leaves_at: Exit,
    *,
    full: Exit | None = None,
    wanted: str | None = None,
) -> int:
    """Says an answer, and everything behind it where ``full`` names the door for that.

    ``wanted`` is how a person wanted it decided: that is done where it is so, whatever became of
    the call: ``is_decided`` in JSON says so, since the status is that of the call. Answers with
    the exit code.
    """
    from takeback.client.handing import hand_over, hand_over_full

    lean = hand_over(answer, leaves_at)
    everything = hand_over_full(answer, full) if full is not None else None
    is_as_wanted = wanted is not None and lean.get("decided", {}).get("how") == wanted
    code = DONE if is_as_wanted else exit_of(lean.code)
    if wanted == RETRIED and lean["status"] == "taken_back":
        # It was tried again once, and taken back since: nothing is tried now.
        code = REFUSED
    if door.voice.json_wanted:
        document = lean.to_dict()
        if wanted is not None:
            document["is_decided"] = code == DONE
        door.voice.document(document if everything is None else document | {"full": everything})
        return code
    lines = answer_block(door.voice, lean, door.app_option)
    if everything is not None:
        lines += full_lines(everything)
    if code == DONE:
        door.voice.lines(lines)
        return code
    for line in lines:
        door.voice.note(line)
    hints = door.whereabouts() if code == UNAVAILABLE else []
    for line in [*hints, *([SEE_LIST] if code == NO_SUCH_REF else [])]:
        door.voice.note(f"  {plain(line)}")
    return code


def say_intent(
    door: Door, answer: Envelope, beside: Mapping[str, Any], leaves_at: Exit, *, full: Exit | None
) -> None:
    """Says one intent: its lean answer, what stands ``beside`` it, and all of it when asked."""
    from takeback.client.handing import hand_over, hand_over_full

    document = hand_over(answer, leaves_at).to_dict() | dict(beside)
    if full is not None:
        everything = hand_over_full(answer, full)
        document |= {"affected": everything["affected"], "bodies": everything["bodies"]}
    if door.voice.json_wanted:
        door.voice.document(document)
        return
    lines = answer_block(door.voice, document, door.app_option)
    lines += [
        field(name, _STATES.get(document[key], document[key]))
        for name, key in (
            ("state", "state"),
            ("tool", "tool"),
            ("run", "run"),
            ("principal", "principal"),
            ("recorded", "recorded_at"),
            ("due", "due_at"),
            ("settled", "settled_at"),
        )
        if document[key] is not None
    ]
    lines += hindrance_lines(document, door.app_option)
    lines += approval_lines(document, door.app_option)
    lines += doubt_lines(document, door.app_option)
    lines += attempt_lines(document, door.app_option)
    lines += full_lines(document.get("bodies", {}))
    door.voice.lines([*lines, "", *_timeline(door, document)])


def _timeline(door: Door, document: Mapping[str, Any]) -> list[str]:
    return timeline(door.voice, document["events"], document.get("waited_for"))


def say_list(door: Door, found: Sequence[dict[str, Any]], leaves_at: Exit) -> None:
    """Says the lines of a list, as a table or as one document."""
    from takeback.client.handing import hand_over_lines

    lines = hand_over_lines(list(found), leaves_at)
    if door.voice.json_wanted:
        door.voice.document(lines)
        return
    if not lines:
        door.voice.line("no intent matches")
        return
    rows = [
        (one["ref"], one["state"], one["recorded_at"], one["due_at"] or "-", one["summary"])
        for one in lines
    ]
    door.voice.lines(columns(door.voice, ("ref", "state", "recorded", "due", "summary"), rows))
