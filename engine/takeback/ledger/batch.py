"""Recording many calls at once, in one statement, by the rules of recording one.

What can't be recorded (a twin is there, or uncommitted elsewhere) is left out of the answer, and is
then asked for singly. Keys are tried in sorted order; a try never waits, so no order can deadlock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.hindering import hindrance_of
from takeback.ledger.recording import Minted, key_lock
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.chain import GENESIS
from takeback.model.event import Recorded, encode
from takeback.model.intent import instant

RECORD_MANY = Statement(
    name="record_many",
    sentence="Inserts intents with first events and arguments, leaving out keys that have twins.",
    index="intents_key_is_recorded_once",
    lock="each key's advisory lock (tried), the barrier (shared), the new rows",
    text=text("""
WITH fresh AS MATERIALIZED (
    SELECT w.ordinal, w.ref, w.tool, w.tool_version, w.effect, w.key, w.key_lock, w.run,
           w.principal, w.state, w.window_us, w.not_before_us, w.after, w.repeat_of, w.payload,
           w.salt, w.arguments, w.on_behalf_of, w.approval_us, w.lane, w.priority, w.ordering,
           w.schema
    FROM json_to_recordset(CAST(:calls AS json)) AS w (
        ordinal int, ref text, tool text, tool_version int, effect text, key text,
        key_lock bigint, run text, principal text, state text, window_us bigint,
        not_before_us bigint, after text[], repeat_of text, payload text, salt text,
        arguments text, on_behalf_of text, approval_us bigint, lane text, priority smallint,
        ordering text, schema int)
    LEFT JOIN LATERAL (SELECT true AS there FROM takeback.intents AS i
                       WHERE i.tenant = CAST(:tenant AS text) AND i.key = w.key
                       LIMIT 1) AS twin ON true
    WHERE NOT coalesce(twin.there, false)
), opened AS MATERIALIZED (
    SELECT f.ordinal, f.ref, f.tool, f.tool_version, f.effect, f.key, f.run, f.principal, f.state,
           f.window_us, f.not_before_us, f.after, f.repeat_of, f.payload, f.salt, f.arguments,
           f.on_behalf_of, f.approval_us, f.lane, f.priority, f.ordering, f.schema
    FROM fresh AS f
    WHERE CASE WHEN NOT pg_try_advisory_xact_lock(f.key_lock) THEN false
               WHEN pg_relation_size('takeback.former_keys') = 0 THEN true
               ELSE takeback.claimed(CAST(:tenant AS text), f.key, 0) IS NULL END
), barrier AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held
), placed AS MATERIALIZED (
    SELECT opened.*, takeback.micros(takeback.now()) AS at_us
    FROM barrier CROSS JOIN opened ORDER BY opened.ordinal
), minted AS MATERIALIZED (
    SELECT placed.*, takeback.new_id(placed.at_us, decode(placed.salt, 'hex')) AS id,
           nextval('takeback.events_position') AS position
    FROM placed
), linked AS MATERIALIZED (
    SELECT minted.*, takeback.instant(minted.at_us) AS at,
           takeback.instant(minted.not_before_us) AS not_before,
           takeback.chain_hash(CAST(:genesis AS bytea), CAST(:tenant AS text), minted.id, 1,
                               minted.position, 'intent.recorded', minted.schema,
                               minted.at_us, minted.payload) AS hash
    FROM minted
), intent AS (
    INSERT INTO takeback.intents
        (tenant, id, ref, tool, tool_version, effect, key, generation, run, principal, state,
         version, recorded_at, window_us, not_before, after, due_at, repeat_of, head_hash,
         on_behalf_of, expires_at, lane, priority, ordering)
    SELECT CAST(:tenant AS text), l.id, l.ref, l.tool, l.tool_version, l.effect, l.key, 0, l.run,
           l.principal, l.state, 1, l.at, l.window_us, l.not_before, l.after,
           CASE WHEN l.state IN ('held', 'due') THEN
               greatest(l.at + l.window_us * interval '1 microsecond', l.not_before) END,
           l.repeat_of, l.hash, l.on_behalf_of,
           CASE WHEN l.state = 'awaiting_approval' THEN
               l.at + l.approval_us * interval '1 microsecond' END,
           l.lane, l.priority, l.ordering
    FROM linked AS l
    ON CONFLICT DO NOTHING
    RETURNING id
), event AS (
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
    SELECT CAST(:tenant AS text), l.id, 1, l.position, 'intent.recorded', l.schema,
           l.at, l.payload, l.hash
    FROM linked AS l JOIN intent USING (id)
), body AS (
    INSERT INTO takeback.bodies (tenant, intent_id, version, name, salt, body)
    SELECT CAST(:tenant AS text), l.id, 1, 'arguments', decode(l.salt, 'hex'), l.arguments
    FROM linked AS l JOIN intent USING (id)
)
SELECT l.ordinal, CAST(l.id AS text), l.at_us, l.hash,
       takeback.hindered(CAST(:tenant AS text), l.tool, l.run, l.lane, NULL)
FROM linked AS l JOIN intent USING (id)
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recordable:
    """One call of a batch: its first event, and the body of its arguments with the salt."""

    event: Recorded
    arguments: str
    salt: bytes


def record_many(tx: Tx, tenant: str, calls: Sequence[Recordable]) -> dict[int, Minted]:
    """Records those of ``calls`` whose keys are free; answers with them, by place in ``calls``.

    The keys are different from each other. None of the calls is a restore, and none has keys of
    earlier recipes: those are recorded singly.
    """
    wanted = [_wanted(tenant, ordinal, call) for ordinal, call in enumerate(calls)]
    parameters = {
        "tenant": tenant,
        "genesis": GENESIS,
        "calls": json.dumps(wanted),
    }
    return {
        ordinal: Minted(
            id=UUID(id_),
            recorded_at=instant(at_us),
            head_hash=bytes(head),
            hindrance=hindrance_of(hindrances, calls[ordinal].event.lane),
        )
        for ordinal, id_, at_us, head, hindrances in tx.rows(RECORD_MANY, parameters)
    }


def _wanted(tenant: str, ordinal: int, call: Recordable) -> dict[str, object]:
    event = call.event
    return {
        "ordinal": ordinal,
        "ref": event.ref,
        "tool": event.tool,
        "tool_version": event.tool_version,
        "effect": event.effect,
        "key": event.key,
        "key_lock": key_lock(tenant, event.key),
        "run": event.run,
        "principal": event.principal,
        "state": event.becomes,
        "window_us": event.window_us,
        "not_before_us": event.not_before_us,
        "after": list(event.after),
        "repeat_of": event.repeat_of,
        "payload": encode(event),
        "schema": event.schema,
        "salt": call.salt.hex(),
        "arguments": call.arguments,
        "on_behalf_of": event.on_behalf_of,
        "approval_us": event.approval_us,
        "lane": event.lane,
        "priority": event.priority,
        "ordering": event.ordering,
    }
