"""A refused Local call undoes itself and leaves the caller's transaction as usable as before."""

import asyncio
import contextlib

import psycopg
import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from takeback import InvalidReference, NotDispatched, OutcomeUnknown, Performed, Rejected
from takeback.declare import Limit
from takeback.ledger.database import sqlalchemy_url
from takeback.model.errors import HandlerBroke
from tests.client.desk import Book

CHANGE = "UPDATE desk.books SET state = 'lost', version = version + 1 WHERE id = 'b1'"
TICKET = "INSERT INTO desk.books (id, title) VALUES ('mine', 'Ticket')"


def after_a_change(problem):
    """A handler that changes a book and then says no."""

    def perform(session, arguments):
        session.execute(text(CHANGE))
        session.add(Book(id="b8", title="Half done"))
        raise problem

    return perform


def breaks_a_constraint_at_once(session, arguments):
    session.execute(text(CHANGE))
    session.execute(text("INSERT INTO desk.books (id, title) VALUES ('b9', 'Emma')"))


def breaks_a_constraint_when_flushed(session, arguments):
    session.execute(text(CHANGE))
    session.add(Book(id="b9", title="Emma"))


def goes_on_in_a_failed_transaction(session, arguments):
    session.execute(text(CHANGE))
    with contextlib.suppress(Exception):
        session.execute(text("SELECT 1 / 0"))
    session.execute(text("SELECT 1"))


def has_no_such_table(session, arguments):
    session.execute(text("SELECT 1 FROM desk.nowhere"))


def commits(session, arguments):
    session.execute(text(CHANGE))
    session.commit()


def commits_after_a_savepoint(session, arguments):
    with session.begin_nested():
        session.execute(text(CHANGE))
    session.commit()


def leaves_a_savepoint_open(session, arguments):
    session.begin_nested()
    session.execute(text(CHANGE))


REFUSALS = {
    "rejected": (after_a_change(Rejected("the book is on loan")), "provider_rejected"),
    "invalid_reference": (
        after_a_change(InvalidReference("case", "x", message="is unknown", permitted=["y"])),
        "invalid_argument",
    ),
    "not_dispatched": (after_a_change(NotDispatched("secret")), "provider_unavailable"),
    "outcome_unknown": (after_a_change(OutcomeUnknown("secret")), "internal_error"),
    "exception": (after_a_change(ZeroDivisionError("secret")), "internal_error"),
    "integrity_error": (breaks_a_constraint_at_once, "internal_error"),
    "flush_error": (breaks_a_constraint_when_flushed, "internal_error"),
    "failed_transaction": (goes_on_in_a_failed_transaction, "internal_error"),
    "missing_table": (has_no_such_table, "internal_error"),
    "commit": (commits, "internal_error"),
    "commit_after_savepoint": (commits_after_a_savepoint, "internal_error"),
    "open_savepoint": (leaves_a_savepoint_open, "internal_error"),
}


@pytest.mark.parametrize("name", list(REFUSALS))
def test_a_refused_local_call_undoes_itself_and_leaves_the_transaction_usable(desk, joined, name):
    perform, code = REFUSALS[name]
    desk.case(name, perform)
    joined.sql(TICKET)
    xid = joined.xid()
    refused = joined.call(desk.app, "act", {"case": name})
    assert refused.code == code
    assert refused["effect"] == "none"
    assert refused["repeat_can_succeed"] is (name == "not_dispatched")
    assert joined.xid() == xid
    kept = joined.call(desk.app, "send_letter", {"to": "dana", "subject": name})
    joined.commit()
    assert desk.book("mine") is not None
    assert desk.book("b1") == ("b1", "Emma", "in", 1)
    assert desk.book("b8") is None
    assert desk.state(kept.ref) == "held"
    assert desk.tools() == (["act"] if name == "rejected" else []) + ["send_letter"]


@pytest.mark.parametrize("awaiting", [False, True], ids=["call", "acall"])
@pytest.mark.parametrize("name", list(REFUSALS))
def test_a_refused_local_call_undoes_itself_in_a_transaction_of_its_own(desk, name, awaiting):
    perform, code = REFUSALS[name]
    desk.case(name, perform)
    if awaiting:
        refused = asyncio.run(desk.app.acall(None, "act", {"case": name}))
    else:
        refused = desk.app.call(None, "act", {"case": name})
    assert refused.code == code
    assert desk.book("b1") == ("b1", "Emma", "in", 1)
    assert desk.tools() == (["act"] if name == "rejected" else [])
    assert desk.plays[name].performed == 1


