"""What is read of intents is what was written of them, narrowed as it was asked for."""

import random
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from takeback.ledger import reading
from takeback.ledger.audit_reading import snapshot
from takeback.ledger.database import Database
from takeback.ledger.recording import record
from takeback.ledger.transaction import Tx, adopt
from takeback.model import command as commands
from takeback.model.errors import NoTransaction
from tests.ledger.conftest import Connect
from tests.ledger.scribe import TENANT, Entry, Scribe, apply, intent_of, recorded


@pytest.fixture
def tx(connect: Connect) -> psycopg.Connection[Any]:
    return connect()


def refs(entries: list[reading.Entry]) -> list[str]:
    return [entry.intent.ref for entry in entries]


def test_an_intent_is_read_by_its_id_its_ref_and_its_key(tx, scribe: Scribe):
    entry = scribe.entry('{"to":"zoë"}')
    minted = recorded(tx, entry)
    read = [
        reading.read(adopt(tx), TENANT, minted.id),
        reading.read_by_ref(adopt(tx), TENANT, entry.event.ref),
        reading.read_by_key(adopt(tx), TENANT, entry.event.key),
    ]
    for one in read:
        assert one is not None
        assert one.intent == intent_of(tx, minted.id)
        assert one.bodies == {"arguments": {"to": "zoë"}}
        assert one.now >= one.intent.recorded_at


def test_what_is_not_there_or_another_tenants_is_not_read(tx, scribe: Scribe):
    entry = scribe.entry()
    minted = recorded(tx, entry)
    assert reading.read(adopt(tx), "other", minted.id) is None
    assert reading.read_by_ref(adopt(tx), "other", entry.event.ref) is None
    assert reading.read_by_key(adopt(tx), "other", entry.event.key) is None
    assert reading.read_by_ref(adopt(tx), TENANT, "nobody-00000000") is None
    assert reading.history(adopt(tx), "other", minted.id) == []


def test_a_key_is_read_in_its_latest_generation(tx, scribe: Scribe):
    entry = scribe.entry()
    recorded(tx, entry)
    later = recorded(tx, entry.with_(generation=1, ref="a-00000001"))
    found = reading.read_by_key(adopt(tx), TENANT, entry.event.key)
    assert found is not None and found.intent.id == later.id


@pytest.mark.parametrize("run", [None, "run-a"], ids=["tenant", "run"])
@pytest.mark.parametrize(
    ("narrowed", "expected"),
    [
        ({}, [3, 2, 1, 0]),
        ({"limit": 2}, [3, 2]),
        ({"state": "cancelled"}, [1]),
        ({"tool": "other"}, [2]),
        ({"state": "held", "tool": "other"}, []),
        ({"state": "held", "tool": "send_customer_email"}, [3, 0]),
        ({"age_us": 3_600_000_000}, [3, 2, 1, 0]),
        ({"age_us": 0}, []),
    ],
)
def test_a_list_is_narrowed_and_begins_with_the_newest(
    tx, scribe: Scribe, run: str | None, narrowed: dict[str, Any], expected: list[int]
):
    entries = [
        scribe.entry(run="run-a"),
        scribe.entry(run="run-a"),
        scribe.due(run="run-a", tool="other"),
        scribe.entry(run="run-a"),
    ]
    minted = [recorded(tx, entry) for entry in entries]
    apply(tx, scribe, minted[1].id, commands.Cancel(by="dana", via="restore-00000000"))
    if run is not None:
        recorded(tx, scribe.entry(run="run-b"))
        recorded(tx, scribe.entry(run=None))
    listed = reading.list_intents(adopt(tx), TENANT, run=run, **({"limit": 10} | narrowed))
    assert refs(listed) == [entries[n].event.ref for n in expected]


def test_refs_are_found_between_two_in_the_order_of_their_bytes(
    tx, rng: random.Random, scribe: Scribe
):
    """A locale would put "_" and "~" elsewhere, and miss look-alikes."""
    names = ["a-0", "a-Z", "a_b-0", "aA-0", "ab-0", "b-0"]
    for name in rng.sample(names, len(names)):
        recorded(tx, scribe.entry(ref=name))
    between: Callable[..., list[str]] = reading.refs_between
    assert between(adopt(tx), TENANT, "a-", "a-~", 10) == ["a-0", "a-Z"]
    assert between(adopt(tx), TENANT, "a", "b", 10) == ["a-0", "a-Z", "aA-0", "a_b-0", "ab-0"]
    assert between(adopt(tx), TENANT, "a", "b", 2) == ["a-0", "a-Z"]


def test_a_snapshot_sees_one_moment_and_writes_nothing(tx, scribe: Scribe, database_url: str):
    database = Database(database_url)
    with snapshot(database) as moment:
        assert reading.list_intents(moment, TENANT, limit=10) == []
        recorded(tx, scribe.entry())
        tx.commit()
        assert reading.list_intents(moment, TENANT, limit=10) == []
        with pytest.raises(NoTransaction, match="read-only"):
            write(moment, scribe.entry())
    with database.statements() as after:
        assert len(reading.list_intents(after, TENANT, limit=10)) == 1
    database.close()


def write(moment: Tx, entry: Entry) -> None:
    record(moment, TENANT, entry.event, arguments=entry.arguments, salt=entry.salt)
