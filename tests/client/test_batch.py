"""Many calls at once: the same as one by one, in few statements, whatever is among them."""

import threading
import tracemalloc
from datetime import timedelta

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from takeback import Call, InvalidReference, Rejected
from takeback.model.errors import UnsupportedConnection
from tests.client.caller import Counted
from tests.client.desk import Pauses, in_thread

REFUND = {"charge": "c1", "amount": 100, "currency": "EUR"}
STATEMENTS_A_THOUSAND_MAX = 2


def letter(number, **more):
    return Call(tool="send_letter", arguments={"to": f"r{number}", "subject": "x", **more})


def refs(envelopes):
    return [envelope.ref for envelope in envelopes]


def test_answers_come_in_the_order_of_the_calls_and_so_does_the_log(desk, holder):
    calls = [letter(number) for number in (3, 1, 4, 5, 9, 2, 6)]
    answers = holder.call_many(desk.app, calls)
    holder.commit()
    assert [answer.affected[0]["id"] for answer in answers] == [
        call.arguments["to"] for call in calls
    ]
    assert list(desk.states()) == refs(answers)
    assert [line["ref"] for line in desk.app.list()] == refs(answers)[::-1]


def test_nothing_of_a_batch_stays_when_the_caller_rolls_back(desk, holder):
    holder.call_many(desk.app, [letter(1), Call(tool="delete_book", arguments={"book": "b1"})])
    holder.rollback()
    desk.work()
    assert desk.is_empty()
    assert desk.book("b1") is not None


def test_a_preview_among_calls_is_answered_as_alone_and_leaves_nothing(desk, holder):
    asked = {"tool": "delete_book", "arguments": {"book": "b1"}}
    alone = holder.call(desk.app, "preview", asked)
    seen, letters = holder.call_many(desk.app, [Call(tool="preview", arguments=asked), letter(1)])
    holder.commit()
    assert (seen.status, seen.affected) == (alone.status, alone.affected)
    assert seen.affected and seen["expect"]
    assert list(desk.states()) == [letters.ref] and desk.book("b1") is not None
    (wrong,) = desk.app.call_many(None, [Call(tool="preview", arguments={"tool": "no_tool"})])
    assert wrong.status == "refused"


def test_no_calls_are_no_answers(desk, holder):
    assert holder.call_many(desk.app, []) == []
    assert desk.app.call_many(None, []) == []


def test_an_equal_call_in_the_batch_is_a_replay_and_another_one_a_conflict(desk, holder):
    refund = Call(tool="refund", arguments=REFUND)
    other = Call(tool="refund", arguments=REFUND | {"reason": "duplicate"})
    first, repeat, conflict, differs = holder.call_many(
        desk.app, [refund, refund, other, letter(1)]
    )
    assert (first["replayed"], repeat["replayed"]) == (False, True)
    assert repeat.ref == first.ref
    assert (conflict.code, conflict.ref) == ("key_conflict", first.ref)
    assert differs.status == "scheduled"


def test_a_call_that_was_made_before_is_a_replay(desk, holder):
    earlier = desk.app.call(None, "send_letter", letter(2).arguments)
    answers = holder.call_many(desk.app, [letter(1), letter(2), letter(3)])
    assert [answer["replayed"] for answer in answers] == [False, True, False]
    assert answers[1].ref == earlier.ref


def test_refused_calls_do_not_stop_the_others(desk, holder):
    def rejects(session, arguments):
        raise Rejected("no")

    def points_nowhere(session, arguments):
        raise InvalidReference("case", "x", message="is unknown")

    desk.case("rejects", rejects)
    desk.case("points_nowhere", points_nowhere)
    desk.case("breaks", lambda *_: 1 / 0)
    calls = [
        letter(1),
        Call(tool="no_such_tool", arguments={}),
        Call(tool="send_letter", arguments={"to": 7}),
        Call(tool="send_letter", arguments=[]),  # type: ignore[arg-type]
        Call(tool="remind", arguments={"who": "dana"}),
        *(
            Call(tool="act", arguments={"case": case})
            for case in ("rejects", "points_nowhere", "breaks")
        ),
        Call(tool="refund", arguments=REFUND, repeat_of="refund-00000000"),
        Call(tool="refund", arguments=REFUND | {"expect": "x"}),
        Call(tool="look", arguments={"case": "breaks"}),
        Call(tool="delete_book", arguments={"book": "b1"}),
        Call(tool="refund", arguments=REFUND | {"amount": 60_000}),
        letter(2),
    ]
    answers = holder.call_many(desk.app, calls)
    holder.commit()
    assert [answer.code or answer.status for answer in answers] == [
        "scheduled",
        "unknown_tool",
        "invalid_argument",
        "invalid_argument",
        "invalid_argument",
        "provider_rejected",
        "invalid_argument",
        "internal_error",
        "no_such_ref",
        "preview_stale",
        "provider_unavailable",
        "done",
        "needs_approval",
        "scheduled",
    ]
    assert sorted(desk.tools()) == ["act", "delete_book", "refund", "send_letter", "send_letter"]


