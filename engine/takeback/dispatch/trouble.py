"""What goes wrong in a loop that goes on: pauses while something is away, and an end to our faults.

troubles = Troubles()
try:        a turn
away:       sleep(troubles.pause())
a fault:    if troubles.is_hopeless(): raise, else sleep(troubles.pause())
else:       troubles.end()
"""

from __future__ import annotations

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between turns while the database, or the broker, is away; the last is repeated."""

FAULTS_MAX = 10
"""A fault of ours that comes so often in a row ends the loop: somebody has to look."""


class Troubles:
    """The turns that failed since the last one that didn't.

    >>> troubles = Troubles()
    >>> [troubles.pause() for _ in range(6)]
    [0.1, 0.2, 0.5, 1.0, 2.0, 2.0]
    >>> troubles.end()
    >>> troubles.pause()
    0.1
    """

    def __init__(self) -> None:
        self.count = 0
        self.faults = 0

    def pause(self) -> float:
        """How many seconds to wait after one more of them."""
        self.count += 1
        return PAUSES[min(self.count, len(PAUSES)) - 1]

    def is_hopeless(self) -> bool:
        """Counts a fault of ours; says whether there were too many."""
        self.faults += 1
        return self.faults >= FAULTS_MAX

    def end(self) -> None:
        """A turn went well."""
        self.count = self.faults = 0
