"""The connectors' rows: locked before intents, by people who then wait for nobody."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from takeback.declare import Connector
from takeback.ledger.governing import (
    await_lanes,
    lock_lanes,
    register_lanes,
    write_lanes,
)
from takeback.ledger.transaction import Tx, adopt
from takeback.model.lane import closed

CONNECTORS = [Connector("bank", rate=4.0), Connector("post")]
NAMES = ["bank", "post"]


def ours(connection: psycopg.Connection[Any]) -> Tx:
    """The transaction of a worker."""
    tx = adopt(connection)
    tx.owned = True
    return tx


@pytest.fixture
def two(database_url: str) -> Iterator[tuple[psycopg.Connection[Any], psycopg.Connection[Any]]]:
    with psycopg.connect(database_url) as one, psycopg.connect(database_url) as other:
        register_lanes(adopt(one), CONNECTORS)
        one.commit()
        yield one, other


def test_a_row_is_made_once_with_a_full_bucket_and_found_ever_after(two):
    one, _ = two
    register_lanes(adopt(one), [Connector("bank", rate=400.0)])
    lanes = {lane.name: lane.tokens for lane in lock_lanes(ours(one), NAMES)}
    assert lanes == {"bank": 1.0, "post": 1.0}


def test_who_claims_tries_the_rows_and_waits_for_none(two):
    """Neither for one that is locked nor for one that is being written or made."""
    one, other = two
    (bank,) = lock_lanes(ours(one), ["bank"])
    write_lanes(adopt(one), [closed(bank)])
    other.execute("SET LOCAL lock_timeout = '2s'")
    register_lanes(adopt(other), CONNECTORS)
    assert [lane.name for lane in lock_lanes(ours(other), NAMES)] == ["post"]


def test_who_has_heard_something_waits_for_the_rows_until_they_are_free(two):
    one, other = two
    lock_lanes(ours(one), NAMES)
    other.execute("SET LOCAL lock_timeout = '50ms'")
    with pytest.raises(Exception, match="lost"):
        await_lanes(adopt(other), ["post"])
    other.rollback()
    one.commit()
    assert [lane.name for lane in await_lanes(adopt(other), ["post"])] == ["post"]


def test_a_worker_that_is_stopped_in_the_middle_of_a_claim_keeps_the_rows_for_a_while_only(two):
    """The server ends its transaction; nobody waits for its lease, nor for its death."""
    one, other = two
    assert len(lock_lanes(ours(one), NAMES, idle=timedelta(milliseconds=50))) == 2
    assert [lane.name for lane in await_lanes(adopt(other), NAMES)] == NAMES
    with pytest.raises(psycopg.Error):
        one.execute("SELECT 1")
