"""Rows that are overwritten or marked, and what somebody else does to them afterwards."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import Column, Integer, MetaData, Table, func
from sqlalchemy.orm import registry

from takeback import records
from takeback_shop.table import CUSTOMERS, TICKETS
from tests.records.household import (
    FIRST,
    SECOND,
    acting,
    contents,
    original,
    rows,
    run,
)

T7 = TICKETS.c.id == "T-7"


def close(url: str, intent: str = FIRST) -> None:
    with acting(url, intent) as session:
        records.update_rows(session, TICKETS, T7, values={"status": "closed"})


def drift(url: str, **session_settings: str) -> list[dict]:
    with acting(url, SECOND, **session_settings) as session:
        return records.find_drift(session, original())


def test_an_updated_row_is_set_back_to_what_it_was_counters_included(database_url):
    before = contents(database_url, "shop.tickets")
    close(database_url)
    changed = "SELECT status, version FROM shop.tickets WHERE id = 'T-7'"
    assert rows(database_url, changed) == [("closed", 4)]
    with acting(database_url, SECOND) as session:
        assert records.restore_rows(session, original()) == {"shop.tickets": 1}
    assert contents(database_url, "shop.tickets") == before


def test_an_update_answers_with_the_rows_before_and_after_it(database_url):
    with acting(database_url) as session:
        ((before, after),) = records.update_rows(session, TICKETS, T7, values={"note": "done"})
    assert (before["note"], after["note"]) == ("carrier says Thursday", "done")
    assert (before["version"], after["version"]) == (3, 4)


def test_a_row_that_one_intent_updates_twice_goes_back_to_where_it_began(database_url):
    before = contents(database_url, "shop.tickets")
    with acting(database_url) as session:
        records.update_rows(session, TICKETS, T7, values={"status": "open"})
        records.update_rows(session, TICKETS, T7, values={"status": "closed"})
    assert drift(database_url) == []
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    assert contents(database_url, "shop.tickets") == before


def test_a_marked_row_names_its_intent_and_the_databases_own_time(database_url):
    with acting(database_url) as session:
        now = session.scalar(func.takeback.now())
        records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == "C-1")
        mark = session.execute(
            CUSTOMERS.select()
            .with_only_columns(CUSTOMERS.c.deleted_by, CUSTOMERS.c.deleted_at)
            .where(CUSTOMERS.c.id == "C-1")
        ).one()
    assert str(mark.deleted_by) == FIRST
    assert mark.deleted_at >= now


def test_a_row_that_is_marked_already_is_not_marked_again(database_url):
    with acting(database_url) as session:
        records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == "C-1")
    with acting(database_url, SECOND) as session:
        assert records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == "C-1") == []
    assert rows(
        database_url, "SELECT CAST(deleted_by AS text) FROM shop.customers WHERE id='C-1'"
    ) == [(FIRST,)]


def test_a_marked_row_comes_back_equal_in_every_column(database_url):
    before = contents(database_url, "shop.customers")
    with acting(database_url) as session:
        records.mark_deleted(session, CUSTOMERS, CUSTOMERS.c.id == "C-1")
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    assert contents(database_url, "shop.customers") == before


def test_drift_names_each_field_that_somebody_changed_with_both_values(database_url):
    """intent #5095, karaoke #6."""
    close(database_url)
    assert drift(database_url) == []
    run(
        database_url,
        "UPDATE shop.tickets SET status = 'open', note = 'she called' WHERE id = 'T-7'",
    )
    assert drift(database_url) == [
        {"field": "status", "expected": "closed", "now": "open"},
        {"field": "note", "expected": "carrier says Thursday", "now": "she called"},
    ]


def test_a_change_that_was_changed_back_is_still_a_change(database_url):
    close(database_url)
    run(
        database_url,
        "UPDATE shop.tickets SET status = 'open' WHERE id = 'T-7'",
        "UPDATE shop.tickets SET status = 'closed' WHERE id = 'T-7'",
    )
    assert [one["field"] for one in drift(database_url)] == ["updated_at", "version"]


