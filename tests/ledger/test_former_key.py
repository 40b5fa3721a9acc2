"""A row's recipe changes: whoever asks with the old one or the new one, the call is one intent.

``old`` is the call as a process with the former recipe makes it, ``new`` as one with today's does.
"""

import multiprocessing
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from takeback.ledger.recording import key_lock
from takeback.model.errors import RetryTransaction
from tests.ledger.conftest import Connect
from tests.ledger.scribe import (
    PATIENCE_SECONDS,
    TENANT,
    Entry,
    Scribe,
    intent_of,
    is_waiting,
    record,
    record_many,
    recorded,
    until,
)
from tests.ledger.test_twin import LEVELS, SNAPSHOTS, at, ids

PROCESSES = 4
CALLS = 50
Recorder = Callable[[psycopg.Connection[Any], Entry], str]


def alone(tx: psycopg.Connection[Any], entry: Entry) -> str:
    """The answer of the statement that records one."""
    return record(tx, entry).answer


def in_batch(tx: psycopg.Connection[Any], entry: Entry) -> str:
    """What a batch makes of it; what it leaves out is asked for singly."""
    return "recorded" if record_many(tx, [entry]) else "left out"


def gates(tx: psycopg.Connection[Any], eye: psycopg.Connection[Any]) -> set[int]:
    """The gates that a transaction holds."""
    held = eye.execute(
        "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks "
        "WHERE locktype = 'advisory' AND objsubid = 1 AND pid = %s",
        [tx.info.backend_pid],
    ).fetchall()
    return {gate for (gate,) in held}


def gates_of(*entries: Entry) -> set[int]:
    return {key_lock(TENANT, entry.event.key) for entry in entries}