def test_local_calls_and_reads_are_among_them(desk, holder):
    calls = [
        Call(tool="find_books", arguments={"query": "emma"}),
        Call(tool="rename_book", arguments={"book": "b1", "title": "Persuasion"}),
        Call(tool="find_books", arguments={"query": "emma"}),
        Call(tool="find_books", arguments={"query": "persuasion"}),
    ]
    answers = holder.call_many(desk.app, calls)
    assert [answer.status for answer in answers] == ["ok", "done", "no_matches", "ok"]


def test_a_repeat_that_is_meant_works_in_a_batch(desk, holder):
    first = desk.app.call(None, "refund", REFUND)
    again = Call(tool="refund", arguments=REFUND, repeat_of=first.ref)
    one, two, plain = holder.call_many(
        desk.app, [again, again, Call(tool="refund", arguments=REFUND)]
    )
    assert one.ref == two.ref != first.ref
    assert plain.ref == first.ref


def test_a_wrong_connection_is_refused_before_anything_is_recorded(desk):
    with pytest.raises(UnsupportedConnection):
        desk.app.call_many(object(), [letter(1)])
    assert desk.is_empty()


def test_the_next_generation_opens_in_a_batch_too(desk, holder):
    digest = Call(tool="digest", arguments={"who": "dana"})
    (first,) = desk.app.call_many(None, [digest])
    desk.shift(timedelta(hours=25))
    desk.work()
    (second,) = holder.call_many(desk.app, [digest])
    assert (second["replayed"], second.ref == first.ref) == (False, False)


def test_windows_of_a_batch_count_from_the_commit(desk, holder):
    holder.call_many(desk.app, [letter(1), letter(2)])
    desk.shift(timedelta(seconds=90))
    holder.commit()
    assert desk.rows("SELECT DISTINCT due_at > takeback.now() + '55 s' FROM takeback.intents") == [
        (True,)
    ]


# ── many ─────────────────────────────────────────────────────────────────────────────────────────


def test_five_thousand_calls_are_a_few_statements_and_little_memory(desk):
    calls = [letter(number) for number in range(5_000)]
    Counted.statements = 0
    with Counted.connect(desk.url) as connection:
        before = Counted.statements
        tracemalloc.start()
        answers = desk.app.call_many(connection, calls)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # A round trip to begin the transaction, and one for each thousand.
        assert Counted.statements - before <= 5 * STATEMENTS_A_THOUSAND_MAX
        connection.commit()
    assert len(set(refs(answers))) == 5_000
    assert {answer.status for answer in answers} == {"scheduled"}
    assert (desk.counts()["intents"], desk.counts()["bodies"]) == (5_000, 5_000)
    assert peak < 8_000 * 5_000


def test_large_calls_go_in_more_statements_so_that_memory_stays_bounded(desk):
    calls = [letter(number, note="n" * 1_000_000) for number in range(40)]
    with Counted.connect(desk.url) as connection:
        before = Counted.statements
        tracemalloc.start()
        answers = desk.app.call_many(connection, calls)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert 10 <= Counted.statements - before <= 12
        connection.rollback()
    assert {answer.status for answer in answers} == {"scheduled"}
    assert peak < 40_000_000 * 4


def test_busy_calls_of_a_batch_share_one_patience(desk, callers):
    """A hundred uncommitted twins are told of within about a second, not within a hundred."""
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)
    first, second = callers(), callers("session")
    first.call_many(app, [letter(number) for number in range(100)])
    answers = second.call_many(app, [letter(number) for number in range(-1, 101)])
    assert [answer.status for answer in answers] == [
        "scheduled",
        *["in_progress"] * 100,
        "scheduled",
    ]
    assert sum(pauses.seconds) <= 1.2
    second.commit()
    first.commit()
    assert len(desk.states()) == 102


def test_batches_with_their_keys_in_opposite_order_do_not_deadlock(desk, callers):
    """Both held mid-flight: each has some of the keys, and asks for those of the other."""
    app = desk.make_app(pauses=Pauses())
    first, second = callers(), callers()
    first.call_many(app, [letter(number) for number in range(50)])
    second.call_many(app, [letter(number) for number in range(99, 49, -1)])
    theirs = first.call_many(app, [letter(number) for number in range(99, 49, -1)])
    ours = second.call_many(app, [letter(number) for number in range(50)])
    assert {answer.status for answer in theirs + ours} == {"in_progress"}
    first.commit()
    second.commit()
    assert len(desk.states()) == 100


def test_processes_with_their_keys_in_opposite_order_record_each_once(desk, players):
    batch = [("send_letter", {"to": f"r{number}", "subject": "opposite"}) for number in range(300)]
    batches = [batch, batch[::-1], batch, batch[::-1]]
    answers = players.call_many([2, 2, 2, 2], batches)
    assert len(desk.states()) == 300
    for several in answers:
        for answer in several:
            assert answer["status"] in ("scheduled", "in_progress")
            assert answer.get("ref") in {None, *desk.states()}
    # Whoever was told to come again finds everything.
    again = desk.app.call_many(None, [Call(tool=tool, arguments=args) for tool, args in batch])
    assert all(answer["replayed"] for answer in again)


