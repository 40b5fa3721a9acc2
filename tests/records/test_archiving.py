"""Rows that leave a table and come back to it, equal in every column."""

import pytest
from sqlalchemy import Column, MetaData, Table, true
from sqlalchemy.dialects.postgresql import JSONB, UUID
from sqlalchemy.exc import IntegrityError

from takeback import records
from takeback_shop.table import ADDRESSES, CUSTOMERS, ORDERS
from tests.records.household import (
    FIRST,
    SECOND,
    acting,
    contents,
    original,
    reflected,
    rows,
    run,
)

OF_DANA = ORDERS.c.customer_id == "C-1"


def test_archived_rows_are_gone_and_come_back_equal_in_every_column(database_url):
    before = contents(database_url, "shop.orders")
    with acting(database_url) as session:
        gone = records.archive_rows(session, ORDERS, OF_DANA)
    assert sorted(row["id"] for row in gone) == ["O-1", "O-2", "O-3"]
    assert gone[0].keys() == set(ORDERS.c.keys())
    assert len(contents(database_url, "shop.orders")) == len(before) - 3
    with acting(database_url, SECOND) as session:
        assert records.restore_rows(session, original()) == {"shop.orders": 3}
    assert contents(database_url, "shop.orders") == before


def test_parents_come_back_before_their_children(database_url):
    before = [contents(database_url, f"shop.{name}") for name in ("orders", "addresses")]
    with acting(database_url) as session:
        records.archive_rows(session, ORDERS, OF_DANA)
        records.archive_rows(session, ADDRESSES, ADDRESSES.c.customer_id == "C-1")
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    assert [contents(database_url, f"shop.{name}") for name in ("orders", "addresses")] == before


def test_a_child_that_was_archived_earlier_stays_away(database_url):
    """django-safedelete #118."""
    with acting(database_url, FIRST) as session:
        records.archive_rows(session, ORDERS, ORDERS.c.id == "O-2")
    with acting(database_url, SECOND) as session:
        records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == "C-1")
        records.archive_rows(session, ORDERS, OF_DANA)
    with acting(database_url) as session:
        records.restore_rows(session, original(SECOND))
    there = rows(database_url, "SELECT id FROM shop.orders WHERE customer_id = 'C-1' ORDER BY id")
    assert there == [("O-1",), ("O-3",)]


def test_an_image_names_the_intent_and_the_qualified_table(database_url):
    with acting(database_url) as session:
        records.archive_rows(session, ORDERS, ORDERS.c.id == "O-1")
    kept = "SELECT tenant, CAST(intent_id AS text), target, image #>> '{before,total}'"
    assert rows(database_url, f"{kept} FROM takeback.tombstones") == [
        ("default", FIRST, "shop.orders", "129.00")
    ]


def test_an_image_that_was_put_back_is_used_up(database_url):
    with acting(database_url) as session:
        records.archive_rows(session, ORDERS, OF_DANA)
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    assert rows(database_url, "SELECT count(1) FROM takeback.tombstones") == [(0,)]


def test_nothing_is_deleted_on_nobodys_behalf(database_url):
    before = contents(database_url, "shop.orders")
    with pytest.raises(IntegrityError), acting(database_url, "") as session:
        records.archive_rows(session, ORDERS, OF_DANA)
    assert contents(database_url, "shop.orders") == before


def test_a_call_without_a_condition_is_refused_by_name(database_url):
    with acting(database_url) as session:
        with pytest.raises(ValueError, match="no condition"):
            records.archive_rows(session, ORDERS)
        with pytest.raises(ValueError, match="no condition"):
            records.update_rows(session, ORDERS, values={"status": "paid"})


def test_a_row_that_others_refer_to_is_not_archived(database_url):
    with pytest.raises(IntegrityError), acting(database_url) as session:
        records.archive_rows(session, ADDRESSES, ADDRESSES.c.id == 1)
    assert len(contents(database_url, "shop.addresses")) == 9


def test_columns_that_the_callers_table_object_does_not_know_come_back_too(database_url):
    known = Table("orders", MetaData(), ORDERS.c.id._copy(), schema="shop")
    before = contents(database_url, "shop.orders")
    with acting(database_url) as session:
        records.archive_rows(session, known, known.c.id == "O-1")
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    assert contents(database_url, "shop.orders") == before


