"""A caller's connection is as its owner likes it: the same is stored, or the reason is told."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from takeback.audit.verify import verify
from takeback.ledger.database import Database
from takeback.ledger.reading import list_intents, read_by_key, refs_between
from takeback.ledger.transaction import adopt
from takeback.model import command as commands
from takeback.model.errors import RetryTransaction, UnsupportedConnection
from takeback.model.evolve import fold
from takeback.model.intent import State
from tests.ledger.conftest import Connect
from tests.ledger.scribe import (
    TENANT,
    Scribe,
    apply,
    events_of,
    intent_of,
    record,
    record_many,
    recorded,
)

pytestmark = pytest.mark.session

ARGUMENTS = '{"note":"a \\\\ b \' c \\" d\\n","to":"zoë@exämple.com"}'

SETTINGS = {
    "German dates": "SET datestyle = 'German, DMY'",
    "another hemisphere": "SET timezone = 'Pacific/Auckland'",
    "a zone with half hours": "SET timezone = 'Asia/Kolkata'",
    "escaped bytes": "SET bytea_output = 'escape'",
    "intervals as SQL has them": "SET intervalstyle = 'sql_standard'",
    "no path": "SET search_path = ''",
    "a path with a decoy first": "SET search_path = decoy",
    "backslashes escape": "SET standard_conforming_strings = off",
    "coarse floats": "SET extra_float_digits = -15",
    "no index scans": "SET enable_indexscan = off",
    "generic plans": "SET plan_cache_mode = force_generic_plan",
    "custom plans": "SET plan_cache_mode = force_custom_plan",
    "no joins but merged ones": "SET enable_nestloop = off; SET enable_hashjoin = off",
    "Turkish case": "SET lc_time = 'C'; SET xmloption = document",
    "row security on": "SET row_security = off",
}

DECOY = """
CREATE SCHEMA decoy;
CREATE TABLE decoy.intents (id int);
CREATE TABLE decoy.events (id int);
CREATE FUNCTION decoy.now() RETURNS timestamptz LANGUAGE sql RETURN 'epoch'::timestamptz;
CREATE SEQUENCE decoy.events_position;
CREATE FUNCTION decoy.micros(timestamptz) RETURNS bigint LANGUAGE sql RETURN 0;
"""


def the_whole_path(connection: psycopg.Connection[Any], scribe: Scribe) -> None:
    """Recorded, found, listed, claimed, done: and each time what is read is what was written."""
    run = scribe.rng.randbytes(8).hex()
    entry = scribe.entry(ARGUMENTS, run=run, window_us=1, not_before_us=-1_000_001)
    minted = recorded(connection, entry)
    assert record(connection, entry).twin == minted.id
    assert len(record_many(connection, [scribe.due(run=run), scribe.due(run=run)])) == 2
    lease = timedelta(seconds=30)
    apply(connection, scribe, minted.id, commands.Release())
    done = apply(
        connection,
        scribe,
        minted.id,
        commands.Claim(worker="w", lease=lease),
        commands.Begin(lease=lease),
    )
    assert done.state is State.EXECUTING
    assert intent_of(connection, minted.id) == done
    assert fold([one.fact() for one in events_of(connection, minted.id)]) == done
    found = read_by_key(adopt(connection), TENANT, entry.event.key)
    assert found is not None
    assert found.bodies["arguments"]["to"] == "zoë@exämple.com"
    listed = list_intents(adopt(connection), TENANT, run=run, limit=10, age_us=60_000_000)
    assert len(listed) == 3
    refs = refs_between(adopt(connection), TENANT, "send_", "send_~", 100)
    assert refs == sorted(refs)
    assert set(refs) >= {one.intent.ref for one in listed}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS.keys())
def test_no_setting_of_a_session_changes_what_is_stored(
    connect: Connect, scribe: Scribe, database_url: str, setting: str
):
    connection = connect(autocommit=True)
    connection.execute(DECOY)
    connection.execute(setting.encode())
    connection.autocommit = False
    the_whole_path(connection, scribe)
    connection.commit()
    database = Database(database_url)
    verdict = verify(database)
    database.close()
    assert verdict.problems == ()
    assert verdict.intents == 3


CONNECTIONS: dict[str, Callable[[Connect], psycopg.Connection[Any]]] = {
    "rows as dicts": lambda connect: connect(row_factory=dict_row),
    "parameters bound by the client": lambda connect: connect(cursor_factory=psycopg.ClientCursor),
    "raw parameters": lambda connect: connect(cursor_factory=psycopg.RawCursor),
    "all prepared": lambda connect: connect(prepare_threshold=0),
    "none prepared": lambda connect: connect(prepare_threshold=None),
}


@pytest.mark.parametrize("make", CONNECTIONS.values(), ids=CONNECTIONS.keys())
def test_no_kind_of_connection_changes_what_is_stored(
    connect: Connect, scribe: Scribe, database_url: str, make
):
    connection = make(connect)
    for _ in range(7):  # psycopg prepares what it says for the sixth time
        the_whole_path(connection, scribe)
    connection.commit()
    database = Database(database_url)
    verdict = verify(database)
    database.close()
    assert verdict.problems == ()
    assert verdict.intents == 21


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
def test_a_connection_that_can_not_say_every_letter_is_refused_by_name(
    connect: Connect, scribe: Scribe, encoding: str
):
    connection = connect(client_encoding=encoding)
    with pytest.raises(UnsupportedConnection, match=f"'{encoding}'.*UTF8"):
        record(connection, scribe.entry(ARGUMENTS))
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_lock_timeout_of_a_millisecond_loses_no_recording(connect: Connect, scribe: Scribe):
    """Nothing that recording takes is ever waited for."""
    first, second = connect(), connect()
    second.execute("SET lock_timeout = '1ms'")
    entry = scribe.entry()
    recorded(first, entry)
    assert record(second, entry).answer == "busy"
    assert record(second, scribe.entry()).answer == "recorded"


def test_a_lock_timeout_that_ends_a_wait_loses_the_transaction_and_says_so(
    connect: Connect, scribe: Scribe
):
    first, second = connect(), connect()
    minted = recorded(first, scribe.entry())
    first.commit()
    apply(first, scribe, minted.id, commands.Cancel(by="dana", via="restore-00000000"))
    second.execute("SET lock_timeout = '1ms'")
    with pytest.raises(RetryTransaction):
        apply(second, scribe, minted.id, commands.Cancel(by="kim", via="restore-00000001"))
