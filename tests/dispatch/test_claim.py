"""Who takes what is due: only what it can run, no more than it asked for, and nobody twice."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from takeback.client.batching import Call
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace
from takeback.dispatch.work import Identity, identity
from takeback.ledger.claiming import (
    AGENDA,
    AGENDA_OF_ALL,
    LOCK_DUE,
    LOCK_DUE_OF_ALL,
    WAITING,
    WAITING_OF_ALL,
)
from takeback.ledger.planning import KEEP_TO_INDEX
from tests.dispatch.office import ROWS, Office

OF_ALL = (LOCK_DUE_OF_ALL, AGENDA_OF_ALL, WAITING_OF_ALL)
TOOLS = '{"send_letter": 1, "restore": 1}'


def dispatcher(office: Office, name: str = "w", **paces: Any) -> Dispatcher:
    return Dispatcher(office.context, Pace(**paces), name)


def letters(office: Office, count: int, tool: str = "send_letter") -> list[str]:
    calls = [Call(tool=tool, arguments={"to": f"{tool}-{n}"}) for n in range(count)]
    return [answer.ref or "" for answer in office.call_many(None, calls)]


def without(tool: str) -> list[Any]:
    return [row for row in ROWS if row.name != tool]


def test_a_tool_that_a_worker_does_not_have_is_left_to_others(database_url, office, world, clock):
    """FINDINGS: a peer's worker claims everything and strands the rest."""
    ref = office.call(None, "ship", {"to": "dana"}).ref
    poor = Office(database_url, world, rows=without("ship"), pause=clock.advance)

    tally = poor.worker_of("poor", sleep=clock.advance).run(drain=True)

    assert tally.performed == 0 and office.kinds(ref) == ["recorded"]
    office.worker_of("rich", sleep=clock.advance).run(drain=True)
    assert office.state(ref) == "succeeded"
    poor.close()


def test_a_restore_is_left_to_who_has_the_tool_of_its_original(database_url, office, world, clock):
    """Claimed by a worker that can't run it, it would be claimed again at the end of each lease."""
    ref = office.call(None, "ship", {"to": "dana"}).ref
    office.worker_of("rich", sleep=clock.advance).run(drain=True)
    restore = office.restore(None, ref).ref
    poor = Office(database_url, world, rows=without("ship"), pause=clock.advance)

    poor.worker_of("poor", sleep=clock.advance).run(drain=True)

    assert office.kinds(restore) == ["recorded"]
    assert dispatcher(poor).agenda().due_in is None
    office.worker_of("rich", sleep=clock.advance).run(drain=True)
    assert (office.state(restore), office.state(ref)) == ("succeeded", "restored")
    poor.close()


def test_what_a_later_release_has_recorded_is_left_to_workers_of_that_release(
    database_url, office, world, clock
):
    later = [replace(row, version=2, upgrades={1: dict}) for row in ROWS]
    new = Office(database_url, world, rows=later, pause=clock.advance)
    sent = new.call(None, "send_letter", {"to": "dana"}).ref
    paid = new.call(None, "ship", {"to": "dana"}).ref
    new.worker_of("new", sleep=clock.advance).run(drain=True)
    again = new.call(None, "send_letter", {"to": "robin"}).ref
    restore = new.restore(None, paid or "").ref

    office.worker_of("old", sleep=clock.advance).run(drain=True)

    assert office.kinds(again) == office.kinds(restore) == ["recorded"]
    new.worker_of("new", sleep=clock.advance).run(drain=True)
    assert [new.state(ref) for ref in (sent, again, restore)] == ["succeeded"] * 3
    new.close()


def test_no_claim_takes_more_than_it_was_asked_for(office):
    letters(office, 25)

    counts = [dispatcher(office, batch_max=10).run_once(limit).count for limit in (3, 50, 50, 50)]

    assert counts == [3, 10, 10, 2]


def test_what_is_due_longest_is_taken_first(office, clock):
    first = letters(office, 3, "send_letter")
    clock.advance(1)
    second = letters(office, 3, "ship")

    taken = [work.intent.ref for work in dispatcher(office).run_once(4).works]

    assert set(taken[:3]) == set(first) and taken[3] in second


