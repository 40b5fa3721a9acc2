"""A deploy in the middle of the work: workers and callers of both releases at once, on one schema.

The release before is played by its own statements (``release_before``): no build of it is kept with
the tests. Whichever release is at work on one side, the other is today's library, whole.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest

import takeback_migrations
from takeback.client.batching import Call
from takeback.declare import BLIND, HIGH, Remote
from takeback.model import command as commands
from takeback.model.decide import decide
from takeback.model.intent import State, instant
from tests.audit.ledger import BEGIN, CLAIM, proved
from tests.dispatch.clock import Clock
from tests.dispatch.halt import Halt
from tests.dispatch.office import ROWS as OFFICE
from tests.dispatch.office import Office, World, make_cases, row
from tests.ledger.scribe import intent_of
from tests.migrations import release_before
from tests.migrations.release_before import WIDTH, ReleaseBefore, connected, intent_in, is_read

SUCCEED = commands.Succeed(result=None, affected_count=1)
TO = "dana@example.com"


ROWS = (row("send_customer_email", Remote(upstream=BLIND)),)
"""As the calls of the release before name it."""


@pytest.fixture
def url(empty_database_url: str) -> str:
    """A database that was at the schema of the release before a moment ago."""
    release_before.migrate(empty_database_url)
    takeback_migrations.upgrade(empty_database_url)
    return empty_database_url


@pytest.fixture
def old(url: str) -> Iterator[ReleaseBefore]:
    """A process of the release before, which nobody has stopped yet."""
    with connected(url) as one:
        yield one


@pytest.fixture
def clock(url: str) -> Iterator[Clock]:
    clock = Clock(url)
    yield clock
    clock.close()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def new(url: str, world: World, clock: Clock) -> Iterator[Office]:
    """A process of this release."""
    office = Office(url, world, rows=ROWS, pause=clock.advance)
    yield office
    office.close()


def carry(old: ReleaseBefore, locked: Any, *given: commands.Command) -> None:
    """Does commands to a locked row as that release does."""
    for command in given:
        old.append((locked, list(decide(intent_in(locked), command, instant(locked[WIDTH])))))
        locked = old.lock(UUID(locked[1]))


def call(new: Office, order: str, tool: str = "send_customer_email") -> str:
    return new.call(None, tool, {"to": order}).ref or ""


def test_workers_of_both_releases_share_a_queue_and_do_nothing_twice(
    old, new, world, url, scribe, clock
):
    """Each takes what the other has recorded, while the other holds its own in the middle."""
    theirs = [old.recorded(scribe.due()) for _ in range(4)]
    old.tx.commit()
    ours = [call(new, f"O-{n}") for n in range(8)]

    taken = old.lock_due()
    assert len(taken) == 10, "a batch of theirs, uncommitted: ours passes it by"
    worker = new.worker_of("new", sleep=clock.advance, stopping=lambda: len(world.calls) == 2)
    assert worker.run().performed == 2
    for one in taken:
        carry(old, one, CLAIM, BEGIN, SUCCEED)
    old.tx.commit()

    with psycopg.connect(url) as tx:
        states = {intent_of(tx, id_).state for id_ in theirs}
    assert states == {State.SUCCEEDED} == {State(new.state(ref)) for ref in ours}
    assert len(world.calls) == 2, "the other ten are theirs"
    assert proved(url).problems == () and new.rebuild().differing == ()


def test_what_a_worker_of_the_release_before_leaves_behind_is_taken_over(
    old, new, url, scribe, clock, world
):
    """It is stopped by the deploy in the middle of its work."""
    claimed, begun = old.recorded(scribe.due()), old.recorded(scribe.due())
    for id_, given in ((claimed, (CLAIM,)), (begun, (CLAIM, BEGIN))):
        carry(old, old.lock(id_), *given)
    old.tx.commit()
    clock.advance(120)

    tally = new.worker_of("new", sleep=clock.advance).run(drain=True)

    assert tally.taken_over == 2
    with psycopg.connect(url) as tx:
        assert intent_of(tx, claimed).state is State.SUCCEEDED
        assert intent_of(tx, begun).state in (State.IN_DOUBT, State.PARKED)
    assert len(world.calls) == 1


def test_what_a_worker_of_this_release_leaves_behind_is_taken_over_by_the_one_before(
    old, new, clock
):
    """The deploy is taken back in the middle of its work."""
    refs = [call(new, "O-1"), call(new, "O-2")]
    worker = new.worker_of("new")
    assert worker._dispatcher.run_once(2).count == 2
    clock.advance(120)

    expired = old.say("lock_expired", limit=10, tenant=None)
    for one in expired:
        carry(old, one, commands.ExpireLease(), CLAIM, BEGIN, SUCCEED)
    old.tx.commit()

    assert len(expired) == 2 and [new.state(ref) for ref in refs] == ["succeeded"] * 2


def test_a_late_answer_of_the_release_before_is_heard_after_this_one_has_taken_over(
    old, new, url, scribe, clock
):
    id_ = old.recorded(scribe.due())
    carry(old, old.lock(id_), CLAIM, BEGIN)
    old.tx.commit()
    clock.advance(120)
    new.worker_of("new", sleep=clock.advance).run(drain=True)

    late = commands.AnswerLate(attempt=1, outcome="succeeded", body=None, code="", affected_count=1)
    carry(old, old.lock(id_), late)
    old.tx.commit()

    with psycopg.connect(url) as tx:
        assert intent_of(tx, id_).state is State.SUCCEEDED
    assert proved(url).problems == ()


@pytest.mark.parametrize("first", ["old", "new"])
def test_an_intent_that_one_release_claims_at_this_moment_is_passed_by_by_the_other(
    first, old, new, url, clock, world
):
    """Held between the claim and its commit, in both orders."""
    ref = call(new, "O-1")
    if first == "old":
        (one,) = old.lock_due()
        assert new.worker_of("new")._dispatcher.run_once(10).count == 0
        carry(old, one, CLAIM, BEGIN, SUCCEED)
        old.tx.commit()
    else:
        with psycopg.connect(url, autocommit=True) as observer:
            halt = Halt(observer, at="before COMMIT")
            staged = Office(url, world, rows=ROWS, pause=clock.advance)
            with ThreadPoolExecutor(1) as thread, halt.watching(staged):
                claiming = thread.submit(staged.worker_of("new")._dispatcher.run_once, 10)
                halt.wait()
                assert old.lock_due() == []
                old.tx.commit()
                halt.go()
                assert claiming.result().count == 1
        assert old.lock_due() == []
    assert new.kinds(ref).count("claimed") == 1


def unread(url: str) -> set[tuple[str, int]]:
    """What lies in the log and can't be read by the release before."""
    with psycopg.connect(url) as tx:
        stored = tx.execute("SELECT kind, schema, payload FROM takeback.events").fetchall()
    return {
        (kind, schema) for kind, schema, payload in stored if not is_read(kind, schema, payload)
    }


