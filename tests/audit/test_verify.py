"""Whatever somebody changes in the stored ledger is named by ref and version, and nothing else."""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest

from takeback.audit.proof import Problem
from takeback.audit.verify import PROBLEMS_MAX, Verdict, verify
from takeback.audit.walk import BATCH_MAX
from takeback.ledger.audit_reading import PAGE_MAX
from takeback.ledger.database import Database
from takeback.model import command as commands
from tests.audit import ledger
from tests.audit.ledger import Life, named, problems_in, proved, take_guards_down
from tests.ledger.scribe import Scribe, apply, record_many, recorded

EVENT_CHANGES = {
    "tenant": "tenant = tenant || 'x'",
    "intent_id": "intent_id = gen_random_uuid()",
    "version": "version = version + 50",
    "position": "position = position + 1000000",
    "kind": "kind = kind || 'x'",
    "schema": "schema = schema + 1",
    "recorded_at": "recorded_at = recorded_at + interval '1 microsecond'",
    "recorded_at, endless": "recorded_at = 'infinity'",
    "recorded_at, before Python": "recorded_at = '4000-01-01 BC'",
    "payload": "payload = CASE payload WHEN '{}' THEN '[]' ELSE replace(payload, 'a', 'A') END",
    "payload, one blank": "payload = payload || ' '",
    "payload, no JSON": "payload = left(payload, -1)",
    "payload, empty": "payload = ''",
    "hash": "hash = set_byte(hash, 7, get_byte(hash, 7) # 1)",
}
ROW_CHANGES = {
    "tenant": "tenant = tenant || 'x'",
    "id": "id = gen_random_uuid()",
    "ref": "ref = ref || 'x'",
    "tool": "tool = tool || 'x'",
    "tool_version": "tool_version = tool_version + 1",
    "effect": "effect = 'local'",
    "key": "key = key || 'x'",
    "generation": "generation = generation + 1",
    "run": "run = coalesce(run, '') || 'x'",
    "principal": "principal = principal || 'x'",
    "state": "state = CASE WHEN state = 'parked' THEN 'failed' ELSE 'parked' END",
    "version": "version = version + 1",
    "recorded_at": "recorded_at = recorded_at - interval '1 microsecond'",
    "recorded_at, endless": "recorded_at = '-infinity'",
    "window_us": "window_us = window_us + 1",
    "not_before": "not_before = coalesce(not_before, now()) + interval '1 microsecond'",
    "after": "after = after || ARRAY['x']",
    "due_at": "due_at = coalesce(due_at, now()) + interval '1 microsecond'",
    "due_at, endless": "due_at = 'infinity'",
    "attempt": "attempt = attempt + 1",
    "epoch": "epoch = epoch + 1",
    "attempts_unknown": "attempts_unknown = attempts_unknown || 9",
    "begin_before": "begin_before = '2027-01-01'",
    "affected_count": "affected_count = affected_count + 1",
    "restores": "restores = gen_random_uuid()",
    "repeat_of": "repeat_of = coalesce(repeat_of, '') || 'x'",
    "restored_via": "restored_via = coalesce(restored_via, '') || 'x'",
    "taken_back_by": "taken_back_by = coalesce(taken_back_by, '') || 'x'",
    "settled_at": "settled_at = coalesce(settled_at, now()) + interval '1 microsecond'",
    "last_word": "last_word = 'denied'",
    "contradicted": "contradicted = NOT contradicted",
    "head_hash": "head_hash = set_byte(head_hash, 7, get_byte(head_hash, 7) # 1)",
    "on_behalf_of": "on_behalf_of = coalesce(on_behalf_of, '') || 'x'",
    "expires_at": "expires_at = coalesce(expires_at, now()) + interval '1 microsecond'",
    "expires_at, endless": "expires_at = 'infinity'",
    "approved_by": "approved_by = coalesce(approved_by, '') || 'x'",
    "lane": "lane = lane || 'x'",
    "priority": "priority = priority + 1",
    "ordering": "ordering = coalesce(ordering, '') || 'x'",
}


