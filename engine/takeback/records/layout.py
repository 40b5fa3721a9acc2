"""The columns of a table as the database has them now, beside those of the rows that were kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql
from sqlalchemy import text
from sqlalchemy.orm import Session

from takeback.model.errors import RestoreConflict, RestoreExpired
from takeback.model.handler import Original

_LAYOUTS = text("""
WITH kept AS (
    SELECT s.target, max(s.number) AS last_number, min(s.number) AS first_number
    FROM takeback.tombstones AS s
    WHERE s.tenant = CAST(:tenant AS text) AND s.intent_id = CAST(:intent AS uuid)
    GROUP BY s.target
)
SELECT kept.target, CAST(n.nspname AS text), CAST(c.relname AS text),
    ARRAY(SELECT jsonb_object_keys(s.image -> 'before')
          FROM takeback.tombstones AS s
          WHERE s.tenant = CAST(:tenant AS text) AND s.intent_id = CAST(:intent AS uuid)
            AND s.number = kept.first_number) AS kept_columns,
    ARRAY(SELECT CAST(a.attname AS text) FROM pg_catalog.pg_attribute AS a
          WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
          ORDER BY a.attnum) AS columns,
    ARRAY(SELECT CAST(a.attname AS text) FROM pg_catalog.pg_attribute AS a
          WHERE a.attrelid = c.oid AND a.attgenerated <> '') AS generated,
    ARRAY(SELECT CAST(a.attname AS text) FROM pg_catalog.pg_attribute AS a
          WHERE a.attrelid = c.oid AND a.attidentity = 'a') AS identities,
    ARRAY(SELECT CAST(a.attname AS text) FROM pg_catalog.pg_attribute AS a
          WHERE a.attrelid = c.oid AND a.atttypid IN ('json'::regtype, 'jsonb'::regtype)) AS json,
    ARRAY(SELECT CAST(a.attname AS text)
          FROM pg_catalog.pg_index AS i
          CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, place)
          JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = k.attnum
          WHERE i.indrelid = c.oid AND i.indisprimary
          ORDER BY k.place) AS key
FROM kept
LEFT JOIN pg_catalog.pg_class AS c ON c.oid = to_regclass(kept.target)
LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY kept.last_number DESC
""")


_JSON_VALUE = sql.SQL("""
    CASE WHEN kept.json_nulls @> to_jsonb(CAST({name} AS text)) THEN 'null'
         ELSE {value} END AS {column}""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One table that has images of an intent: ``target`` is its name as it stands beside them.

    ``columns`` are those of the kept rows, in the table's order; ``added`` came later. ``key`` is
    the primary key.
    """

    target: str
    schema: str
    name: str
    columns: tuple[str, ...]
    added: tuple[str, ...]
    generated: frozenset[str]
    identities: frozenset[str]
    json: frozenset[str]
    key: tuple[str, ...]

    @property
    def table(self) -> sql.Composable:
        """The table in a statement."""
        return sql.Identifier(_bare(self.schema), _bare(self.name))

    @property
    def whole_row(self) -> sql.Composable:
        """The whole row of the table in a statement that names it without an alias."""
        return sql.SQL("{}.*").format(sql.Identifier(_bare(self.name)))

    @property
    def written(self) -> tuple[str, ...]:
        """The columns that an INSERT gives values to; the database computes the others."""
        return tuple(name for name in self.columns if name not in self.generated)

    @property
    def settable(self) -> tuple[str, ...]:
        """The columns that an UPDATE of a row found by its key can set."""
        fixed = {*self.key, *self.identities}
        return tuple(name for name in self.written if name not in fixed)

    def values(self, names: Iterable[str]) -> sql.Composable:
        """The columns of ``row_``, a kept row; where ``kept.json_nulls`` says so, a JSON null."""
        return sql.SQL(", ").join(
            _JSON_VALUE.format(
                name=sql.Literal(_bare(name)),
                value=column_of(name, "row_"),
                column=column_of(name),
            )
            if name in self.json
            else column_of(name, "row_")
            for name in names
        )

    def key_of(self, row: dict[str, Any]) -> str:
        """The row's primary key as people say it, such as ``C-1`` or ``7, 3``."""
        return ", ".join(str(row.get(name)) for name in self.key)


def layouts_of(session: Session, original: Original) -> list[Layout]:
    """The tables that have images of ``original``, those that were changed last first.

    Raises RestoreExpired when there is no image, RestoreConflict when a table or a column of one
    is gone.
    """
    about = {"tenant": original.tenant, "intent": original.intent_id}
    found = session.execute(_LAYOUTS, about).all()
    if not found:
        raise RestoreExpired(f"what {original.ref} changed is no longer kept")
    return [_layout(row) for row in found]


def columns_of(names: Iterable[str], of: str | None = None) -> sql.Composable:
    """The columns, comma between them, of the alias ``of`` or of none."""
    return sql.SQL(", ").join(column_of(name, of) for name in names)


def column_of(name: str, of: str | None = None) -> sql.Composable:
    """One column of the alias ``of``, or of none."""
    return sql.Identifier(_bare(name)) if of is None else sql.Identifier(of, _bare(name))


def joined_on(names: Iterable[str], one: str, other: str) -> sql.Composable:
    """That two aliases agree in every one of the columns; never, where there are none."""
    agree: list[sql.Composable] = [
        sql.SQL("{} = {}").format(column_of(name, one), column_of(name, other)) for name in names
    ]
    return sql.SQL(" AND ").join(agree or [sql.SQL("false")])


def _layout(found: Sequence[Any]) -> Layout:
    target, schema, name, kept, now, generated, identities, json, key = found
    if schema is None or name is None:
        raise RestoreConflict(f"the table {target} is gone, and its rows can't be put back")
    gone = sorted(set(kept) - set(now))
    if gone:
        raise RestoreConflict(
            f"rows of {target} have values in columns that are gone: {', '.join(gone)}; "
            "add them again, or leave the rows where they are",
            [{"field": column, "kept": "a value", "now": None} for column in gone],
        )
    return Layout(
        target=target,
        schema=schema,
        name=name,
        columns=tuple(column for column in now if column in kept),
        added=tuple(column for column in now if column not in kept),
        generated=frozenset(generated),
        identities=frozenset(identities),
        json=frozenset(json),
        key=tuple(key),
    )


def _bare(name: str) -> str:
    """A name for a statement with parameters, in which the driver reads ``%`` as their mark."""
    return name.replace("%", "%%")