def test_whatever_this_release_records_by_itself_is_read_by_the_one_before(url, world, clock):
    """Until connectors, priorities or orderings are declared."""
    make_cases(url)
    rows = tuple(one for one in OFFICE if one.name != "telex")
    new = Office(url, world, rows=rows, pause=clock.advance)
    world.on["ship"] = lambda called: 1 / 0
    world.on["wire"] = lambda called: 1 / 0

    new.call_many(None, [Call(tool="send_letter", arguments={"to": f"O-{n}"}) for n in range(3)])
    refs = {one.name: call(new, one.name, one.name) for one in rows}
    new.approve(None, refs["grant"], principal="dana")
    new.deny(None, refs["open_case"], principal="dana", reason="no")
    new.restore(None, refs["hold_letter"])
    new.restore(None, refs["file_case"])
    new.freeze(tool="charge", reason="why", principal="dana")
    clock.advance(5)
    new.thaw(tool="charge", reason="so", principal="dana")
    clock.advance(5)
    new.worker_of("new", sleep=clock.advance).run(drain=True)
    new.restore(None, refs["pay"])
    clock.advance(60)
    new.worker_of("new", sleep=clock.advance).run(drain=True)

    states = {tool: new.state(ref) for tool, ref in refs.items()}
    assert (states["pay"], states["ship"], states["grant"]) == ("restored", "parked", "succeeded")
    assert unread(url) == set()
    new.close()
    urgent = row("send_letter", Remote(upstream=BLIND, priority=HIGH))
    declared = Office(url, world, rows=(urgent,))
    declared.call(None, "send_letter", {"to": "robin"})
    declared.close()
    assert unread(url) == {("intent.recorded", 3)}


def test_what_the_release_before_held_leaves_with_the_workers_of_this_one(
    old, new, scribe, clock, world
):
    """Recorded before the deploy with an undo window, due after it."""
    old.recorded(scribe.entry())
    old.tx.commit()
    assert new.worker_of("new", sleep=clock.advance).run(drain=True).performed == 0
    clock.advance(61)
    assert new.worker_of("new", sleep=clock.advance).run(drain=True).performed == 1
    assert world.arrived(TO) == 1