BODY_CHANGES = {
    "tenant": "tenant = tenant || 'x'",
    "intent_id": "intent_id = gen_random_uuid()",
    "version": "version = version + 50",
    "name": "name = name || 'x'",
    "salt": "salt = set_byte(salt, 7, get_byte(salt, 7) # 1)",
    "body": "body = replace(body, '@', ' at ')",
    "body, one blank": "body = body || ' '",
    "body, empty": "body = ''",
}


@pytest.fixture
def lives(database_url: str, rng: random.Random) -> dict[str, Life]:
    return ledger.fill(database_url, rng)


@pytest.fixture
def tx(database_url: str, lives: dict[str, Life]) -> Iterator[psycopg.Connection[Any]]:
    """A superuser's transaction with the guards down, rolled back at the end."""
    with psycopg.connect(database_url) as connection:
        take_guards_down(connection)
        yield connection
        connection.rollback()


def change(tx: psycopg.Connection[Any], statement: str, *parameters: Any) -> list[Problem]:
    """What does not prove after the change, which is undone again."""
    tx.execute("SAVEPOINT before")
    assert tx.execute(statement.encode(), parameters).rowcount > 0
    found = problems_in(tx)
    tx.execute("ROLLBACK TO SAVEPOINT before")
    return found


def test_an_untouched_ledger_proves(database_url: str, lives: dict[str, Life]):
    verdict = proved(database_url)
    assert verdict.problems == ()
    assert verdict.intents == len(lives)
    assert verdict.events == sum(life.events for life in lives.values())
    assert verdict.unlisted == 0


@pytest.mark.parametrize("column", EVENT_CHANGES)
def test_a_changed_column_of_any_event_is_named_and_no_other_intent(
    tx, lives: dict[str, Life], column: str
):
    for life in lives.values():
        for version in range(1, life.events + 1):
            found = change(
                tx,
                f"UPDATE takeback.events SET {EVENT_CHANGES[column]} "
                "WHERE intent_id = %s AND version = %s",
                life.id,
                version,
            )
            assert (life.ref, version) in named(found)
            # An event that went to another id or tenant is told there too, by what it says itself.
            assert {ref for ref, _ in named(found)} - {""} == {life.ref}


@pytest.mark.parametrize("column", ROW_CHANGES)
def test_a_changed_column_of_any_row_is_named_and_no_other_intent(
    tx, lives: dict[str, Life], column: str
):
    tx.execute("ALTER TABLE takeback.intents DROP CONSTRAINT intents_due_is_set_when_claimable")
    for life in lives.values():
        statement = f"UPDATE takeback.intents SET {ROW_CHANGES[column]} WHERE id = %s"
        found = change(tx, statement, life.id)
        assert (
            {(life.ref, life.events)}
            <= named(found)
            <= {
                (life.ref, life.events),
                (life.ref, None),
                (life.ref, 1),
            }
        )


@pytest.mark.parametrize("column", BODY_CHANGES)
def test_a_changed_column_of_any_body_is_named_and_no_other_intent(
    tx, lives: dict[str, Life], column: str
):
    bodies = tx.execute("SELECT intent_id, version, name FROM takeback.bodies").fetchall()
    refs = {life.id: life.ref for life in lives.values()}
    assert Counter(name for _, _, name in bodies) == {
        "arguments": len(lives),
        "affected": 5,
        "result": 1,
        "reason": 1,
        "error": 1,
    }
    for id_, version, name in bodies:
        if "@" in BODY_CHANGES[column] and name != "arguments":
            continue
        found = change(
            tx,
            f"UPDATE takeback.bodies SET {BODY_CHANGES[column]} "
            "WHERE intent_id = %s AND version = %s AND name = %s",
            id_,
            version,
            name,
        )
        # What went to another intent or tenant is told there, where nobody knows a ref.
        told_as = "" if column in ("tenant", "intent_id") else refs[id_]
        told_at = version + 50 if column == "version" else version
        assert (told_as, told_at) in named(found)
        assert {ref for ref, _ in named(found)} <= {refs[id_], ""}


