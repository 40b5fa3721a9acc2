"""How a worker is, for its log and for whoever watches over its process."""

from __future__ import annotations

from dataclasses import dataclass

PULSE_SECONDS = 60.0
"""How often a worker says so by itself: one that says nothing for longer is gone, or stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """``turns`` looks round have succeeded, the last of them ``seconds_since_success`` ago.

    ``busy`` attempts run, ``open`` outcomes are known and not written yet, ``abandoned`` threads
    hang in attempts that were given up. Of the attempts that are written down ``performed`` have
    succeeded, ``deferred`` are tried again later.
    """

    turns: int
    seconds_since_success: float
    busy: int
    open: int
    abandoned: int
    performed: int
    failed: int = 0
    deferred: int = 0
    in_doubt: int = 0
    taken_over: int
