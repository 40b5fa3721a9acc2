"""What is not over, by what it waits for: its instant, others, a person, a thaw, a provider.

Nothing here is read by anything that decides. Each kind is counted up to a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from sqlalchemy import text

from takeback.ledger.locking import OF_TENANT, STOPPED
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.intent import instant

COUNTED_MAX = 100_000
"""Of each state so many are counted: a look stays quick however long the queue is."""

SIGNS_LOOKED_AT = 1000
"""Among so many of the newest events a sign of a worker is looked for."""

Wait = Literal[
    "due",
    "held",
    "frozen",
    "paused",
    "waiting",
    "awaiting_approval",
    "under_way",
    "in_doubt",
    "parked",
]
"""``due`` may be claimed now, ``held`` falls due later; ``frozen`` and ``paused`` are those of both
that a person has stopped, and those that are due behind a paused connector."""

REMAINDER = Statement(
    name="remainder",
    sentence="Counts what is not over by what it waits for, with the oldest of each kind.",
    index="intents_due",
    lock="none",
    text=text(f"""
WITH moment AS MATERIALIZED (SELECT takeback.now() AS now), {STOPPED},
queued AS MATERIALIZED (
    SELECT i.tenant, i.tool, i.run, i.lane, i.restores, i.due_at FROM takeback.intents AS i
    WHERE i.state IN ('held', 'due') AND {OF_TENANT}
    ORDER BY i.due_at LIMIT CAST(:counted_max AS int)),
owned AS MATERIALIZED (
    SELECT i.recorded_at FROM takeback.intents AS i
    WHERE i.state IN ('claimed', 'executing') AND i.lease_until IS NOT NULL AND {OF_TENANT}
    ORDER BY i.lease_until LIMIT CAST(:counted_max AS int)),
halted AS MATERIALIZED (
    SELECT i.state, i.recorded_at FROM takeback.intents AS i
    WHERE i.state IN ('awaiting_approval', 'waiting', 'in_doubt', 'parked') AND {OF_TENANT}
    LIMIT CAST(:counted_max AS int)),
sorted AS MATERIALIZED (
    SELECT CASE
        WHEN q.restores IS NULL AND EXISTS (
            SELECT FROM stopped AS f
            WHERE (f.tenant IS NULL OR f.tenant = q.tenant)
              AND (f.tool IS NULL OR f.tool = q.tool) AND (f.run IS NULL OR f.run = q.run))
            THEN 'frozen'
        WHEN q.due_at > m.now THEN 'held'
        WHEN (SELECT c.opened_at FROM takeback.connectors AS c WHERE c.name = q.lane) IS NOT NULL
            THEN 'paused'
        ELSE 'due' END AS wait, q.due_at AS at
    FROM queued AS q CROSS JOIN moment AS m
    UNION ALL SELECT 'under_way', o.recorded_at FROM owned AS o
    UNION ALL SELECT h.state, h.recorded_at FROM halted AS h)
SELECT s.wait, count(*), takeback.micros(min(s.at)), takeback.micros(min(m.now))
FROM sorted AS s CROSS JOIN moment AS m GROUP BY s.wait ORDER BY s.wait
"""),
)

SIGN = Statement(
    name="sign_of_workers",
    sentence="Says when a worker last claimed, began or ended something, among the newest events.",
    index="events_position_order",
    lock="none",
    text=text("""
SELECT takeback.micros(max(e.recorded_at)), takeback.micros(takeback.now())
FROM (SELECT n.kind, n.recorded_at FROM takeback.events AS n
      ORDER BY n.position DESC LIMIT CAST(:looked_at AS int)) AS e
WHERE e.kind = ANY(CAST(:kinds AS text[]))
"""),
)

SIGNS = ("claimed", "attempt_began", "handed_back", "deferred", "in_doubt")
"""Events that a worker alone writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How many wait for one thing; ``oldest_at`` is the first due instant among them, or where
    there is none the first recording, ``oldest_seconds`` its age (below zero: still to come).
    """

    count: int
    oldest_at: datetime
    oldest_seconds: float


Remainder = Mapping[Wait, Waits]
"""Kinds of which there is nothing are left out."""


def read_remainder(tx: Tx, tenant: str | None) -> Remainder:
    """The remainder of ``tenant``; None is every one."""
    rows = tx.rows(REMAINDER, {"tenant": tenant, "counted_max": COUNTED_MAX})
    found = {
        wait: Waits(
            count=count,
            oldest_at=instant(oldest_us),
            oldest_seconds=(now_us - oldest_us) / 1_000_000,
        )
        for wait, count, oldest_us, now_us in rows
    }
    return {wait: found[wait] for wait in get_args(Wait) if wait in found}


def sign_of_workers(tx: Tx) -> float | None:
    """Seconds since a worker did something; None where the newest events tell of nothing."""
    at_us, now_us = tx.row(
        SIGN, {"looked_at": SIGNS_LOOKED_AT, "kinds": [f"intent.{one}" for one in SIGNS]}
    )
    return None if at_us is None else max((now_us - at_us) / 1_000_000, 0.0)
