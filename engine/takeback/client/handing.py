"""Where answers leave: the one hook that every door goes through, and a log line at each.

    answer ──> hand_over(answer, door) ──> the lean answer, to whoever reads it there
           └─> hand_over_full(answer, door) ──> everything, where the door may have it

What is no door gets nothing. The line ``answered`` has the bytes of both payloads, as they are at
the door. It is logged by "takeback.answers" at level debug, so that it costs nothing until wanted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, TypeVar

from takeback.log import answers
from takeback.model.brevity import size
from takeback.model.door import Door
from takeback.model.envelope import Envelope

Line = TypeVar("Line", bound=dict[str, Any])


def hand_over(answer: Envelope, door: Door) -> Envelope:
    """The answer as it leaves at ``door``: lean. Raises TypeError for what is no door."""
    _require_door(door)
    if answers.isEnabledFor(logging.DEBUG):
        _say(answer, door)
    return answer


def hand_over_all(given: Sequence[Envelope], door: Door) -> list[Envelope]:
    """Several of them, a log line for each."""
    return [hand_over(answer, door) for answer in given]


def hand_over_lines(lines: list[Line], door: Door) -> list[Line]:
    """The lines of a list, which have no full form but that of each intent."""
    _require_door(door)
    if answers.isEnabledFor(logging.DEBUG):
        answers.debug("answered", door=door.value, lines=len(lines), lean_bytes=size(lines))
    return lines


def hand_over_full(answer: Envelope, door: Door) -> dict[str, Any]:
    """Everything, as a document. Raises TypeError at a door that may not have it."""
    everything = answer.full.disclose(door)
    if answers.isEnabledFor(logging.DEBUG):
        _say(answer, door)
    return everything


def _require_door(door: Door) -> None:
    if not isinstance(door, Door):
        raise TypeError(f"{door!r} is no door; answers leave at registered ones only")


def _say(answer: Envelope, door: Door) -> None:
    answers.debug(
        "answered",
        door=door.value,
        ref=answer.ref,
        status=answer.status,
        code=answer.code,
        replayed=answer.replayed,
        lean_bytes=size(answer.to_dict()),
        full_bytes=answer.full.byte_count(),
        trace_id=answer.get("trace_id"),
    )
