"""Two who write about one attempt: the fence lets one through, and the late one is kept."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from takeback.dispatch.crew import HELD_SECONDS
from takeback.dispatch.executor import Ended, Executor
from takeback.dispatch.outcome import INTERRUPTED, Outcome, not_reached, of_answer
from takeback.dispatch.pace import Pace
from takeback.dispatch.reaper import Reaper
from takeback.dispatch.settler import Settler
from takeback.dispatch.work import Work
from takeback.model import command as commands
from takeback.model.errors import DatabaseUnavailable
from takeback.testing.crash import Stage
from tests.dispatch.halt import Halt, Lose
from tests.dispatch.office import Office
from tests.dispatch.shift import Shift, Watch, eventually
from tests.dispatch.step import step

LEASE_SECONDS = 31
DONE = of_answer("done")
REFUSED = not_reached("no")
UNKNOWN = Outcome(kind="in_doubt")
DEFERRED = Outcome(kind="deferred")


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def begun(office: Office, tool: str = "send_letter", to: str = "dana") -> Work:
    """An attempt that has begun, in the hands of a worker that is about to call."""
    office.call(None, tool, {"to": to})
    return begin(office)


def begin(office: Office) -> Work:
    (work,) = office.worker_of("w1")._dispatcher.run_once(1).works
    executor = Executor(context=office.context, pace=Pace(), monotonic=Watch())
    found = executor.begin(work, 30.0)
    assert isinstance(found, Work)
    return found


def settle(office: Office, work: Work, outcome: Outcome) -> list[Ended]:
    return Settler(office.context).settle([Ended(work=work, outcome=outcome)])


def reap(office: Office) -> list[str]:
    return [intent.state.value for intent in Reaper(office.context).run_once()]


def test_a_lease_that_is_over_puts_a_claim_back_and_an_attempt_in_doubt(office, clock):
    """procrastinate #307, pgqueuer #475: jobs of a killed worker were stuck for ever."""
    ref = begun(office).intent.ref
    claimed = office.call(None, "ship", {"to": "dana"}).ref
    office.worker_of("w1")._dispatcher.run_once(1)
    assert reap(office) == []

    clock.advance(LEASE_SECONDS)

    assert sorted(reap(office)) == ["due", "in_doubt"]
    assert (office.state(ref), office.state(claimed)) == ("in_doubt", "due")


def test_the_write_of_a_stale_worker_is_refused_and_kept_as_late(office, clock, caplog):
    """trinity #2846, aegra #547: its owner slept through its lease, and another took over.

    What is written down about the first attempt doesn't fence off the second one's owner.
    """
    stale = begun(office, "pay")
    clock.advance(LEASE_SECONDS)
    reap(office)
    step(office, stale.intent.ref, commands.Requeue(cause="provider_key"))
    fresh = begin(office)

    settle(office, stale, DONE)

    assert office.state(fresh.intent.ref) == "executing"
    assert office.kinds(fresh.intent.ref)[-1] == "answered_late"
    assert any("answered_late" in record.getMessage() for record in caplog.records)
    settle(office, fresh, DONE)
    assert office.kinds(fresh.intent.ref)[-2:] == ["answered_late", "succeeded"]


def test_a_late_answer_does_not_take_a_claim_away(office, clock, world):
    """It comes between the claim and the beginning of the next attempt."""
    stale = begun(office, "ship")
    clock.advance(LEASE_SECONDS)
    reap(office)
    step(office, stale.intent.ref, commands.Requeue(cause="provider_key"))
    (fresh,) = office.worker_of("w2")._dispatcher.run_once(1).works
    settle(office, stale, REFUSED)

    executor = Executor(context=office.context, pace=Pace(), monotonic=Watch())
    begun_again = executor.begin(fresh, 30.0)

    assert isinstance(begun_again, Work) and begun_again.intent.attempt == 2


@pytest.mark.parametrize(
    "outcome, state",
    [(DONE, "succeeded"), (REFUSED, "failed"), (DEFERRED, "failed"), (UNKNOWN, "in_doubt"),
     (INTERRUPTED, "in_doubt")],
    ids=lambda value: getattr(value, "kind", value),
)  # fmt: skip
def test_a_late_answer_settles_what_is_in_doubt_as_far_as_it_knows(outcome, state, office, clock):
    work = begun(office)
    clock.advance(LEASE_SECONDS)
    reap(office)

    assert settle(office, work, outcome) == []

    assert office.state(work.intent.ref) == state


