"""Renewing the leases of attempts that are running: the one write that no event tells of.

A lease says nothing about the effect, only how long its owner is waited for, so that no fold needs
to know of it. The fence is the state and the number of the attempt; whoever has taken over, settled
or given it up has changed one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum

from sqlalchemy import text

from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.intent import Intent

RENEW = Statement(
    name="renew",
    sentence="Puts off the end of the leases of attempts that still belong to who asks.",
    index="intents_pkey",
    lock="the rows that are free and still at these attempts, in the order given",
    text=text("""
WITH own AS MATERIALIZED (
    SELECT i.tenant, i.id
    FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[]), CAST(:attempts AS int[]))
        AS w (tenant, id, attempt)
    CROSS JOIN LATERAL (
        SELECT i.tenant, i.id FROM takeback.intents AS i
        WHERE i.tenant = w.tenant AND i.id = w.id
          AND i.state || '' = 'executing' AND i.attempt = w.attempt
        LIMIT 1 FOR NO KEY UPDATE OF i SKIP LOCKED) AS i
), renewed AS (
    UPDATE takeback.intents AS i
    SET lease_until = greatest(
        i.lease_until, takeback.now() + CAST(:lease_us AS bigint) * interval '1 microsecond')
    FROM own WHERE i.tenant = own.tenant AND i.id = own.id
    RETURNING i.tenant, i.id
)
SELECT w.place,
       r.id IS NOT NULL,
       coalesce((SELECT i.state = 'executing' AND i.attempt = w.attempt
                 FROM takeback.intents AS i WHERE i.tenant = w.tenant AND i.id = w.id), false)
FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[]), CAST(:attempts AS int[]))
    WITH ORDINALITY AS w (tenant, id, attempt, place)
LEFT JOIN renewed AS r ON r.tenant = w.tenant AND r.id = w.id
"""),
)
"""What is not renewed is looked at by the snapshot: still at its attempt, it is only held."""


class Renewal(StrEnum):
    """What became of one lease."""

    RENEWED = "renewed"
    HELD = "held"
    LOST = "lost"


def renew(tx: Tx, intents: Sequence[Intent], lease: timedelta) -> list[Renewal]:
    """Lets each attempt that still belongs to its owner end ``lease`` from now, at the earliest.

    In the order of ``intents``: RENEWED; HELD by somebody else's transaction at this moment; LOST
    to whoever has taken over.
    """
    parameters = {
        "tenants": [intent.tenant for intent in intents],
        "ids": [str(intent.id) for intent in intents],
        "attempts": [intent.attempt for intent in intents],
        "lease_us": lease // timedelta(microseconds=1),
    }
    rows = sorted(tx.rows(RENEW, parameters))
    return [_renewal(is_renewed=row[1], is_ours=row[2]) for row in rows]


def _renewal(*, is_renewed: bool, is_ours: bool) -> Renewal:
    if is_renewed:
        return Renewal.RENEWED
    return Renewal.HELD if is_ours else Renewal.LOST
