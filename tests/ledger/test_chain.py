"""The database links events as the model does, to the byte, and many writers fork no chain."""

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from takeback.audit.verify import verify
from takeback.ledger.database import Database
from takeback.ledger.locking import lock
from takeback.ledger.transaction import adopt
from takeback.model import command as commands
from takeback.model.chain import GENESIS, chain_hash
from takeback.model.intent import State
from tests.ledger.conftest import Connect
from tests.ledger.scribe import TENANT, Scribe, apply, events_of, recorded

# What Postgres can hold as text: no NUL, no lone surrogate.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60)
INT4 = st.integers(-(2**31), 2**31 - 1)
INT8 = st.integers(-(2**63), 2**63 - 1)
FIELDS = {
    "previous": st.binary(min_size=32, max_size=32),
    "tenant": TEXT,
    "intent_id": st.uuids(),
    "version": INT4,
    "position": INT8,
    "kind": TEXT,
    "schema": INT4,
    "at_us": INT8,
    "payload": TEXT,
}
IN_SQL = """
SELECT takeback.chain_hash(
    CAST(%(previous)s AS bytea), CAST(%(tenant)s AS text), CAST(%(intent_id)s AS uuid),
    CAST(%(version)s AS int), CAST(%(position)s AS bigint), CAST(%(kind)s AS text),
    CAST(%(schema)s AS int), CAST(%(at_us)s AS bigint), CAST(%(payload)s AS text))
"""
WRITERS, EVENTS = 4, 200
LEASE = timedelta(seconds=30)


@pytest.fixture
def tx(connect: Connect) -> psycopg.Connection[Any]:
    """One connection for all examples of a test."""
    return connect()


@given(fields=st.fixed_dictionaries(FIELDS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_the_database_and_the_model_take_the_same_hash(tx, fields: dict[str, Any]):
    row = tx.execute(IN_SQL, fields).fetchone()
    assert row == (chain_hash(**fields),)


def test_the_database_takes_the_golden_hash(connect: Connect):
    fields = {
        "previous": GENESIS,
        "tenant": "default",
        "intent_id": UUID("01890a5d-ac96-774b-bcce-b302099a8057"),
        "version": 1,
        "position": 1,
        "kind": "intent.due",
        "schema": 1,
        "at_us": 0,
        "payload": "{}",
    }
    (taken,) = connect().execute(IN_SQL, fields).fetchone() or (b"",)
    assert taken.hex() == "45afc532b9d6c79fb1859f68275f5678bcca54a8852c0eb38ce3266e559a132e"


@pytest.mark.parametrize("micros", [0, 1, -1, 2**53 + 1, 253_402_300_799_999_999])
def test_an_instant_survives_its_way_into_the_database_and_back(connect: Connect, micros: int):
    tx = connect()
    row = tx.execute("SELECT takeback.micros(takeback.instant(%s::bigint))", [micros]).fetchone()
    assert row == (micros,)


@given(micros=st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_no_instant_that_python_knows_loses_a_microsecond(tx, micros: int):
    tx.execute("SET timezone = 'America/New_York'")
    row = tx.execute("SELECT takeback.micros(takeback.instant(%s::bigint))", [micros]).fetchone()
    assert row == (micros,)


def append_a_life(url: str, dice: random.Random, ids: list[UUID], count: int) -> int:
    """Claims, begins and defers one of the intents, over and over, with others at the same rows."""
    scribe = Scribe(dice)
    appended = 0
    with psycopg.connect(url) as tx:
        tx.execute("SET synchronous_commit = off")
        tx.commit()
        while appended < count:
            (taken,) = lock(adopt(tx), TENANT, [dice.choice(ids)])
            assert taken.intent.state is State.DUE
            steps: list[commands.Command] = [
                commands.Claim(worker="w", lease=LEASE),
                commands.HandBack(),
            ]
            apply(tx, scribe, taken.intent.id, *steps)
            appended += len(steps)
            tx.commit()
    return appended


@pytest.mark.session
def test_four_writers_at_the_same_intents_fork_no_chain(
    database_url: str, connect: Connect, rng: random.Random
):
    """Containarium #1326."""
    tx, scribe = connect(), Scribe(rng)
    ids = [recorded(tx, scribe.due()).id for _ in range(3)]
    tx.commit()
    dice = [random.Random(rng.random()) for _ in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        work = [pool.submit(append_a_life, database_url, one, ids, EVENTS) for one in dice]
    assert sum(one.result() for one in work) == WRITERS * EVENTS
    database = Database(database_url)
    verdict = verify(database)
    database.close()
    assert verdict.problems == ()
    assert verdict.events == WRITERS * EVENTS + len(ids)
    for id_ in ids:
        events = events_of(tx, id_)
        assert [one.version for one in events] == list(range(1, len(events) + 1))
        assert [one.position for one in events] == sorted(one.position for one in events)