def test_a_late_answer_never_flips_what_a_person_has_decided(office, clock):
    """It is written down as a contradiction, and somebody looks again."""
    work = begun(office)
    clock.advance(LEASE_SECONDS)
    reap(office)
    step(office, work.intent.ref, commands.Fail(code="by_hand", source="person", by="robin"))

    settle(office, work, DONE)

    assert office.state(work.intent.ref) == "failed"
    assert office.kinds(work.intent.ref)[-2:] == ["answered_late", "contradicted"]


def test_of_what_is_purged_a_late_answer_keeps_no_body(database_url, office, clock):
    work = begun(office)
    clock.advance(LEASE_SECONDS)
    reap(office)
    step(office, work.intent.ref, commands.Fail(code="by_hand", source="person", by="robin"))
    step(office, work.intent.ref, commands.Purge())
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM takeback.bodies")

    settle(office, work, DONE)

    assert office.show(work.intent.ref).entry.bodies == {}
    assert office.verify().problems == ()


def test_when_the_reaper_is_faster_the_answer_still_counts(
    office, clock, observer, database_url, world
):
    """river #1302: the rescuer overwrote a finished job. Here the reaper holds the row first."""
    work = begun(office)
    clock.advance(LEASE_SECONDS)
    halt = Halt(observer, at="before COMMIT")
    with halt.watching(Office(database_url, world)) as other, ThreadPoolExecutor(1) as thread:
        reaping = thread.submit(reap, other)
        halt.wait()
        left = settle(office, work, DONE)
        assert [one.work.intent.ref for one in left] == [work.intent.ref], "the row is held"
        halt.go()
        assert reaping.result() == ["in_doubt"]

    assert settle(office, work, DONE) == []
    assert office.state(work.intent.ref) == "succeeded"


def test_when_the_answer_is_faster_the_reaper_finds_nothing(
    office, clock, observer, database_url, world
):
    """river #1302, the other way round: the settle is written and not committed yet."""
    work = begun(office)
    clock.advance(LEASE_SECONDS)
    halt = Halt(observer, at="before COMMIT")
    with halt.watching(Office(database_url, world)) as other, ThreadPoolExecutor(1) as thread:
        settling = thread.submit(settle, other, work, DONE)
        halt.wait()
        assert reap(office) == []
        halt.go()
        assert settling.result() == []

    assert reap(office) == []
    assert office.kinds(work.intent.ref)[-1] == "succeeded"


@pytest.mark.parametrize("at", ["before COMMIT", "after COMMIT"])
@pytest.mark.parametrize(
    "outcome, kind",
    [(DONE, "succeeded"), (REFUSED, "failed"), (DEFERRED, "deferred"), (UNKNOWN, "in_doubt"),
     (INTERRUPTED, "deferred")],
    ids=lambda value: getattr(value, "kind", value),
)  # fmt: skip
def test_an_outcome_whose_commit_was_not_answered_is_written_once(
    outcome, kind, at, office, observer, database_url, world
):
    """FINDINGS: our own commit can succeed while we see an error."""
    work = begun(office)
    stage = Lose(observer, at=at)
    with watched(stage, Office(database_url, world)) as other:
        with pytest.raises(DatabaseUnavailable):
            settle(other, work, outcome)
        assert settle(other, work, outcome) == []

    assert stage.struck == [at]
    assert office.kinds(work.intent.ref) == ["recorded", "claimed", "attempt_began", kind]


@pytest.mark.parametrize("at", ["before COMMIT", "after COMMIT"])
def test_a_beginning_whose_commit_was_not_answered_is_no_doubt(
    at, office, observer, database_url, world, clock
):
    """Whether the mark is there, we see; and if it is, it is ours: nobody else begins our claim."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    stage = Lose(observer, at=at, nth=2)
    with watched(stage, Office(database_url, world, pause=clock.advance)) as other:
        other.worker_of("w", sleep=clock.advance, pace=Pace(concurrency=1)).run(drain=True)

    assert stage.struck == [at]
    assert office.kinds(ref) == ["recorded", "claimed", "attempt_began", "succeeded"]
    assert world.called("dana") == 1


def test_a_beginning_that_was_not_answered_for_too_long_is_handed_back(
    office, observer, database_url, world, clock
):
    """It is begun in the ledger, and was never called: due again, and not in doubt."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    stage = Lose(observer, at="after COMMIT", nth=2)
    watch = Watch()
    other = Office(database_url, world, pause=lambda seconds: setattr(watch, "seconds", 29.0))
    with watched(stage, other):
        worker = other.worker_of("w", monotonic=watch)
        claimed = worker._dispatcher.run_once(1)
        worker._crew.take_on(claimed.works, 30.0)
        eventually(lambda: worker._crew.look(0.1) >= 0 and not worker._crew.busy, "it has ended")

    assert office.kinds(ref)[-1] == "deferred" and office.state(ref) == "due"
    assert world.called("dana") == 0