def test_every_column_of_the_tables_was_changed(tx):
    rows = tx.execute(
        """
        SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'takeback'::regnamespace AND attnum > 0
          AND relname IN ('intents', 'events', 'bodies') AND relkind = 'r'
        """
    ).fetchall()
    changed = {"intents": ROW_CHANGES, "events": EVENT_CHANGES, "bodies": BODY_CHANGES}
    unchanged = {(table, column) for table, column in rows if column not in changed[table]}
    assert unchanged == {("intents", "lease_until"), ("intents", "ask_at"), ("intents", "look_at")}


def test_a_lease_that_was_renewed_proves_and_one_that_nobody_took_does_not(
    tx, lives: dict[str, Life]
):
    """A lease is renewed without an event: only whether there is one follows from the log."""
    renew = "UPDATE takeback.intents SET lease_until = now() + interval '1 day' WHERE id = %s"
    for name in ("claimed", "executing"):
        assert change(tx, renew, lives[name].id) == []
    for name in ("held", "parked", "succeeded"):
        assert named(change(tx, renew, lives[name].id)) == {(lives[name].ref, lives[name].events)}


def test_events_that_were_removed_are_named(tx, lives: dict[str, Life]):
    for life in lives.values():
        for version in range(1, life.events + 1):
            found = change(
                tx,
                "DELETE FROM takeback.events WHERE intent_id = %s AND version = %s",
                life.id,
                version,
            )
            assert (life.ref, version if life.events > 1 else None) in named(found)


def test_the_last_two_events_cut_off_are_named_while_the_row_still_knows_of_them(
    tx, lives: dict[str, Life]
):
    """payment-reconciliation #18, as far as the row tells; the seal will tell the rest."""
    life = lives["parked"]
    cut = "DELETE FROM takeback.events WHERE intent_id = %s AND version > %s"
    found = change(tx, cut, life.id, life.events - 2)
    assert {(life.ref, life.events - 1), (life.ref, life.events)} <= named(found)


def test_an_intent_without_a_row_and_a_row_without_events_are_named(tx, lives: dict[str, Life]):
    life = lives["succeeded"]
    found = change(tx, "DELETE FROM takeback.intents WHERE id = %s", life.id)
    assert named(found) == {(life.ref, life.events)}
    found = change(tx, "DELETE FROM takeback.events WHERE intent_id = %s", life.id)
    assert (life.ref, None) in named(found)


def test_a_forged_event_is_named_even_where_its_hash_is_right(tx, lives: dict[str, Life]):
    """Hashing is no secret: the row is the witness, and whoever forges has to know of it."""
    life = lives["held"]
    found = change(
        tx,
        """
        INSERT INTO takeback.events
        SELECT tenant, intent_id, 2, position + 1000, 'intent.due', 1, recorded_at, '{}',
               takeback.chain_hash(hash, tenant, intent_id, 2, position + 1000, 'intent.due', 1,
                                   takeback.micros(recorded_at), '{}')
        FROM takeback.events WHERE intent_id = %s
        """,
        life.id,
    )
    assert named(found) == {(life.ref, 2)}


def test_bodies_that_were_forgotten_are_no_fault_once_they_are_not_needed(
    tx, lives: dict[str, Life]
):
    forget = "DELETE FROM takeback.bodies WHERE intent_id = %s"
    for name, life in lives.items():
        settled = ("succeeded", "cancelled", "parked", "denied", "expired", "over a limit")
        expected = set() if name in settled else {(life.ref, 1)}
        assert named(change(tx, forget, life.id)) == expected, name


def test_a_state_that_no_release_knows_is_named_and_stops_nothing(tx, lives: dict[str, Life]):
    tx.execute("ALTER DOMAIN takeback.state DROP CONSTRAINT state_is_known")
    life = lives["held"]
    found = change(tx, "UPDATE takeback.intents SET state = 'limbo' WHERE id = %s", life.id)
    assert named(found) == {(life.ref, 1)}


def test_hashes_of_a_wrong_length_are_named_and_stop_nothing(tx, lives: dict[str, Life]):
    tx.execute("ALTER DOMAIN takeback.bytes32 DROP CONSTRAINT is_32_bytes")
    life = lives["parked"]
    cut = "UPDATE takeback.events SET hash = '' WHERE intent_id = %s AND version = 2"
    assert named(change(tx, cut, life.id)) == {(life.ref, 2)}
    cut = "UPDATE takeback.intents SET head_hash = '' WHERE id = %s"
    assert named(change(tx, cut, life.id)) == {(life.ref, life.events)}


