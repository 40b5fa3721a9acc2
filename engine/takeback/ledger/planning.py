"""How the server plans our own statements: along indexes, once for each connection, and never anew.

What a worker says again and again is long, so that planning it takes longer than running it for a
few rows; and between two vacuums the planner takes a long queue for a short one, and would gather
all of it to claim some. So the connections on which nothing but our statements run (``internal`` of
a ``Database``) keep generic plans of prepared statements, made for indexes.

That wants a session of the server to itself. A pooler in transaction mode lends another one for
each transaction: behind one nothing is prepared, and each transaction says ``KEEP_TO_INDEX``.
"""

from __future__ import annotations

from sqlalchemy import text

from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx

PREPARED_MAX = 200
"""More statements than there are."""

_TO_INDEX = """
    ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_sort', 'off'), ('jit', 'off')
"""
"""Nothing is sorted or gathered where an index gives it, and nothing is worth compiling."""

KEEP_TO_INDEX = Statement(
    name="keep_to_index",
    sentence="Has the rest of this transaction read along indexes, without sorting what they give.",
    index=None,
    lock="none",
    text=text(f"""
SELECT count(set_config(s.name, s.value, true)) FROM (VALUES {_TO_INDEX}) AS s (name, value)
"""),
)

KEEP_PLANS = Statement(
    name="keep_plans",
    sentence="Has a session of our own keep plans along indexes, if it is spoken to directly.",
    index=None,
    lock="none",
    text=text(f"""
SELECT count(set_config(s.name, s.value, false))
FROM (VALUES {_TO_INDEX}, ('plan_cache_mode', 'force_generic_plan')) AS s (name, value)
WHERE pg_backend_pid() = CAST(:pid AS int)
"""),
)
"""A pooler hands out numbers of its own in place of those of the server's processes: who hears
another one from the process itself doesn't speak to it directly."""


def keep_plans(tx: Tx) -> None:
    """Has the new connection of ``tx`` keep plans, where it may."""
    (count,) = tx.row(KEEP_PLANS, {"pid": tx.raw.info.backend_pid})
    if count:
        tx.raw.prepare_threshold = 0
        tx.raw.prepared_max = PREPARED_MAX
