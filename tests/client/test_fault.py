"""What nobody foresaw is an answer with a trace id, and an operator finds the rest under it."""

import threading
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import event, text

from takeback import (
    Call,
    NoAccess,
    NoSuchRef,
    NotDispatched,
    Rejected,
    RetryTransaction,
    TransactionAborted,
)
from takeback.client.calling import call_in
from takeback.client.course import Course
from takeback.client.faulting import DETAILS_LENGTH_MAX, as_it_is, guarded
from takeback.client.owning import in_transaction
from takeback.client.request import Terms, prepare
from takeback.model import errors
from tests.client.desk import Book, Pauses, in_thread
from tests.client.planted import planted

LETTER = {"to": "dana@example.com", "subject": "hello"}
NOTHING: dict[str, str] = {}
REFUSING = "ALTER TABLE takeback.intents ADD CONSTRAINT never CHECK (tool = '') NOT VALID"
"""No code of ours foresees such a constraint."""


def breaks(*_):
    return NOTHING["hunter2"]


def raising(problem):
    def face(*_):
        raise problem

    return face


def kept(desk):
    """The trace ids of what is kept, oldest first."""
    return [row[0] for row in desk.rows("SELECT trace_id FROM takeback.faults ORDER BY at")]


# What an operator sees


def test_a_fault_is_shown_to_an_operator_under_its_trace_id(desk):
    """S2.18: stable internal_error, a trace id, and the effect as it is."""
    desk.case("x", breaks)
    told = desk.app.call(None, "act", {"case": "x"}, run="run-1", principal="agent:a")
    assert (told.status, told.code, told["effect"]) == ("refused", "internal_error", "none")
    fault = desk.app.fault(told["trace_id"])
    assert (fault.tool, fault.run, fault.principal) == ("act", "run-1", "agent:a")
    assert (fault.kind, fault.effect) == ("builtins.KeyError", "none")
    assert "hunter2" in fault.details
    assert "in breaks" in fault.details
    assert fault.at == desk.value("SELECT at FROM takeback.faults")
    assert desk.app.fault(f" {told['trace_id'].upper()} ") == fault


async def test_a_fault_is_shown_to_async_code_too(desk):
    desk.case("x", breaks)
    told = await desk.app.acall(None, "act", {"case": "x"})
    assert (await desk.app.afault(told["trace_id"])).kind == "builtins.KeyError"


def test_a_fault_of_another_tenant_is_none_of_ours(desk):
    desk.case("x", breaks)
    told = desk.app.call(None, "act", {"case": "x"})
    with pytest.raises(NoSuchRef):
        desk.make_app(tenant="other").fault(told["trace_id"])


@pytest.mark.parametrize("trace_id", ["", "0" * 16, "x" * 16, "act-7F3K9QDM", "0" * 10_000, "\0"])
def test_a_trace_id_under_which_nothing_is_kept_is_no_ref(desk, trace_id):
    with pytest.raises(NoSuchRef):
        desk.app.fault(trace_id)


def test_a_read_that_broke_is_kept_as_well(desk):
    desk.case("x", breaks)
    told = desk.app.call(None, "look", {"case": "x"})
    assert (told.status, told.code) == ("unavailable", "provider_unavailable")
    assert desk.app.fault(told["trace_id"]).kind == "builtins.KeyError"


def test_what_a_handler_says_on_purpose_is_no_fault(desk):
    for number, problem in enumerate((Rejected("no"), NoAccess(), NotDispatched("later"))):
        desk.case(str(number), raising(problem))
        for tool in ("act", "look", "seek"):
            desk.app.call(None, tool, {"case": str(number)})
    assert kept(desk) == []


def test_a_restore_that_broke_is_kept(desk):
    desk.case("x", restore=breaks)
    first = desk.app.call(None, "act", {"case": "x"})
    told = desk.app.restore(None, first.ref, principal="dana")
    assert told.code == "internal_error"
    fault = desk.app.fault(told["trace_id"])
    assert (fault.tool, fault.principal) == ("restore", "dana")
    assert "hunter2" in fault.details


def test_a_handlers_fault_inside_a_callers_transaction_is_kept_although_that_is_rolled_back(
    desk, joined
):
    desk.case("x", breaks)
    told = joined.call(desk.app, "act", {"case": "x"})
    joined.rollback()
    assert told.code == "internal_error"
    assert kept(desk) == [told["trace_id"]]


