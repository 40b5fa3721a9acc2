"""What is known of a doubt beside its intent: since when it lasts, and when it may be asked about.

``ask_at`` is no part of the projection: no event says it. It is when an intent in doubt may be
asked about; who asks moves it on first, so that nobody else asks meanwhile, and finds it where they
left it when they come back with an answer. One who dies while asking is followed by another then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.locking import OF_TENANT, RUNNABLE, TAKEN, Taken, taken_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.intent import Intent, instant, micros

LOCK_DOUBTFUL = Statement(
    name="lock_doubtful",
    sentence="Takes a batch of the intents in doubt that may be asked about now.",
    index="intents_in_doubt",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held)
SELECT {TAKEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE i.state = 'in_doubt' AND i.restored_via IS NULL
  AND (i.ask_at IS NULL OR i.ask_at <= (SELECT takeback.now()))
  AND {OF_TENANT} AND {RUNNABLE}
ORDER BY i.ask_at NULLS FIRST LIMIT CAST(:limit AS int) FOR UPDATE OF i SKIP LOCKED
"""),
)

READ_DOUBTS = Statement(
    name="read_doubts",
    sentence="Reads when attempts at intents began, the first under their key, and the doubt.",
    index="events_pkey",
    lock="none",
    text=text("""
SELECT w.tenant, CAST(w.id AS text),
       takeback.micros(min(e.recorded_at) FILTER (
           WHERE e.kind = 'intent.attempt_began'
             AND CAST(CAST(e.payload AS json) ->> 'epoch' AS int) = w.epoch)),
       takeback.micros(max(e.recorded_at) FILTER (WHERE e.kind = 'intent.attempt_began')),
       takeback.micros(max(e.recorded_at) FILTER (WHERE e.kind = 'intent.in_doubt'))
FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[]), CAST(:epochs AS int[]))
     AS w (tenant, id, epoch)
JOIN takeback.events AS e ON e.tenant = w.tenant AND e.intent_id = w.id
GROUP BY w.tenant, w.id, w.epoch
"""),
)

MOVE_ASKS = Statement(
    name="move_asks",
    sentence="Says when intents in doubt may be asked about next, where nobody else has said so.",
    index="intents_pkey",
    lock="the rows",
    text=text("""
UPDATE takeback.intents AS i SET ask_at = takeback.instant(w.ask_us)
FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[]), CAST(:was_us AS bigint[]),
            CAST(:ask_us AS bigint[])) AS w (tenant, id, was_us, ask_us)
WHERE i.tenant = w.tenant AND i.id = w.id
  AND (w.was_us IS NULL OR i.ask_at = takeback.instant(w.was_us))
RETURNING i.tenant, CAST(i.id AS text)
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """``first_began_at`` is when an attempt first began under the present key of the provider's,
    ``began_at`` when the last one did, ``since`` when nobody knew of it any more.
    """

    first_began_at: datetime
    began_at: datetime
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """That ``intent`` may be asked about at ``at``, where that was ``was`` (None: whenever)."""

    intent: Intent
    at: datetime
    was: datetime | None = None


def lock_doubtful(
    tx: Tx, tools: Mapping[str, int], limit: int, *, tenant: str | None = None
) -> list[Taken]:
    """At most ``limit`` intents of ``tenant`` (None: of all) in doubt whose time to ask has come.

    Not those that are in doubt about being taken back: that ends with the restore.
    """
    parameters = {"tools": json.dumps(dict(tools)), "limit": limit, "tenant": tenant}
    return [taken_of(row) for row in tx.rows(LOCK_DOUBTFUL, parameters)]


def read_doubts(tx: Tx, intents: Sequence[Intent]) -> Mapping[tuple[str, UUID], Doubt]:
    """By tenant and id, what the log says of the doubt about each of ``intents``."""
    parameters = {
        "tenants": [one.tenant for one in intents],
        "ids": [str(one.id) for one in intents],
        "epochs": [one.epoch for one in intents],
    }
    return {
        (tenant, UUID(id_)): Doubt(
            first_began_at=instant(first_us), began_at=instant(began_us), since=instant(since_us)
        )
        for tenant, id_, first_us, began_us, since_us in tx.rows(READ_DOUBTS, parameters)
        if None not in (first_us, began_us, since_us)
    }


def move_asks(tx: Tx, asks: Sequence[Ask]) -> set[tuple[str, UUID]]:
    """Those that were moved, by tenant and id: nobody else had moved them."""
    if not asks:
        return set()
    parameters = {
        "tenants": [ask.intent.tenant for ask in asks],
        "ids": [str(ask.intent.id) for ask in asks],
        "was_us": [None if ask.was is None else micros(ask.was) for ask in asks],
        "ask_us": [micros(ask.at) for ask in asks],
    }
    return {(tenant, UUID(id_)) for tenant, id_ in tx.rows(MOVE_ASKS, parameters)}
