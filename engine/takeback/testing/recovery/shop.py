"""What is wanted of the shop of the example, and how people get its words wrong.

The shop itself is handed in, since the library does not know its example.
"""

from __future__ import annotations

from typing import Any

from takeback.declare import Catalog
from takeback.testing.recovery.subject import Subject

_MISNAMED = {
    "search_orders": ("find_orders", "lookup_orders"),
    "update_ticket": ("close_ticket", "set_ticket_status"),
    "delete_customer": ("remove_customer", "erase_customer"),
    "send_customer_email": ("email_customer", "send_mail"),
    "refund_charge": ("issue_refund", "create_refund"),
    "delete_attachment": ("remove_attachment", "delete_file"),
    "export_orders": ("download_orders", "orders_export"),
}


def shop(catalog: Catalog, handlers: Any) -> Subject:
    """The shop, and calls of each of its tools."""
    return Subject(
        name="shop",
        catalog=catalog,
        handlers=handlers,
        wanted=(
            ("search_orders", {"query": "Dana espresso", "area": "orders"}),
            ("update_ticket", {"ticket_id": "T-7", "status": "closed", "note": "solved by mail"}),
            ("update_ticket", {"ticket_id": "T-1", "status": "pending"}),
            ("delete_customer", {"customer_id": "C-1"}),
            (
                "send_customer_email",
                {
                    "to": "dana@example.com",
                    "template": "refund_issued",
                    "order_id": "O-1",
                    "note": "sorry for the wait",
                },
            ),
            (
                "send_customer_email",
                {"to": "zoe@example.com", "template": "order_delayed", "order_id": "O-4"},
            ),
            (
                "refund_charge",
                {
                    "charge_id": "ch_1",
                    "amount": 12900,
                    "currency": "EUR",
                    "reason": "requested_by_customer",
                },
            ),
            (
                "refund_charge",
                {"charge_id": "ch_4", "amount": 1600, "currency": "EUR", "reason": "duplicate"},
            ),
            ("delete_attachment", {"path": "tickets/T-7/tracking.txt"}),
            ("export_orders", {"format": "csv", "since": "2026-10-01T00:00:00Z"}),
        ),
        near={
            "orders": ("purchases", "sales"),
            "closed": ("resolved", "done", "complete"),
            "pending": ("waiting", "on_hold", "snoozed"),
            "refund_issued": ("refund_sent", "money_back"),
            "order_delayed": ("late_delivery", "delay_notice"),
            "requested_by_customer": ("customer_request", "changed_mind"),
            "duplicate": ("double_charge", "charged_twice"),
            "csv": ("spreadsheet", "excel"),
            "EUR": ("euros", "€"),
        },
        foreign={
            "orders": ("Bestellungen", "pedidos"),
            "closed": ("geschlossen", "fermé", "закрыто"),
            "pending": ("ausstehend", "en attente"),
            "refund_issued": ("Erstattung", "返金"),
            "order_delayed": ("Verspätung", "配送遅延"),
            "requested_by_customer": ("Kundenwunsch", "a petición del cliente"),
            "duplicate": ("doppelt", "重複"),
            "EUR": ("евро", "ユーロ"),
        },
        misnamed=_MISNAMED,
    )
