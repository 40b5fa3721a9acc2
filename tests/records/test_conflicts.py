"""Rows that can't come back: a typed conflict that names both sides, and nothing half done."""

import pytest
from sqlalchemy import Column, MetaData, Table, Text

from takeback import records
from takeback.model.errors import RestoreConflict, RestoreExpired
from takeback_shop.table import ADDRESSES, CUSTOMERS, ORDERS, TICKETS
from tests.records.household import SECOND, acting, contents, original, rows, run


def archive(url: str, table: Table, *where) -> None:
    with acting(url) as session:
        records.archive_rows(session, table, *where)


def refused(url: str) -> RestoreConflict:
    with pytest.raises(RestoreConflict) as caught, acting(url, SECOND) as session:
        records.restore_rows(session, original())
    return caught.value


def test_a_live_row_with_the_same_email_is_named_beside_the_marked_one(database_url):
    """superset #40130."""
    with acting(database_url) as session:
        records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == "C-1")
    run(
        database_url,
        "INSERT INTO shop.customers (id, name, email) VALUES ('C-9', 'Dana', 'dana@example.com')",
    )
    conflict = refused(database_url)
    assert conflict.differences == (
        {"field": "email", "value": "dana@example.com", "kept": "C-1", "now": "C-9"},
    )
    assert "customers C-1" in str(conflict) and "customers C-9" in str(conflict)
    assert "then ask again" in str(conflict)


def test_a_row_that_the_unique_index_is_not_about_is_no_twin(database_url):
    with acting(database_url) as session:
        records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == "C-1")
    run(
        database_url,
        "INSERT INTO shop.customers (id, name, email, deleted_by, deleted_at)"
        " VALUES ('C-9', 'Dana', 'dana@example.com', gen_random_uuid(), now()),"
        " ('C-10', 'Dana', 'dana@example.com', NULL, NULL)",
    )
    assert [one["now"] for one in refused(database_url).differences] == ["C-10"]


def test_a_twin_of_an_archived_row_is_found_by_every_column_of_its_key(database_url):
    archive(database_url, ORDERS, ORDERS.c.address_id == 2)
    archive(database_url, ADDRESSES, ADDRESSES.c.id == 2)
    run(
        database_url,
        "INSERT INTO shop.addresses (customer_id, kind, street, postcode, city, country)"
        " VALUES ('C-1', 'billing', 'Gran Vía 1', '28013', 'Madrid', 'ES')",
    )
    assert refused(database_url).differences == (
        {"field": "customer_id", "value": "C-1", "kept": "2", "now": "10"},
        {"field": "kind", "value": "billing", "kept": "2", "now": "10"},
    )


def test_after_the_twin_has_made_way_the_same_restore_works(database_url):
    archive(database_url, ORDERS, ORDERS.c.id == "O-1")
    before = rows(database_url, "SELECT image FROM takeback.tombstones")
    run(database_url, "UPDATE shop.orders SET id = 'O-1' WHERE id = 'O-2'")
    refused(database_url)
    assert rows(database_url, "SELECT image FROM takeback.tombstones") == before
    run(database_url, "UPDATE shop.orders SET id = 'O-2' WHERE id = 'O-1'")
    with acting(database_url, SECOND) as session:
        assert records.restore_rows(session, original()) == {"shop.orders": 1}


def test_a_missing_parent_is_named_beside_the_child_that_needs_it(database_url):
    archive(database_url, ORDERS, ORDERS.c.customer_id == "C-8")
    run(database_url, "DELETE FROM shop.addresses WHERE id = 9")
    conflict = refused(database_url)
    assert conflict.differences == ({"field": "address_id", "kept": 9, "now": None, "row": "O-12"},)
    assert "orders O-12 can't be put back: addresses 9 is gone" in str(conflict)


