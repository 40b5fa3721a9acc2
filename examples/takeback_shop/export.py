"""What an export of orders holds: how many, what they come to by status, and every row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Text, select, true
from sqlalchemy.orm import Session

from takeback import Found, Group
from takeback_shop.table import ORDERS

Row = dict[str, Any]


def export(session: Session, format: str, since: datetime | None) -> Found:
    """The export in ``format`` of the orders placed since then, or of all.

    A model has the sums and three of the rows; the file itself is in the full answer.
    """
    rows = _rows(session, since)
    if not rows:
        return Found(matches=[])
    by_status: dict[str, list[Row]] = {}
    for row in rows:
        by_status.setdefault(row["status"], []).append(row)
    return Found(
        matches=rows,
        summary=f"{len(rows)} order{'' if len(rows) == 1 else 's'} exported as {format}.",
        totals={"orders": len(rows), **_sums(rows)},
        groups=[
            Group(label=status, count=len(some), totals=_sums(some))
            for status, some in by_status.items()
        ],
        group_field="status",
        result=_csv(rows) if format == "csv" else None,
    )


def _rows(session: Session, since: datetime | None) -> list[Row]:
    placed = true() if since is None else ORDERS.c.placed_at >= since
    rows = session.execute(
        select(
            ORDERS.c.id,
            ORDERS.c.placed_at,
            ORDERS.c.customer_id,
            ORDERS.c.status,
            ORDERS.c.total.cast(Text).label("total"),
            ORDERS.c.currency,
        )
        .where(placed)
        .order_by(ORDERS.c.placed_at, ORDERS.c.id)
    )
    return [row._asdict() | {"placed_at": row.placed_at.isoformat()} for row in rows]


def _sums(rows: Iterable[Row]) -> dict[str, str]:
    """What they come to, in each currency by itself."""
    sums: dict[str, Decimal] = {}
    for row in rows:
        sums[row["currency"]] = sums.get(row["currency"], Decimal()) + Decimal(row["total"])
    return {currency: str(sums[currency]) for currency in sorted(sums)}


def _csv(rows: Sequence[Row]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
