"""``delete_customer``: a customer leaves with orders and addresses, and the same come back."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from takeback import records
from takeback_shop.table import ORDERS

LIVE = "SELECT id FROM shop.customers WHERE deleted_by IS NULL ORDER BY id"
DANAS_ORDERS = "SELECT id FROM shop.orders WHERE customer_id = 'C-1' ORDER BY id"


def delete(shop, customer_id="C-1", **said):
    return shop.call("delete_customer", customer_id=customer_id, **said)


def test_the_answer_names_the_customer_and_counts_what_went_along(shop):
    """S2.20."""
    done = delete(shop)
    assert done.status == "done"
    assert done.summary == "Customer C-1, Dana Ruiz, is deleted with 3 orders and 2 addresses."
    assert done["affected_count"] == 6
    assert done["affected"][0] == {"kind": "customer", "id": "C-1", "label": "Dana Ruiz"}
    assert [one["id"] for one in done["affected"][1:4]] == ["O-1", "O-2", "O-3"]


def test_the_customer_is_marked_and_orders_and_addresses_are_gone(shop):
    done = delete(shop)
    assert ("C-1",) not in shop.rows(LIVE)
    assert shop.rows(DANAS_ORDERS) == []
    assert shop.value("SELECT count(1) FROM shop.addresses WHERE customer_id = 'C-1'") == 0
    by = shop.value("SELECT CAST(deleted_by AS text) FROM shop.customers WHERE id = 'C-1'")
    assert by == str(shop.app.show(done.ref).entry.intent.id)


def test_tickets_stay_as_they_are(shop):
    tickets = "SELECT CAST(t AS text) FROM shop.tickets AS t ORDER BY id"
    before = shop.rows(tickets)
    delete(shop)
    assert shop.rows(tickets) == before


def test_the_restore_call_as_it_came_brings_back_every_row_equal_in_every_column(shop):
    """S2.20: ironclaw #701."""
    before = shop.digest()
    done = delete(shop)
    assert done.restore["tool"] == "restore"
    back = shop.restore(done)
    assert back.summary == "Customer C-1, Dana Ruiz, is back with 3 orders and 2 addresses."
    assert back["affected_count"] == 6
    assert shop.digest() == before


def test_the_restore_says_until_when_it_is_possible(shop):
    """S2.20."""
    done = delete(shop)
    in_days = f"SELECT CAST('{done.restore['until']}' AS timestamptz) - now()"
    assert timedelta(days=29, hours=23) < shop.value(in_days) <= timedelta(days=30)


@contextmanager
def session(shop):
    with Session(shop.engine) as joined, joined.begin():
        yield joined


@contextmanager
def connection(shop):
    with shop.engine.begin() as joined:
        yield joined


@contextmanager
def driver(shop):
    with psycopg.connect(shop.url) as joined:
        yield joined


@contextmanager
def driver_with_rows_as_dictionaries(shop):
    with psycopg.connect(shop.url, row_factory=dict_row) as joined:
        yield joined


@contextmanager
def serializable(shop):
    engine = shop.engine.execution_options(isolation_level="SERIALIZABLE")
    with Session(engine) as joined, joined.begin():
        yield joined


@pytest.mark.parametrize(
    "caller",
    [session, connection, driver, driver_with_rows_as_dictionaries, serializable],
)
def test_deleting_and_restoring_join_whatever_transaction_the_caller_has(shop, caller):
    before = shop.digest()
    with caller(shop) as tx:
        done = delete(shop, tx=tx)
    assert shop.digest() != before
    with caller(shop) as tx:
        assert shop.app.restore(tx, done.ref).status == "done"
    assert shop.digest() == before


async def test_deleting_and_restoring_join_an_async_session(shop):
    before = shop.digest()
    url = make_url(shop.url).set(drivername="postgresql+psycopg")
    engine = create_async_engine(url, poolclass=NullPool)
    async with AsyncSession(engine) as tx, tx.begin():
        done = await shop.app.acall(tx, "delete_customer", {"customer_id": "C-1"})
    assert done.status == "done"
    async with AsyncSession(engine) as tx, tx.begin():
        assert (await shop.app.arestore(tx, done.ref)).status == "done"
    assert shop.digest() == before
    await engine.dispose()


def test_an_order_that_was_archived_earlier_stays_away(shop):
    """django-safedelete #118."""
    earlier = "01990000-0000-7000-8000-000000000001"
    with Session(shop.engine) as tx, tx.begin():
        tx.execute(
            text(
                "SELECT set_config('takeback.tenant', 'default', true),"
                " set_config('takeback.intent', :intent, true)"
            ),
            {"intent": earlier},
        )
        records.archive_rows(tx, ORDERS, ORDERS.c.id == "O-2")
    without = shop.digest()
    done = delete(shop)
    assert done["affected_count"] == 5
    shop.restore(done)
    assert shop.rows(DANAS_ORDERS) == [("O-1",), ("O-3",)]
    assert shop.digest() == without