def test_a_conflict_in_one_table_leaves_the_others_as_they_are(database_url):
    with acting(database_url) as session:
        records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == "C-1")
        records.archive_rows(session, ORDERS, ORDERS.c.customer_id == "C-1")
    run(
        database_url,
        "INSERT INTO shop.customers (id, name, email) VALUES ('C-9', 'Dana', 'dana@example.com')",
    )
    with acting(database_url, SECOND) as session:
        with pytest.raises(RestoreConflict):
            records.restore_rows(session, original())
        # The transaction is the caller's, and still of use.
        assert session.query(ORDERS).filter(ORDERS.c.customer_id == "C-1").count() == 0
    assert rows(database_url, "SELECT count(1) FROM takeback.tombstones") == [(4,)]


def test_an_updated_row_that_is_gone_is_a_conflict_and_comes_not_back_as_another(database_url):
    with acting(database_url) as session:
        records.update_rows(session, TICKETS, TICKETS.c.id == "T-7", values={"status": "open"})
    run(database_url, "DELETE FROM shop.tickets WHERE id = 'T-7'")
    conflict = refused(database_url)
    assert conflict.differences == ({"field": "tickets", "kept": "T-7", "now": None},)


def test_a_rule_of_the_table_that_came_since_is_a_conflict(database_url):
    archive(database_url, ORDERS, ORDERS.c.id == "O-2")
    run(database_url, "ALTER TABLE shop.orders ADD CONSTRAINT small CHECK (total < 500)")
    assert "'small'" in str(refused(database_url)) or "small" in str(refused(database_url))
    assert len(contents(database_url, "shop.orders")) == 11


def test_a_trigger_that_writes_the_row_anew_is_a_conflict(database_url):
    archive(database_url, ORDERS, ORDERS.c.id == "O-2")
    run(
        database_url,
        "CREATE FUNCTION shop.stamp() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$",
        "CREATE TRIGGER stamped BEFORE INSERT ON shop.orders"
        " FOR EACH ROW EXECUTE FUNCTION shop.stamp()",
    )
    assert "a trigger of the table writes them anew" in str(refused(database_url))
    assert len(contents(database_url, "shop.orders")) == 11


def test_a_trigger_that_writes_an_updated_row_anew_is_a_conflict(database_url):
    with acting(database_url) as session:
        records.update_rows(session, TICKETS, TICKETS.c.id == "T-7", values={"status": "open"})
    run(
        database_url,
        "CREATE OR REPLACE FUNCTION shop.count_change() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.version := OLD.version + 1; RETURN NEW; END $$",
    )
    assert "a trigger of the table writes them anew" in str(refused(database_url))
    assert rows(database_url, "SELECT status FROM shop.tickets WHERE id = 'T-7'") == [("open",)]


def test_a_column_that_was_dropped_since_is_named(database_url):
    """dbtrail #601."""
    archive(database_url, ORDERS, ORDERS.c.id == "O-1")
    run(database_url, "ALTER TABLE shop.orders DROP COLUMN items")
    conflict = refused(database_url)
    assert [one["field"] for one in conflict.differences] == ["items"]
    assert len(contents(database_url, "shop.orders")) == 11


def test_a_column_that_was_added_since_takes_its_default(database_url):
    archive(database_url, ORDERS, ORDERS.c.id == "O-1")
    run(database_url, "ALTER TABLE shop.orders ADD COLUMN gift text NOT NULL DEFAULT 'no'")
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    assert rows(database_url, "SELECT gift FROM shop.orders WHERE id = 'O-1'") == [("no",)]


def test_a_table_that_is_gone_is_named(database_url):
    run(
        database_url,
        "CREATE TABLE shop.brief (id text PRIMARY KEY)",
        "INSERT INTO shop.brief VALUES ('a')",
    )
    brief = Table("brief", MetaData(), Column("id", Text, primary_key=True), schema="shop")
    archive(database_url, brief, brief.c.id == "a")
    run(database_url, "DROP TABLE shop.brief")
    assert "shop.brief is gone" in str(refused(database_url))


def test_what_is_no_longer_kept_has_expired(database_url):
    with acting(database_url) as session:
        with pytest.raises(RestoreExpired, match="no longer kept"):
            records.restore_rows(session, original())
        with pytest.raises(RestoreExpired, match="no longer kept"):
            records.find_drift(session, original())
