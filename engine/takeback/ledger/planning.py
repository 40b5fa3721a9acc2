"""How the server plans our own statements: along indexes, once for each connection, and never anew.

What a worker says again and again is long, so that planning it takes longer than running it for a
few rows; and between two vacuums the planner takes a long queue for a short one, and would gather
all of it to claim some. So the connections on which nothing but our statements run (``internal`` of
a ``Database``) keep generic plans of prepared statements, made for indexes.

That wants a session of the server to itself. A pooler in transaction mode lends another one for
each transaction: behind one nothing is prepared, and each transaction says ``KEEP_TO_INDEX``.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from takeback.ledger.statement import Statement

PREPARED_MAX = 200
"""More statements than there are."""

# Nothing is sorted, gathered or hashed where an index gives it, and nothing is worth compiling.
TO_INDEX = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "jit": "off",
}

_FOR_A_SESSION = TO_INDEX | {"plan_cache_mode": "force_generic_plan"}

KEEP_TO_INDEX = Statement(
    name="keep_to_index",
    sentence="Has the rest of this transaction read along indexes, without sorting what they give.",
    index=None,
    lock="none",
    text=text(
        "SELECT "
        + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in TO_INDEX.items())
    ),
)


def keep_plans(raw: Any) -> bool:
    """Has a new connection keep plans; answers with whether it may.

    A pooler hands out numbers of its own in place of those of the server's processes: whoever
    hears another one from the process itself doesn't speak to it directly.
    """
    with raw.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        is_direct = bool(cursor.fetchone() == (raw.info.backend_pid,))
        if is_direct:
            for name, value in _FOR_A_SESSION.items():
                cursor.execute(f"SET SESSION {name} = {value}")
    raw.commit()
    raw.prepare_threshold = 0 if is_direct else None
    raw.prepared_max = PREPARED_MAX
    return is_direct
