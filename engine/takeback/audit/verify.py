"""Proving the log: whatever was changed behind the library's back is named, and nothing else is."""

from __future__ import annotations

from dataclasses import dataclass

from takeback.audit.proof import Problem
from takeback.audit.walk import Progress, walk
from takeback.ledger.database import Database

PROBLEMS_MAX = 10_000
"""So many are kept; a ledger that is broken throughout must not fill the memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was proved, and what was not; ``unlisted`` problems were found beyond the limit."""

    intents: int
    events: int
    problems: tuple[Problem, ...]
    unlisted: int = 0


def verify(database: Database, *, progress: Progress | None = None) -> Verdict:
    """Proves every chain of events, every body beside it, and that folding it gives the row.

    Writers may go on meanwhile. ``progress`` hears how many rows are done, of how many. A ledger
    whose last events *and* whose rows were both cut off proves all the same: only a seal kept
    elsewhere tells. Raises DatabaseUnavailable.
    """
    intents = events = found = 0
    problems: list[Problem] = []
    for proof in walk(database, progress):
        intents += proof.row is not None
        events += proof.events
        found += len(proof.problems)
        problems += proof.problems[: PROBLEMS_MAX - len(problems)]
    return Verdict(
        intents=intents,
        events=events,
        problems=tuple(problems),
        unlisted=found - len(problems),
    )