def test_a_batch_waits_for_a_twin_that_is_about_to_commit(desk, callers):
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)
    first, second = callers(), callers()
    ours = first.call(app, "send_letter", letter(1).arguments)
    pauses.meanwhile = first.commit
    theirs, other = second.call_many(app, [letter(1), letter(2)])
    assert (theirs.ref, theirs["replayed"]) == (ours.ref, True)
    assert other["replayed"] is False


def test_two_threads_with_batches_of_the_same_calls_record_each_once(desk):
    calls = [letter(number) for number in range(200)]
    start = threading.Barrier(2)

    def record():
        start.wait()
        return desk.app.call_many(None, calls)

    with in_thread(record) as others:
        mine = record()
    known = set(desk.states())
    assert len(known) == 200
    assert {answer.ref for answer in [*mine, *others[0]]} - {None} == known


# ── the same as one by one ───────────────────────────────────────────────────────────────────────

LETTERS = st.builds(
    lambda to, note: Call(tool="send_letter", arguments={"to": to, "subject": "x", "note": note}),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["", "n"]),
)
REFUNDS = st.builds(
    lambda amount, reason: Call(
        tool="refund", arguments=REFUND | {"amount": amount, "reason": reason}
    ),
    st.sampled_from([1, 2, 60_000, 0]),
    st.sampled_from(["duplicate", "requested"]),
)
OTHERS = st.sampled_from(
    [
        Call(tool="digest", arguments={"who": "dana"}),
        Call(tool="remind", arguments={"who": "dana"}),
        Call(tool="find_books", arguments={"query": "e"}),
        Call(tool="nothing", arguments={}),
        Call(tool="send_letter", arguments={"to": "a"}),
    ]
)


def folded(desk):
    """What the ledger says, apart from ids and times."""
    intents = desk.rows(
        """
        SELECT tool, tool_version, effect, key, generation, run, principal, state, version,
               window_us, not_before, due_at - recorded_at, affected_count, repeat_of, restores
        FROM takeback.intents ORDER BY key, generation
        """
    )
    bodies = desk.rows("SELECT name, body, octet_length(salt) FROM takeback.bodies ORDER BY body")
    kinds = desk.rows("SELECT kind, schema, version FROM takeback.events ORDER BY 1, 2, 3")
    return intents, bodies, kinds


def told(answers):
    """What the answers say, apart from refs, times and trace ids."""
    return [
        (answer.status, answer.code, answer.get("replayed"), answer.get("affected"))
        for answer in answers
    ]


@pytest.mark.parametrize("owned", [True, False], ids=["own", "joined"])
def test_a_read_that_breaks_its_sql_breaks_no_other_call_of_its_batch(desk, callers, owned):
    def broken(session, arguments):
        session.execute(text("SELECT 1 / 0"))

    desk.case("good")
    desk.case("bad", broken)
    calls = [
        Call(tool="act", arguments={"case": "good"}),
        Call(tool="look", arguments={"case": "bad"}),
        Call(tool="send_letter", arguments={"to": "a", "subject": "b"}),
        Call(tool="set_state", arguments={"book": "b1", "state": "out"}),
    ]
    caller = callers("psycopg")
    told = desk.app.call_many(None, calls) if owned else caller.call_many(desk.app, calls)
    caller.commit()
    assert [one.status for one in told] == ["done", "unavailable", "scheduled", "done"]
    assert sorted(desk.states().values()) == ["held", "succeeded", "succeeded"]
    assert desk.book("b1")[2] == "out"


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(calls=st.lists(LETTERS | REFUNDS | OTHERS, max_size=8))
def test_a_batch_leaves_the_ledger_as_the_same_calls_one_by_one(desk, calls):
    with psycopg.connect(desk.url) as connection:
        together = desk.app.call_many(connection, calls, run="run-1", principal="agent:a")
        connection.commit()
        batch = folded(desk)
    forget(desk)
    with psycopg.connect(desk.url) as connection:
        singly = [
            desk.app.call(connection, call.tool, call.arguments, run="run-1", principal="agent:a")
            for call in calls
        ]
        connection.commit()
        assert folded(desk) == batch
    forget(desk)
    assert told(together) == told(singly)


def forget(desk):
    """Empties the ledger, past the guard of the log."""
    with psycopg.connect(desk.url) as tx:
        tx.execute("ALTER TABLE takeback.events DISABLE TRIGGER events_are_append_only")
        for table in ("bodies", "events", "intents"):
            tx.execute(f"DELETE FROM takeback.{table}")
        tx.execute("ALTER TABLE takeback.events ENABLE ALWAYS TRIGGER events_are_append_only")