def test_four_workers_share_two_thousand_and_none_is_done_twice(database_url, world, office):
    """FINDINGS: one peer without a limit gave all rows to one process."""
    refs = letters(office, 1500, "pay") + letters(office, 500, "ship")
    offices = [Office(database_url, world) for _ in range(4)]
    start = threading.Barrier(4)

    def drain(number: int) -> int:
        start.wait()
        return offices[number].worker_of(f"w{number}").run(drain=True).performed

    with ThreadPoolExecutor(4) as threads:
        performed = list(threads.map(drain, range(4)))

    print(f"performed by each worker: {performed}")
    assert sum(performed) == len(refs) and all(performed)
    assert len(world.calls) == len({(one.tool, one.to) for one in world.calls}) == len(refs)
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT state, attempt, count(*) FROM takeback.intents GROUP BY 1, 2"
        ).fetchall()
    assert rows == [("succeeded", 1, 2000)]
    for one in offices:
        one.close()


def test_the_same_wake_up_a_hundred_times_is_one_attempt_each(database_url, world, office):
    """dramatiq #431, #461, #597: delayed and redelivered messages were doubled."""
    other = Office(database_url, world)
    start = threading.Barrier(2)
    parties = [dispatcher(office, "w1"), dispatcher(other, "w2")]

    def wake(party: Dispatcher) -> list[str]:
        start.wait()
        return [work.intent.ref for work in party.run_once(10).works]

    winners: list[int] = []
    with ThreadPoolExecutor(2) as threads:
        for n in range(100):
            ref = office.call(None, "send_letter", {"to": f"dana-{n}"}).ref
            found = list(threads.map(wake, parties))
            assert sorted(map(len, found)) == [0, 1] and [ref] in found
            winners.append(found.index([ref]))

    print(f"claimed by the first {winners.count(0)} times, by the second {winners.count(1)} times")
    other.close()


def test_who_sits_on_one_intent_does_not_stop_the_others(database_url, office, world):
    held, *free = letters(office, 5)
    with psycopg.connect(database_url) as caller:
        caller.execute("SELECT FROM takeback.intents WHERE ref = %s FOR UPDATE", [held])

        taken = [work.intent.ref for work in dispatcher(office).run_once(10).works]

    assert sorted(taken) == sorted(free)


@pytest.mark.parametrize("tenant", ["default", None])
@pytest.mark.parametrize(
    ("others", "state", "hours"),
    [
        ("default", "held", 1),
        pytest.param("shop-7", "due", -1, marks=pytest.mark.slow),
        pytest.param("shop-7", "held", 1, marks=pytest.mark.slow),
    ],
)
def test_a_hundred_thousand_that_wait_do_not_slow_what_is_ready(
    database_url, office, tenant, others, state, hours
):
    """procrastinate #1599, river #785: future jobs stalled or slowed ready ones.

    Nor do those of other tenants, due or not, where a worker works for one; who works for all of
    them takes what is due of whom it may be.
    """
    letters(office, 50)
    with psycopg.connect(database_url) as connection:
        few = pages_touched(connection, tenant)
        connection.execute(MANY, {"tenant": others, "state": state, "hours": hours})
        connection.execute("ANALYZE takeback.intents")
        many = pages_touched(connection, tenant)

    print(f"pages read with none beside: {few}, with 100,000: {many}")
    more = 1000 if tenant is None and state == "due" else 100
    assert all(many[name] <= few[name] + more for name in few)


MANY = """
WITH one AS MATERIALIZED (SELECT i FROM takeback.intents AS i LIMIT 1)
INSERT INTO takeback.intents
SELECT other.* FROM one, generate_series(1, 100000) AS n, LATERAL jsonb_populate_record(
    one.i, jsonb_build_object('tenant', %(tenant)s::text, 'id', gen_random_uuid(),
                              'ref', 'other-' || n, 'key', 'other-' || n,
                              'state', %(state)s::text,
                              'due_at', now() + %(hours)s * interval '1 hour')) AS other
"""


