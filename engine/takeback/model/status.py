"""The status words of answers: two closed sets, each word of which asks for another next step."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from takeback.model.intent import State


class Status(StrEnum):
    """What an answer says first. No other word is ever said there."""

    DONE = "done"
    SCHEDULED = "scheduled"
    IN_PROGRESS = "in_progress"
    NEEDS_APPROVAL = "needs_approval"
    IN_DOUBT = "in_doubt"
    REFUSED = "refused"
    TAKEN_BACK = "taken_back"
    OK = "ok"
    NO_MATCHES = "no_matches"
    UNAVAILABLE = "unavailable"


OF_READS = frozenset({Status.OK, Status.NO_MATCHES, Status.UNAVAILABLE})
"""Of a read that could be asked for; one whose arguments are wrong is refused like any call."""

OF_WRITES = frozenset(Status) - OF_READS

STATUS: Mapping[State, Status] = {
    State.RECORDED: Status.SCHEDULED,
    State.WAITING: Status.SCHEDULED,
    State.HELD: Status.SCHEDULED,
    State.DUE: Status.SCHEDULED,
    State.CLAIMED: Status.SCHEDULED,
    State.AWAITING_APPROVAL: Status.NEEDS_APPROVAL,
    State.EXECUTING: Status.IN_PROGRESS,
    State.RESTORING: Status.IN_PROGRESS,
    State.IN_DOUBT: Status.IN_DOUBT,
    State.PARKED: Status.IN_DOUBT,
    State.SUCCEEDED: Status.DONE,
    State.RESTORE_FAILED: Status.DONE,
    State.FAILED: Status.REFUSED,
    State.DENIED: Status.REFUSED,
    State.EXPIRED: Status.REFUSED,
    State.CANCELLED: Status.TAKEN_BACK,
    State.RESTORED: Status.TAKEN_BACK,
}
"""The wire word of each state; a purged intent keeps the word of its last one."""