@contextmanager
def watched(stage: Stage, office: Office) -> Iterator[Office]:
    stage.watch(*office.context.database.engines)
    yield office
    office.close()


def test_an_outcome_whose_row_is_held_stops_nobody(office, observer, database_url, world):
    """A caller sits in an open transaction on it: the others are settled, and claims go on."""
    refs = [office.call(None, "ship", {"to": f"robin-{n}"}).ref for n in range(3)]
    held = refs[1]
    with psycopg.connect(database_url) as caller:

        def hold(called: Any) -> Any:
            if called.to == "robin-1":
                caller.execute("SELECT FROM takeback.intents WHERE ref = %s FOR UPDATE", [held])
            return world.arrive(called)

        world.on["ship"] = hold
        with Shift(office) as shift:
            eventually(lambda: world.arrived("robin-1") == 1, "it has happened")
            later = office.call(None, "ship", {"to": "dana"}).ref
            others = [refs[0], refs[2], later]
            eventually(
                lambda: {office.state(r) for r in others} == {"succeeded"}, "others are done"
            )
            assert office.state(held) == "executing"
            caller.rollback()
            shift.watch.seconds += 2 * HELD_SECONDS
            eventually(lambda: office.state(held) == "succeeded", "it is settled when it is free")


def test_a_restore_whose_original_is_held_stops_nobody(office, database_url, world, clock):
    """The end of a restore changes two rows: both, or none for now."""
    refs = [office.call(None, "ship", {"to": f"robin-{n}"}).ref for n in range(2)]
    office.worker_of("w", sleep=clock.advance).run(drain=True)
    restores = [office.restore(None, ref).ref for ref in refs]
    with psycopg.connect(database_url) as caller:
        caller.execute("SELECT FROM takeback.intents WHERE ref = %s FOR UPDATE", [refs[0]])
        with Shift(office) as shift:
            eventually(lambda: office.state(refs[1]) == "restored", "the other is taken back")
            eventually(lambda: world.arrived("robin-0", tool="unship") == 1, "it has happened")
            assert [office.state(restores[0]), office.state(refs[0])] == ["executing", "restoring"]
            caller.rollback()
            shift.watch.seconds += 2 * HELD_SECONDS
            eventually(lambda: office.state(refs[0]) == "restored", "it is taken back too")

    assert [office.state(ref) for ref in restores] == ["succeeded", "succeeded"]


@pytest.mark.parametrize(
    "outcome, restore, original",
    [
        (DONE, "succeeded", "restored"),
        (REFUSED, "failed", "restore_failed"),
        (UNKNOWN, "in_doubt", "in_doubt"),
        (DEFERRED, "due", "restoring"),
        (INTERRUPTED, "due", "restoring"),
        (None, "in_doubt", "in_doubt"),
    ],
    ids=["done", "refused", "unknown", "deferred", "interrupted", "lease over"],
)
def test_an_original_stands_as_its_restore_has_ended(outcome, restore, original, office, clock):
    """In doubt about the one is in doubt about the other; a late answer settles both."""
    ref = office.call(None, "ship", {"to": "dana"}).ref
    office.worker_of("w", sleep=clock.advance).run(drain=True)
    via = office.restore(None, ref).ref
    work = begin(office)

    if outcome is None:
        clock.advance(LEASE_SECONDS)
        assert reap(office) == ["in_doubt"]
    else:
        settle(office, work, outcome)

    assert (office.state(via), office.state(ref)) == (restore, original)
    if restore == "in_doubt":
        settle(office, work, DONE)
        assert (office.state(via), office.state(ref)) == ("succeeded", "restored")


def test_a_lease_on_a_restore_ends_when_its_original_is_free(office, database_url, clock):
    ref = office.call(None, "ship", {"to": "dana"}).ref
    office.worker_of("w", sleep=clock.advance).run(drain=True)
    office.restore(None, ref)
    begin(office)
    clock.advance(LEASE_SECONDS)
    with psycopg.connect(database_url) as caller:
        caller.execute("SELECT FROM takeback.intents WHERE ref = %s FOR UPDATE", [ref])
        assert reap(office) == []

    assert reap(office) == ["in_doubt"]
    assert office.state(ref) == "in_doubt"