def test_a_rejection_is_remembered_and_a_repeat_touches_nothing(desk, joined):
    """S2.3."""
    play = desk.case("no", after_a_change(Rejected("on loan", alternatives=[{"case": "later"}])))
    first = joined.call(desk.app, "act", {"case": "no"})
    joined.commit()
    assert desk.state(first.ref) == "failed"
    repeat = joined.call(desk.app, "act", {"case": "no"})
    assert play.performed == 1
    assert repeat.ref == first.ref
    assert repeat["replayed"] is True
    assert repeat.error == first.error
    assert first.error["message"] == "on loan"
    assert first.error["alternatives"] == [{"case": "later"}]
    assert first.restore is None
    assert first["no_restore"] == "it never happened, so there is nothing to take back"


def test_a_rejection_is_forgotten_when_the_caller_rolls_back(desk, joined):
    play = desk.case("no", after_a_change(Rejected("on loan")))
    joined.call(desk.app, "act", {"case": "no"})
    joined.rollback()
    assert desk.is_empty()
    joined.call(desk.app, "act", {"case": "no"})
    assert play.performed == 2


def test_a_wrong_reference_does_not_brick_the_key(desk, joined):
    """A validation error under a key must not be its answer for ever."""
    missing = joined.call(desk.app, "set_state", {"book": "b7", "state": "out"})
    assert missing.code == "invalid_argument"
    (violation,) = missing.error["violations"]
    assert violation["field"] == "book"
    assert violation["received"] == "b7"
    assert violation["permitted"] == ["b1", "b2", "b3"]
    assert desk.is_empty()
    joined.sql("INSERT INTO desk.books (id, title) VALUES ('b7', 'New')")
    assert joined.call(desk.app, "set_state", {"book": "b7", "state": "out"}).status == "done"
    joined.commit()
    assert desk.book("b7") == ("b7", "New", "out", 2)


def test_a_handler_that_broke_may_be_called_again(desk, joined):
    play = desk.case("flaky", after_a_change(ZeroDivisionError()))
    assert joined.call(desk.app, "act", {"case": "flaky"}).code == "internal_error"
    play.perform = None
    assert joined.call(desk.app, "act", {"case": "flaky"}).status == "done"
    joined.commit()
    assert play.performed == 2


def test_without_a_savepoint_the_refusal_is_raised(desk, joined):
    desk.case("no", after_a_change(Rejected("on loan")))
    with pytest.raises(Rejected, match="on loan"):
        joined.call(desk.app, "act", {"case": "no"}, savepoint=False)
    joined.rollback()
    desk.case("broken", after_a_change(ZeroDivisionError("secret")))
    with pytest.raises(HandlerBroke) as raised:
        joined.call(desk.app, "act", {"case": "broken"}, savepoint=False)
    assert "secret" not in str(raised.value)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    joined.rollback()
    assert desk.is_empty()
    assert desk.book("b1") == ("b1", "Emma", "in", 1)


def test_without_a_savepoint_a_call_in_its_own_transaction_is_rolled_back(desk):
    desk.case("no", after_a_change(Rejected("on loan")))
    with pytest.raises(Rejected):
        desk.app.call(None, "act", {"case": "no"}, savepoint=False)
    assert desk.is_empty()
    assert desk.book("b1") == ("b1", "Emma", "in", 1)


def test_without_a_savepoint_a_good_call_is_as_good(desk, joined):
    envelope = joined.call(desk.app, "delete_book", {"book": "b1"}, savepoint=False)
    joined.commit()
    assert desk.state(envelope.ref) == "succeeded"
    assert desk.book("b1") is None


def test_the_objects_of_the_session_are_put_back_after_a_refusal(desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)

    def perform(session, arguments):
        book = session.get(Book, "b1")
        book.state = "lost"
        session.add(Book(id="b8", title="Half done"))
        session.flush()
        raise Rejected("on loan")

    desk.case("no", perform)
    with Session(engine) as session, session.begin():
        book = session.get_one(Book, "b1")
        book.title = "Emma, annotated"
        pending = Book(id="mine", title="Ticket")
        session.add(pending)
        assert desk.app.call(session, "act", {"case": "no"}).code == "provider_rejected"
        assert (book.title, book.state) == ("Emma, annotated", "in")
        assert session.scalars(select(Book.id).order_by(Book.id)).all() == [
            "b1",
            "b2",
            "b3",
            "mine",
        ]
        assert session.get(Book, "b8") is None
        assert pending in session
    engine.dispose()
    assert desk.book("b1") == ("b1", "Emma, annotated", "in", 1)
    assert desk.book("mine") is not None


