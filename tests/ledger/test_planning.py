"""Plans are kept on connections where nothing but our statements runs, and nowhere else."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from takeback.ledger.claiming import agenda
from takeback.ledger.database import Database
from takeback.ledger.transaction import Tx
from takeback.model.errors import DatabaseUnavailable
from tests import services
from tests.pooler import pooler, through

pytestmark = pytest.mark.session

PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE generic_plans > 0"
SETTINGS = """
SELECT current_setting('plan_cache_mode'), current_setting('enable_seqscan'),
       current_setting('jit')
"""
KEPT = ("force_generic_plan", "off", "off")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as found:
        yield found


def said(tx: Tx, statement: str) -> tuple[Any, ...]:
    row = tx.raw.execute(statement, prepare=False).fetchone()
    assert row is not None
    return tuple(row)


def test_our_own_statements_are_planned_once_for_a_connection(database):
    for _ in range(3):
        with database.internal_transaction() as tx:
            agenda(tx, {"pay": 1})
            assert said(tx, PREPARED) == (1,)
            assert said(tx, SETTINGS) == KEPT


def test_where_a_handler_may_speak_too_the_server_is_as_it_was(database):
    with database.internal_transaction() as tx:
        agenda(tx, {"pay": 1})
    with database.transaction() as tx:
        agenda(tx, {"pay": 1})
        assert said(tx, SETTINGS) not in (KEPT, ())
        assert said(tx, PREPARED) == (0,)


def test_behind_a_pooler_each_transaction_says_it_and_nothing_is_prepared(databases, database_url):
    with (
        pooler(services.require("pgbouncer"), databases.server_url, pool_size=1) as url,
        closing(Database(through(url, database_url))) as database,
    ):
        for _ in range(3):
            with database.internal_transaction() as tx:
                agenda(tx, {"pay": 1})
                assert said(tx, SETTINGS)[1:] == KEPT[1:]
                assert said(tx, PREPARED) == (0,)
        with database.transaction() as tx:
            assert said(tx, SETTINGS)[1] == "on", "it ended with its transaction"


@pytest.mark.parametrize("loss", ["DEALLOCATE ALL", "PREPARE _pg3_0 AS SELECT 1"])
def test_what_is_prepared_and_lost_costs_one_failure_and_nothing_is_prepared_any_more(
    database, loss
):
    """A pooler that hands on the server's own number, and then another server."""
    with database.internal_transaction() as tx:
        if loss == "DEALLOCATE ALL":
            agenda(tx, {"pay": 1})
        said_once(tx, loss)
    with (
        pytest.raises(DatabaseUnavailable, match="nothing is"),
        database.internal_transaction() as tx,
    ):
        agenda(tx, {"pay": 1})
    for _ in range(2):
        with database.internal_transaction() as tx:
            agenda(tx, {"pay": 1})
            assert said(tx, PREPARED) == (0,)


@pytest.mark.parametrize(("seconds", "others"), [(300, 1), (0, 3)])
def test_a_plan_is_kept_for_minutes_and_made_anew_then(database_url, seconds, others):
    """It goes with its connection."""
    with closing(Database(database_url, plan_seconds_max=seconds)) as database:
        found = set()
        for _ in range(3):
            with database.internal_transaction() as tx:
                found.add(said(tx, "SELECT pg_backend_pid()"))
        assert len(found) == others
        with database.transaction() as tx:
            first = said(tx, "SELECT pg_backend_pid()")
        with database.transaction() as tx:
            assert said(tx, "SELECT pg_backend_pid()") == first


def said_once(tx: Tx, statement: str) -> None:
    tx.raw.pgconn.exec_(statement.encode())