def test_changes_that_are_committed_are_named_by_verify(database_url: str, lives: dict[str, Life]):
    life = lives["executing"]
    with psycopg.connect(database_url) as tx:
        take_guards_down(tx)
        tx.execute(
            "UPDATE takeback.events SET payload = payload || ' ' WHERE intent_id = %s "
            "AND version = 2",
            [life.id],
        )
        tx.execute("ALTER TABLE takeback.events ENABLE ALWAYS TRIGGER events_are_append_only")
    verdict = proved(database_url)
    (problem,) = verdict.problems
    assert (problem.ref, problem.version, problem.intent_id) == (life.ref, 2, life.id)
    assert problem.tenant == "default"
    assert "hash" in problem.what


def test_more_than_fits_into_one_batch_or_page_is_proved_whole(
    database_url: str, rng: random.Random
):
    scribe = Scribe(rng)
    intents = BATCH_MAX + 20
    orphan = UUID(int=scribe.rng.getrandbits(128))
    with psycopg.connect(database_url) as tx:
        record_many(tx, [scribe.entry() for _ in range(intents)])
        tx.execute(
            """
            INSERT INTO takeback.events
            SELECT 'default', %s, n, 1000000 + n, 'intent.due', 1, now(), '{}', sha256('')
            FROM generate_series(1, %s) AS n
            """,
            [orphan, PAGE_MAX + 10],
        )
    told: list[tuple[int, int]] = []
    database = Database(database_url)
    verdict = verify(database, progress=lambda done, total: told.append((done, total)))
    database.close()
    assert verdict.intents == intents
    assert verdict.events == intents + PAGE_MAX + 10
    assert {problem.intent_id for problem in verdict.problems} == {orphan}
    assert told == [(BATCH_MAX, intents), (intents, intents)]


def test_a_ledger_that_is_broken_throughout_fills_no_memory(database_url: str, rng: random.Random):
    scribe = Scribe(rng)
    count = PROBLEMS_MAX + 5
    with psycopg.connect(database_url) as tx:
        tx.execute(
            """
            INSERT INTO takeback.events
            SELECT 'default', %s, n, n, 'intent.due', 1, now(), '{}', sha256('')
            FROM generate_series(1, %s) AS n
            """,
            [UUID(int=scribe.rng.getrandbits(128)), count],
        )
    verdict = proved(database_url)
    assert len(verdict.problems) == PROBLEMS_MAX
    assert verdict.unlisted > 0
    assert verdict.events == count


def test_an_empty_ledger_proves_and_tells_that_it_is_done(database_url: str):
    told: list[tuple[int, int]] = []
    database = Database(database_url)
    verdict = verify(database, progress=lambda done, total: told.append((done, total)))
    database.close()
    assert (verdict.intents, verdict.events, verdict.problems) == (0, 0, ())
    assert told == [(0, 0)]


def test_writers_at_work_raise_no_false_alarm(database_url: str, rng: random.Random):
    over = threading.Event()

    def work(dice: random.Random) -> int:
        scribe, count = Scribe(dice), 0
        with psycopg.connect(database_url) as tx:
            tx.execute("SET synchronous_commit = off")
            tx.commit()
            while not over.is_set():
                minted = recorded(tx, scribe.due())
                tx.commit()
                for steps in ([ledger.CLAIM], [commands.HandBack()], [ledger.CLAIM, ledger.BEGIN]):
                    apply(tx, scribe, minted.id, *steps)
                    tx.commit()
                count += 1
        return count

    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(work, random.Random(rng.random())) for _ in range(3)]
        try:
            while len(verdicts) < 5 or verdicts[-1].intents < 50:
                verdicts.append(proved(database_url))
        finally:
            over.set()
    assert all(verdict.problems == () for verdict in verdicts)
    assert proved(database_url).intents == sum(writer.result() for writer in writers)
