"""One number for all rows of the shop: equal before and after means equal in every column."""

from __future__ import annotations

import hashlib

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from takeback.ledger.database import sqlalchemy_url

_ROWS = (
    text("SELECT CAST(r AS text) FROM shop.customers AS r ORDER BY r.id"),
    text("SELECT CAST(r AS text) FROM shop.addresses AS r ORDER BY r.id"),
    text("SELECT CAST(r AS text) FROM shop.orders AS r ORDER BY r.id"),
    text("SELECT CAST(r AS text) FROM shop.tickets AS r ORDER BY r.id"),
)


def digest(connection: Connection) -> str:
    """SHA-256 over every row of every table of the shop, as hex."""
    hashed = hashlib.sha256()
    for rows in _ROWS:
        for row in connection.scalars(rows):
            hashed.update(row.encode() + b"\0")
        hashed.update(b"\1")
    return hashed.hexdigest()


def digest_at(url: str) -> str:
    """The same, of the database behind ``url``."""
    driver = sqlalchemy_url(url)
    with create_engine(driver, poolclass=NullPool).connect() as connection:
        return digest(connection)
