"""What stands in the shop at first: the same rows in every database, to the second and the cent."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from takeback.testing import Charge

Rows = list[dict[str, Any]]


def _at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 10, day, hour, minute, 30, 250_000, tzinfo=UTC)


def _kept(created: datetime, version: int = 1, updated: datetime | None = None) -> dict[str, Any]:
    return {"created_at": created, "updated_at": updated or created, "version": version}


def _customer(
    id: str, name: str, email: str, day: int, *, credit: str = "0.00", **preferences: Any
) -> dict[str, Any]:
    return {
        "id": id,
        "name": name,
        "email": email,
        "credit": Decimal(credit),
        "preferences": preferences,
        **_kept(_at(day, 9), version=2, updated=_at(day + 1, 10, 15)),
    }


def _address(
    id: int, customer: str, kind: str, street: str, town: tuple[str, str, str]
) -> dict[str, Any]:
    postcode, city, country = town
    return {
        "id": id,
        "customer_id": customer,
        "kind": kind,
        "street": street,
        "postcode": postcode,
        "city": city,
        "country": country,
        **_kept(_at(id, 9, 5)),
    }


def _order(
    number: int,
    customer: str,
    address: int,
    status: str,
    total: str,
    *items: tuple[int, str, str],
    currency: str = "EUR",
) -> dict[str, Any]:
    placed = _at(number + 10, 8 + number % 9, number)
    return {
        "id": f"O-{number}",
        "customer_id": customer,
        "address_id": address,
        "status": status,
        "total": Decimal(total),
        "currency": currency,
        "charge_id": f"ch_{number}",
        "items": [{"quantity": n, "name": name, "price": price} for n, name, price in items],
        "placed_at": placed,
        **_kept(placed),
    }


def _ticket(
    number: int, customer: str, subject: str, status: str, note: str | None, *tags: str
) -> dict[str, Any]:
    return {
        "id": f"T-{number}",
        "customer_id": customer,
        "subject": subject,
        "status": status,
        "note": note,
        "tags": list(tags),
        **_kept(_at(number + 14, 11, number), version=3, updated=_at(number + 15, 16)),
    }


CUSTOMERS: Rows = [
    _customer("C-1", "Dana Ruiz", "dana@example.com", 1, credit="12.50", newsletter=True),
    _customer("C-2", "Zoë Lindqvist", "zoe@example.com", 2, language="sv"),
    _customer("C-3", "Nguyễn Minh Anh", "minh.anh@example.com", 3, language="vi"),
    _customer("C-4", "Dana Ruiz-Ortega", "dana.ortega@example.com", 4),
    _customer("C-5", "Łukasz Wójcik", "lukasz@example.com", 5, newsletter=False),
    _customer("C-6", "佐藤 結衣", "yui.sato@example.com", 6, language="ja"),
    _customer("C-7", "Omar El-Sayed", "omar@example.com", 7, credit="3.00"),
    _customer("C-8", "Ingrid Ødegård", "ingrid@example.com", 8, language="nb"),
]

ADDRESSES: Rows = [
    _address(1, "C-1", "delivery", "Calle de la Luna 12", ("28004", "Madrid", "ES")),
    _address(2, "C-1", "billing", "Calle del Pez 3", ("28004", "Madrid", "ES")),
    _address(3, "C-2", "delivery", "Södra vägen 41", ("412 54", "Göteborg", "SE")),
    _address(4, "C-3", "delivery", "Boulevard Voltaire 88", ("75011", "Paris", "FR")),
    _address(5, "C-4", "delivery", "Calle Mayor 27", ("50001", "Zaragoza", "ES")),
    _address(6, "C-5", "delivery", "ulica Długa 9", ("31-147", "Kraków", "PL")),
    _address(7, "C-6", "delivery", "Immermannstraße 20", ("40210", "Düsseldorf", "DE")),
    _address(8, "C-7", "delivery", "Rue de Laeken 5", ("1000", "Bruxelles", "BE")),
    _address(9, "C-8", "delivery", "Storgata 14", ("0184", "Oslo", "NO")),
]

ORDERS: Rows = [
    _order(1, "C-1", 1, "delivered", "129.00", (1, "Espresso machine, small", "129.00")),
    _order(2, "C-1", 1, "shipped", "900.00", (1, "Espresso machine, twin boiler", "900.00")),
    _order(3, "C-1", 1, "paid", "34.50", (2, "Coffee beans, 1 kg", "17.25")),
    _order(4, "C-2", 3, "shipped", "64.00", (4, "Cup, blue", "16.00")),
    _order(5, "C-2", 3, "delivered", "18.90", (1, "Milk jug", "18.90")),
    _order(6, "C-3", 4, "delivered", "249.00", (1, "Grinder", "249.00")),
    _order(7, "C-3", 4, "paid", "51.75", (3, "Coffee beans, 1 kg", "17.25")),
    _order(
        8, "C-5", 6, "shipped", "412.00", (1, "Filter machine", "399.00"), (1, "Filters", "13.00")
    ),
    _order(9, "C-5", 6, "paid", "32.00", (2, "Cup, blue", "16.00")),
    _order(10, "C-6", 7, "delivered", "78.00", (1, "Hand grinder", "78.00")),
    _order(11, "C-7", 8, "delivered", "249.00", (1, "Grinder", "249.00")),
    _order(12, "C-8", 9, "paid", "17.25", (1, "Coffee beans, 1 kg", "17.25")),
]

TICKETS: Rows = [
    _ticket(1, "C-2", "One cup arrived broken", "open", None, "damage"),
    _ticket(2, "C-3", "Invoice for the grinder", "closed", "sent as PDF", "invoice"),
    _ticket(3, "C-5", "Where is my filter machine?", "pending", "asked the carrier", "delivery"),
    _ticket(4, "C-6", "Hand grinder: spare burr", "open", None, "parts"),
    _ticket(5, "C-7", "Grinder is loud", "pending", "waits for a recording", "warranty"),
    _ticket(6, "C-8", "Change of address before shipping", "open", None, "address"),
    _ticket(7, "C-1", "Twin boiler is late", "pending", "carrier says Thursday", "delivery", "vip"),
    _ticket(8, "C-1", "Beans: other roast next time", "closed", None, "wish"),
]

# At the payment provider: what the orders were paid with, in minor units.
CHARGES = [
    Charge(id=order["charge_id"], amount=int(order["total"] * 100), currency=order["currency"])
    for order in ORDERS
]

# In the shop's store of files: what customers have attached to their tickets.
FILES = {
    "tickets/T-1/broken-cup.jpg": b"a picture of a cup in two parts\n",
    "tickets/T-2/invoice.pdf": b"an invoice over 249.00 EUR\n",
    "tickets/T-7/tracking.txt": b"left Rotterdam, 2026-10-21\n",
}
