"""Why the database refuses a row that is put back, told with both sides and the ways out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, LiteralString, cast

import psycopg
from psycopg import sql
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from takeback.model.errors import RestoreConflict
from takeback.model.handler import Original
from takeback.records.layout import Layout, columns_of, joined_on

_UNIQUE = text("""
SELECT ARRAY(SELECT CAST(a.attname AS text)
             FROM unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             ORDER BY k.place) AS columns,
       coalesce(pg_get_expr(i.indpred, i.indrelid), 'true') AS predicate
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(:target) AND c.relname = :name
""")

_FOREIGN = text("""
SELECT ARRAY(SELECT CAST(a.attname AS text)
             FROM unnest(r.conkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.conrelid AND a.attnum = k.attnum
             ORDER BY k.place) AS columns,
       ARRAY(SELECT CAST(a.attname AS text)
             FROM unnest(r.confkey) WITH ORDINALITY AS k (attnum, place)
             JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.confrelid AND a.attnum = k.attnum
             ORDER BY k.place) AS parent_columns,
       CAST(n.nspname AS text) AS parent_schema, CAST(p.relname AS text) AS parent_name
FROM pg_catalog.pg_constraint AS r
JOIN pg_catalog.pg_class AS p ON p.oid = r.confrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = p.relnamespace
WHERE r.conrelid = to_regclass(:target) AND r.conname = :name AND r.contype = 'f'
""")

_TWINS = sql.SQL("""
WITH kept AS (
    SELECT {row_columns}
    FROM takeback.tombstones AS s
    CROSS JOIN LATERAL jsonb_populate_record(CAST(NULL AS {table}), s.image -> 'before') AS row_
    WHERE s.tenant = %(tenant)s AND s.intent_id = CAST(%(intent)s AS uuid)
      AND s.target = %(target)s
), live AS (
    SELECT {columns} FROM {table} WHERE {predicate}
)
SELECT to_jsonb(kept.*) AS kept, to_jsonb(live.*) AS now
FROM kept JOIN live ON {live_is_kept}
LIMIT 20
""")

_ORPHANS = sql.SQL("""
SELECT to_jsonb(row_.*) AS kept
FROM takeback.tombstones AS s
CROSS JOIN LATERAL jsonb_populate_record(CAST(NULL AS {table}), s.image -> 'before') AS row_
WHERE s.tenant = %(tenant)s AND s.intent_id = CAST(%(intent)s AS uuid) AND s.target = %(target)s
  AND NOT EXISTS (SELECT FROM {parent} AS parent WHERE ({parent_columns}) = ({row_columns}))
LIMIT 20
""")


def conflict_of(
    session: Session, layout: Layout, original: Original, problem: IntegrityError
) -> RestoreConflict:
    """The conflict behind the driver's refusal; its statement was rolled back to a savepoint."""
    refusal = problem.orig
    name = refusal.diag.constraint_name if isinstance(refusal, psycopg.Error) else None
    about = {"tenant": original.tenant, "intent": original.intent_id, "target": layout.target}
    match refusal:
        case psycopg.errors.UniqueViolation():
            return _twin(session, layout, about, str(name))
        case psycopg.errors.ForeignKeyViolation():
            return _orphan(session, layout, about, str(name))
        case _:
            return RestoreConflict(
                f"rows of {layout.name} can't be put back as they were: the table's rule "
                f"{name or 'about missing values'} refuses them now"
            )


def _twin(
    session: Session, layout: Layout, about: Mapping[str, Any], index: str
) -> RestoreConflict:
    """A live row has taken the values that one of the kept rows needs for itself."""
    unique = session.execute(_UNIQUE, {"target": layout.target, "name": index}).one()
    statement = _TWINS.format(
        table=layout.table,
        columns=columns_of(layout.columns),
        row_columns=columns_of(layout.columns, "row_"),
        # The catalog's own words for which rows the index is about; only this table is in scope.
        predicate=sql.SQL(cast(LiteralString, unique.predicate.replace("%", "%%"))),
        # None, of an index over expressions alone: then nothing tells which row it is.
        live_is_kept=joined_on(unique.columns, "live", "kept"),
    )
    rows = session.connection().exec_driver_sql(statement.as_string(None), about).all()
    pairs = [(row.kept, row.now) for row in rows]
    fields = ", ".join(unique.columns) or index
    said = "; ".join(
        f"{layout.name} {layout.key_of(kept)} can't be put back: {layout.name} "
        f"{layout.key_of(now)} has the same {fields} now"
        for kept, now in pairs
    )
    return RestoreConflict(
        (said or f"a row of {layout.name} can't be put back: another has the same {fields} now")
        + "; change or delete the one that is there, then ask again",
        [
            {
                "field": field,
                "value": kept[field],
                "kept": layout.key_of(kept),
                "now": layout.key_of(now),
            }
            for kept, now in pairs
            for field in unique.columns
        ],
    )


def _orphan(
    session: Session, layout: Layout, about: Mapping[str, Any], constraint: str
) -> RestoreConflict:
    """What a kept row refers to is gone."""
    foreign = session.execute(_FOREIGN, {"target": layout.target, "name": constraint}).one_or_none()
    if foreign is None:
        return RestoreConflict(
            f"rows of {layout.name} can't be set back: other rows refer to them as they are now"
        )
    statement = _ORPHANS.format(
        table=layout.table,
        parent=sql.Identifier(foreign.parent_schema, foreign.parent_name),
        parent_columns=columns_of(foreign.parent_columns, "parent"),
        row_columns=columns_of(foreign.columns, "row_"),
    )
    rows = session.connection().exec_driver_sql(statement.as_string(None), about).all()
    orphans = [row.kept for row in rows]
    parents = ", ".join(
        dict.fromkeys(", ".join(str(row[name]) for name in foreign.columns) for row in orphans)
    )
    return RestoreConflict(
        f"{layout.name} {', '.join(layout.key_of(row) for row in orphans)} can't be put back: "
        f"{foreign.parent_name} {parents} is gone; put it back first, then ask again",
        [
            {"field": field, "kept": row[field], "now": None, "row": layout.key_of(row)}
            for row in orphans
            for field in foreign.columns
        ],
    )
