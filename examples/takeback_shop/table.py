"""The shop's own tables, in the schema ``shop``: nothing in them is there for Takeback's sake.

Customers are marked when they are deleted (``deleted_by``, ``deleted_at``), since tickets go on
referring to them; an address for mail is unique among those who are not. Orders and addresses leave
their tables. A trigger counts every change of a row in ``version``.
"""

from __future__ import annotations

from sqlalchemy import (
    CHAR,
    BigInteger,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

SCHEMA = "shop"

METADATA = MetaData(
    schema=SCHEMA,
    naming_convention={
        "ck": "%(table_name)s_%(constraint_name)s",
        "fk": "%(table_name)s_%(column_0_name)s_refers_to_%(referred_table_name)s",
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_name)s_is_unique",
    },
)


def _housekeeping() -> tuple[Column[object], ...]:
    at = DateTime(timezone=True)
    return (
        Column("created_at", at, nullable=False, server_default=text("now()")),
        Column("updated_at", at, nullable=False, server_default=text("now()")),
        Column("version", Integer, nullable=False, server_default=text("1")),
    )


CUSTOMERS = Table(
    "customers",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("credit", Numeric(12, 2), nullable=False, server_default=text("0")),
    Column("preferences", JSONB, nullable=False, server_default=text("'{}'")),
    Column("deleted_by", UUID),
    Column("deleted_at", DateTime(timezone=True)),
    *_housekeeping(),
    CheckConstraint("(deleted_by IS NULL) = (deleted_at IS NULL)", name="deletion_has_an_instant"),
)
Index(
    "customers_email_is_unique_among_the_living",
    CUSTOMERS.c.email,
    unique=True,
    postgresql_where=CUSTOMERS.c.deleted_by.is_(None),
)

ADDRESSES = Table(
    "addresses",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("customer_id", Text, ForeignKey(CUSTOMERS.c.id), nullable=False),
    Column("kind", Text, nullable=False),
    Column("street", Text, nullable=False),
    Column("postcode", Text, nullable=False),
    Column("city", Text, nullable=False),
    Column("country", CHAR(2), nullable=False),
    Column("line", Text, Computed("street || ', ' || postcode || ' ' || city", persisted=True)),
    *_housekeeping(),
    UniqueConstraint("customer_id", "kind"),
    CheckConstraint("kind IN ('delivery', 'billing')", name="kind_is_known"),
)

ORDERS = Table(
    "orders",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("customer_id", Text, ForeignKey(CUSTOMERS.c.id), nullable=False),
    Column("address_id", BigInteger, ForeignKey(ADDRESSES.c.id), nullable=False),
    Column("status", Text, nullable=False),
    Column("total", Numeric(12, 2), nullable=False),
    Column("currency", CHAR(3), nullable=False),
    Column("charge_id", Text, nullable=False, unique=True),
    Column("items", JSONB, nullable=False),
    Column("placed_at", DateTime(timezone=True), nullable=False),
    *_housekeeping(),
    CheckConstraint("status IN ('paid', 'shipped', 'delivered')", name="status_is_known"),
    CheckConstraint("total > 0", name="total_is_positive"),
)
Index("orders_of_a_customer", ORDERS.c.customer_id)

TICKETS = Table(
    "tickets",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("customer_id", Text, ForeignKey(CUSTOMERS.c.id), nullable=False),
    Column("subject", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("note", Text),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    *_housekeeping(),
    CheckConstraint("status IN ('open', 'pending', 'closed')", name="status_is_known"),
)

# A statement that names the version itself puts a row back and is let through as it is.
COUNT_CHANGES = """
CREATE FUNCTION shop.count_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.version = OLD.version THEN
        NEW.version := OLD.version + 1;
        NEW.updated_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER customers_count_changes BEFORE UPDATE ON shop.customers
    FOR EACH ROW EXECUTE FUNCTION shop.count_change();
CREATE TRIGGER addresses_count_changes BEFORE UPDATE ON shop.addresses
    FOR EACH ROW EXECUTE FUNCTION shop.count_change();
CREATE TRIGGER orders_count_changes BEFORE UPDATE ON shop.orders
    FOR EACH ROW EXECUTE FUNCTION shop.count_change();
CREATE TRIGGER tickets_count_changes BEFORE UPDATE ON shop.tickets
    FOR EACH ROW EXECUTE FUNCTION shop.count_change();
"""

# How words are compared: without case and without marks on letters, so that Zoe finds Zoë.
FOLD = r"""
CREATE FUNCTION shop.folded(words text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $$
    SELECT translate(
        lower(regexp_replace(normalize(words, NFKD), '[\u0300-\u036f]', '', 'g')), 'łøđı', 'lodi')
$$;
"""
