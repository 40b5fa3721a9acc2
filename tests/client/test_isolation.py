"""Callers at every isolation level, twins and locks held mid-flight: nobody waits, none is lost."""

import threading
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text

from takeback import RetryTransaction
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import lock
from takeback.ledger.transaction import adopt
from takeback.model import command as commands
from takeback.model.decide import decide
from takeback.model.evolve import foresee
from tests.client.desk import Pauses, in_thread

LETTER = {"to": "dana@example.com", "subject": "hello"}
REFUND = {"charge": "c1", "amount": 100, "currency": "EUR"}
LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
PATIENCE_S = 1.2
"""A caller is told within about a second that a twin is on its way."""


@pytest.fixture(params=LEVELS)
def level(request):
    return request.param


def begin(caller, level):
    """A transaction of that level, whose snapshot is taken."""
    caller.sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
    caller.sql("SELECT 1")


@pytest.mark.parametrize(
    "tool, arguments", [("send_letter", LETTER), ("delete_book", {"book": "b1"})]
)
def test_an_uncommitted_twin_is_in_progress_and_nobody_is_blocked_or_aborted(
    desk, callers, level, tool, arguments
):
    """mastodon #37879: the second request came before the first had ended."""
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)
    first, second = callers(), callers("session")
    ours = first.call(app, tool, arguments)
    begin(second, level)
    second.sql("INSERT INTO desk.books (id, title) VALUES ('mine', 'Ticket')")
    told = second.call(app, tool, arguments)
    assert (told.status, told.code) == ("in_progress", "in_progress")
    assert told.error["class"] == "transient"
    assert told.error["retry_after_s"] is not None
    assert told["repeat_can_succeed"] is True
    assert told.ref is None
    assert 0.5 < sum(pauses.seconds) <= PATIENCE_S
    second.commit()
    assert desk.book("mine") is not None, "the second caller's transaction is lost"
    first.commit()
    assert list(desk.states()) == [ours.ref]


def test_a_twin_that_commits_while_it_is_waited_for_is_replayed(desk, callers):
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)
    first, second = callers(), callers()
    ours = first.call(app, "send_letter", LETTER)
    pauses.meanwhile = first.commit
    told = second.call(app, "send_letter", LETTER)
    assert (told.ref, told["replayed"]) == (ours.ref, True)
    assert len(pauses.seconds) == 1


def test_a_twin_that_is_rolled_back_while_it_is_waited_for_leaves_the_key_free(desk, callers):
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)
    first, second = callers(), callers()
    first.call(app, "send_letter", LETTER)
    pauses.meanwhile = first.rollback
    told = second.call(app, "send_letter", LETTER)
    assert (told.status, told["replayed"]) == ("scheduled", False)
    second.commit()
    assert list(desk.states()) == [told.ref]


