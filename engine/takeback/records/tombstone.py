"""Changing rows and keeping their images, in one statement each.

An image is ``{"before": row}`` of a row that left, ``{"before": row, "after": row}`` of one that
changed: ``after`` tells later whether somebody else has changed it since. Both are the whole row as
the database has it, behind all its triggers. In a row of JSON the JSON ``null`` of a column looks
like none at all: ``json_nulls`` lists the columns, of those that the table object declares, that
held one.

Objects of these rows that the caller's session has loaded are as they were: refresh them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg import sql
from sqlalchemy import (
    JSON,
    ColumnElement,
    Select,
    Table,
    Text,
    and_,
    case,
    cast,
    column,
    delete,
    func,
    insert,
    literal_column,
    null,
    select,
    table,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID, array
from sqlalchemy.orm import Session

Row = Mapping[str, Any]
"""A row as JSON has it: instants and numerics in the words of ``to_jsonb``."""

_TOMBSTONES = table(
    "tombstones",
    column("tenant", Text),
    column("intent_id", UUID),
    column("target", Text),
    column("image", JSONB),
    schema="takeback",
)
_PG_CLASS = table(
    "pg_class", column("oid"), column("relname"), column("relnamespace"), schema="pg_catalog"
)
_PG_NAMESPACE = table("pg_namespace", column("oid"), column("nspname"), schema="pg_catalog")


def archive_rows(session: Session, rows: Table, *where: ColumnElement[bool]) -> list[Row]:
    """Deletes the rows that match and keeps their images; answers with the rows as they were.

    Children go first, in calls of their own: what is archived last is put back first.
    Raises IntegrityError where other rows still refer to them.
    """
    session.flush()
    before, nulls = _image_of(rows).label("before"), _json_nulls_of(rows).label("json_nulls")
    gone = delete(rows).where(_all_of(where)).returning(before, nulls).cte("gone")
    image = func.jsonb_build_object("before", gone.c.before, "json_nulls", gone.c.json_nulls)
    kept = _keep(rows, select(image)).cte("kept")
    return [row.before for row in session.execute(select(gone.c.before).add_cte(kept))]


def update_rows(
    session: Session, rows: Table, *where: ColumnElement[bool], values: Mapping[str, Any]
) -> list[tuple[Row, Row]]:
    """Sets ``values`` in the rows that match and keeps them as they were; (before, after) of each.

    The rows are locked against whoever adds children to them. Raises ValueError for a table
    object without a primary key: nothing would tell which row to put back.
    """
    keys = list(rows.primary_key)
    if not keys:
        raise ValueError(f"{rows.fullname!r} has no primary key; expected one to find rows by")
    session.flush()
    image = _image_of(rows)
    before = (
        select(*keys, image.label("image"), _json_nulls_of(rows).label("json_nulls"))
        .where(_all_of(where))
        .with_for_update(of=rows)
        .cte("before")
    )
    changed = (
        update(rows)
        .where(and_(*(key == before.c[key.key] for key in keys)))
        .values(values)
        .returning(before.c.image.label("before"), before.c.json_nulls, image.label("after"))
        .cte("changed")
    )
    pair = func.jsonb_build_object(
        "before",
        changed.c.before,
        "json_nulls",
        changed.c.json_nulls,
        "after",
        changed.c.after,
    )
    kept = _keep(rows, select(pair)).cte("kept")
    found = session.execute(select(changed.c.before, changed.c.after).add_cte(kept))
    return [(row.before, row.after) for row in found]


def mark_deleted(session: Session, rows: Table, *where: ColumnElement[bool]) -> list[Row]:
    """Marks the rows that match and are not marked yet; answers with the rows as they were.

    Their columns ``deleted_by`` (a uuid) and ``deleted_at`` name the intent and the instant. The
    rows stay where they are, so what refers to them still does.
    """
    marks = {"deleted_by": _acting_intent(), "deleted_at": func.takeback.now()}
    live = rows.c.deleted_by.is_(None)
    return [before for before, _ in update_rows(session, rows, live, *where, values=marks)]


def _all_of(where: tuple[ColumnElement[bool], ...]) -> ColumnElement[bool]:
    if not where:
        raise ValueError("no condition was given; expected one, so that no whole table is meant")
    return and_(*where)


def _image_of(rows: Table) -> ColumnElement[Any]:
    """The whole row; the star keeps a column of the table's own name from standing for it."""
    return func.to_jsonb(literal_column(f"{_quoted(rows.name)}.*"), type_=JSONB)


def _json_nulls_of(rows: Table) -> ColumnElement[Any]:
    """The names of the columns that hold the JSON null, as a list of JSON."""
    named: list[ColumnElement[Any]] = [
        case((func.jsonb_typeof(func.to_jsonb(column_)) == "null", column_.name))
        for column_ in rows.c
        if isinstance(column_.type, JSON)
    ]
    return func.to_jsonb(func.array_remove(array[Any](named, type_=Text), null()), type_=JSONB)


def _keep(rows: Table, images: Select[Any]) -> Any:
    """Keeps each of ``images`` as one of a row of ``rows``, for the intent that acts."""
    (image,) = images.subquery().c
    chosen = select(_acting_tenant(), _acting_intent(), _target_of(rows), image)
    return insert(_TOMBSTONES).from_select(["tenant", "intent_id", "target", "image"], chosen)


def _acting_tenant() -> ColumnElement[Any]:
    """None outside of a handler, which the table of images refuses."""
    return func.nullif(func.current_setting("takeback.tenant", True), "")  # noqa: FBT003


def _acting_intent() -> ColumnElement[Any]:
    return cast(func.nullif(func.current_setting("takeback.intent", True), ""), UUID)  # noqa: FBT003


def _target_of(rows: Table) -> ColumnElement[Any]:
    """The table's qualified name, each part quoted where it has to be, as Postgres knows it."""
    name = _quoted(*filter(None, (rows.schema, rows.name)))
    return (
        select(func.format("%I.%I", _PG_NAMESPACE.c.nspname, _PG_CLASS.c.relname))
        .join_from(_PG_CLASS, _PG_NAMESPACE, _PG_NAMESPACE.c.oid == _PG_CLASS.c.relnamespace)
        .where(_PG_CLASS.c.oid == func.to_regclass(name))
        .scalar_subquery()
    )


def _quoted(*name: str) -> str:
    """A name, qualified or not, as it stands in a statement."""
    return sql.Identifier(*name).as_string(None)
