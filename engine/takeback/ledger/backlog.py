"""What is due and what stands still, counted for whoever watches the ledger: of every tenant.

Meant to be asked every few seconds: each count is bounded, and read off its own index. Nothing
here is read by anything that decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from takeback.ledger.braking import in_force
from takeback.ledger.health import STOPPED_EACH, LaneHealth, lanes
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.intent import instant

COUNTED_MAX = 10_000
"""Of each kind so many are counted: whoever sees this many need not know how many more."""

DUE = Statement(
    name="backlog_due",
    sentence="Counts by tool what has fallen due, the oldest first, and says for how long.",
    index="intents_due",
    lock="none",
    text=text("""
SELECT l.tool, count(*), takeback.micros(takeback.now()) - takeback.micros(min(l.due_at))
FROM (SELECT i.tool, i.due_at FROM takeback.intents AS i
      WHERE i.state IN ('held', 'due') AND i.due_at <= (SELECT takeback.now())
      ORDER BY i.due_at LIMIT CAST(:counted_max AS int)) AS l
GROUP BY l.tool ORDER BY l.tool
"""),
)

STOPPED = Statement(
    name="backlog_stopped",
    sentence="Counts by state and tool what goes on by no worker's claim, each state on its own.",
    index="intents_stopped",
    lock="none",
    text=text(f"""
SELECT s.state, s.tool, count(*) FROM ({STOPPED_EACH}) AS s
GROUP BY s.state, s.tool ORDER BY s.state, s.tool
"""),
)

EXPIRED = Statement(
    name="backlog_expired",
    sentence="Counts the leases that are over and not taken over yet, and says what time it is.",
    index="intents_lease",
    lock="none",
    text=text("""
SELECT count(*), takeback.micros(takeback.now()) FROM (
    SELECT FROM takeback.intents AS i
    WHERE i.state IN ('claimed', 'executing') AND i.lease_until <= (SELECT takeback.now())
    ORDER BY i.lease_until LIMIT CAST(:counted_max AS int)) AS e
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """``due`` by tool, and for how many seconds the oldest is due (0 where none is); ``stopped`` by
    state and tool; the leases that are over, the freezes in force, and the connectors.
    """

    now: datetime
    due: Mapping[str, int]
    oldest_due_seconds: float
    stopped: Mapping[tuple[str, str], int]
    expired_leases: int
    freezes: int
    lanes: tuple[LaneHealth, ...]


def read_backlog(tx: Tx) -> Backlog:
    """What there is now, in five statements. Raises DatabaseUnavailable."""
    bound = {"counted_max": COUNTED_MAX}
    due = tx.rows(DUE, bound)
    expired, now_us = tx.row(EXPIRED, bound)
    return Backlog(
        now=instant(now_us),
        due={tool: count for tool, count, _ in due},
        oldest_due_seconds=max((age_us for _, _, age_us in due), default=0) / 1_000_000,
        stopped={(state, tool): count for state, tool, count in tx.rows(STOPPED, bound)},
        expired_leases=expired,
        freezes=len(in_force(tx)),
        lanes=lanes(tx, counted_max=COUNTED_MAX),
    )