def test_details_of_any_length_are_kept_with_both_ends(desk):
    desk.case("x", raising(ValueError("begin" + "x" * 100_000 + "end \0 \ud800")))
    told = desk.app.call(None, "act", {"case": "x"})
    details = desk.app.fault(told["trace_id"]).details
    assert len(details) <= DETAILS_LENGTH_MAX + 10
    assert details.startswith("Traceback")
    assert details.rstrip().endswith("end \\u0000 \\ud800")


def test_old_faults_are_forgotten_a_few_with_each_new_one(desk):
    desk.rows(
        """
        INSERT INTO takeback.faults (tenant, trace_id, at, effect, kind, details)
        SELECT 'default', md5(n::text), takeback.now() - '30 days'::interval + n * '1 s'::interval,
               'none', 'old', 'x'
        FROM generate_series(-250, 60) AS n WHERE n NOT BETWEEN 0 AND 50
        """
    )
    desk.case("x", breaks)
    for left in (250 + 10 - 100, 60, 10, 10):
        desk.app.call(None, "act", {"case": "x"})
        assert desk.value("SELECT count(*) FROM takeback.faults WHERE kind = 'old'") == left


def test_a_ledger_that_can_not_keep_it_changes_no_answer(desk, callers, caplog):
    """Somebody holds the table: the answer comes all the same, and the log has everything."""
    blocker = callers()
    blocker.sql("LOCK TABLE takeback.faults IN ACCESS EXCLUSIVE MODE")
    desk.case("x", breaks)
    told = desk.app.call(None, "act", {"case": "x"})
    blocker.rollback()
    assert told.code == "internal_error"
    assert "fault_not_kept" in caplog.text
    assert "hunter2" in caplog.text
    with pytest.raises(NoSuchRef):
        desk.app.fault(told["trace_id"])


def test_the_health_of_the_ledger_counts_the_faults_of_a_day(desk):
    assert desk.app.health().faults == 0
    desk.case("x", breaks)
    for _ in range(3):
        desk.app.call(None, "act", {"case": "x"})
    assert desk.app.health().faults == 3
    desk.shift(timedelta(days=1, seconds=1))
    assert desk.app.health().faults == 0


# Effects: where it broke


@pytest.fixture
def broken(desk):
    """An app whose driver raises what is planted in it."""
    app = desk.make_app()
    return app, planted(app)


