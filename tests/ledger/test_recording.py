"""A call is recorded once: what comes of it alone, twice, and in one transaction with others."""

from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from psycopg.errors import UniqueViolation

from takeback.ledger.recording import key_lock
from takeback.model.chain import GENESIS, body_digest, chain_hash
from takeback.model.errors import LedgerCorrupt
from takeback.model.event import encode
from takeback.model.evolve import fold
from takeback.model.intent import State, instant, micros
from tests.ledger.conftest import Connect
from tests.ledger.scribe import (
    TENANT,
    Scribe,
    events_of,
    intent_of,
    record,
    record_many,
    recorded,
)


def test_a_recorded_call_is_an_intent_its_first_event_and_its_arguments(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    entry = scribe.entry()
    minted = recorded(tx, entry)
    (stored,) = events_of(tx, minted.id)
    row = intent_of(tx, minted.id)
    assert (stored.version, stored.kind, stored.payload) == (
        1,
        "intent.recorded",
        encode(entry.event),
    )
    assert fold([stored.fact()]) == row
    assert row.state is State.HELD
    assert row.due_at == row.recorded_at + timedelta(seconds=60)
    assert row.recorded_at == minted.recorded_at
    assert row.head_hash == stored.hash == minted.head_hash
    body = tx.execute("SELECT version, name, salt, body FROM takeback.bodies").fetchall()
    assert body == [(1, "arguments", entry.salt, entry.arguments)]
    assert body_digest(entry.salt, entry.arguments) == entry.event.arguments


def test_the_first_hash_is_taken_as_the_model_takes_it(connect: Connect, scribe: Scribe):
    tx = connect()
    minted = recorded(tx, scribe.entry(principal="agent:zoë", run="läuft"))
    (stored,) = events_of(tx, minted.id)
    assert stored.hash == chain_hash(
        previous=GENESIS,
        tenant=TENANT,
        intent_id=minted.id,
        version=1,
        position=stored.position,
        kind="intent.recorded",
        schema=2,
        at_us=micros(minted.recorded_at),
        payload=stored.payload,
    )


def test_each_of_a_batch_is_written_in_the_lowest_schema_that_holds_it(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    entries = [scribe.entry(), scribe.entry(lane="cable"), scribe.entry()]
    minted = record_many(tx, entries)
    stored = [events_of(tx, minted[place].id)[0] for place in range(3)]
    assert [one.schema for one in stored] == [2, 3, 2]
    assert [one.fact().event for one in stored] == [entry.event for entry in entries]


def test_ids_are_of_version_seven_and_grow_with_the_clock(connect: Connect, scribe: Scribe):
    tx = connect()
    minted = [recorded(tx, scribe.entry()) for _ in range(50)]
    ids = [one.id for one in minted]
    assert {(one.version, one.variant) for one in ids} == {(7, "specified in RFC 4122")}
    assert ids == sorted(ids)
    assert len(set(ids)) == 50
    for one in minted:
        assert one.id.int >> 80 == micros(one.recorded_at) // 1000


@pytest.mark.parametrize(
    ("becomes", "window_us", "not_before_s", "due_s"),
    [
        ("held", 60_000_000, None, 60),
        ("held", 1, None, 0.000001),
        ("held", 60_000_000, 30, 60),
        ("held", 60_000_000, 90, 90),
        ("held", 0, 90, 90),
        ("held", 0, -90, 0),
        ("due", 0, None, 0),
        ("waiting", 60_000_000, None, None),
        ("awaiting_approval", 60_000_000, 90, None),
        ("recorded", 0, None, None),
    ],
)
def test_what_is_stored_is_what_folding_the_event_gives(
    connect: Connect, scribe: Scribe, becomes, window_us, not_before_s, due_s
):
    tx = connect()
    (now,) = tx.execute("SELECT takeback.micros(clock_timestamp())").fetchone() or (0,)
    not_before_us = None if not_before_s is None else now + not_before_s * 1_000_000
    entry = scribe.entry(
        becomes=becomes,
        window_us=window_us,
        not_before_us=not_before_us,
        after=("a-1", 'b"-2') if becomes == "waiting" else (),
        run=None,
        repeat_of="a-0",
        effect="local" if becomes == "recorded" else "remote",
    )
    minted = recorded(tx, entry)
    row = intent_of(tx, minted.id)
    assert fold([one.fact() for one in events_of(tx, minted.id)]) == row
    if due_s is None:
        assert row.due_at is None
    elif not_before_us is not None and due_s == not_before_s:
        assert row.due_at == instant(not_before_us)
    else:
        assert row.due_at == row.recorded_at + timedelta(seconds=due_s)


@pytest.mark.parametrize("year", [2, 1900, 1969, 2255, 2256, 5000, 9999])
def test_an_instant_of_any_year_is_stored_to_the_microsecond(
    connect: Connect, scribe: Scribe, year: int
):
    """Postgres multiplies an interval as a double: exact to 2^53 microseconds, which is 2255."""
    tx = connect()
    not_before_us = (year - 1970) * 31_556_952_000_000 + 123_457
    minted = recorded(tx, scribe.entry(not_before_us=not_before_us))
    row = intent_of(tx, minted.id)
    assert row.not_before == instant(not_before_us)
    assert fold([one.fact() for one in events_of(tx, minted.id)]) == row


def test_the_same_key_twice_in_one_transaction_is_found(connect: Connect, scribe: Scribe):
    tx = connect()
    entry = scribe.entry()
    first = recorded(tx, entry)
    again = record(tx, entry.with_(ref="another-0000000A"))
    assert (again.answer, again.twin) == ("found", first.id)
    tx.commit()
    assert record(tx, entry).twin == first.id
    assert tx.execute("SELECT count(*) FROM takeback.events").fetchone() == (1,)


def test_a_key_of_another_tenant_is_no_twin(connect: Connect, scribe: Scribe):
    tx = connect()
    entry = scribe.entry()
    recorded(tx, entry)
    assert record(tx, replace(entry, tenant="other")).answer == "recorded"


def test_a_generation_is_opened_only_where_it_is_asked_for(connect: Connect, scribe: Scribe):
    tx = connect()
    entry = scribe.entry()
    first = recorded(tx, entry)
    second = recorded(tx, entry.with_(generation=1, ref="a-00000001"))
    assert record(tx, entry).twin == second.id
    assert record(tx, entry.with_(generation=1)).twin == second.id
    third = recorded(tx, entry.with_(generation=2, ref="a-00000002"))
    assert record(tx, entry.with_(generation=1)).twin == third.id
    assert len({first.id, second.id, third.id}) == 3


def test_a_ref_that_is_taken_is_shadowed_and_leaves_nothing(connect: Connect, scribe: Scribe):
    """Another ref is drawn then; the chance is one in 34 thousand million."""
    tx = connect()
    taken = scribe.entry()
    recorded(tx, taken)
    tx.commit()
    other = scribe.entry(ref=taken.event.ref)
    assert record(tx, other).answer == "shadowed"
    tx.commit()
    assert tx.execute("SELECT count(*) FROM takeback.events").fetchone() == (1,)
    assert record(tx, other.with_(ref="a-00000001")).answer == "recorded"


def test_a_replay_takes_no_lock_that_readers_or_twins_wait_for(connect: Connect, scribe: Scribe):
    tx, eye = connect(), connect(autocommit=True)
    entry = scribe.entry()
    recorded(tx, entry)
    tx.commit()
    assert record(tx, entry).answer == "found"
    held = eye.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s",
        [tx.info.backend_pid],
    ).fetchone()
    assert held == (0,)


def test_what_is_rolled_back_to_a_savepoint_frees_the_key_and_the_barrier(
    connect: Connect, scribe: Scribe
):
    tx, other = connect(), connect()
    entry = scribe.entry()
    tx.execute("SAVEPOINT one")
    recorded(tx, entry)
    assert record(other, entry).answer == "busy"
    tx.execute("ROLLBACK TO SAVEPOINT one")
    assert record(other, entry).answer == "recorded"
    other.rollback()
    again = recorded(tx, entry)
    tx.commit()
    events = events_of(tx, again.id)
    assert [event.version for event in events] == [1]
    assert fold([event.fact() for event in events]) == intent_of(tx, again.id)


def test_two_keys_in_opposite_order_lose_no_transaction(connect: Connect, scribe: Scribe):
    """Each holds one and is told that the other is busy: nobody waits, so nobody deadlocks."""
    one, two = connect(), connect()
    a, b = scribe.entry(), scribe.entry()
    recorded(one, a)
    recorded(two, b)
    assert record(one, b).answer == "busy"
    assert record(two, a).answer == "busy"
    one.commit()
    assert record(two, a).answer == "found"
    two.commit()
    assert record(one, b).answer == "found"


def test_a_batch_is_recorded_as_one_by_one_in_the_order_of_its_calls(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    entries = [scribe.entry() for _ in range(20)]
    entries[3] = scribe.due()
    entries[4] = scribe.entry(becomes="waiting", after=("x-1", "x-2"))
    minted = record_many(tx, entries)
    assert sorted(minted) == list(range(20))
    positions = []
    for place, entry in enumerate(entries):
        (stored,) = events_of(tx, minted[place].id)
        positions.append(stored.position)
        assert stored.payload == encode(entry.event)
        assert fold([stored.fact()]) == intent_of(tx, minted[place].id)
        assert stored.hash == minted[place].head_hash
    assert positions == sorted(positions)
    assert [minted[n].id for n in range(20)] == sorted(minted[n].id for n in range(20))


def test_a_batch_leaves_out_what_is_there_what_is_busy_and_what_has_a_taken_ref(
    connect: Connect, scribe: Scribe
):
    tx, other = connect(), connect()
    there, busy, fresh, taken = (scribe.entry() for _ in range(4))
    recorded(tx, there)
    tx.commit()
    recorded(other, busy)
    taken = taken.with_(ref=there.event.ref)
    assert list(record_many(tx, [there, busy, fresh, taken])) == [2]
    other.rollback()
    assert list(record_many(tx, [there, busy, fresh, taken])) == [1]


@pytest.mark.session
def test_a_batch_holds_no_key_that_it_did_not_record(connect: Connect, scribe: Scribe):
    tx, other = connect(), connect()
    there = scribe.entry()
    recorded(tx, there)
    tx.commit()
    record_many(tx, [there, scribe.entry()])
    keys = other.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND pid = %s",
        [tx.info.backend_pid],
    ).fetchone()
    assert keys == (1,)


def test_a_recording_that_no_state_may_begin_with_is_refused_by_the_table(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    with pytest.raises(psycopg.errors.CheckViolation, match="state_is_known"):
        record(tx, scribe.entry(becomes="forgotten"))


def test_an_equal_generation_that_goes_round_the_statement_is_refused(
    connect: Connect, scribe: Scribe
):
    """The named rule of the table holds whoever writes."""
    tx = connect()
    minted = recorded(tx, scribe.entry())
    with pytest.raises(UniqueViolation, match="intents_key_is_recorded_once"):
        tx.execute(
            """
            INSERT INTO takeback.intents
                (tenant, id, ref, tool, tool_version, effect, key, generation, principal, state,
                 version, recorded_at, window_us, head_hash)
            SELECT tenant, gen_random_uuid(), 'other', tool, tool_version, effect, key, generation,
                   principal, 'recorded', 1, recorded_at, 0, head_hash
            FROM takeback.intents WHERE id = %s
            """,
            [minted.id],
        )


def test_the_lock_of_a_key_depends_on_the_tenant_and_on_every_character():
    locks = {
        key_lock(tenant, key)
        for tenant, key in [("a", "b"), ("ab", ""), ("", "ab"), ("a", "bc"), ("1:a", "b")]
    }
    assert len(locks) == 5
    assert all(-(2**63) <= lock < 2**63 for lock in locks)


def test_an_answer_of_another_release_is_no_answer(connect: Connect, scribe: Scribe):
    tx = connect()
    (arguments,) = tx.execute(
        "SELECT pg_get_function_identity_arguments(oid) FROM pg_proc "
        "WHERE pronamespace = 'takeback'::regnamespace AND proname = 'record' "
        "ORDER BY pronargs DESC LIMIT 1"
    ).fetchone() or ("",)
    tx.execute(f"DROP FUNCTION takeback.record({arguments})".encode())
    tx.execute(
        f"""
        CREATE FUNCTION takeback.record({arguments}) RETURNS text LANGUAGE sql RETURN 'perhaps'
        """.encode()
    )
    with pytest.raises(LedgerCorrupt, match="'perhaps'"):
        record(tx, scribe.entry())


def test_a_call_that_a_person_decides_about_is_recorded_with_what_it_would_affect(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    entry = scribe.asking(approval_us=3_600_000_000)
    minted = recorded(tx, entry)
    row = intent_of(tx, minted.id)
    assert fold([one.fact() for one in events_of(tx, minted.id)]) == row
    assert (row.state, row.due_at) == (State.AWAITING_APPROVAL, None)
    assert row.expires_at == row.recorded_at + timedelta(hours=1)
    assert (row.on_behalf_of, row.approved_by) == ("dana", None)
    bodies = tx.execute(
        "SELECT name, salt, body FROM takeback.bodies WHERE version = 1 ORDER BY name"
    ).fetchall()
    assert entry.affected is not None
    assert bodies == [
        ("affected", *entry.affected),
        ("arguments", entry.salt, entry.arguments),
    ]
    assert body_digest(*entry.affected) == entry.event.affected


def test_a_request_without_an_end_stands_for_ever_and_nobody_else_has_one(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    forever = recorded(tx, scribe.asking(approval_us=None))
    held = recorded(tx, scribe.entry(on_behalf_of="dana"))
    assert intent_of(tx, forever.id).expires_at is None
    assert intent_of(tx, held.id).expires_at is None
    assert intent_of(tx, held.id).on_behalf_of == "dana"


def test_a_batch_records_whom_it_is_for_and_until_when_a_person_decides(
    connect: Connect, scribe: Scribe
):
    tx = connect()
    asking = scribe.entry(
        becomes="awaiting_approval",
        approval_cause="policy",
        approval_us=1_000_000,
        on_behalf_of="dana",
    )
    minted = record_many(tx, [asking, scribe.entry()])
    row = intent_of(tx, minted[0].id)
    assert fold([one.fact() for one in events_of(tx, minted[0].id)]) == row
    assert row.expires_at == row.recorded_at + timedelta(seconds=1)
    assert row.on_behalf_of == "dana"
    assert intent_of(tx, minted[1].id).expires_at is None


def test_a_digest_without_its_body_is_a_fault_of_ours(connect: Connect, scribe: Scribe):
    with pytest.raises(AssertionError, match="go together"):
        record(connect(), replace(scribe.asking(), affected=None))


def test_the_ids_of_one_microsecond_are_different_and_follow_from_their_seeds(connect: Connect):
    tx = connect()
    query = """
        SELECT array_agg(takeback.new_id(1764000000123457, int4send(n)) ORDER BY n)
        FROM generate_series(1, 1000) AS n
    """
    (ids,) = tx.execute(query).fetchone() or ([],)
    assert len(set(ids)) == 1000
    assert {str(id_)[:18] for id_ in ids} == {"019ab697-e87b-7724"}
    assert {id_.variant for id_ in ids} == {"specified in RFC 4122"}
    assert tx.execute(query).fetchone() == (ids,)