def pages_touched(connection: psycopg.Connection, tenant: str | None) -> dict[str, int]:
    """How many pages each look at the queue reads, wherever they lie: its cost without a clock.

    As a claim is made: there is room for more than is due, so that it looks on.
    """
    parameters = {
        "tools": TOOLS,
        "limit": 100,
        "tenant": tenant,
        "everywhere": True,
        "lanes": [""],
        "priorities": [0],
        "lows": [0],
        "rooms": [100],
        "opens": [0],
    }
    found = {}
    for statement in (LOCK_DUE, AGENDA, WAITING) if tenant else OF_ALL:
        with connection.transaction(force_rollback=True):
            if statement.name.startswith("lock_due"):
                connection.execute(KEEP_TO_INDEX.sql.encode())
            plan = connection.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.sql}".encode(), parameters
            ).fetchone()
        assert plan is not None
        top = plan[0][0]["Plan"]
        found[statement.name] = int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])
    return found


def test_a_worker_carries_out_what_is_of_its_own_tenant_and_another_all_of_it(
    database_url, world, office, clock
):
    other = Office(database_url, world, pause=clock.advance, tenant="other")
    own = office.call(None, "send_letter", {"to": "own"}).ref
    theirs = other.call(None, "send_letter", {"to": "theirs"}).ref
    left = other.call(None, "ship", {"to": "left"}).ref
    dispatcher(other).run_once(1)
    assert dispatcher(office).agenda().lease_over_in is None
    clock.advance(31)

    assert office.worker_of("own", sleep=clock.advance).run(drain=True).taken_over == 0

    assert (office.state(own), world.arrived("theirs")) == ("succeeded", 0)
    tally = office.worker_of("all", sleep=clock.advance, all_tenants=True).run(drain=True)
    assert (tally.performed, tally.taken_over) == (2, 1)
    assert (other.state(theirs), other.state(left)) == ("succeeded", "succeeded")
    other.close()


def wanted(office: Office, *refs: str | None) -> list[Identity]:
    return [identity(office.show(ref or "").entry.intent) for ref in refs]


def test_of_those_asked_for_by_id_only_what_may_be_claimed_now_is_claimed(
    database_url, world, office, clock
):
    """A wake-up is a hint: whatever it names, the conditions are those of a claim that looks."""
    due = office.call(None, "send_letter", {"to": "due"}).ref
    held = office.call(None, "hold_letter", {"to": "held"}).ref
    asked = office.call(None, "grant", {"to": "asked"}).ref
    frozen = office.call(None, "ship", {"to": "frozen"}).ref
    unasked = office.call(None, "send_letter", {"to": "unasked"}).ref
    other = Office(database_url, world, pause=clock.advance, tenant="other")
    theirs = other.call(None, "send_letter", {"to": "theirs"}).ref
    poor = Office(database_url, world, rows=without("send_letter"), pause=clock.advance)
    office.freeze(reason="why", principal="dana", tool="ship")
    ids = [*wanted(office, due, held, asked, frozen), *wanted(other, theirs)]
    ids += [("default", UUID(int=7)), ("", UUID(int=7))]

    assert dispatcher(poor).claim(ids).count == 0
    claimed = dispatcher(office).claim(ids)
    again = dispatcher(office, "w2").claim(ids)

    assert [work.intent.ref for work in claimed.works] == [due]
    assert (claimed.count, again.count) == (1, 0)
    states = [office.state(ref) for ref in (due, held, asked, frozen, unasked)]
    assert states == ["claimed", "held", "awaiting_approval", "due", "due"]
    assert dispatcher(office, all_tenants=True).claim(wanted(other, theirs)).count == 1
    other.close()
    poor.close()


def test_an_id_that_two_are_woken_for_at_once_is_claimed_by_one(database_url, world, office):
    """A message that a broker hands to two workers."""
    other = Office(database_url, world)
    start = threading.Barrier(2)

    def wake(party: Dispatcher, ids: list[Identity]) -> int:
        start.wait()
        return party.claim(ids).count

    parties = [dispatcher(office, "w1"), dispatcher(other, "w2")]
    with ThreadPoolExecutor(2) as threads:
        for n in range(30):
            ids = wanted(office, office.call(None, "send_letter", {"to": f"dana-{n}"}).ref)
            assert sorted(threads.map(wake, parties, [ids, ids])) == [0, 1]
    other.close()
