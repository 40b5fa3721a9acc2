"""Recording a call: one statement that inserts an intent or finds its twin.

The statement looks for a committed twin first. Only when there is none does it *try* the key's
advisory lock, which whoever records the same key holds until the end of its transaction: so two
callers never wait for each other's row, and a caller's transaction is never aborted by a twin under
READ COMMITTED. Four answers follow:

    recorded      the intent, its first event and the body of its arguments are in this transaction
    found         a twin that this snapshot sees
    busy          a twin is uncommitted elsewhere: nothing was written
    shadowed      the twin committed after this snapshot: a second statement sees it (READ
                  COMMITTED), or the ref was taken and another one is needed

Under REPEATABLE READ and SERIALIZABLE a shadowed twin is a serialization failure instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.event import Recorded, encode
from takeback.model.intent import instant

BARRIER_CLASS = 31418
BARRIER_ID = 1
"""The two-int advisory lock that every appender shares; see ``takeback.ledger.barrier``."""

RECORD = Statement(
    name="record",
    sentence="Inserts an intent, its first event and its arguments, or finds the twin of its key.",
    index="intents_key_is_recorded_once",
    lock="the key's advisory lock (tried), the barrier (shared), the new rows",
    text=text("""
WITH twin AS MATERIALIZED (
    SELECT i.id FROM takeback.intents AS i
    WHERE i.tenant = CAST(:tenant AS text) AND i.key = CAST(:key AS text)
      AND i.generation >= CAST(:generation AS int)
    ORDER BY i.generation DESC LIMIT 1
), gate AS MATERIALIZED (
    SELECT CASE WHEN EXISTS (SELECT FROM twin) THEN NULL
                ELSE pg_try_advisory_xact_lock(CAST(:key_lock AS bigint)) END AS opened
), place AS MATERIALIZED (
    SELECT takeback.now() AS at,
           pg_advisory_xact_lock_shared(31418, 1)::text AS barrier
    FROM gate WHERE gate.opened
), minted AS MATERIALIZED (
    SELECT place.at, place.barrier, takeback.new_id(place.at) AS id,
           nextval('takeback.events_position') AS position
    FROM place
), linked AS MATERIALIZED (
    SELECT minted.*, takeback.chain_hash(
        '\\x0000000000000000000000000000000000000000000000000000000000000000'::bytea,
        CAST(:tenant AS text), minted.id, 1, minted.position, 'intent.recorded', 1, minted.at,
        CAST(:payload AS text)) AS hash
    FROM minted
), intent AS (
    INSERT INTO takeback.intents
        (tenant, id, ref, tool, tool_version, effect, key, generation, run,
         principal, state, version, recorded_at, window_us, not_before, due_at, restores,
         repeat_of, after, head_hash)
    SELECT CAST(:tenant AS text), linked.id, CAST(:ref AS text), CAST(:tool AS text),
           CAST(:tool_version AS int), CAST(:effect AS text), CAST(:key AS text),
           CAST(:generation AS int), CAST(:run AS text),
           CAST(:principal AS text), CAST(:state AS text), 1, linked.at,
           CAST(:window_us AS bigint), takeback.instant(CAST(:not_before_us AS bigint)),
           CASE WHEN CAST(:state AS text) IN ('held', 'due') THEN greatest(
               linked.at + CAST(:window_us AS bigint) * interval '1 microsecond',
               takeback.instant(CAST(:not_before_us AS bigint))) END,
           CAST(:restores AS uuid), CAST(:repeat_of AS text), CAST(:after AS text[]),
           linked.hash
    FROM linked
    ON CONFLICT DO NOTHING
    RETURNING id, recorded_at, due_at, head_hash
), event AS (
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
    SELECT CAST(:tenant AS text), linked.id, 1, linked.position, 'intent.recorded', 1, linked.at,
           CAST(:payload AS text), linked.hash
    FROM linked JOIN intent ON intent.id = linked.id
), body AS (
    INSERT INTO takeback.bodies (tenant, intent_id, version, name, salt, body)
    SELECT CAST(:tenant AS text), intent.id, 1, 'arguments', CAST(:salt AS bytea),
           CAST(:arguments AS text)
    FROM intent
)
SELECT gate.opened, CAST(twin.id AS text), CAST(intent.id AS text),
       takeback.micros(intent.recorded_at), takeback.micros(intent.due_at), intent.head_hash
FROM gate LEFT JOIN twin ON true LEFT JOIN intent ON true
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minted:
    """What the database gave a fresh intent."""

    id: UUID
    recorded_at: datetime
    due_at: datetime | None
    head_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The answer of the recording statement."""

    answer: Literal["recorded", "found", "busy", "shadowed"]
    minted: Minted | None = None
    twin: UUID | None = None


def record(tx: Tx, tenant: str, event: Recorded, *, arguments: str, salt: bytes) -> Recording:
    """Records the intent that ``event`` begins, or says what stands in its place.

    ``arguments`` is the stored body whose salted digest the event holds.
    """
    opened, twin, new, recorded_us, due_us, head = tx.row(
        RECORD,
        {
            "tenant": tenant,
            "key": event.key,
            "key_lock": key_lock(tenant, event.key),
            "generation": event.generation,
            "payload": encode(event),
            "ref": event.ref,
            "tool": event.tool,
            "tool_version": event.tool_version,
            "effect": event.effect,
            "run": event.run,
            "principal": event.principal,
            "state": event.becomes,
            "window_us": event.window_us,
            "not_before_us": event.not_before_us,
            "restores": event.restores,
            "repeat_of": event.repeat_of,
            "after": list(event.after),
            "salt": salt,
            "arguments": arguments,
        },
    )
    if twin is not None:
        return Recording(answer="found", twin=UUID(twin))
    if not opened:
        return Recording(answer="busy")
    if new is None:
        return Recording(answer="shadowed")
    minted = Minted(
        id=UUID(new),
        recorded_at=instant(recorded_us),
        due_at=instant(due_us) if due_us is not None else None,
        head_hash=bytes(head),
    )
    return Recording(answer="recorded", minted=minted)


def key_lock(tenant: str, key: str) -> int:
    """The 64-bit advisory lock of a key; a collision only makes an equal wait, never a wrong answer.

    >>> key_lock("t", "k") == key_lock("t", "k") != key_lock("u", "k")
    True
    """
    digest = sha256(json.dumps([tenant, key]).encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
