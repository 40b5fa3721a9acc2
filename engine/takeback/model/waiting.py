"""What became of an intent that others wait for, and when it is worth a look again.

    happened      it is in the world, and stays there as far as is known
    failed        it never happened: refused, denied, approved by nobody in time, or in vain itself
    taken_back    somebody has cancelled or restored it
    open          anything else: it is on its way, in doubt, parked, or being taken back

What is purged stands as its last word has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from takeback.model.intent import State

Fate = Literal["open", "happened", "failed", "taken_back"]

LOOK_SOONEST = timedelta(seconds=0.25)
LOOK_LATEST = timedelta(seconds=30)
"""What has waited for long is looked at less often: an eighth of the time, within these."""

_FATES: dict[State, Fate] = {
    State.SUCCEEDED: "happened",
    State.RESTORE_FAILED: "happened",
    State.FAILED: "failed",
    State.DENIED: "failed",
    State.EXPIRED: "failed",
    State.CANCELLED: "taken_back",
    State.RESTORED: "taken_back",
}


def fate_of(state: State, via: str | None = None) -> Fate:
    """What it means for those who wait that an intent stands in ``state``; ``via`` is the ref of
    what took it back.

    >>> fate_of(State.RESTORE_FAILED), fate_of(State.RESTORING), fate_of(State.EXPIRED)
    ('happened', 'open', 'failed')
    >>> fate_of(State.CANCELLED, "restore-7F3K9QDM"), fate_of(State.CANCELLED)
    ('taken_back', 'failed')
    """
    if state is State.CANCELLED and via is None:
        return "failed"
    return _FATES.get(state, "open")


def next_look(now: datetime, since: datetime, due: Iterable[datetime | None]) -> datetime:
    """When to look again at what is still open; ``due`` is when each of it is due, as planned.

    Nothing can be over before the last of them is due, and little happens in a short time after a
    long one: ``since`` is when the waiting began.

    >>> at = datetime(2026, 11, 29, 14, 0)
    >>> next_look(at, at - timedelta(seconds=80), [None]) - at
    datetime.timedelta(seconds=10)
    >>> next_look(at, at - timedelta(seconds=80), [at + timedelta(seconds=3)]) - at
    datetime.timedelta(seconds=3)
    >>> next_look(at, at - timedelta(seconds=80), [at - timedelta(seconds=1)]) - at
    datetime.timedelta(microseconds=250000)
    """
    known = [one for one in due if one is not None]
    begun = max([since, *(one for one in known if one <= now)])
    at = now + min(max((now - begun) / 8, LOOK_SOONEST), LOOK_LATEST)
    last = max(known, default=now)
    return min(at, last) if last > now else at
