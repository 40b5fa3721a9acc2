"""What a process counts of its own work, for whoever watches over it: numbers, and no more.

Each is counted where it happens and read by another thread. What tells numbers of one name apart
comes from the catalog or from a closed set (tool, connector, outcome, priority): never a ref, a
run or a principal, so that there are never many of them. An app that nobody watches has no meter.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

BOUNDS_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""From what a quick look finds to what is no lateness any more, but an outage."""

EXPECTED_MAX = 10_000
"""Of so many claims it is known when they were due; those that are never called are forgotten."""

SUCCEEDED = "succeeded"

Labels = tuple[str, ...]

Which = tuple[str, UUID]
"""An intent, by tenant and id."""


class Count(StrEnum):
    """What only grows while a process lives."""

    ATTEMPTS = "attempts"
    CLAIMS = "claims"
    LEASES_LOST = "leases_lost"
    LEASES_TAKEN_OVER = "leases_taken_over"
    CONNECTOR_PAUSES = "connector_pauses"
    WAKE_UPS_SENT = "wake_ups_sent"
    WAKE_UPS_RECEIVED = "wake_ups_received"
    WAKE_UPS_PASSED_ON = "wake_ups_passed_on"
    WAKE_UPS_POISONED = "wake_ups_poisoned"


class Span(StrEnum):
    """What takes time, of which the distribution is told."""

    LATENESS = "attempt_lateness_seconds"
    DURATION = "attempt_duration_seconds"


@dataclass(slots=True)
class Spread:
    """How many spans ended within each of the bounds (the last: beyond all of them), and their sum.

    >>> spread = Spread()
    >>> spread.add(0.02); spread.add(400.0)
    >>> spread.within()[:3], spread.within()[-1], spread.seconds
    ([0, 1, 1], 2, 400.02)
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_SECONDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.seconds += seconds

    def within(self) -> list[int]:
        """For each bound how many were no longer than it; last, all of them."""
        sums, sum_ = [], 0
        for count in self.counts:
            sum_ += count
            sums.append(sum_)
        return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a meter shows at one moment; None where nothing has succeeded yet."""

    counts: Mapping[Count, Mapping[Labels, int]]
    spreads: Mapping[Span, Mapping[Labels, Spread]]
    seconds_since_succeeded: float | None


class Meter:
    """Counts for one process, from many threads; ``monotonic`` says how many seconds went by."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counts: dict[Count, Counter[Labels]] = {one: Counter() for one in Count}
        self._spreads: dict[Span, dict[Labels, Spread]] = {one: {} for one in Span}
        self._due_at: dict[Which, float] = {}
        self._succeeded_at: float | None = None

    def add(self, what: Count, *labels: str, amount: int = 1) -> None:
        """So many more of it."""
        with self._lock:
            self._counts[what][labels] += amount

    def settle(self, attempts: Iterable[tuple[str, str, str]]) -> None:
        """Attempts are over and written down: of each the tool, the connector and the outcome."""
        ended = list(attempts)
        if not ended:
            return
        with self._lock:
            self._counts[Count.ATTEMPTS].update(ended)
            if any(outcome == SUCCEEDED for _, _, outcome in ended):
                self._succeeded_at = self._monotonic()

    def claim(self, lateness: Mapping[Which, float], *, count: int, at: float) -> None:
        """So many were claimed at the moment ``at``; for so many seconds each had been due then."""
        with self._lock:
            self._counts[Count.CLAIMS][()] += count
            if len(self._due_at) + len(lateness) > EXPECTED_MAX:
                self._due_at.clear()
            for which, seconds in lateness.items():
                self._due_at[which] = at - seconds

    def begin(self, which: Which, tool: str) -> None:
        """The attempt at it is called now."""
        now = self._monotonic()
        with self._lock:
            due_at = self._due_at.pop(which, None)
            if due_at is not None:
                self._spread(Span.LATENESS, tool).add(max(now - due_at, 0.0))

    def end(self, tool: str, seconds: float) -> None:
        """A call has come back, or has broken, after so long."""
        with self._lock:
            self._spread(Span.DURATION, tool).add(seconds)

    def read(self) -> Reading:
        """What it shows now."""
        with self._lock:
            since = None if self._succeeded_at is None else self._monotonic() - self._succeeded_at
            return Reading(
                counts={what: dict(counted) for what, counted in self._counts.items()},
                spreads={
                    what: {labels: _copy(one) for labels, one in spreads.items()}
                    for what, spreads in self._spreads.items()
                },
                seconds_since_succeeded=since,
            )

    def _spread(self, what: Span, tool: str) -> Spread:
        return self._spreads[what].setdefault((tool,), Spread())


def _copy(spread: Spread) -> Spread:
    counts: Sequence[int] = spread.counts
    return Spread(counts=list(counts), seconds=spread.seconds)
