"""What somebody else has changed, since an intent did, in the rows that it changed.

The rows are locked until the transaction ends, in the order of their keys: what is found stays
true until the caller has acted upon it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from psycopg import sql
from sqlalchemy.orm import Session

from takeback.model.handler import Original
from takeback.records.layout import Layout, columns_of, joined_on, layouts_of

# They change with every write and tell nothing by themselves: named only when nothing else differs.
HOUSEKEEPING = frozenset({"updated_at", "version"})

_COMPARE = sql.SQL("""
WITH kept AS (
    SELECT DISTINCT ON ({row_key}) {row_columns}
    FROM takeback.tombstones AS s
    CROSS JOIN LATERAL jsonb_populate_record(CAST(NULL AS {table}), s.image -> 'after') AS row_
    WHERE s.tenant = %(tenant)s AND s.intent_id = CAST(%(intent)s AS uuid)
      AND s.target = %(target)s AND s.image -> 'after' IS NOT NULL
    ORDER BY {row_key}, s.number DESC
), now AS (
    SELECT to_jsonb(kept.*) AS expected, to_jsonb(now.*) AS image
    FROM kept JOIN {table} AS now ON {now_is_kept}
    ORDER BY {now_key}
    FOR UPDATE OF now
), gone AS (
    SELECT to_jsonb(kept.*) AS expected FROM kept
    EXCEPT
    SELECT now.expected FROM now
)
SELECT (SELECT count(1) FROM kept) AS looked_at, now.expected, now.image
FROM now WHERE now.image - CAST(%(added)s AS text[]) <> now.expected
UNION ALL
SELECT (SELECT count(1) FROM kept), gone.expected, NULL FROM gone
""")


def find_drift(session: Session, original: Original) -> list[dict[str, Any]]:
    """Each field that is no longer as ``original`` left it: {field, expected, now}.

    Several rows are told apart by ``row``. A row that is gone differs in its key. Rows that
    ``original`` archived can't be changed and are not looked at. Raises RestoreExpired when nothing
    is kept.
    """
    session.flush()
    looked_at = 0
    found: list[tuple[Layout, dict[str, Any], dict[str, Any] | None]] = []
    for layout in layouts_of(session, original):
        if layout.key:
            changed = _changed(session, layout, original)
            looked_at += max((row.looked_at for row in changed), default=1)
            found += [(layout, row.expected, row.image) for row in changed]
    return [
        difference | ({"row": f"{layout.name} {layout.key_of(expected)}"} if looked_at > 1 else {})
        for layout, expected, now in sorted(found, key=lambda one: one[0].key_of(one[1]))
        for difference in _differences(layout, expected, now)
    ]


def _changed(session: Session, layout: Layout, original: Original) -> Sequence[Any]:
    """The rows of one table that differ: expected and image, which is None of one that is gone."""
    statement = _COMPARE.format(
        table=layout.table,
        row_key=columns_of(layout.key, "row_"),
        row_columns=columns_of(layout.columns, "row_"),
        now_key=columns_of(layout.key, "now"),
        now_is_kept=joined_on(layout.key, "now", "kept"),
    )
    parameters = {
        "tenant": original.tenant,
        "intent": original.intent_id,
        "target": layout.target,
        "added": list(layout.added),
    }
    rows = session.connection().exec_driver_sql(statement.as_string(None), parameters)
    return rows.all()


def _differences(
    layout: Layout, expected: dict[str, Any], now: dict[str, Any] | None
) -> Iterator[dict[str, Any]]:
    if now is None:
        yield {"field": layout.key[0], "expected": layout.key_of(expected), "now": None}
        return
    changed = [name for name in layout.columns if expected.get(name) != now.get(name)]
    telling = [name for name in changed if name not in HOUSEKEEPING]
    for name in telling or changed:
        yield {"field": name, "expected": expected.get(name), "now": now.get(name)}