def test_drift_of_several_rows_says_which_row_it_is(database_url):
    with acting(database_url) as session:
        both = TICKETS.c.customer_id == "C-1"
        records.update_rows(session, TICKETS, both, values={"note": "moved"})
    run(database_url, "UPDATE shop.tickets SET note = 'no' WHERE id = 'T-8'")
    assert drift(database_url) == [
        {"field": "note", "expected": "moved", "now": "no", "row": "tickets T-8"}
    ]


def test_a_row_that_is_gone_differs_in_its_key(database_url):
    close(database_url)
    run(database_url, "DELETE FROM shop.tickets WHERE id = 'T-7'")
    assert drift(database_url) == [{"field": "id", "expected": "T-7", "now": None}]


def test_another_time_zone_is_no_drift(database_url):
    close(database_url)
    assert drift(database_url, time_zone="Asia/Kathmandu") == []


def test_a_row_that_was_looked_at_for_drift_stays_locked(database_url):
    close(database_url)
    with acting(database_url, SECOND) as session:
        records.find_drift(session, original())
        with (
            psycopg.connect(database_url) as person,
            pytest.raises(psycopg.errors.LockNotAvailable),
        ):
            person.execute("SELECT id FROM shop.tickets WHERE id = 'T-7' FOR UPDATE NOWAIT")


def test_drift_sees_what_a_person_commits_while_it_waits_for_the_row(database_url, waiting):
    close(database_url)
    with psycopg.connect(database_url) as person, ThreadPoolExecutor(1) as thread:
        person.execute("UPDATE shop.tickets SET status = 'open' WHERE id = 'T-7'")
        looking = thread.submit(drift, database_url)
        waiting(database_url)
        person.commit()
        found = looking.result(timeout=10)
    assert [(one["field"], one["now"]) for one in found] == [("status", "open")]


def test_an_update_keeps_what_a_person_commits_while_it_waits_for_the_row(database_url, waiting):
    with psycopg.connect(database_url) as person, ThreadPoolExecutor(1) as thread:
        person.execute("UPDATE shop.tickets SET note = 'by a person' WHERE id = 'T-7'")
        closing = thread.submit(close, database_url)
        waiting(database_url)
        person.commit()
        closing.result(timeout=10)
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original())
    there = "SELECT status, note, version FROM shop.tickets WHERE id = 'T-7'"
    assert rows(database_url, there) == [("pending", "by a person", 4)]


def test_what_a_forced_restore_overwrites_is_kept_as_an_image_of_the_restore(database_url):
    """zed #28676: restoring is destructive too."""
    before = contents(database_url, "shop.tickets")
    close(database_url)
    run(database_url, "UPDATE shop.tickets SET note = 'by a person' WHERE id = 'T-7'")
    edited = contents(database_url, "shop.tickets")
    with acting(database_url, SECOND) as session:
        records.restore_rows(session, original(FIRST))
    assert contents(database_url, "shop.tickets") == before
    with acting(database_url) as session:
        records.restore_rows(session, original(SECOND))
    assert contents(database_url, "shop.tickets") == edited


def test_pending_changes_of_the_callers_objects_are_written_first(database_url):
    class Ticket:
        """A mapped ticket."""

    registry().map_imperatively(Ticket, TICKETS)
    with acting(database_url) as session:
        ticket: Any = session.get(Ticket, "T-7")
        ticket.note = "in the session, not yet written"
        ((before, _),) = records.update_rows(session, TICKETS, T7, values={"status": "closed"})
    assert before["note"] == "in the session, not yet written"


def test_rows_without_a_primary_key_are_refused_before_anything_changes(database_url):
    keyless = Table("keyless", MetaData(), Column("n", Integer), schema="shop")
    with acting(database_url) as session, pytest.raises(ValueError, match="no primary key"):
        records.update_rows(session, keyless, keyless.c.n == 1, values={"n": 2})
