"""Writing rows of intents as the log says they are: for ``takeback rebuild`` alone.

No event is written, so neither the barrier nor a place in the log is needed.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from takeback.ledger.audit_reading import ANY_COLUMNS, NO_INSTANT, Identity, Projected, projected_of
from takeback.ledger.projection import changed_columns
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.intent import Intent, micros

LOCK_ROW = Statement(
    name="lock_row",
    sentence="Locks one row of intents, whatever stands in it.",
    index="intents_pkey",
    lock="the row",
    text=text(f"""
SELECT {ANY_COLUMNS}
FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text) AND i.id = CAST(:id AS uuid) FOR UPDATE
"""),
)

PLANT_ROW = Statement(
    name="plant_row",
    sentence="Inserts a missing row, in a state that no trigger takes for a fresh recording.",
    index="intents_pkey",
    lock="the new row",
    text=text("""
INSERT INTO takeback.intents
    (tenant, id, ref, tool, tool_version, effect, key, generation, principal, state, version,
     recorded_at, window_us, head_hash)
SELECT CAST(:tenant AS text), CAST(:id AS uuid), n.ref, n.tool, n.tool_version, n.effect, n.key,
       n.generation, n.principal, 'recorded', 1, takeback.instant(n.recorded_us), n.window_us,
       decode(n.head_hash, 'hex')
FROM json_to_record(CAST(:row AS json)) AS n (
    ref text, tool text, tool_version int, effect text, key text, generation int,
    principal text, recorded_us bigint, window_us bigint, head_hash text)
ON CONFLICT (tenant, id) DO NOTHING
"""),
)

WRITE_ROW = Statement(
    name="write_row",
    sentence="Writes every column of a locked row; a renewed lease stays as it is.",
    index="intents_pkey",
    lock="none beyond the row that is already locked",
    text=text("""
UPDATE takeback.intents AS i
SET ref = n.ref, tool = n.tool, tool_version = n.tool_version, effect = n.effect, key = n.key,
    generation = n.generation, run = n.run, principal = n.principal, state = n.state,
    version = n.version, recorded_at = takeback.instant(n.recorded_us), window_us = n.window_us,
    not_before = takeback.instant(n.not_before_us), due_at = takeback.instant(n.due_us),
    attempt = n.attempt, epoch = n.epoch,
    lease_until = CASE WHEN n.lease_us IS NOT NULL
                       THEN coalesce(i.lease_until, takeback.instant(n.lease_us)) END,
    affected_count = n.affected_count, restores = n.restores, repeat_of = n.repeat_of,
    restored_via = n.restored_via, taken_back_by = n.taken_back_by,
    settled_at = takeback.instant(n.settled_us), last_word = n.last_word,
    contradicted = n.contradicted, head_hash = decode(n.head_hash, 'hex'), after = n.after,
    attempts_unknown = n.attempts_unknown, begin_before = takeback.instant(n.begin_before_us),
    on_behalf_of = n.on_behalf_of, expires_at = takeback.instant(n.expires_us),
    approved_by = n.approved_by, lane = n.lane, priority = n.priority, ordering = n.ordering
FROM json_to_record(CAST(:row AS json)) AS n (
    ref text, tool text, tool_version int, effect text, key text, generation int, run text,
    principal text, state text, version int, recorded_us bigint, window_us bigint,
    not_before_us bigint, due_us bigint, attempt int, epoch int, lease_us bigint,
    affected_count bigint, restores uuid, repeat_of text, restored_via text, taken_back_by text,
    settled_us bigint, last_word text, contradicted boolean, head_hash text, after text[],
    attempts_unknown int[], begin_before_us bigint, on_behalf_of text, expires_us bigint,
    approved_by text, lane text, priority smallint, ordering text)
WHERE i.tenant = CAST(:tenant AS text) AND i.id = CAST(:id AS uuid)
"""),
)


def lock_row(tx: Tx, identity: Identity) -> Projected | None:
    """The row of that intent, locked; None when there is none."""
    tenant, id_ = identity
    parameters = {"tenant": tenant, "id": str(id_), "no_instant": NO_INSTANT}
    rows = tx.rows(LOCK_ROW, parameters)
    return projected_of(rows[0]) if rows else None


def write_row(tx: Tx, intent: Intent) -> None:
    """Makes the row of ``intent`` equal to it; the row is locked, or missing.

    Raises the driver's UniqueViolation when its ref or its key stands in another row.
    """
    row = json.dumps(_fixed_columns(intent) | changed_columns(intent))
    parameters = {"tenant": intent.tenant, "id": str(intent.id), "row": row}
    tx.rows(PLANT_ROW, parameters)
    tx.rows(WRITE_ROW, parameters)


def _fixed_columns(intent: Intent) -> dict[str, Any]:
    """The columns that the first event sets for good."""
    not_before = intent.not_before
    return {
        "ref": intent.ref,
        "tool": intent.tool,
        "tool_version": intent.tool_version,
        "effect": intent.effect,
        "key": intent.key,
        "generation": intent.generation,
        "run": intent.run,
        "principal": intent.principal,
        "recorded_us": micros(intent.recorded_at),
        "window_us": intent.window // timedelta(microseconds=1),
        "not_before_us": None if not_before is None else micros(not_before),
        "restores": None if intent.restores is None else str(intent.restores),
        "repeat_of": intent.repeat_of,
        "after": list(intent.after),
        "on_behalf_of": intent.on_behalf_of,
        "lane": intent.lane,
        "priority": intent.priority,
        "ordering": intent.ordering,
    }