def test_names_that_need_quotes_are_quoted_everywhere(database_url):
    run(
        database_url,
        'CREATE SCHEMA "odd ""s%%:name"',
        'CREATE TABLE "odd ""s%%:name"."ta ble%%s;--" ('
        ' "i d:x" integer PRIMARY KEY, "sel""ect%%(a)s" text, "plain" text)',
        "INSERT INTO \"odd \"\"s%%:name\".\"ta ble%%s;--\" VALUES (1, 'a', 'b'), (2, 'c', 'd')",
    )
    table = reflected(database_url, "ta ble%s;--", 'odd "s%:name')
    whole = '"odd ""s%%:name"."ta ble%%s;--"'
    before = contents(database_url, whole)
    with acting(database_url) as session:
        records.archive_rows(session, table, table.c["i d:x"] == 1)
        changed = records.update_rows(
            session, table, table.c["i d:x"] == 2, values={'sel"ect%(a)s': "new"}
        )
    assert changed[0][1]['sel"ect%(a)s'] == "new"
    with acting(database_url, SECOND) as session:
        assert records.find_drift(session, original()) == []
        records.restore_rows(session, original())
    assert contents(database_url, whole) == before


def test_a_column_of_the_tables_own_name_does_not_stand_for_the_row(database_url):
    run(
        database_url,
        "CREATE TABLE shop.label (id integer PRIMARY KEY, label text)",
        "INSERT INTO shop.label VALUES (1, 'fragile')",
    )
    table = reflected(database_url, "label", "shop")
    with acting(database_url) as session:
        gone = records.archive_rows(session, table, table.c.id == 1)
    assert gone == [{"id": 1, "label": "fragile"}]
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    assert contents(database_url, "shop.label") == ["(1,fragile)"]


VALUES = """
CREATE TYPE shop.mood AS ENUM ('good', 'bad');
CREATE TYPE shop.pair AS (a integer, b text);
CREATE TABLE shop.everything (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), big bigint, exact numeric, float_ float8,
    at timestamptz, local timestamp, day date, span interval, bytes bytea, words text[],
    grid integer[][], doc jsonb, mood shop.mood, pair shop.pair, range_ int4range, net inet,
    nothing text, empty text, bits bit varying, padded char(5));
INSERT INTO shop.everything (big, exact, float_, at, local, day, span, bytes, words, grid, doc,
    mood, pair, range_, net, empty, bits, padded)
VALUES (9007199254740993, 1.10, 0.1, '2026-10-01 00:00:00.000001+02', 'infinity', '0044-03-15 BC',
        '1 mon -2 days 03:04:05.000006', '\\x00ff27', '{"a,b","NULL",NULL,"\\"é{}"}',
        '{{1,2},{3,4}}', '{"n": 1e2, "deep": [1.50, "\\u00e9"]}', 'bad', '(1,"x,y")', '[1,5)',
        '10.0.0.1/8', '', '101', 'ab'),
       (-1, 'NaN', '-Infinity', '-infinity', NULL, NULL, NULL, '', '{}', '{}', 'null', NULL, NULL,
        'empty', NULL, ' ', '', '');
"""


def test_values_of_every_kind_come_back_as_they_were(database_url):
    run(database_url, VALUES)
    table = Table(
        "everything",
        MetaData(),
        Column("id", UUID, primary_key=True),
        Column("doc", JSONB),
        schema="shop",
    )
    before = contents(database_url, "shop.everything")
    with acting(database_url) as session:
        assert len(records.archive_rows(session, table, true())) == 2
    with acting(database_url, SECOND, time_zone="Pacific/Auckland") as session:
        records.restore_rows(session, original())
    assert contents(database_url, "shop.everything") == before


def test_an_identity_goes_on_counting_behind_the_rows_that_came_back(database_url):
    with acting(database_url) as session:
        records.archive_rows(session, ADDRESSES, ADDRESSES.c.id == 5)
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    run(
        database_url,
        "INSERT INTO shop.addresses (customer_id, kind, street, postcode, city, country)"
        " VALUES ('C-5', 'billing', 'a', 'b', 'c', 'PL')",
    )
    assert rows(database_url, "SELECT max(id) FROM shop.addresses") == [(10,)]
