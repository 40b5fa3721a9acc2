"""What each tool of the catalog does: one handler a row, bound by its name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from takeback import Affected, Found, Handler, InvalidReference, Original, Performed, records
from takeback.connectors.smtp import SmtpServer, mailer
from takeback.testing import FakeFiles, FakePayments
from takeback.testing.files import delete_handler
from takeback.testing.payments import refund_handler
from takeback_shop import look, seed, setting
from takeback_shop.catalog import DeleteCustomer, ExportOrders, SearchOrders, UpdateTicket
from takeback_shop.export import export
from takeback_shop.mail import compose
from takeback_shop.table import ADDRESSES, CUSTOMERS, ORDERS, TICKETS

__all__ = [
    "delete_attachment",
    "delete_customer",
    "export_orders",
    "refund_charge",
    "search_orders",
    "send_customer_email",
    "update_ticket",
]


def search_orders(session: Session, arguments: SearchOrders) -> Found:
    return look.search(session, arguments.query, arguments.area)


def export_orders(session: Session, arguments: ExportOrders) -> Found:
    return export(session, arguments.format, arguments.since)


def _update_ticket(session: Session, arguments: UpdateTicket) -> Performed:
    values: dict[str, str] = {"status": arguments.status}
    if arguments.note is not None:
        values["note"] = arguments.note
    this = TICKETS.c.id == arguments.ticket_id
    changed = records.update_rows(session, TICKETS, this, values=values)
    if not changed:
        _refuse_id(session, TICKETS, "ticket_id", arguments.ticket_id)
    ((before, after),) = changed
    was = before["status"]
    return Performed(
        result={"ticket_id": after["id"], "status": after["status"], "was": was},
        affected=[Affected(kind="ticket", id=after["id"], label=after["subject"])],
        summary=f"Ticket {after['id']} is {after['status']}; it was {was}.",
    )


def _reset_ticket(session: Session, original: Original) -> Performed:
    records.restore_rows(session, original)
    ticket, was = original.result["ticket_id"], original.result["was"]
    return Performed(
        result={"ticket_id": ticket, "status": was},
        affected=original.affected,
        summary=f"Ticket {ticket} is {was} again, as it was.",
    )


update_ticket = Handler(perform=_update_ticket, restore=_reset_ticket, drift=records.find_drift)


def _delete_customer(session: Session, arguments: DeleteCustomer) -> Performed:
    wanted = arguments.customer_id
    # Marked first: that locks out orders that somebody is adding at this moment.
    marked = records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == wanted)
    if not marked:
        _refuse_customer(session, wanted)
    (customer,) = marked
    orders = _by_id(records.archive_rows(session, ORDERS, ORDERS.c.customer_id == wanted))
    addresses = _by_id(records.archive_rows(session, ADDRESSES, ADDRESSES.c.customer_id == wanted))
    with_them = f"{_count(orders, 'order')} and {_count(addresses, 'address', 'addresses')}"
    return Performed(
        result={"customer_id": wanted, "name": customer["name"], "with": with_them},
        affected=[
            Affected(kind="customer", id=wanted, label=customer["name"]),
            *(Affected(kind="order", id=row["id"]) for row in orders),
            *(Affected(kind="address", id=str(row["id"]), label=row["line"]) for row in addresses),
        ],
        summary=f"Customer {wanted}, {customer['name']}, is deleted with {with_them}.",
    )


def _bring_customer_back(session: Session, original: Original) -> Performed:
    counts = records.restore_rows(session, original)
    about = original.result
    return Performed(
        result={"customer_id": about["customer_id"]},
        affected=original.affected,
        affected_count=sum(counts.values()),
        summary=f"Customer {about['customer_id']}, {about['name']}, is back with {about['with']}.",
    )


delete_customer = Handler(
    perform=_delete_customer, restore=_bring_customer_back, drift=records.find_drift
)


def _state_directory() -> Path:
    return setting.load(os.environ).state_directory


def _smtp_server() -> SmtpServer:
    return SmtpServer.from_url(setting.load(os.environ).smtp_url)


send_customer_email = mailer(_smtp_server, compose)
refund_charge = refund_handler(FakePayments(_state_directory, charges=seed.CHARGES))
delete_attachment = delete_handler(FakeFiles(_state_directory, files=seed.FILES))


def _refuse_customer(session: Session, wanted: str) -> NoReturn:
    """Nothing of this is remembered: the customer may be there, or back, at the next call."""
    deleted_at = session.scalar(select(CUSTOMERS.c.deleted_at).where(CUSTOMERS.c.id == wanted))
    if deleted_at is not None:
        raise InvalidReference(
            "customer_id",
            wanted,
            message=f"was deleted already, on {deleted_at:%Y-%m-%d}; there is nothing to delete",
        )
    _refuse_id(session, CUSTOMERS, "customer_id", wanted)


def _refuse_id(session: Session, table: Table, field: str, wanted: str) -> NoReturn:
    nearest = look.nearest_ids(session, table.c.id, wanted)
    raise InvalidReference(
        field,
        wanted,
        message=f"is none of the {table.name}; the nearest are: {', '.join(nearest)}",
        permitted=nearest,
    )


def _by_id(rows: Iterable[records.Row]) -> list[records.Row]:
    return sorted(rows, key=lambda row: row["id"])


def _count(rows: list[records.Row], one: str, many: str = "") -> str:
    return f"{len(rows)} {one if len(rows) == 1 else many or one + 's'}"
