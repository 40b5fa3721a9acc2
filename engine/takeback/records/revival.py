"""Putting rows back as they were: those that left are inserted, those that changed are set back.

Tables come back in the opposite order to the one in which they were changed, so that parents are
there before their children. A row that came back is compared with its image: a trigger that writes
it anew is a conflict, not a difference that nobody sees. Images are used up; what somebody else
had written over a row since, and a person has forced away, is kept as an image of the restore.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import sql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from takeback.model.errors import RestoreConflict
from takeback.model.handler import Original
from takeback.records.collision import conflict_of
from takeback.records.layout import Layout, column_of, columns_of, joined_on, layouts_of

# What is compared and joined here may be many rows that the planner takes for few: EXCEPT and
# joins to the table's own key stay quick then, a join of two such lists does not.
_PUT_BACK = sql.SQL("""
WITH kept AS (
    DELETE FROM takeback.tombstones AS s
    WHERE s.tenant = %(tenant)s AND s.intent_id = CAST(%(intent)s AS uuid)
      AND s.target = %(target)s AND s.image -> 'after' IS NULL
    RETURNING s.number, s.image -> 'before' AS image, s.image -> 'json_nulls' AS json_nulls
), put_back AS (
    INSERT INTO {table} ({written}) OVERRIDING SYSTEM VALUE
    SELECT {values}
    FROM kept CROSS JOIN LATERAL jsonb_populate_record(CAST(NULL AS {table}), kept.image) AS row_
    ORDER BY kept.number
    RETURNING to_jsonb({whole_row}) - CAST(%(added)s AS text[]) AS image
), changed AS (
    SELECT to_jsonb(jsonb_populate_record(CAST(NULL AS {table}), kept.image))
           - CAST(%(added)s AS text[]) AS image
    FROM kept
    EXCEPT ALL
    SELECT put_back.image FROM put_back
)
SELECT (SELECT count(1) FROM put_back), (SELECT count(1) FROM changed)
""")

_SET_BACK = sql.SQL("""
WITH kept AS (
    DELETE FROM takeback.tombstones AS s
    WHERE s.tenant = %(tenant)s AND s.intent_id = CAST(%(intent)s AS uuid)
      AND s.target = %(target)s AND s.image -> 'after' IS NOT NULL
    RETURNING s.number, s.image -> 'before' AS before, s.image -> 'after' AS after,
              s.image -> 'json_nulls' AS json_nulls
), first AS (
    SELECT DISTINCT ON ({row_key}) {values},
           to_jsonb(row_.*) - CAST(%(added)s AS text[]) AS "takeback wanted",
           to_jsonb(jsonb_populate_record(CAST(NULL AS {table}), last_value(kept.after) OVER (
               PARTITION BY {row_key} ORDER BY kept.number
               ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)))
               - CAST(%(added)s AS text[]) AS "takeback left"
    FROM kept CROSS JOIN LATERAL jsonb_populate_record(CAST(NULL AS {table}), kept.before) AS row_
    ORDER BY {row_key}, kept.number
), locked AS (
    SELECT first.*, to_jsonb(now.*) AS "takeback overwritten"
    FROM first JOIN {table} AS now ON {now_is_first}
    ORDER BY {now_key}
    FOR UPDATE OF now
), set_back AS (
    UPDATE {table} AS now SET {assignments}
    FROM locked
    WHERE {now_is_locked}
    RETURNING to_jsonb(now.*) AS image, locked."takeback overwritten" AS overwritten,
              locked."takeback wanted" AS wanted, locked."takeback left" AS left_
), noted AS (
    INSERT INTO takeback.tombstones (tenant, intent_id, target, image)
    SELECT nullif(current_setting('takeback.tenant', true), ''),
           CAST(nullif(current_setting('takeback.intent', true), '') AS uuid),
           %(target)s, jsonb_build_object('before', s.overwritten, 'after', s.image)
    FROM set_back AS s
    WHERE s.overwritten - CAST(%(added)s AS text[]) <> s.left_
), gone AS (
    SELECT first."takeback wanted" AS wanted FROM first
    EXCEPT
    SELECT locked."takeback wanted" FROM locked
)
SELECT (SELECT count(1) FROM set_back),
       ARRAY(SELECT gone.wanted FROM gone),
       (SELECT count(1) FROM set_back AS s
        WHERE s.image - CAST(%(added)s AS text[]) <> s.wanted)
""")


def restore_rows(session: Session, original: Original) -> dict[str, int]:
    """Puts back every row that ``original`` changed; how many of each table, by its target name.

    Raises RestoreExpired when nothing is kept, and RestoreConflict, with nothing put back, when a
    live row has the same unique values, a parent is missing, a row or its columns are gone, or
    the table's own rules or triggers refuse the row as it was. That somebody has changed a row
    since is found by ``find_drift``: here it is overwritten.
    """
    session.flush()
    with session.begin_nested():
        return {
            layout.target: _put_back(session, layout, original)
            + _set_back(session, layout, original)
            for layout in layouts_of(session, original)
        }


def _put_back(session: Session, layout: Layout, original: Original) -> int:
    statement = _PUT_BACK.format(
        table=layout.table,
        whole_row=layout.whole_row,
        written=columns_of(layout.written),
        values=layout.values(layout.written),
    )
    count, changed = _run(session, layout, original, statement)
    _require_equal(layout, changed)
    return int(count)


def _set_back(session: Session, layout: Layout, original: Original) -> int:
    if not layout.key or not layout.settable:
        return 0
    assignments = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(column_of(name), column_of(name, "locked"))
        for name in layout.settable
    )
    statement = _SET_BACK.format(
        table=layout.table,
        row_key=columns_of(layout.key, "row_"),
        values=layout.values(layout.columns),
        now_key=columns_of(layout.key, "now"),
        now_is_first=joined_on(layout.key, "now", "first"),
        now_is_locked=joined_on(layout.key, "now", "locked"),
        assignments=assignments,
    )
    count, gone, changed = _run(session, layout, original, statement)
    if gone:
        keys = ", ".join(layout.key_of(row) for row in gone)
        raise RestoreConflict(
            f"{layout.name} {keys} can't be set back: it is gone; "
            "put it back first, or leave it as it is",
            [{"field": layout.name, "kept": layout.key_of(row), "now": None} for row in gone],
        )
    _require_equal(layout, changed)
    return int(count)


def _require_equal(layout: Layout, changed: int) -> None:
    if changed:
        raise RestoreConflict(
            f"{changed} of the rows of {layout.name} would not come back as they were: "
            "a trigger of the table writes them anew; let it pass rows that name their own values"
        )


def _run(
    session: Session, layout: Layout, original: Original, statement: sql.Composed
) -> tuple[Any, ...]:
    parameters: Mapping[str, Any] = {
        "tenant": original.tenant,
        "intent": original.intent_id,
        "target": layout.target,
        "added": list(layout.added),
    }
    text = statement.as_string(None)
    try:
        with session.begin_nested():
            row = session.connection().exec_driver_sql(text, parameters).one()
    except IntegrityError as problem:
        raise conflict_of(session, layout, original, problem) from problem
    return tuple(row)
