"""The shop's tables: made and filled once, by whoever comes first, and put back for tests."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from takeback_shop import schema
from takeback_shop.digest import digest_at

COUNTS = {"customers": 8, "addresses": 9, "orders": 12, "tickets": 8}


def rows(url: str, query: str) -> list[tuple]:
    with psycopg.connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


@pytest.fixture
def shop_url(empty_database_url: str) -> str:
    schema.migrate(empty_database_url)
    return empty_database_url


def test_the_seeded_rows_are_those_that_are_promised(database_url):
    for table, count in COUNTS.items():
        assert rows(database_url, f"SELECT count(1) FROM shop.{table}") == [(count,)]
    dana = "SELECT name, email FROM shop.customers WHERE id = 'C-1'"
    assert rows(database_url, dana) == [("Dana Ruiz", "dana@example.com")]
    hers = "SELECT id FROM shop.orders WHERE customer_id = 'C-1' ORDER BY id"
    assert rows(database_url, hers) == [("O-1",), ("O-2",), ("O-3",)]
    live = "SELECT count(1) FROM shop.addresses WHERE customer_id = 'C-1'"
    assert rows(database_url, live) == [(2,)]
    assert rows(database_url, "SELECT status FROM shop.tickets WHERE id = 'T-7'") == [("pending",)]
    paid = "SELECT total, currency FROM shop.orders WHERE charge_id = 'ch_{}'"
    assert str(rows(database_url, paid.format(1))[0][0]) == "129.00"
    assert str(rows(database_url, paid.format(2))[0][0]) == "900.00"


def test_two_databases_are_seeded_with_the_same_rows_to_the_last_column(database_url, shop_url):
    assert digest_at(database_url) == digest_at(shop_url)


def test_migrating_again_changes_nothing_that_somebody_has_written(shop_url):
    with psycopg.connect(shop_url) as connection:
        connection.execute("DELETE FROM shop.tickets WHERE id = 'T-1'")
        connection.execute("UPDATE shop.customers SET name = 'D. Ruiz' WHERE id = 'C-1'")
    before = digest_at(shop_url)
    schema.migrate(shop_url)
    assert digest_at(shop_url) == before


def test_a_url_in_either_spelling_is_migrated(empty_database_url):
    other = make_url(empty_database_url).set(drivername="postgresql+psycopg")
    schema.migrate(other.render_as_string(hide_password=False))
    schema.migrate(empty_database_url)
    assert rows(empty_database_url, "SELECT count(1) FROM shop.orders") == [(12,)]


def test_two_processes_that_migrate_at_once_both_end_well(empty_database_url):
    """Both are held at the shop's lock, then let go at once."""
    program = "import sys; from takeback_shop import schema; schema.migrate(sys.argv[1])"
    with psycopg.connect(empty_database_url) as gate:
        gate.execute("SELECT pg_advisory_xact_lock(hashtextextended('takeback_shop.schema', 0))")
        processes = [
            subprocess.Popen([sys.executable, "-c", program, empty_database_url]) for _ in range(2)
        ]
        with psycopg.connect(empty_database_url, autocommit=True) as looker:
            until(
                looker,
                "SELECT count(1) = 2 FROM pg_locks WHERE locktype = 'advisory'"
                " AND NOT granted AND database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())",
            )
        gate.commit()
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    assert rows(empty_database_url, "SELECT count(1) FROM shop.customers") == [(8,)]


def until(looker: psycopg.Connection, condition: str) -> None:
    import threading

    pause = threading.Event()
    for _ in range(800):
        found = looker.execute(condition.encode()).fetchone()
        if found and found[0]:
            return
        pause.wait(0.025)
    raise AssertionError(f"it never came true: {condition}")


def test_four_threads_that_migrate_at_once_make_one_shop(empty_database_url):
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(schema.migrate, [empty_database_url] * 4))
    assert rows(empty_database_url, "SELECT count(1) FROM shop.customers") == [(8,)]


def test_a_reset_puts_every_table_back_inside_the_callers_transaction(shop_url):
    before = digest_at(shop_url)
    driver = make_url(shop_url).set(drivername="postgresql+psycopg")
    with psycopg.connect(shop_url) as connection:
        connection.execute("DELETE FROM shop.orders")
        connection.execute("UPDATE shop.tickets SET status = 'closed'")
    changed = digest_at(shop_url)
    with create_engine(driver, poolclass=NullPool).connect() as caller:
        schema.reset(caller)
        caller.rollback()
        assert digest_at(shop_url) == changed
        schema.reset(caller)
        caller.commit()
    assert digest_at(shop_url) == before


def test_the_next_address_gets_a_number_of_its_own(shop_url):
    made = (
        "INSERT INTO shop.addresses (customer_id, kind, street, postcode, city, country)"
        " VALUES ('C-2', 'billing', 'a', 'b', 'c', 'SE') RETURNING id, line"
    )
    assert rows(shop_url, made) == [(10, "a, b c")]


def test_a_change_is_counted_unless_it_names_the_version_itself(shop_url):
    changed = "UPDATE shop.orders SET status = 'paid' WHERE id = 'O-1' RETURNING version"
    assert rows(shop_url, changed) == [(2,)]
    put_back = (
        "UPDATE shop.orders SET status = 'shipped', version = 1, updated_at = placed_at"
        " WHERE id = 'O-1' RETURNING version, updated_at = placed_at"
    )
    assert rows(shop_url, put_back) == [(1, True)]