def test_a_call_in_the_callers_own_savepoint_goes_with_it(desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        kept = desk.app.call(session, "send_letter", {"to": "dana", "subject": "kept"})
        savepoint = session.begin_nested()
        desk.app.call(session, "send_letter", {"to": "eve", "subject": "dropped"})
        desk.app.call(session, "delete_book", {"book": "b1"})
        savepoint.rollback()
        again = desk.app.call(session, "delete_book", {"book": "b1"})
        assert again["replayed"] is False
    engine.dispose()
    assert desk.states() == {kept.ref: "held", again.ref: "succeeded"}


def test_a_call_rolled_back_to_a_savepoint_leaves_its_key_to_others(desk, callers):
    """ROLLBACK TO a savepoint frees the advisory lock that was taken inside of it."""
    letter = {"to": "dana", "subject": "hello"}
    first, other = callers("psycopg"), callers("psycopg")
    first.sql("SAVEPOINT mine")
    first.call(desk.app, "send_letter", letter)
    first.sql("ROLLBACK TO SAVEPOINT mine")
    theirs = other.call(desk.app, "send_letter", letter)
    assert theirs.status == "scheduled"
    other.commit()
    ours = first.call(desk.app, "send_letter", letter)
    assert (ours.ref, ours["replayed"]) == (theirs.ref, True)
    first.commit()


def test_refused_calls_nest_in_the_handlers_of_others(desk):
    """A handler that calls another tool hears of its refusal, and goes on."""
    desk.case("inner", after_a_change(Rejected("on loan")))

    def outer(session, arguments):
        session.execute(text("UPDATE desk.books SET state = 'out' WHERE id = 'b2'"))
        inner = desk.app.call(session, "act", {"case": "inner"})
        return Performed(summary=f"the inner one was {inner.status}")

    desk.case("outer", outer)
    envelope = desk.app.call(None, "act", {"case": "outer"})
    assert envelope.summary == "the inner one was refused"
    assert desk.book("b2")[2] == "out"
    assert desk.book("b1")[2] == "in"
    assert sorted(desk.states().values()) == ["failed", "succeeded"]


def test_a_handler_that_makes_its_own_call_again_hears_that_it_is_under_way(desk):
    """An equal call inside of itself is a repeat: it ends, and nothing is done twice."""
    heard: list = []

    def perform(session, arguments):
        heard.append(desk.app.call(session, "act", {"case": "x"}))

    play = desk.case("x", perform)
    envelope = desk.app.call(None, "act", {"case": "x"})
    assert (envelope.status, play.performed) == ("done", 1)
    assert (heard[0].ref, heard[0]["replayed"], heard[0].restore) == (envelope.ref, True, None)


def test_while_a_handler_runs_the_transaction_names_its_intent(desk, joined):
    who = (
        "SELECT current_setting('takeback.tenant', true), current_setting('takeback.intent', true)"
    )

    def outer(session, arguments):
        mine = session.execute(text(who)).one()
        desk.app.call(session, "act", {"case": "inner"})
        return [list(mine), list(session.execute(text(who)).one())]

    desk.case("inner", lambda session, arguments: list(session.execute(text(who)).one()))
    desk.case("outer", outer)
    envelope = joined.call(desk.app, "act", {"case": "outer"})
    joined.commit()
    entry = desk.app.show(envelope.ref).entry
    before, after = entry.bodies["result"]["result"]
    assert before == ["default", str(entry.intent.id)]
    assert after == before, "the inner call has forgotten whose turn it is"
    assert joined.sql("SELECT coalesce(current_setting('takeback.intent', true), '')") == [("",)]


def test_a_deferred_constraint_refuses_the_commit_without_words_of_its_own(desk, caplog):
    def perform(session, arguments):
        session.execute(text("INSERT INTO desk.loans VALUES ('l9', 'no such book')"))

    desk.case("deferred", perform)
    envelope = desk.app.call(None, "act", {"case": "deferred"})
    assert envelope.code == "internal_error"
    assert envelope["effect"] == "none"
    assert "loan" not in envelope.to_json()
    assert "loan_is_of_a_book" in caplog.text
    assert envelope["trace_id"] in caplog.text
    assert desk.is_empty()


def test_a_read_that_breaks_leaves_the_callers_transaction_usable(desk, joined):
    desk.case("broken", lambda session, arguments: session.execute(text("SELECT 1 / 0")).all())
    joined.sql(TICKET)
    envelope = joined.call(desk.app, "look", {"case": "broken"})
    assert (envelope.status, envelope.code) == ("unavailable", "provider_unavailable")
    assert envelope["repeat_can_succeed"] is True
    joined.commit()
    assert desk.book("mine") is not None


@pytest.mark.parametrize("door", ["call", "preview"])
def test_a_handler_that_says_nothing_of_its_failed_statement_has_broken(desk, joined, door):
    """The transaction is as usable as before, so nobody is told to roll it back."""

    def silent(session, arguments):
        session.execute(text("UPDATE desk.books SET state = 'lost'"))
        with contextlib.suppress(DBAPIError):
            session.execute(text("SELECT 1 / 0"))

    desk.case("silent", silent)
    arguments = {"case": "silent"}
    tool = "act" if door == "call" else "preview"
    said = arguments if door == "call" else {"tool": "act", "arguments": arguments}
    told = joined.call(desk.app, tool, said)
    assert (told.code, told["effect"], told["repeat_can_succeed"]) == (
        "internal_error",
        "none",
        False,
    )
    assert joined.sql("SELECT state FROM desk.books WHERE id = 'b1'") == [("in",)]
    joined.commit()
    assert desk.is_empty()
    assert desk.app.call(None, "act", arguments).code == "internal_error"


@pytest.mark.filterwarnings("ignore:nested transaction already deassociated")
@pytest.mark.parametrize("door", ["call", "preview"])
@pytest.mark.parametrize("statement", [None, "COMMIT", " /* so */ end;", "prepare transaction 'x'"])
def test_a_handler_commits_nothing_behind_the_back_of_its_session(desk, door, statement):
    """Else a preview would be a call, and a refusal would have changed something."""

    def hasty(session, arguments):
        session.execute(text(CHANGE))
        if statement is None:
            session.connection().commit()
        else:
            session.execute(text(statement))

    desk.case("hasty", hasty)
    arguments = {"case": "hasty"}
    said = arguments if door == "call" else {"tool": "act", "arguments": arguments}
    told = desk.app.call(None, "act" if door == "call" else "preview", said)
    assert (told.code, told["effect"]) == ("internal_error", "none")
    assert desk.is_empty()
    assert desk.book("b1")[2] == "in" and desk.book("mine") is None


def test_a_handler_may_still_go_back_to_a_savepoint_of_its_own(desk, joined):
    def careful(session, arguments):
        session.execute(text("SAVEPOINT mine"))
        session.execute(text("UPDATE desk.books SET state = 'lost'"))
        session.execute(text("ROLLBACK TO SAVEPOINT mine"))
        with session.begin_nested() as inner:
            session.execute(text("UPDATE desk.books SET state = 'lost'"))
            inner.rollback()

    desk.case("careful", careful)
    assert joined.call(desk.app, "act", {"case": "careful"}).status == "done"
    joined.commit()
    assert desk.book("b1")[2] == "in"


@pytest.mark.parametrize("limits", [(), (Limit(count=9),)], ids=["plain", "limited"])
def test_a_look_for_drift_that_breaks_leaves_the_callers_transaction_usable(desk, joined, limits):
    def broken(session, original):
        session.execute(text("SELECT 1 / 0"))

    desk.case("shaky", drift=broken)
    app = desk.make_app(changed={"act_standing": {"limits": limits}})
    app.call(None, "act_standing", {"case": "shaky"})
    again = joined.call(app, "act_standing", {"case": "shaky"})
    assert (again.code, again["effect"]) == ("internal_error", "none")
    assert joined.call(app, "send_letter", {"to": "a", "subject": "b"}).status == "scheduled"
    joined.commit()
    assert sorted(desk.states().values()) == ["held", "succeeded"]


def test_a_handler_that_rolls_back_is_told_off_and_changes_nothing(desk, caplog):
    def perform(session, arguments):
        session.execute(text(CHANGE))
        session.rollback()

    desk.case("rollback", perform)
    envelope = desk.app.call(None, "act", {"case": "rollback"})
    assert envelope.code == "internal_error"
    assert "must not end the transaction" in caplog.text
    assert desk.is_empty()
    assert desk.book("b1")[2] == "in"


def test_a_handler_that_commits_is_told_off_in_the_log(desk, caplog):
    desk.case("commit", commits)
    with psycopg.connect(desk.url) as connection:
        desk.app.call(connection, "act", {"case": "commit"})
        connection.rollback()
    assert "leave out session.commit()" in caplog.text
    assert desk.book("b1")[2] == "in"