def count(tx: psycopg.Connection[Any], table: str = "intents") -> int:
    row = tx.execute(f"SELECT count(*) FROM takeback.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.session
@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_what_the_former_recipe_recorded_is_told_as_former_and_its_gates_are_held(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    tx, eye = at(connect, level), connect(autocommit=True)
    old, new = scribe.two_recipes()
    minted = recorded(tx, old)
    tx.commit()
    answer = record(tx, new)
    assert (answer.answer, answer.twin) == ("former", minted.id)
    assert gates(tx, eye) == gates_of(old, new)
    tx.commit()
    assert (count(tx), count(tx, "former_keys")) == (1, 0)


def test_of_several_former_recipes_the_first_that_has_a_twin_is_told(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    one, two, three = (scribe.entry() for _ in range(3))
    last = recorded(tx, three)
    asked = scribe.entry()
    keys = tuple(entry.event.key for entry in (one, two, three))
    assert record(tx, replace(asked, former_keys=keys)).twin == last.id
    second = recorded(tx, two)
    assert record(tx, replace(asked, former_keys=keys)).twin == second.id


@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_what_todays_recipe_recorded_is_found_by_whoever_knows_only_a_former_one(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    tx = at(connect, level)
    oldest, old, new = (scribe.entry() for _ in range(3))
    new = replace(new, former_keys=(old.event.key, oldest.event.key))
    minted = recorded(tx, new)
    assert record(tx, old).twin == minted.id
    tx.commit()
    for entry in (old, oldest, new):
        answer = record(tx, entry)
        assert (answer.answer, answer.twin) == ("found", minted.id)
    assert record_many(tx, [old, oldest]) == {}
    tx.commit()
    assert (count(tx), count(tx, "former_keys")) == (1, 2)


def test_a_recipe_that_is_put_back_finds_what_the_one_in_between_recorded(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    old, new = scribe.two_recipes()
    minted = recorded(tx, new)
    back = replace(old, former_keys=(new.event.key,))
    answer = record(tx, back)
    assert (answer.answer, answer.twin) == ("former", minted.id)


def test_a_claim_is_of_its_tenant(connect: Connect, scribe: Scribe):
    tx = connect()
    old, new = scribe.two_recipes()
    recorded(tx, new)
    assert record(tx, replace(old, tenant="other")).answer == "recorded"


def test_two_calls_that_only_the_former_recipe_takes_for_one_are_two(
    connect: Connect, scribe: Scribe
):
    """The first has claimed the key that they share: who knows only that one is told the first."""
    tx = connect()
    old, one = scribe.two_recipes()
    other = replace(scribe.entry(), former_keys=one.former_keys)
    first, second = recorded(tx, one), recorded(tx, other)
    assert record(tx, old).twin == first.id
    assert record(tx, one).twin == first.id
    assert record(tx, other).twin == second.id


def test_a_call_that_is_none_of_the_former_recipe_after_all_is_recorded_and_claims_nothing(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    old, new = scribe.two_recipes()
    first = recorded(tx, old)
    assert record(tx, new).answer == "former"
    minted = recorded(tx, replace(new, former_keys=()))
    assert record(tx, old).twin == first.id
    assert record(tx, replace(new, former_keys=())).twin == minted.id
    assert count(tx, "former_keys") == 0


# Generations.


def test_a_later_generation_is_opened_beside_a_claim_and_beside_a_former_twin(
    connect: Connect, scribe: Scribe
):
    """Both are of generation 0, which is over for whoever opens the next."""
    tx = connect()
    old, new = scribe.two_recipes()
    first = recorded(tx, new)
    next_old = recorded(tx, old.with_(generation=1, ref="a-00000001"))
    assert next_old.id != first.id
    other_old, other_new = scribe.two_recipes()
    recorded(tx, other_old)
    asked = other_new.with_(generation=1, ref="a-00000002")
    assert record(tx, asked).answer == "recorded"


def test_a_generation_is_claimed_under_its_number(connect: Connect, scribe: Scribe):
    tx = connect()
    old, new = scribe.two_recipes()
    recorded(tx, old)
    second = recorded(tx, new.with_(generation=1))
    assert record(tx, old.with_(generation=1, ref="a-00000001")).twin == second.id
    assert record(tx, old.with_(generation=2, ref="a-00000002")).answer == "recorded"


def test_a_former_twin_of_the_generation_asked_for_is_told(connect: Connect, scribe: Scribe):
    tx = connect()
    old, new = scribe.two_recipes()
    recorded(tx, old)
    second = recorded(tx, old.with_(generation=1, ref="a-00000001"))
    answer = record(tx, new.with_(generation=1))
    assert (answer.answer, answer.twin) == ("former", second.id)


# Both mid-flight.


@pytest.mark.parametrize("how", [alone, in_batch])
@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_the_old_is_busy_while_the_new_is_uncommitted_and_finds_it_after(
    connect: Connect, scribe: Scribe, level: IsolationLevel, how: Recorder
):
    first, second = connect(), at(connect, level)
    old, new = scribe.two_recipes()
    minted = recorded(first, new)
    assert how(second, old) in ("busy", "left out")
    first.commit()
    second.commit()
    assert how(second, old) in ("found", "left out")
    assert record(second, old).twin == minted.id
    assert count(first) == 1


@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_the_new_is_busy_while_the_old_is_uncommitted_and_is_told_it_after(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    first, second = connect(), at(connect, level)
    old, new = scribe.two_recipes()
    minted = recorded(first, old)
    assert record(second, new).answer == "busy"
    first.commit()
    second.commit()
    answer = record(second, new)
    assert (answer.answer, answer.twin) == ("former", minted.id)


@pytest.mark.parametrize("level", LEVELS, ids=ids)
def test_what_is_rolled_back_frees_its_key_and_its_claims(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    first, second = connect(), at(connect, level)
    old, new = scribe.two_recipes()
    recorded(first, new)
    assert record(second, old).answer == "busy"
    first.rollback()
    assert record(second, old).answer == "recorded"
    second.rollback()
    assert record(first, old).answer == "recorded"
    assert record(second, new).answer == "busy"
    first.rollback()
    assert record(second, new).answer == "recorded"


def test_who_is_told_busy_holds_no_gate(connect: Connect, scribe: Scribe):
    """Else a third caller of the new key would be busy for want of somebody who records nothing."""
    first, second, third, eye = connect(), connect(), connect(), connect(autocommit=True)
    old, new = scribe.two_recipes()
    recorded(first, old)
    assert record(second, new).answer == "busy"
    assert gates(second, eye) == set()
    first.rollback()
    assert record(third, new).answer == "recorded"


def test_two_who_have_the_recipes_the_other_way_round_do_not_refuse_each_other(
    connect: Connect, scribe: Scribe
):
    """A recipe put back while some processes have it still: all gates are tried in one order."""
    tx, eye = connect(), connect(autocommit=True)
    old, new = scribe.two_recipes()
    back = replace(old, former_keys=(new.event.key,))
    first, last = sorted(gates_of(old, new))
    for entry in (new, back):
        with connect() as holder:
            holder.execute("SELECT pg_advisory_xact_lock(%s)", [last])
            assert record(tx, entry).answer == "busy"
            assert gates(tx, eye) == set()
            holder.execute("SELECT pg_advisory_xact_lock(%s)", [first])
            assert record(tx, entry).answer == "busy"


def test_a_committed_twin_is_told_at_once_although_others_hold_its_gates(
    connect: Connect, scribe: Scribe
):
    """A repeat leaves the gates held for its transaction; the next does not wait for that."""
    tx, one, two = connect(), connect(), connect()
    old, new = scribe.two_recipes()
    minted = recorded(tx, old)
    tx.commit()
    assert record(one, new).answer == "former"
    again = record(two, new)
    assert (again.answer, again.twin) == ("former", minted.id)
    assert record(two, old).twin == minted.id
    other_old, other_new = scribe.two_recipes()
    claimed = recorded(tx, other_new)
    tx.commit()
    assert record(one, other_old).twin == claimed.id
    again = record(two, other_old)
    assert (again.answer, again.twin) == ("found", claimed.id)


# What a snapshot hides.


@pytest.mark.parametrize("how", [alone, in_batch])
@pytest.mark.parametrize("level", SNAPSHOTS, ids=ids)
def test_a_claim_behind_the_snapshot_loses_the_transaction(
    connect: Connect, scribe: Scribe, level: IsolationLevel, how: Recorder
):
    """The keys are different, so that no rule of the table of intents would stop it."""
    first, second = connect(), at(connect, level)
    old, new = scribe.two_recipes()
    second.execute("SELECT count(*) FROM takeback.intents")
    minted = recorded(first, new)
    first.commit()
    with pytest.raises(RetryTransaction):
        how(second, old)
    second.rollback()
    assert record(second, old).twin == minted.id


@pytest.mark.parametrize("level", SNAPSHOTS, ids=ids)
def test_a_former_twin_behind_the_snapshot_loses_the_transaction(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    first, second = connect(), at(connect, level)
    old, new = scribe.two_recipes()
    second.execute("SELECT count(*) FROM takeback.intents")
    minted = recorded(first, old)
    first.commit()
    with pytest.raises(RetryTransaction):
        record(second, new)
    second.rollback()
    assert record(second, new).twin == minted.id


@pytest.mark.parametrize("level", SNAPSHOTS, ids=ids)
def test_what_is_put_in_the_way_of_hidden_rows_is_taken_back(
    connect: Connect, scribe: Scribe, level: IsolationLevel
):
    tx = at(connect, level)
    recorded(tx, scribe.two_recipes()[1])
    tx.commit()
    old, new = scribe.two_recipes()
    minted = [recorded(tx, new), recorded(tx, scribe.entry())]
    assert len(record_many(tx, [scribe.entry(), scribe.entry()])) == 2
    tx.commit()
    assert (count(tx), count(tx, "events"), count(tx, "former_keys")) == (5, 5, 2)
    assert intent_of(tx, minted[0].id).key == new.event.key
    assert record(tx, old).twin == minted[0].id


def test_two_that_record_different_calls_under_serializable_do_not_refuse_each_other(
    connect: Connect, scribe: Scribe
):
    """Looking for claims by reading would: each would have read where the other then writes."""
    tx = connect()
    for _ in range(300):
        recorded(tx, scribe.two_recipes()[1])
    tx.commit()
    tx.execute("ANALYZE takeback.former_keys")
    tx.commit()
    one, two = at(connect, LEVELS[2]), at(connect, LEVELS[2])
    held = """
        SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation
        WHERE mode = 'SIReadLock' AND starts_with(relname, 'former_keys')
    """
    recorded(one, scribe.entry())
    recorded(two, scribe.entry())
    assert tx.execute(held).fetchone() == (0,)


@pytest.mark.session
def test_a_claim_that_commits_between_the_look_and_the_gate_is_found_by_a_batch(
    connect: Connect, scribe: Scribe, database_url: str
):
    """A batch has one snapshot; what it asks under the gate sees what committed since."""
    first, second = connect(), connect()
    recorded(first, scribe.two_recipes()[1])
    first.commit()
    old, new = scribe.two_recipes()
    tap = connect()
    tap.execute("LOCK TABLE takeback.former_keys IN ACCESS EXCLUSIVE MODE")
    with ThreadPoolExecutor(1) as beside:
        # The batch has its snapshot, and the gate, and waits to look who has claimed the key.
        batch = beside.submit(record_many, second, [old])
        until(lambda: is_waiting(database_url, second.info.backend_pid), "the batch to wait")
        tap.execute(
            "INSERT INTO takeback.former_keys VALUES (%s, %s, 0, %s)",
            [TENANT, old.event.key, first.execute("SELECT gen_random_uuid()").fetchone()[0]],  # type: ignore[index]
        )
        tap.commit()
        assert batch.result(PATIENCE_SECONDS) == {}
    assert new.former_keys == (old.event.key,)


# Many at once.


def call_again_and_again(url: str, seed: int, call: Entry, started: Any) -> set[Any]:
    """Fifty equal calls, each in a transaction of its own; the ids that they were answered with."""
    scribe = Scribe(random.Random(seed))
    told = set()
    with psycopg.connect(url) as tx:
        started.wait(PATIENCE_SECONDS)
        for _ in range(CALLS):
            again = scribe.entry()
            entry = replace(call.with_(ref=again.event.ref), salt=again.salt)
            while (answer := record(tx, entry)).answer in ("busy", "shadowed"):
                tx.rollback()
            told.add(answer.minted.id if answer.minted else answer.twin)
            tx.commit()
    return told


@pytest.mark.session
@pytest.mark.parametrize("number", range(3))
def test_four_processes_half_of_them_with_the_old_recipe_make_one_intent(
    connect: Connect, scribe: Scribe, database_url: str, number: int
):
    calls = scribe.two_recipes()
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, context.Pool(PROCESSES) as pool:
        started = manager.Barrier(PROCESSES)
        told = pool.starmap(
            call_again_and_again,
            [(database_url, seed, calls[seed % 2], started) for seed in range(PROCESSES)],
        )
    assert len(set().union(*told)) == 1
    assert count(connect()) == 1
