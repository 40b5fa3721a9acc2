"""Intents are taken in one order, by one owner, with a clock and places read under the lock."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from psycopg import IsolationLevel

from takeback.ledger import claiming
from takeback.ledger.appending import append
from takeback.ledger.claiming import Queue, agenda
from takeback.ledger.locking import Taken, lock, lock_expired, lock_free, taken_of
from takeback.ledger.transaction import Tx, adopt
from takeback.model import command as commands
from takeback.model.errors import RetryTransaction
from takeback.model.intent import State, micros
from tests.ledger.conftest import Connect
from tests.ledger.scribe import (
    PATIENCE_SECONDS,
    TENANT,
    Scribe,
    apply,
    intent_of,
    is_waiting,
    recorded,
    take,
    until,
)

pytestmark = pytest.mark.session

TOOLS = {"send_customer_email": 1}
LEASE = timedelta(seconds=30)
OVER = timedelta(seconds=-1)
QUEUES = [Queue(lane="", priority=priority, room=100) for priority in (1, 0, -1)]


def lock_due(tx: Tx, tools: dict[str, int], limit: int) -> list[Taken]:
    rows = claiming.lock_due(tx, tools, QUEUES, limit, tenant=None)
    return [taken_of(row) for row in rows]


def test_ids_in_opposite_order_are_locked_in_one_order_and_deadlock_nobody(
    connect: Connect, scribe: Scribe, database_url: str
):
    one, two = connect(), connect()
    ids = [recorded(one, scribe.entry()).id for _ in range(2)]
    one.commit()
    take(one, *ids)
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(take, two, *reversed(ids))
        until(lambda: is_waiting(database_url, two.info.backend_pid), "the second to wait")
        take(one, *ids)
        one.commit()
        assert [taken.intent.id for taken in other.result(PATIENCE_SECONDS)] == ids


def test_the_clock_and_the_places_of_who_waits_are_read_after_the_wait(
    connect: Connect, scribe: Scribe, database_url: str
):
    """What it decides comes after what it waited for: in time, in version and in the log."""
    one, two = connect(), connect()
    minted = recorded(one, scribe.due())
    one.commit()
    (first,) = take(one, minted.id)
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(take, two, minted.id)
        until(lambda: is_waiting(database_url, two.info.backend_pid), "the second to wait")
        (moment,) = one.execute("SELECT takeback.micros(takeback.now())").fetchone() or (0,)
        (place,) = one.execute("SELECT nextval('takeback.events_position')").fetchone() or (0,)
        one.commit()
        (second,) = other.result(PATIENCE_SECONDS)
    assert second.intent == first.intent
    assert micros(second.now) > moment
    assert min(second.positions) > place


def test_what_is_answered_is_the_row_as_it_is_locked_not_as_it_was_seen(
    connect: Connect, scribe: Scribe, database_url: str
):
    one, two = connect(), connect()
    minted = recorded(one, scribe.due())
    one.commit()
    apply(one, scribe, minted.id, commands.Cancel(by="dana", via="restore-00000000"))
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(take, two, minted.id)
        until(lambda: is_waiting(database_url, two.info.backend_pid), "the second to wait")
        one.commit()
        (taken,) = other.result(PATIENCE_SECONDS)
    assert (taken.intent.state, taken.intent.version) == (State.CANCELLED, 2)


def test_a_row_that_changed_behind_the_snapshot_loses_the_transaction(
    connect: Connect, scribe: Scribe
):
    one, two = connect(), connect()
    two.isolation_level = IsolationLevel.REPEATABLE_READ
    minted = recorded(one, scribe.due())
    one.commit()
    two.execute("SELECT count(*) FROM takeback.intents")
    apply(one, scribe, minted.id, commands.Cancel(by="dana", via="restore-00000000"))
    one.commit()
    with pytest.raises(RetryTransaction):
        take(two, minted.id)


def test_workers_pass_by_what_somebody_else_holds(connect: Connect, scribe: Scribe):
    one, two = connect(), connect()
    ids = [recorded(one, scribe.due()).id for _ in range(3)]
    one.commit()
    take(one, ids[0])
    two.execute("SET lock_timeout = '1ms'")
    assert {taken.intent.id for taken in lock_due(adopt(two), TOOLS, 10)} == set(ids[1:])
    rows = [intent_of(two, id_) for id_ in ids]
    assert {taken.intent.id for taken in lock_free(adopt(two), rows)} == set(ids[1:])


def test_two_claims_at_once_share_no_intent(connect: Connect, scribe: Scribe):
    one, two = connect(), connect()
    ids = {recorded(one, scribe.due()).id for _ in range(10)}
    one.commit()
    first = {taken.intent.id for taken in lock_due(adopt(one), TOOLS, 6)}
    second = {taken.intent.id for taken in lock_due(adopt(two), TOOLS, 6)}
    assert len(first) == 6 and len(second) == 4
    assert first | second == ids


def test_the_longest_due_is_claimed_first_and_never_more_than_the_limit(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    ids = [
        recorded(tx, scribe.entry(window_us=0, not_before_us=-second * 1_000_000)).id
        for second in (5, 1, 9)
    ]
    tx.execute("UPDATE takeback.intents SET due_at = not_before")
    taken = lock_due(adopt(tx), TOOLS, 2)
    assert [one.intent.id for one in taken] == [ids[2], ids[0]]


@pytest.mark.parametrize(
    ("tools", "fields", "claimed"),
    [
        (TOOLS, {}, True),
        ({"send_customer_email": 2}, {}, True),
        ({"send_customer_email": 1}, {"tool_version": 2}, False),
        ({"another": 1}, {}, False),
        ({}, {}, False),
        (TOOLS, {"becomes": "held", "window_us": 60_000_000}, False),
        (TOOLS, {"becomes": "recorded", "effect": "local"}, False),
    ],
)
def test_a_worker_claims_what_is_due_of_tools_and_versions_that_it_has(
    connect: Connect, scribe: Scribe, tools: dict[str, int], fields, claimed: bool
):
    tx = connect()
    recorded(tx, scribe.due(**fields))
    assert len(lock_due(adopt(tx), tools, 10)) == claimed


def test_a_restore_is_claimed_by_who_has_the_tool_of_its_original(connect: Connect, scribe: Scribe):
    tx = connect()
    original = recorded(tx, scribe.local(tool="refund", tool_version=3))
    restore = recorded(tx, scribe.due(tool="restore", restores=str(original.id)))
    both = {"restore": 1, "refund": 3}
    assert [one.intent.id for one in lock_due(adopt(tx), both, 10)] == [restore.id]
    for missing in ({"restore": 1}, {"restore": 1, "refund": 2}, {"refund": 3}):
        assert lock_due(adopt(tx), missing, 10) == []


def test_leases_that_are_over_are_taken_and_those_that_last_are_not(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    over, lasting, begun = (recorded(tx, scribe.due()).id for _ in range(3))
    apply(tx, scribe, over, commands.Claim(worker="w", lease=OVER))
    apply(tx, scribe, lasting, commands.Claim(worker="w", lease=LEASE))
    apply(tx, scribe, begun, commands.Claim(worker="w", lease=LEASE), commands.Begin(lease=OVER))
    assert {one.intent.id for one in lock_expired(adopt(tx), 10)} == {over, begun}
    assert len(lock_expired(adopt(tx), 1)) == 1


def test_the_agenda_knows_the_next_due_instant_and_the_end_of_the_next_lease(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    assert agenda(adopt(tx), TOOLS).due_in is None
    recorded(tx, scribe.entry())
    recorded(tx, scribe.due(tool="another"))
    planned = agenda(adopt(tx), TOOLS)
    assert planned.due_in is not None
    assert timedelta(seconds=30) < planned.due_in <= timedelta(seconds=60)
    assert planned.lease_over_in is None
    owned = recorded(tx, scribe.due()).id
    apply(tx, scribe, owned, commands.Claim(worker="w", lease=OVER))
    over = agenda(adopt(tx), TOOLS).lease_over_in
    assert over is not None and over < timedelta(0)


def test_a_missing_intent_is_not_answered(connect: Connect, scribe: Scribe):
    tx = connect()
    minted = recorded(tx, scribe.entry())
    tx.rollback()
    assert lock(adopt(tx), TENANT, [minted.id]) == []


def test_nobody_is_locked_for_another_tenant(connect: Connect, scribe: Scribe):
    tx = connect()
    minted = recorded(tx, scribe.entry())
    assert lock(adopt(tx), "other", [minted.id]) == []
    (taken,) = lock(adopt(tx), TENANT, [minted.id])
    assert append(adopt(tx), [scribe.change(taken)])[0] == taken.intent
