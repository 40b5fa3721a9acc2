"""Orderings: of the intents that share one, one is carried out at a time, in their calls' order.

It is the turn of an intent when none of its ordering is under way or in doubt, and no earlier one
is held or due. One with a ``not_before`` takes its place when that has come, and one that waits for
others when it is awakened. What waits for a person holds nobody up; nor does what is in doubt since
it is being taken back, for which its restore stands. A restore waits for no call that is still to
come: a freeze or a window of another never holds an undo up.

Two claims may each find that it is somebody's turn, when an earlier one comes back (a person's
retry, a late commit) between their snapshots. So whoever is about to claim tries the ordering's
advisory lock, (31419, its hash), and looks again behind it, by a snapshot that is taken then.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx

IS_IN_TURN = """(i.ordering IS NULL OR (
      SELECT o.id FROM takeback.intents AS o
      WHERE o.tenant = i.tenant AND o.ordering = i.ordering
        AND o.state IN ('held', 'due', 'claimed', 'executing', 'in_doubt')
        AND o.id <> i.id AND o.id IS DISTINCT FROM i.restores
        AND (o.state IN ('claimed', 'executing')
             OR (o.state = 'in_doubt' AND o.restored_via IS NULL)
             OR (o.state IN ('held', 'due') AND o.id < i.id AND i.restores IS NULL
                 AND (o.not_before IS NULL OR o.not_before <= (SELECT takeback.now()))))
      LIMIT 1) IS NULL)"""
"""Asked for by a value and not by EXISTS, which the planner would answer by reading all of them.
What a restore takes back is in doubt with it, and does not hold it up."""

TRY_ORDERINGS = Statement(
    name="try_orderings",
    sentence="Takes those of some orderings' locks that nobody else holds.",
    index=None,
    lock="the orderings' advisory locks (tried), ascending",
    text=text("""
SELECT l.id, pg_try_advisory_xact_lock(31419, l.id) FROM unnest(CAST(:locks AS int[])) AS l (id)
"""),
)

OUT_OF_TURN = Statement(
    name="out_of_turn",
    sentence="Says of which of some intents it is not the turn.",
    index="intents_ordering",
    lock="none",
    text=text(f"""
SELECT i.tenant, CAST(i.id AS text)
FROM takeback.intents AS i
JOIN unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
  ON i.tenant = w.tenant AND i.id = w.id
WHERE NOT {IS_IN_TURN}
"""),
)


def try_orderings(tx: Tx, orderings: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of ``orderings`` (tenant, ordering) whose lock is held now, to the end of ``tx``."""
    locks = {ordering_lock(*one): one for one in orderings}
    rows = tx.rows(TRY_ORDERINGS, {"locks": sorted(locks)})
    held = {lock for lock, taken in rows if taken}
    return {one for one in orderings if ordering_lock(*one) in held}


def out_of_turn(tx: Tx, intents: Sequence[tuple[str, UUID]]) -> set[tuple[str, UUID]]:
    """Those of ``intents`` (tenant, id) that have to wait for others of their ordering."""
    parameters = {"tenants": [t for t, _ in intents], "ids": [str(id_) for _, id_ in intents]}
    return {(tenant, UUID(id_)) for tenant, id_ in tx.rows(OUT_OF_TURN, parameters)}


def ordering_lock(tenant: str, ordering: str) -> int:
    """The lock of an ordering; by a collision two orderings wait for each other, no more.

    >>> ordering_lock("t", "o1:a") == ordering_lock("t", "o1:a") != ordering_lock("u", "o1:a")
    True
    """
    digest = sha256(f"{len(tenant)}:{tenant}{ordering}".encode()).digest()
    return int.from_bytes(digest[:4], "big", signed=True)