@pytest.mark.parametrize("snapshot", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_twin_behind_the_snapshot_loses_the_transaction_which_succeeds_when_run_again(
    desk, joined, snapshot
):
    begin(joined, snapshot)
    theirs = desk.app.call(None, "send_letter", LETTER)
    with pytest.raises(RetryTransaction, match="roll it back and run all of it again"):
        joined.call(desk.app, "send_letter", LETTER)
    joined.rollback()
    begin(joined, snapshot)
    again = joined.call(desk.app, "send_letter", LETTER)
    joined.commit()
    assert (again.ref, again["replayed"]) == (theirs.ref, True)
    assert list(desk.states()) == [theirs.ref]


def test_under_read_committed_a_twin_behind_the_first_statement_is_replayed(desk, joined):
    begin(joined, "READ COMMITTED")
    theirs = desk.app.call(None, "send_letter", LETTER)
    told = joined.call(desk.app, "send_letter", LETTER)
    joined.commit()
    assert (told.ref, told["replayed"]) == (theirs.ref, True)


@pytest.mark.parametrize("snapshot", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_batch_with_a_twin_behind_the_snapshot_loses_the_transaction(desk, joined, snapshot):
    from takeback import Call

    begin(joined, snapshot)
    desk.app.call(None, "send_letter", LETTER)
    with pytest.raises(RetryTransaction):
        joined.call_many(desk.app, [Call(tool="send_letter", arguments=LETTER)])
    joined.rollback()
    (again,) = joined.call_many(desk.app, [Call(tool="send_letter", arguments=LETTER)])
    assert again["replayed"] is True


@pytest.mark.parametrize("snapshot", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_restore_of_what_changed_behind_the_snapshot_loses_the_transaction(
    desk, joined, snapshot
):
    letter = desk.app.call(None, "send_letter", LETTER)
    begin(joined, snapshot)
    theirs = desk.app.restore(None, letter.ref)
    with pytest.raises(RetryTransaction):
        joined.restore(desk.app, letter.ref)
    joined.rollback()
    again = joined.restore(desk.app, letter.ref)
    assert (again.ref, again["replayed"]) == (theirs.ref, True)


@pytest.mark.parametrize("snapshot", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_handler_that_meets_a_serialization_failure_loses_the_callers_transaction(
    desk, joined, snapshot
):
    begin(joined, snapshot)
    desk.rows("UPDATE desk.books SET version = 7 WHERE id = 'b1'")
    with pytest.raises(RetryTransaction):
        joined.call(desk.app, "set_state", {"book": "b1", "state": "lost"})
    joined.rollback()
    begin(joined, snapshot)
    assert joined.call(desk.app, "set_state", {"book": "b1", "state": "lost"}).status == "done"
    joined.commit()
    assert desk.book("b1") == ("b1", "Emma", "lost", 8)


@pytest.mark.parametrize("snapshot", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_repeat_whose_row_changed_behind_the_snapshot_loses_the_transaction(
    desk, joined, snapshot
):
    """Whether the effect still stands is asked under a lock, and the snapshot doesn't know."""
    desk.app.call(None, "set_state", {"book": "b1", "state": "lost"})
    begin(joined, snapshot)
    desk.rows("UPDATE desk.books SET state = 'in' WHERE id = 'b1'")
    with pytest.raises(RetryTransaction):
        joined.call(desk.app, "set_state", {"book": "b1", "state": "lost"})


def is_committed(caller):
    """Whether it went through: while tables are small, Postgres takes strangers for neighbours."""
    try:
        caller.commit()
    except psycopg.errors.SerializationFailure:
        caller.rollback()
        return False
    return True


def test_different_calls_of_serializable_callers_commit_at_once_or_when_run_again(desk, callers):
    """The ledger's own reads and writes stop no stranger for good, and lose none of them."""
    for number in range(3):
        desk.app.call(None, "send_letter", LETTER | {"to": f"earlier-{number}"})
    several = [callers() for _ in range(4)]

    def call(number):
        begin(several[number], "SERIALIZABLE")
        several[number].call(desk.app, "send_letter", LETTER | {"to": f"reader-{number}"})

    for number in range(4):
        call(number)
    for number in [n for n, caller in enumerate(several) if not is_committed(caller)]:
        call(number)
        assert is_committed(several[number])
    assert len(desk.states()) == 7


def meeting(own, other, mine, theirs):
    """A handler that changes one book, meets its counterpart there, then wants the other's."""

    def perform(session, arguments):
        session.execute(text("SET LOCAL deadlock_timeout = '20ms'"))
        session.execute(text("UPDATE desk.books SET version = version + 1 WHERE id = :id"), mine)
        own.set()
        assert other.wait(20)
        session.execute(text("UPDATE desk.books SET version = version + 1 WHERE id = :id"), theirs)

    return perform


def test_a_deadlock_in_transactions_of_our_own_is_run_again_inside(desk):
    """S0.10: mastodon #37879: two that get in each other's way are no business of the model."""
    here, there = threading.Event(), threading.Event()
    one = desk.case("one", meeting(here, there, {"id": "b1"}, {"id": "b2"}))
    two = desk.case("two", meeting(there, here, {"id": "b2"}, {"id": "b1"}))
    with in_thread(lambda: desk.app.call(None, "act", {"case": "one"})) as answers:
        second = desk.app.call(None, "act", {"case": "two"})
    assert (answers[0].status, second.status) == ("done", "done")
    assert one.performed + two.performed == 3, "nobody met anybody"
    assert (desk.book("b1")[3], desk.book("b2")[3]) == (3, 3)


def test_a_deadlock_in_a_callers_transaction_raises_and_the_other_goes_on(desk, callers):
    here, there = threading.Event(), threading.Event()
    desk.case("one", meeting(here, there, {"id": "b1"}, {"id": "b2"}))
    desk.case("two", meeting(there, here, {"id": "b2"}, {"id": "b1"}))
    first, second = callers(), callers("session")

    def attempt(caller, case):
        try:
            answer = caller.call(desk.app, "act", {"case": case})
        except RetryTransaction as lost:
            caller.rollback()
            return lost
        caller.commit()
        return answer

    with in_thread(lambda: attempt(first, "one")) as answers:
        outcome = attempt(second, "two")
    lost = [one for one in (answers[0], outcome) if isinstance(one, RetryTransaction)]
    assert len(lost) == 1
    assert list(desk.states().values()) == ["succeeded"]


def test_a_serialization_failure_that_never_ends_is_told_as_in_progress(desk):
    """In a transaction of our own it is tried for three seconds, then the model hears of it."""
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)

    def perform(session, arguments):
        session.execute(text("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$"))

    play = desk.case("unlucky", perform)
    told = app.call(None, "act", {"case": "unlucky"})
    assert (told.status, told.code) == ("in_progress", "in_progress")
    assert told.error["class"] == "transient"
    assert play.performed == len(pauses.seconds) + 1 > 3
    assert sum(pauses.seconds) <= 3
    assert desk.is_empty()


def test_a_statement_timeout_of_the_callers_connection_loses_its_transaction(desk, joined):
    desk.case("slow", lambda session, arguments: session.execute(text("SELECT pg_sleep(60)")))
    joined.sql("SET LOCAL statement_timeout = '50ms'")
    with pytest.raises(RetryTransaction):
        joined.call(desk.app, "act", {"case": "slow"})


def test_a_caller_that_idles_in_its_transaction_holds_up_nobody_else(desk, callers):
    """The idle one holds a key and, by an uncommitted restore, a row: all others go on."""
    held = desk.app.call(None, "send_letter", LETTER)
    idle = callers()
    idle.restore(desk.app, held.ref)
    idle.call(desk.app, "refund", REFUND)
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)
    others = callers("session")
    for caller in (None, others):
        told = (
            app.call(None, "refund", REFUND)
            if caller is None
            else caller.call(app, "refund", REFUND)
        )
        assert told.code == "in_progress"
    assert app.call(None, "refund", REFUND | {"charge": "c2"}).status == "scheduled"
    assert app.call(None, "send_letter", LETTER)["replayed"] is True
    assert app.status(held.ref).status == "scheduled"
    assert [line["ref"] for line in app.list()][-1] == held.ref
    desk.work(app)
    assert desk.world.done == [("refund", 100)]
    idle.rollback()
    assert app.call(None, "refund", REFUND).status == "scheduled"


def test_a_restore_does_not_wait_for_ever_for_another_restore(desk, callers):
    held = desk.app.call(None, "send_letter", LETTER)
    idle, other = callers(), callers("session")
    theirs = idle.restore(desk.app, held.ref)
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)
    for told in (app.restore(None, held.ref), other.restore(app, held.ref)):
        assert (told.status, told.code) == ("in_progress", "in_progress")
        assert told["repeat_can_succeed"] is True
    assert 0.5 < sum(pauses.seconds) / 2 <= PATIENCE_S
    idle.commit()
    again = other.restore(app, held.ref)
    assert (again.ref, again["replayed"]) == (theirs.ref, True)


def test_what_begins_while_its_restore_waits_for_the_row_is_too_late(desk, callers):
    """Undo and beginning race on one row: whoever has it first wins, and both are told so."""
    letter = desk.app.call(None, "send_letter", LETTER)
    desk.shift(timedelta(minutes=2))
    worker = callers()
    tx = adopt(worker.raw)
    (taken,) = lock(tx, "default", [desk.app.show(letter.ref).entry.intent.id])
    claim = decide(taken.intent, commands.Claim(worker="w", lease=timedelta(seconds=30)), taken.now)
    begin = decide(
        foresee(taken.intent, claim, taken.now),
        commands.Begin(lease=timedelta(seconds=30)),
        taken.now,
    )
    append(tx, [Change(taken=taken, events=[*claim, *begin])])
    app = desk.make_app(pauses=Pauses(meanwhile=worker.commit))
    told = app.restore(None, letter.ref)
    assert told.code == "too_late"
    assert desk.states() == {letter.ref: "executing"}


def test_restores_of_two_in_opposite_order_do_not_deadlock(desk, callers):
    one = desk.app.call(None, "send_letter", LETTER | {"to": "one"})
    two = desk.app.call(None, "send_letter", LETTER | {"to": "two"})
    first, second = callers(), callers()
    app = desk.make_app(pauses=Pauses())
    assert first.restore(app, one.ref).status == "done"
    assert second.restore(app, two.ref).status == "done"
    assert first.restore(app, two.ref).status == "in_progress"
    assert second.restore(app, one.ref).status == "in_progress"
    first.commit()
    second.commit()
    assert desk.state(one.ref) == desk.state(two.ref) == "cancelled"


def test_the_worker_goes_on_with_others_while_a_restore_is_uncommitted(desk, callers):
    first = desk.app.call(None, "refund", REFUND)
    second = desk.app.call(None, "refund", REFUND | {"charge": "c2"})
    caller = callers()
    assert caller.restore(desk.app, first.ref).status == "done"
    stop = threading.Event()
    worker = desk.app.worker(name="w1", sleep=stop.wait, stopping=stop.is_set)
    with in_thread(lambda: worker.run(drain=True)):
        desk.wait_until(lambda: desk.state(second.ref) == "succeeded")
        assert desk.state(first.ref) == "due"
        caller.commit()
        desk.wait_until(lambda: desk.state(first.ref) == "cancelled")
        stop.set()
    assert desk.world.done == [("refund", 100)]


def test_what_the_worker_begins_first_is_too_late_for_the_caller(desk, callers):
    """The other winner of the same race: the caller's restore finds it begun."""
    begun, go_on = threading.Event(), threading.Event()

    def perform(arguments, attempt):
        begun.set()
        assert go_on.wait(20)
        return "done"

    desk.case("slow", perform)
    envelope = desk.app.call(None, "deliver", {"case": "slow"})
    caller = callers()
    with in_thread(desk.work):
        assert begun.wait(20)
        told = caller.restore(desk.app, envelope.ref)
        go_on.set()
    assert (told.status, told.code) == ("in_progress", "in_progress")
    assert desk.state(envelope.ref) == "succeeded"
    assert caller.restore(desk.app, envelope.ref).status == "scheduled"
