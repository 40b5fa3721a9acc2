"""What an export of orders holds, lean: how many, what they come to, and the first ones."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Text, func, select, true
from sqlalchemy.orm import Session

from takeback import Found
from takeback_shop.table import ORDERS

ROWS_SHOWN = 5


def export(session: Session, format: str, since: datetime | None) -> Found:
    """The export in ``format`` of the orders placed since then, or of all."""
    placed = true() if since is None else ORDERS.c.placed_at >= since
    sums = session.execute(
        select(
            ORDERS.c.currency, func.count().label("orders"), func.sum(ORDERS.c.total).label("sum")
        )
        .where(placed)
        .group_by(ORDERS.c.currency)
        .order_by(ORDERS.c.currency)
    ).all()
    if not sums:
        return Found(matches=[])
    first = _first(session, placed)
    count = sum(row.orders for row in sums)
    document = {
        "format": format,
        "orders": count,
        "totals": {row.currency: str(row.sum) for row in sums},
        "shown": len(first),
        "first": _csv(first) if format == "csv" else first,
    }
    return Found(matches=[document], more_matches_exist=count > len(first))


def _first(session: Session, placed: Any) -> list[dict[str, Any]]:
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
        .limit(ROWS_SHOWN)
    )
    return [row._asdict() | {"placed_at": row.placed_at.isoformat()} for row in rows]


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
