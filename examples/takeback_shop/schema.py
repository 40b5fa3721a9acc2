"""The shop's step of ``takeback migrate``: its tables, made and filled once."""

from __future__ import annotations

from sqlalchemy import Connection, create_engine, insert, text
from sqlalchemy.pool import NullPool

from takeback.ledger.database import sqlalchemy_url
from takeback_shop import seed, table

# The schema's own name, as a number that others are unlikely to use for a lock.
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('takeback_shop.schema', 0))")
_IS_MADE = text("SELECT to_regclass('shop.tickets') IS NOT NULL")
_EMPTY = text("TRUNCATE shop.customers, shop.addresses, shop.orders, shop.tickets RESTART IDENTITY")
_COUNT_ON = text(
    "SELECT setval(pg_get_serial_sequence('shop.addresses', 'id'), max(id)) FROM shop.addresses"
)


def migrate(url: str) -> None:
    """Makes and fills the tables, unless they are there: safe to repeat, and from several at once.

    Rows that are there stay as they are. Raises what SQLAlchemy raises when the database can't be
    reached.
    """
    driver = sqlalchemy_url(url)
    with create_engine(driver, poolclass=NullPool).begin() as connection:
        connection.execute(_LOCK)
        if connection.execute(_IS_MADE).scalar():
            return
        connection.execute(text("CREATE SCHEMA IF NOT EXISTS shop"))
        connection.execute(text(table.FOLD))
        table.METADATA.create_all(connection)
        connection.execute(text(table.COUNT_CHANGES))
        _fill(connection)


def reset(connection: Connection) -> None:
    """Puts every table back to its first rows, inside the caller's transaction."""
    connection.execute(_EMPTY)
    _fill(connection)


def _fill(connection: Connection) -> None:
    connection.execute(insert(table.CUSTOMERS), seed.CUSTOMERS)
    with_ids = text(
        "INSERT INTO shop.addresses (id, customer_id, kind, street, postcode, city, country,"
        " created_at, updated_at, version) OVERRIDING SYSTEM VALUE"
        " VALUES (:id, :customer_id, :kind, :street, :postcode, :city, :country,"
        " :created_at, :updated_at, :version)"
    )
    connection.execute(with_ids, seed.ADDRESSES)
    connection.execute(insert(table.ORDERS), seed.ORDERS)
    connection.execute(insert(table.TICKETS), seed.TICKETS)
    connection.execute(_COUNT_ON)
