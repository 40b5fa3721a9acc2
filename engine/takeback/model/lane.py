"""What may go through a connector now: its token bucket, its breaker, and what is under way.

Pure: the ledger keeps a ``Lane`` for each connector, and whoever claims or has heard something of
the provider holds its row meanwhile.

    closed ──failures in a row──> open, paused ──the pause is over──> one probe at a time
      ^                             ^                                       │
      │                             └──────── no answer: twice the pause ───┤
      └──────────────────── an answer, whoever hears it ────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from takeback.declare import Breaker, Connector

ROOM_MAX = 1_000_000
"""Where nothing is bounded."""

SLACK = 1e-6
"""Of a token, so that a double which falls short of one by a hair is one."""

CLOCK_BACK_MAX = timedelta(seconds=1)
"""A bucket that was filled later than this from now was filled before the clock was set back."""

Heard = Literal["answered", "unanswered", "nothing"]
"""What the end of an attempt says of the provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A connector as the ledger keeps it.

    ``tokens`` were in the bucket at ``refilled_at``; ``failures`` attempts in a row were not
    answered. While ``opened_at`` is set nothing begins before ``paused_until``, which is ``pause``
    after the failure that set it; then one probe at a time, whose time is over at ``probe_until``.
    """

    name: str
    tokens: float
    refilled_at: datetime
    failures: int = 0
    opened_at: datetime | None = None
    paused_until: datetime | None = None
    pause: timedelta = timedelta(0)
    probe_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """So many may be claimed now; with ``is_probe`` the one is to find out about the provider.

    Where there is none, ``ready_at`` is when there may be some, as far as time alone brings it;
    None while others are under way. Until then nothing in the lane counts as due, so that a worker
    neither turns for it nor sleeps past it.
    """

    count: int
    is_probe: bool = False
    ready_at: datetime | None = None


OPEN = Room(count=ROOM_MAX)
"""Of a lane that no row describes."""


def room(lane: Lane, connector: Connector, now: datetime, *, in_flight: int) -> Room:
    """How many more may go through ``connector`` while ``in_flight`` are under way.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> four = Connector("a", concurrency=4, rate=2.0, burst=3)
    >>> full = Lane(name="a", tokens=3.0, refilled_at=noon)
    >>> room(full, four, noon, in_flight=0).count, room(full, four, noon, in_flight=3).count
    (3, 1)
    >>> room(replace(full, tokens=0.0), four, noon, in_flight=0).ready_at - noon
    datetime.timedelta(microseconds=500000)
    """
    count = OPEN.count
    is_probe = False
    ready: list[datetime] = []
    if connector.breaker is not None and lane.opened_at is not None:
        shut = [at for at in (lane.paused_until, lane.probe_until) if at is not None and now < at]
        ready += shut
        is_probe = not shut
        count = 1 if is_probe else 0
    if connector.rate is not None:
        tokens = _refilled(lane, connector, connector.rate, now)
        count = min(count, int(tokens + SLACK))
        if tokens + SLACK < 1:
            ready.append(now + timedelta(seconds=(1 - tokens) / connector.rate))
    if connector.concurrency is not None and in_flight >= connector.concurrency:
        return Room(count=0)
    if connector.concurrency is not None:
        count = min(count, connector.concurrency - in_flight)
    return Room(
        count=count, is_probe=is_probe and count > 0, ready_at=max(ready) if ready else None
    )


def take(
    lane: Lane, connector: Connector, now: datetime, count: int, *, probe_until: datetime | None
) -> Lane:
    """The lane once ``count`` have been claimed; ``probe_until`` is set when that was a probe."""
    if connector.rate is not None:
        tokens = _refilled(lane, connector, connector.rate, now) - count
        lane = replace(lane, tokens=tokens, refilled_at=now)
    return lane if probe_until is None else replace(lane, probe_until=probe_until)


def hear(
    lane: Lane, breaker: Breaker | None, heard: Heard, now: datetime, *, is_probe: bool
) -> Lane:
    """The lane after an attempt has ended.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> breaker = Breaker(failures=2)
    >>> lane = Lane(name="a", tokens=0.0, refilled_at=noon)
    >>> for _ in range(2):
    ...     lane = hear(lane, breaker, "unanswered", noon, is_probe=False)
    >>> (lane.paused_until - noon).seconds
    10
    >>> (hear(lane, breaker, "unanswered", noon, is_probe=True).paused_until - noon).seconds
    20
    >>> hear(lane, breaker, "answered", noon, is_probe=False).opened_at is None
    True
    """
    if breaker is None or heard == "answered":
        return closed(lane)
    if heard == "nothing":
        return replace(lane, probe_until=None) if is_probe else lane
    failures = lane.failures + 1
    if lane.opened_at is None and failures < breaker.failures:
        return replace(lane, failures=failures)
    if lane.opened_at is not None and not is_probe:
        return replace(lane, failures=failures)
    is_first = lane.opened_at is None
    pause = breaker.pause if is_first else min(lane.pause * 2, breaker.pause_max)
    return replace(
        lane,
        failures=failures,
        opened_at=lane.opened_at or now,
        paused_until=now + pause,
        pause=pause,
        probe_until=None,
    )


def closed(lane: Lane) -> Lane:
    """The lane as if no attempt had ever failed."""
    return replace(
        lane,
        failures=0,
        opened_at=None,
        paused_until=None,
        pause=timedelta(0),
        probe_until=None,
    )


def tokens_now(lane: Lane, connector: Connector, now: datetime) -> float | None:
    """How many tokens are in the bucket; None where the connector has no rate."""
    return None if connector.rate is None else _refilled(lane, connector, connector.rate, now)


def _refilled(lane: Lane, connector: Connector, rate: float, now: datetime) -> float:
    if lane.refilled_at - now > CLOCK_BACK_MAX:
        return connector.tokens_max
    rested = max((now - lane.refilled_at).total_seconds(), 0.0)
    return min(lane.tokens + rested * rate, connector.tokens_max)