def test_an_order_that_somebody_is_adding_at_this_moment_goes_along(shop, waiting):
    with psycopg.connect(shop.url) as person, ThreadPoolExecutor(1) as thread:
        person.execute(
            "INSERT INTO shop.orders (id, customer_id, address_id, status, total, currency,"
            " charge_id, items, placed_at)"
            " VALUES ('O-99', 'C-1', 1, 'paid', 1, 'EUR', 'ch_99', '[]', now())"
        )
        deleting = thread.submit(delete, shop)
        waiting()
        person.commit()
        done = deleting.result(timeout=20)
    assert done["affected_count"] == 7
    assert shop.rows(DANAS_ORDERS) == []


def test_the_address_of_a_deleted_customer_is_free_for_another(shop):
    """devlane #376."""
    delete(shop)
    shop.person(
        "INSERT INTO shop.customers (id, name, email) VALUES ('C-9', 'Dana', 'dana@example.com')"
    )
    assert ("C-9",) in shop.rows(LIVE)


def test_a_live_twin_is_a_conflict_that_names_both_and_the_way_out(shop):
    """superset #40130."""
    before = shop.digest()
    done = delete(shop)
    shop.person(
        "INSERT INTO shop.customers (id, name, email) VALUES ('C-9', 'Dana', 'dana@example.com')"
    )
    refused = shop.restore(done)
    assert (refused.status, refused.code) == ("refused", "restore_conflict")
    assert "customers C-1" in refused.error["message"]
    assert "customers C-9 has the same email now" in refused.error["message"]
    assert "then ask again" in refused.error["message"]
    assert shop.rows(DANAS_ORDERS) == []
    shop.person("DELETE FROM shop.customers WHERE id = 'C-9'")
    assert shop.restore(done).status == "done"
    assert shop.digest() == before


def test_a_deleted_customer_whom_somebody_has_edited_since_is_not_overwritten(shop):
    done = delete(shop)
    shop.person("UPDATE shop.customers SET name = 'Dana R.' WHERE id = 'C-1'")
    refused = shop.restore(done)
    assert [one["field"] for one in refused.error["violations"]] == ["name"]


def test_an_unknown_customer_is_refused_with_the_nearest_first_and_nothing_is_recorded(shop):
    refused = delete(shop, "c1")
    (violation,) = refused.error["violations"]
    assert (violation["field"], violation["permitted"][0]) == ("customer_id", "C-1")
    assert "the nearest are: C-1" in violation["message"]
    assert shop.intents == 0


def test_a_customer_that_somebody_else_has_deleted_is_refused_by_name(shop):
    shop.person(
        "UPDATE shop.customers SET deleted_by = gen_random_uuid(), deleted_at = '2026-10-30 12:00Z'"
        " WHERE id = 'C-1'"
    )
    refused = delete(shop)
    (violation,) = refused.error["violations"]
    assert violation["message"].startswith("was deleted already, on 2026-10-30")
    assert violation["field"] == "customer_id"


def test_a_customer_that_was_refused_as_deleted_can_be_deleted_when_she_is_back(shop):
    shop.person(
        "UPDATE shop.customers SET deleted_by = gen_random_uuid(), deleted_at = now()"
        " WHERE id = 'C-1'"
    )
    assert delete(shop).status == "refused"
    shop.person("UPDATE shop.customers SET deleted_by = NULL, deleted_at = NULL WHERE id = 'C-1'")
    assert delete(shop).status == "done"


def test_a_late_retry_of_a_deletion_that_was_taken_back_deletes_nothing(shop):
    shop.restore(delete(shop))
    again = delete(shop)
    assert (again.status, again.replayed) == ("taken_back", True)
    assert again["taken_back_by"] == "agent:support"
    assert ("C-1",) in shop.rows(LIVE)


def test_a_deletion_that_is_meant_once_more_has_a_restore_of_its_own(shop):
    before = shop.digest()
    first = delete(shop)
    shop.restore(first)
    second = delete(shop, repeat_of=first.ref)
    assert (second.status, second.replayed) == ("done", False)
    shop.restore(second)
    assert shop.digest() == before


def test_after_its_retention_a_deletion_can_not_be_taken_back(shop, later):
    """S2.23."""
    done = delete(shop)
    later(timedelta(days=31))
    refused = shop.restore(done)
    assert (refused.status, refused.code) == ("refused", "restore_expired")


def test_the_log_of_deleting_and_restoring_verifies(shop):
    shop.restore(shop.restore(delete(shop)))
    assert list(shop.app.verify().problems) == []
