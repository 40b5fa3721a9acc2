"""Settling many attempts that have succeeded at once: what the pure pair says of them, in SQL.

An attempt that its own handler answered, and whose intent still has the version that it began
with, always settles alike: one event, one body, and the projection. The statement stores them as
``decide``, ``evolve`` and ``chain_hash`` would, byte by byte; a property test holds the two against
each other. What is held by somebody, or was changed meanwhile, is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from takeback.ledger.arrays import bytes_array, plain_array, text_array
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.intent import Intent

SETTLE_MANY = Statement(
    name="settle_many",
    sentence="Settles attempts that have succeeded, those that are free and as they began.",
    index="intents_pkey",
    lock="the barrier (shared), then the rows that are free, by (tenant, id)",
    text=text("""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held),
ended AS MATERIALIZED (
    SELECT i.tenant, i.id, i.version, i.attempt, i.head_hash, w.place, w.salt, w.body, w.count,
           takeback.now() AS at, nextval('takeback.events_position') AS position
    FROM barrier CROSS JOIN unnest(
        CAST(:tenants AS text[]), CAST(:ids AS uuid[]), CAST(:versions AS int[]),
        CAST(:salts AS bytea[]), CAST(:bodies AS text[]), CAST(:counts AS bigint[]))
        WITH ORDINALITY AS w (tenant, id, version, salt, body, count, place)
    CROSS JOIN LATERAL (
        SELECT i.tenant, i.id, i.version, i.attempt, i.head_hash FROM takeback.intents AS i
        WHERE i.tenant = w.tenant AND i.id = w.id AND i.version = w.version
          AND i.state || '' = 'executing'
        LIMIT 1 FOR UPDATE OF i SKIP LOCKED) AS i
), said AS MATERIALIZED (
    SELECT e.tenant, e.id, e.version, e.attempt, e.head_hash, e.place, e.salt, e.body,
           e.count, e.at, e.position,
           takeback.micros(e.at) AS at_us,
           concat('{"affected_count":', e.count, ',"attempt":', e.attempt,
                  ',"by"\\:null,"result":"',
                  encode(sha256(e.salt || convert_to(e.body, 'UTF8')), 'hex'),
                  '","source":"handler"}') AS payload
    FROM ended AS e
), linked AS MATERIALIZED (
    SELECT s.tenant, s.id, s.version, s.attempt, s.place, s.salt, s.body, s.count, s.at,
           s.position, s.payload,
           takeback.chain_hash(
        s.head_hash, s.tenant, s.id, s.version + 1, s.position, 'intent.succeeded',
        1, s.at_us, s.payload) AS hash
    FROM said AS s
), fenced AS (
    UPDATE takeback.intents AS i
    SET state = 'succeeded', version = l.version + 1, affected_count = l.count,
        attempts_unknown = array_remove(i.attempts_unknown, l.attempt), lease_until = NULL,
        settled_at = l.at, head_hash = l.hash
    FROM linked AS l
    WHERE i.tenant = l.tenant AND i.id = l.id AND i.version = l.version
    RETURNING l.tenant, l.id, l.version, l.place, l.salt, l.body, l.at, l.position, l.payload,
              l.hash
), event AS (
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
    SELECT f.tenant, f.id, f.version + 1, f.position, 'intent.succeeded', 1, f.at,
           f.payload, f.hash
    FROM fenced AS f
), body AS (
    INSERT INTO takeback.bodies (tenant, intent_id, version, name, salt, body)
    SELECT f.tenant, f.id, f.version + 1, 'result', f.salt, f.body
    FROM fenced AS f
)
SELECT f.place FROM fenced AS f
"""),
)
"""Rows are locked in the order in which they are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """An attempt's answer: its intent as it began, and the body, with its salt."""

    intent: Intent
    salt: bytes
    body: str
    affected_count: int


def settle_many(tx: Tx, successes: Sequence[Success]) -> set[int]:
    """Settles ``successes``; answers with the places, from 0, of those that are settled now."""
    if not successes:
        return set()
    places = sorted(
        range(len(successes)),
        key=lambda place: (successes[place].intent.tenant, successes[place].intent.id),
    )
    ordered = [successes[place] for place in places]
    parameters = {
        "tenants": text_array(one.intent.tenant for one in ordered),
        "ids": plain_array(one.intent.id for one in ordered),
        "versions": plain_array(one.intent.version for one in ordered),
        "salts": bytes_array(one.salt for one in ordered),
        "bodies": text_array(one.body for one in ordered),
        "counts": plain_array(one.affected_count for one in ordered),
    }
    return {places[place - 1] for (place,) in tx.rows(SETTLE_MANY, parameters)}
