"""Claiming and beginning many intents at once: the pure pair's plainest step, said in SQL.

For an intent that is due and that nothing sets apart, ``Claim`` and then ``Begin`` always come to
the same: due where it was held, claimed, attempt began. The statement stores those events, their
hashes and the projection as ``decide``, ``evolve`` and ``chain_hash`` would, byte by byte; a
property test holds the two against each other. Whatever is set apart is not of its kind: it is
answered as left, and goes through the pure pair itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import text

from takeback.ledger.arrays import plain_array, text_array
from takeback.ledger.projection import intent_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.intent import Intent, State, instant

BEGIN_MANY = Statement(
    name="begin_many",
    sentence="Claims and begins those of some locked intents that nothing sets apart.",
    index="intents_pkey",
    lock="none beyond the rows that are already locked",
    text=text("""
WITH clock AS MATERIALIZED (SELECT takeback.now() AS at),
wanted AS MATERIALIZED (
    SELECT w.tenant, w.id, w.version, w.place, c.at, takeback.micros(c.at) AS at_us,
           takeback.micros(c.at) + CAST(:lease_us AS bigint) AS lease_us
    FROM clock AS c CROSS JOIN unnest(
        CAST(:tenants AS text[]), CAST(:ids AS uuid[]), CAST(:versions AS int[]))
        WITH ORDINALITY AS w (tenant, id, version, place)
), plain AS MATERIALIZED (
    SELECT w.tenant, w.id, w.version AS was, w.place, w.at, w.at_us, w.lease_us, i.head_hash,
           i.attempt + 1 AS attempt, i.epoch, i.is_held, w.version + i.is_held AS version,
           CASE WHEN i.is_held = 1 THEN nextval('takeback.events_position') END AS due_place,
           nextval('takeback.events_position') AS claimed_place,
           nextval('takeback.events_position') AS began_place
    FROM wanted AS w CROSS JOIN LATERAL (
        SELECT i.head_hash, i.attempt, i.epoch,
               CASE i.state WHEN 'held' THEN 1 ELSE 0 END AS is_held
        FROM takeback.intents AS i
        WHERE i.tenant = w.tenant AND i.id = w.id AND i.version = w.version
          AND i.state || '' IN ('held', 'due') AND i.due_at <= w.at AND NOT i.contradicted
          AND (i.begin_before IS NULL OR w.at < i.begin_before)
        LIMIT 1) AS i
), due AS MATERIALIZED (
    SELECT p.tenant, p.id, p.was, p.place, p.at, p.at_us, p.lease_us, p.attempt, p.version,
           p.due_place, p.claimed_place, p.began_place,
           CASE WHEN p.is_held = 0 THEN p.head_hash ELSE takeback.chain_hash(
               p.head_hash, p.tenant, p.id, p.version, p.due_place, 'intent.due', 1,
               p.at_us, '{}') END AS due_hash,
           concat('{"lease_until_us":', p.lease_us, ',"worker":', CAST(:worker AS text), '}')
               AS claimed,
           concat('{"attempt":', p.attempt, ',"epoch":', p.epoch, ',"lease_until_us":',
                  p.lease_us, '}') AS began
    FROM plain AS p
), claimed AS MATERIALIZED (
    SELECT d.tenant, d.id, d.was, d.place, d.at, d.at_us, d.lease_us, d.attempt, d.version,
           d.due_place, d.claimed_place, d.began_place, d.due_hash, d.claimed, d.began,
           takeback.chain_hash(
        d.due_hash, d.tenant, d.id, d.version + 1, d.claimed_place, 'intent.claimed',
        1, d.at_us, d.claimed) AS claimed_hash
    FROM due AS d
), began AS MATERIALIZED (
    SELECT c.tenant, c.id, c.was, c.place, c.at, c.at_us, c.lease_us, c.attempt, c.version,
           c.due_place, c.claimed_place, c.began_place, c.due_hash, c.claimed, c.began,
           c.claimed_hash,
           takeback.chain_hash(
        c.claimed_hash, c.tenant, c.id, c.version + 2, c.began_place, 'intent.attempt_began',
        1, c.at_us, c.began) AS began_hash
    FROM claimed AS c
), fenced AS (
    UPDATE takeback.intents AS i
    SET state = 'executing', version = b.version + 2, due_at = NULL, attempt = b.attempt,
        lease_until = takeback.instant(b.lease_us), head_hash = b.began_hash
    FROM began AS b
    WHERE i.tenant = b.tenant AND i.id = b.id AND i.version = b.was
    RETURNING b.tenant, b.id, b.place, b.at, b.lease_us, b.attempt, b.version, b.due_place,
              b.claimed_place, b.began_place, b.due_hash, b.claimed, b.began, b.claimed_hash,
              b.began_hash
), event AS (
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
    SELECT f.tenant, f.id, e.version, e.position, e.kind, e.schema, f.at, e.payload, e.hash
    FROM fenced AS f CROSS JOIN LATERAL (VALUES
        (f.version, f.due_place, 'intent.due', 1, '{}', f.due_hash),
        (f.version + 1, f.claimed_place, 'intent.claimed', 1, f.claimed,
         f.claimed_hash),
        (f.version + 2, f.began_place, 'intent.attempt_began', 1, f.began,
         f.began_hash)) AS e (version, position, kind, schema, payload, hash)
    WHERE e.position IS NOT NULL
)
SELECT f.place, f.version + 2, f.attempt, f.lease_us, f.began_hash FROM fenced AS f
"""),
)
"""Places in the log are drawn in the order of the events, behind the barrier of the lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who begins, as the log has it, and for how long at a time."""

    worker: str
    lease: timedelta


def begin_many(tx: Tx, rows: Sequence[Row], owner: Owner) -> list[Intent | None]:
    """Claims and begins intents that were locked in this transaction, in the order of ``rows``.

    ``rows`` are as ``takeback.ledger.locking`` selects them: for intents that no person has
    approved and that take nothing back. Answers with each as it is now; None where something sets
    it apart, and nothing was stored of that one.
    """
    if not rows:
        return []
    parameters = {
        "tenants": text_array(row[0] for row in rows),
        "ids": plain_array(row[1] for row in rows),
        "versions": plain_array(row[11] for row in rows),
        "lease_us": owner.lease // timedelta(microseconds=1),
        "worker": json.dumps(owner.worker),
    }
    begun: list[Intent | None] = [None] * len(rows)
    for place, version, attempt, lease_us, head_hash in tx.rows(BEGIN_MANY, parameters):
        begun[place - 1] = intent_of(
            rows[place - 1],
            state=State.EXECUTING,
            version=version,
            attempt=attempt,
            due_at=None,
            lease_until=instant(lease_us),
            head_hash=bytes(head_hash),
        )
    return begun