ASKED = {
    "remote": lambda app: app.call(None, "send_letter", LETTER),
    "local": lambda app: app.call(None, "delete_book", {"book": "b1"}),
    "read": lambda app: app.call(None, "find_books", {"query": "e"}),
    "restore": lambda app: app.restore(None, "send_letter-7F3K9QDM"),
    "status": lambda app: app.status("send_letter-7F3K9QDM"),
    "batch": lambda app: app.call_many(None, [Call(tool="send_letter", arguments=LETTER)])[0],
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_driver_that_breaks_before_anything_is_written_has_no_effect(desk, broken, asked):
    """S2.18: our own transaction is rolled back, so nothing happened."""
    app, plant = broken
    plant.put(TypeError("SELECT secret"))
    told = ASKED[asked](app)
    if asked == "read":  # its handler is what said the statement
        assert told.status == "unavailable"
    else:
        assert (told.code, told["effect"]) == ("internal_error", "none")
        assert told["repeat_can_succeed"] is False
    assert "secret" not in told.to_json()
    assert "SELECT secret" in desk.app.fault(told["trace_id"]).details
    assert desk.is_empty()
    assert desk.book("b1") is not None


def test_a_commit_that_breaks_for_an_unknown_reason_leaves_the_effect_unknown(desk):
    app = desk.make_app()

    def listen(_):
        raise OSError("the disk is on fire")

    event.listen(app.context.database.engine, "commit", listen, once=True)
    told = app.call(None, "send_letter", LETTER)
    assert (told.code, told["effect"]) == ("internal_error", "unknown")
    assert desk.app.fault(told["trace_id"]).effect == "unknown"
    assert "nobody can say" in told.error["message"]


def test_what_breaks_after_our_commit_says_that_it_was_recorded(desk):
    def work(context):
        request = prepared(context)
        in_transaction(context, None, lambda tx: call_in(context, tx, request))
        return NOTHING["rendering"]

    told = guarded(desk.app.context, Course(tool="send_letter"), work, as_it_is)
    assert (told.code, told["effect"]) == ("internal_error", "committed")
    assert told["repeat_can_succeed"] is False
    (ref,) = desk.states()
    again = desk.app.call(None, "send_letter", LETTER)
    assert (again.ref, again.replayed) == (ref, True)


def test_what_breaks_after_recording_in_a_callers_transaction_is_for_their_commit_to_decide(
    desk, holder
):
    """No savepoint round it, so who commits has the intent, and who rolls back has not."""

    def work(context):
        request = prepared(context)
        in_transaction(context, holder.raw, lambda tx: call_in(context, tx, request))
        return NOTHING["rendering"]

    holder.sql("SELECT 1")
    told = guarded(desk.app.context, Course(tool="send_letter"), work, as_it_is)
    assert (told.code, told["effect"]) == ("internal_error", "unknown")
    holder.commit()
    assert len(desk.states()) == 1


def prepared(context):
    terms = Terms(run=None, principal="agent:a")
    return prepare(context, "send_letter", LETTER, terms, trace_id="5d2d3aa4dd82c1b8")


def test_a_read_that_breaks_after_its_commit_had_no_effect(desk):
    def work(context):
        in_transaction(context, None, lambda tx: tx.session.execute(text("SELECT 1")))
        return NOTHING["rendering"]

    told = guarded(desk.app.context, Course(tool="find_books"), work, as_it_is)
    assert told["effect"] == "none"


# The caller's transaction


def test_a_callers_transaction_that_is_left_aborted_is_raised_and_not_answered(desk, caller):
    """An envelope would let them commit what Postgres rolls back without a word."""
    caller.sql(REFUSING)
    with pytest.raises(TransactionAborted) as caught:
        caller.call(desk.app, "send_letter", LETTER)
    assert "never" in str(caught.value.__cause__)
    assert caught.value.code == "transaction_aborted"
    caller.rollback()
    assert desk.is_empty()


def test_a_mapped_failure_that_aborts_the_callers_transaction_is_raised_too(desk, holder):
    holder.sql("ALTER TABLE takeback.bodies RENAME TO gone")
    with pytest.raises(TransactionAborted) as caught:
        holder.call(desk.app, "send_letter", LETTER)
    assert isinstance(caught.value.__cause__, errors.LedgerClosed)
    holder.rollback()


def test_a_batch_that_aborts_the_callers_transaction_is_raised(desk, holder):
    holder.sql(REFUSING)
    with pytest.raises(TransactionAborted):
        holder.call_many(desk.app, [Call(tool="send_letter", arguments=LETTER)])
    holder.rollback()


def test_a_savepoint_keeps_the_callers_transaction_and_so_the_answer(desk, caller):
    caller.sql(REFUSING)
    told = caller.call(desk.app, "delete_book", {"book": "b1"})
    assert (told.code, told["effect"]) == ("internal_error", "none")
    caller.sql("ALTER TABLE takeback.intents DROP CONSTRAINT never")
    caller.sql("UPDATE desk.books SET title = 'kept' WHERE id = 'b1'")
    caller.commit()
    assert desk.book("b1")[1] == "kept"
    assert "never" in desk.app.fault(told["trace_id"]).details


# What a session finds changed


def stale(session, *_):
    book = session.get(Book, "b1")
    session.execute(text("UPDATE desk.books SET id = id || 'x' WHERE id = 'b1'"))
    book.title = "lost"


def test_a_stale_row_in_our_own_transaction_is_read_again(desk):
    def perform(session, arguments):
        if play.performed == 1:
            stale(session)

    play = desk.case("x", perform)
    assert desk.app.call(None, "act", {"case": "x"}).status == "done"
    assert play.performed == 2
    assert kept(desk) == []


@pytest.mark.parametrize("tool", ["act", "look"])
def test_a_row_that_stays_stale_is_transient(desk, tool):
    """S0.10: repeated inside, then the model is told to come again."""
    desk.case("x", stale)
    pauses = Pauses()
    told = desk.make_app(pauses=pauses).call(None, tool, {"case": "x"})
    assert 0 < sum(pauses.seconds) <= 3
    assert told.code == "in_progress"
    assert told.error["class"] == "transient"
    assert (told["effect"], told["repeat_can_succeed"]) == ("none", True)
    assert told.error["retry_after_s"] >= 1
    assert desk.book("b1")[1] == "Emma"


def test_a_stale_row_in_a_callers_transaction_is_theirs_to_run_again(desk, holder):
    desk.case("x", stale)
    with pytest.raises(RetryTransaction):
        holder.call(desk.app, "act", {"case": "x"})


# The four corners


def rejected(desk):
    desk.case("x", raising(Rejected("no", alternatives=[{"amount": 7}])))
    return desk.app.call(None, "act", {"case": "x"})


def later(desk):
    desk.case("x", raising(NotDispatched("busy", retry_after_s=7)))
    return desk.app.call(None, "act", {"case": "x"})


def in_doubt(desk):
    desk.case("x", breaks)
    told = desk.app.call(None, "deliver", {"case": "x"})
    desk.work()
    return desk.app.status(told.ref)


def replayed(desk):
    desk.case("x")
    desk.app.call(None, "act", {"case": "x"})
    return desk.app.call(None, "act", {"case": "x"})


@pytest.mark.parametrize(
    "make, code, effect, can_succeed",
    [
        (later, "provider_unavailable", "none", True),
        (rejected, "provider_rejected", "none", False),
        (in_doubt, None, "unknown", False),
    ],
)
def test_the_corners_of_effect_and_repeat_are_answered(desk, make, code, effect, can_succeed):
    """S2.2. Unknown and worth repeating: test_trouble; committed: above, and a replay."""
    told = make(desk)
    assert told.code == code
    assert (told["effect"], told["repeat_can_succeed"]) == (effect, can_succeed)


def test_an_effect_that_is_known_is_no_error_but_a_replay(desk):
    """S2.2: committed, and the repeat has its answer."""
    told = replayed(desk)
    assert (told.status, told.replayed, told.error) == ("done", True, None)


@pytest.mark.parametrize(
    "asked, told",
    [(7, 7), (0.5, 0.5), (None, 1), (0, 1), (-3, 1), (float("nan"), 1), (1e9, 86_400.0), ("7", 1)],
)
@pytest.mark.parametrize("tool", ["act", "look"])
def test_a_transient_refusal_says_how_long_to_wait(desk, tool, asked, told):
    """S2.14: retry_after on transient, from the handler where it is a time that one can wait."""
    desk.case("x", raising(NotDispatched("busy", retry_after_s=asked)))
    envelope = desk.app.call(None, tool, {"case": "x"})
    assert envelope.error["class"] == "transient"
    assert envelope.error["retry_after_s"] == told


@pytest.mark.parametrize("tool", ["act", "deliver"])
def test_a_repeat_after_a_terminal_answer_is_answered_by_the_ledger(desk, tool):
    """S2.16, S2.14: the same error object with its alternatives, and no call upstream."""
    play = desk.case("x", raising(Rejected("taken", alternatives=["10:00", "11:00"])))
    first = desk.app.call(None, tool, {"case": "x"})
    desk.work()
    error = desk.app.status(first.ref).error
    assert error["alternatives"] == ["10:00", "11:00"]
    for _ in range(4):
        again = desk.app.call(None, tool, {"case": "x"})
        desk.work()
        assert (again.ref, again.error, again.replayed) == (first.ref, error, True)
    assert play.performed == 1


# No access


def test_a_look_at_one_thing_says_that_there_is_no_access(desk):
    """S0.12: said where the tool is about one resource."""
    play = desk.case("x", raising(NoAccess()))
    told = desk.app.call(None, "look", {"case": "x"})
    assert (told.status, told.code, told["effect"]) == ("refused", "no_access", "none")
    assert told.error["class"] == "terminal"
    assert play.performed == 1


def test_a_search_leaves_out_what_is_forbidden_and_does_not_mention_it(desk):
    """S0.12, S0.7: omitted, and nothing matched is a success."""
    play = desk.case("x", raising(NoAccess("hunter2")))
    told = desk.app.call(None, "seek", {"case": "x"})
    assert (told.status, told.error) == ("no_matches", None)
    assert "hunter2" not in told.to_json()
    assert play.performed == 1


def test_a_write_without_access_is_refused_and_takes_no_key(desk):
    """S0.12: no retry; who is let in later finds nothing in the way."""
    desk.case("x", raising(NoAccess("ask a manager")))
    told = desk.app.call(None, "act", {"case": "x"})
    assert (told.code, told.error["message"]) == ("no_access", "ask a manager")
    assert desk.is_empty()
    desk.case("x")
    assert desk.app.call(None, "act", {"case": "x"}).status == "done"


def test_a_provider_that_gives_no_access_is_asked_once(desk):
    play = desk.case("x", raising(NoAccess()))
    first = desk.app.call(None, "deliver", {"case": "x"})
    desk.work()
    told = desk.app.status(first.ref)
    assert (told.status, told.code, told["effect"]) == ("refused", "no_access", "none")
    assert play.performed == 1


# Down is not empty


def test_nothing_found_is_a_success_and_a_broken_search_is_not_that(desk):
    """S0.7, S0.9."""
    assert desk.app.call(None, "find_books", {"query": "zzz"}).status == "no_matches"
    desk.case("x", breaks)
    told = desk.app.call(None, "seek", {"case": "x"})
    assert (told.status, "matches" in told) == ("unavailable", False)
    assert told.error["class"] == "transient"


# Batches, lists and the log


def test_what_is_no_call_is_refused_and_the_others_go_on(desk):
    wrong, right = desk.app.call_many(
        None, [("send_letter", LETTER), Call(tool="send_letter", arguments=LETTER)]
    )
    assert (wrong.code, right.status) == ("invalid_argument", "scheduled")


def test_a_restore_may_stand_among_other_calls(desk, holder):
    first = desk.app.call(None, "send_letter", LETTER)
    other = LETTER | {"to": "eve@example.com"}
    told = holder.call_many(
        desk.app,
        [
            Call(tool="restore", arguments={"ref": first.ref}),
            Call(tool="restore", arguments={"ref": "send_letter-00000000"}),
            Call(tool="restore", arguments={"reference": first.ref}),
            Call(tool="send_letter", arguments=other),
            Call(tool="restore", arguments={"ref": first.ref}),
        ],
    )
    holder.commit()
    assert [one.status for one in told] == ["done", "refused", "refused", "scheduled", "done"]
    assert (told[1].code, told[2].code) == ("no_such_ref", "invalid_argument")
    assert (told[4].ref, told[4].replayed) == (told[0].ref, True)
    assert desk.state(first.ref) == "cancelled"


def test_a_batch_that_breaks_answers_each_call_and_changes_nothing(desk, broken):
    app, plant = broken
    plant.put(RuntimeError("secret"))
    calls = [Call(tool="send_letter", arguments=LETTER), Call(tool="x", arguments={})]
    first, second = app.call_many(None, calls)
    assert (first.code, second.code) == ("internal_error", "unknown_tool")
    assert desk.is_empty()
    assert "secret" in desk.app.fault(first["trace_id"]).details


@pytest.mark.parametrize(
    "said, fields",
    [
        ({"limit": 0}, ["limit"]),
        ({"limit": -1}, ["limit"]),
        ({"limit": 2**70}, ["limit"]),
        ({"limit": "7"}, ["limit"]),
        ({"state": "asleep", "tool": "a\0b", "run": 7}, ["tool", "run", "state"]),
        ({"run": "\ud800"}, ["run"]),
        ({"since": 7}, ["since"]),
        ({"since": timedelta.min}, ["since"]),
    ],
)
def test_a_list_that_nobody_can_make_is_refused_by_name(desk, said, fields):
    with pytest.raises(errors.InvalidArguments) as caught:
        desk.app.list(**said)
    assert [one.field for one in caught.value.violations] == fields


def test_a_list_of_any_age_is_everything(desk):
    first = desk.app.call(None, "send_letter", LETTER)
    assert [one["ref"] for one in desk.app.list(since=timedelta.max)] == [first.ref]


@pytest.mark.parametrize("after, limit", [(-1, 10), (2**63, 10), ("0", 10), (0, 0), (0, 2**40)])
def test_a_stretch_of_the_log_that_is_none_is_refused_by_name(desk, after, limit):
    with pytest.raises(errors.InvalidArguments):
        desk.app.events(after, limit=limit)


def test_many_requests_that_break_at_once_wait_for_no_connection_of_each_other(desk):
    """What broke is kept once the transaction is over: never a second connection of the pool."""
    gate = threading.Barrier(10)

    def perform(*_):
        gate.wait(20)
        return NOTHING["x"]

    for number in range(10):
        desk.case(str(number), perform)
    asked = [partial(desk.app.call, None, "act", {"case": str(n)}) for n in range(10)]
    calls = [in_thread(one) for one in asked]
    answers = [one.__enter__() for one in calls]
    for one in calls:
        one.__exit__(None, None, None)
    assert {told[0].code for told in answers} == {"internal_error"}
    assert len(kept(desk)) == 10
