"""A preview does everything that the call would do, and leaves nothing of it behind."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from takeback import (
    Affected,
    Envelope,
    Handler,
    InvalidReference,
    NotDispatched,
    Performed,
    Rejected,
    Settings,
    Takeback,
)
from takeback.client.previewing import LATER_CHECKS, OUTSIDE, UNNAMED
from takeback.declare import Catalog
from takeback.ledger.database import sqlalchemy_url
from tests.client.caller import Caller
from tests.client.catalog import CATALOG
from tests.client.desk import Book, Desk, in_thread

DELETION = {"tool": "delete_book", "arguments": {"book": "b1"}}
LEFT = """
SELECT coalesce(current_setting('takeback.tenant', true), ''),
       coalesce(current_setting('takeback.intent', true), ''),
       current_setting('lock_timeout'), current_setting('statement_timeout'),
       (SELECT count(*) FROM takeback.intents), (SELECT count(*) FROM takeback.events),
       (SELECT count(*) FROM takeback.bodies), (SELECT count(*) FROM takeback.tombstones),
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
       (SELECT string_agg(b::text, ' ' ORDER BY b.id) FROM desk.books AS b),
       (SELECT string_agg(l::text, ' ' ORDER BY l.id) FROM desk.loans AS l)
"""


def previewed(desk: Desk, arguments: dict[str, Any], tool: str = "act", tx: object = None):
    return desk.app.preview(tx, tool, arguments)


def named(answer: Envelope) -> list[tuple[str, str]]:
    return [(one["kind"], one["id"]) for one in answer.affected]


def violations(answer: Envelope) -> list[dict[str, Any]]:
    assert answer.error is not None
    return list(answer.error["violations"])


# What is left.


def test_a_preview_leaves_nothing_in_the_transaction_of_any_caller(desk: Desk, caller: Caller):
    """S2.21: and it names the book and its loans."""
    caller.sql("UPDATE desk.books SET state = 'out' WHERE id = 'b3'")
    before = caller.sql(LEFT)
    seen = caller.call(desk.app, "preview", DELETION)
    assert (seen.status, seen["would"]) == ("ok", "done")
    assert named(seen) == [("book", "b1"), ("loan", "l1"), ("loan", "l2")]
    assert caller.sql(LEFT) == before
    with psycopg.connect(desk.url) as other:
        free = other.execute("SELECT id FROM desk.books WHERE id = 'b1' FOR UPDATE NOWAIT")
        assert free.fetchall() == [("b1",)]
    caller.commit()
    assert desk.book("b3") == ("b3", "Dune", "out", 1)
    assert desk.is_empty() and desk.book("b1") is not None


def test_a_call_in_the_same_transaction_is_held_to_its_preview(desk: Desk, caller: Caller):
    seen = caller.call(desk.app, "preview", DELETION)
    done = caller.call(desk.app, "delete_book", {"book": "b1"}, expect=seen["expect"])
    assert done.status == "done"
    caller.commit()
    assert desk.book("b1") is None


def test_a_preview_in_the_same_transaction_sees_what_that_has_changed(desk: Desk, joined: Caller):
    seen = joined.call(desk.app, "preview", DELETION)
    joined.sql("DELETE FROM desk.loans WHERE id = 'l2'")
    told = joined.call(desk.app, "delete_book", {"book": "b1"}, expect=seen["expect"])
    assert told.code == "preview_stale"
    (gone,) = violations(told)
    assert (gone["change"], gone["kind"], gone["id"]) == ("gone", "loan", "l2")
    again = joined.call(desk.app, "preview", DELETION)
    done = joined.call(desk.app, "delete_book", {"book": "b1"}, expect=again["expect"])
    assert done.status == "done"
    joined.commit()


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_preview_works_on_a_snapshot_that_is_kept(desk: Desk, joined: Caller, isolation: str):
    joined.sql(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
    joined.sql("SELECT 1 FROM desk.books")
    seen = joined.call(desk.app, "preview", DELETION)
    done = joined.call(desk.app, "delete_book", {"book": "b1"}, expect=seen["expect"])
    assert done.status == "done"
    joined.commit()


def test_a_preview_inside_an_open_savepoint_leaves_that_as_it_was(desk: Desk, joined: Caller):
    joined.sql("SAVEPOINT mine")
    joined.sql("UPDATE desk.books SET state = 'out' WHERE id = 'b1'")
    seen = joined.call(desk.app, "preview", DELETION)
    assert seen["would"] == "done"
    joined.sql("ROLLBACK TO SAVEPOINT mine")
    joined.commit()
    assert desk.book("b1") == ("b1", "Emma", "in", 1)


def test_what_other_tools_a_handler_calls_is_undone_too(desk: Desk):
    def perform(session: Session, arguments: Any) -> Performed:
        inner = desk.app.call(session, "rename_book", {"book": "b2", "title": "Nausicaa"})
        sent = desk.app.call(session, "send_letter", {"to": "ann", "subject": "new title"})
        assert (inner.status, sent.status) == ("done", "scheduled")
        return Performed(affected=[Affected(kind="book", id="b2")])

    desk.case("nested", perform)
    seen = previewed(desk, {"case": "nested"})
    assert seen["would"] == "done" and named(seen) == [("book", "b2")]
    assert desk.is_empty() and desk.book("b2") == ("b2", "Ulysses", "in", 1)
    assert desk.value("SELECT count(*) FROM takeback.tombstones") == 0


def test_the_callers_objects_keep_their_values_and_are_not_expired(desk: Desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with Session(engine) as session:
        book = session.get_one(Book, "b1")
        book.title = "Emma, again"
        seen = desk.app.preview(session, "set_state", {"book": "b1", "state": "lost"})
        assert seen.affected[0]["label"] == "Emma, again"
        state: Any = inspect(book)
        assert not state.expired and state.dict["state"] == "in"
        assert session.scalar(text("SELECT state FROM desk.books WHERE id = 'b1'")) == "in"
        session.commit()
    assert desk.book("b1") == ("b1", "Emma, again", "in", 1)


def test_a_handler_gets_a_session_of_the_callers_kind(desk: Desk):
    class Own(Session):
        """What an app has hung its hooks on."""

    kinds = []
    desk.case("kind", lambda session, _: kinds.append((type(session), dict(session.info))))
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with Own(engine, info={"who": "ann"}) as session:
        previewed(desk, {"case": "kind"}, tx=session)
    assert kinds == [(Own, {"who": "ann"})]


# What it waits for.


def test_a_rehearsal_bounds_what_it_waits_for_and_keeps_a_stricter_bound(
    desk: Desk, joined: Caller
):
    seen = []

    def perform(session: Session, arguments: Any) -> None:
        seen.append(
            session.execute(
                text("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
            ).one()
        )

    desk.case("a", perform)
    desk.case("b", perform)
    joined.sql("SET LOCAL statement_timeout = '1h'")
    joined.call(desk.app, "preview", {"tool": "act", "arguments": {"case": "a"}})
    joined.sql("SET LOCAL lock_timeout = '250ms'")
    joined.call(desk.app, "preview", {"tool": "act", "arguments": {"case": "b"}})
    assert [tuple(one) for one in seen] == [("1s", "5s"), ("250ms", "5s")]
    after = "SELECT current_setting('lock_timeout'), current_setting('statement_timeout')"
    assert [tuple(one) for one in joined.sql(after)] == [("250ms", "1h")]


def test_what_somebody_else_holds_is_not_waited_for_and_the_transaction_goes_on(
    desk: Desk, joined: Caller
):
    joined.sql("SET LOCAL lock_timeout = '50ms'")
    joined.sql("UPDATE desk.books SET state = 'out' WHERE id = 'b3'")
    with psycopg.connect(desk.url) as other:
        other.execute("UPDATE desk.books SET state = 'out' WHERE id = 'b1'")
        told = joined.call(desk.app, "preview", DELETION)
        assert (told.status, told.code) == ("in_progress", "in_progress")
        assert told.error is not None and told.error["retry_after_s"] is not None
        assert "somebody else is working" in told.error["message"]
        other.rollback()
    assert joined.call(desk.app, "preview", DELETION)["would"] == "done"
    joined.commit()
    assert desk.book("b3") == ("b3", "Dune", "out", 1)


def test_whoever_waits_for_a_preview_goes_on_when_it_ends_before_its_transaction_does(
    desk: Desk, joined: Caller
):
    with psycopg.connect(desk.url) as other:
        pid = other.info.backend_pid
        other.execute("SET statement_timeout = '15s'")

        def perform(session: Session, arguments: Any) -> None:
            session.execute(text("UPDATE desk.books SET state = 'lost' WHERE id = 'b1'"))
            waiting.set()
            desk.wait_for_lock(pid)

        desk.case("held", perform)
        waiting = Event()

        def touch() -> list[tuple[Any, ...]]:
            assert waiting.wait(20)
            found = other.execute(
                "UPDATE desk.books SET state = 'out' WHERE id = 'b1' RETURNING state"
            )
            return found.fetchall()

        with in_thread(touch) as answers:
            joined.call(desk.app, "preview", {"tool": "act", "arguments": {"case": "held"}})
        assert list(answers) == [[("out",)]]
        joined.rollback()


def test_a_statement_that_takes_too_long_is_given_up(desk: Desk, joined: Caller):
    desk.case("slow", lambda session, _: session.execute(text("SELECT pg_sleep(60)")))
    joined.sql("SET LOCAL statement_timeout = '50ms'")
    told = joined.call(desk.app, "preview", {"tool": "act", "arguments": {"case": "slow"}})
    assert told.code == "in_progress"
    assert joined.sql("SELECT 1") == [(1,)]


# What is refused.


@pytest.mark.parametrize(
    "problem",
    [
        InvalidReference("case", "x", message="is none of ours", permitted=["y"]),
        Rejected("it is too late for that", alternatives=[{"case": "y"}]),
        NotDispatched("busy", retry_after_s=7),
        RuntimeError("a secret"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_what_the_call_would_be_refused_the_preview_is_refused(desk: Desk, problem: Exception):
    def perform(session: Session, arguments: Any) -> None:
        session.execute(text("UPDATE desk.books SET state = 'lost'"))
        raise problem

    play = desk.case("no", perform)
    seen = previewed(desk, {"case": "no"})
    assert seen.ref is None and desk.is_empty() and desk.book("b1") == ("b1", "Emma", "in", 1)
    told = desk.app.call(None, "act", {"case": "no"})
    assert (seen.status, seen["effect"], seen.error) == (told.status, "none", told.error)
    assert "secret" not in seen.to_json()
    assert play.performed == 2


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_handler_that_ends_the_transaction_ends_nothing(desk: Desk, joined: Caller, ending: str):
    joined.sql("UPDATE desk.books SET state = 'out' WHERE id = 'b3'")
    desk.case("ends", lambda session, _: getattr(session, ending)())
    told = joined.call(desk.app, "preview", {"tool": "act", "arguments": {"case": "ends"}})
    assert told.code == "internal_error"
    joined.commit()
    assert desk.book("b3") == ("b3", "Dune", "out", 1)


def test_wrong_arguments_are_refused_like_those_of_a_call_and_corrected_to_a_preview(desk: Desk):
    wrong = {"book": "b1", "state": "OUT"}
    seen = previewed(desk, wrong, "set_state")
    told = desk.app.call(None, "set_state", wrong)
    assert violations(seen) == violations(told)
    assert seen.error is not None and told.error is not None
    if told.error["next_call"] is not None:
        assert seen.error["next_call"] == {"tool": "preview", "arguments": told.error["next_call"]}


@pytest.mark.parametrize(
    "call, field",
    [
        ({"tool": "restore", "arguments": {"ref": "x"}}, "tool"),
        ({"tool": "preview", "arguments": {}}, "tool"),
        ({"tool": "act", "arguments": {"case": "a", "expect": "preview-00000000"}}, "expect"),
        ({"tool": "act", "arguments": ["a"]}, "arguments"),
        ({"tool": "act"}, "arguments"),
    ],
    ids=["restore", "preview", "expect", "no_object", "none"],
)
def test_what_can_not_be_previewed_is_said(desk: Desk, call: dict[str, Any], field: str):
    told = desk.app.call(None, "preview", call)
    assert told.status == "refused"
    assert violations(told)[0]["field"] == field


def test_a_tool_that_is_not_there_is_refused_with_its_look_alike(desk: Desk):
    told = previewed(desk, {"book": "b1"}, "delete_bok")
    assert told.code == "unknown_tool"
    assert told.error is not None and told.error["alternatives"][0] == "delete_book"


@pytest.mark.parametrize("tool", [["act"], {"act": 1}, 7, None, "\ud800"], ids=range(5))
def test_what_is_no_name_of_a_tool_is_refused_as_one(desk: Desk, tool: Any):
    assert desk.app.preview(None, tool, {"case": "x"}).code == "unknown_tool"


def test_an_expectation_beside_a_preview_is_refused(desk: Desk):
    told = desk.app.call(None, "preview", DELETION, expect="preview-00000000")
    assert told.code == "unknown_argument"


# What a token is worth.


def test_a_mistyped_token_is_none_and_its_look_alike_is_named(desk: Desk):
    seen = previewed(desk, {"book": "b1"}, "delete_book")
    token = seen["expect"]
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    told = desk.app.call(None, "delete_book", {"book": "b1"}, expect=wrong)
    assert told.code == "preview_stale"
    (about,) = violations(told)
    assert (about["field"], about["nearest"]) == ("expect", [token])
    assert desk.is_empty()
    spelt = desk.app.call(None, "delete_book", {"book": "b1"}, expect=f" {token.lower()} ")
    assert spelt.status == "done"


@pytest.mark.parametrize("expect", ["", "yes", "true", "delete_book-7F3K9QDM", "é" * 500, "a\0b"])
def test_what_is_no_token_at_all_is_refused(desk: Desk, expect: str):
    told = desk.app.call(None, "delete_book", {"book": "b1"}, expect=expect)
    assert told.code == "preview_stale" and desk.is_empty()


def test_another_tenants_token_says_nothing(desk: Desk):
    theirs = desk.make_app(tenant="theirs")
    token = theirs.preview(None, "delete_book", {"book": "b1"})["expect"]
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    told = desk.app.call(None, "delete_book", {"book": "b1"}, expect=token)
    mistyped = desk.app.call(None, "delete_book", {"book": "b1"}, expect=wrong)
    for answer in (told, mistyped):
        assert answer.code == "preview_stale"
        assert violations(answer)[0]["nearest"] == []


def test_a_preview_is_worth_a_day_and_then_forgotten(desk: Desk):
    seen = previewed(desk, {"book": "b1"}, "delete_book")
    desk.shift(timedelta(hours=25))
    told = desk.app.call(None, "delete_book", {"book": "b1"}, expect=seen["expect"])
    assert told.code == "preview_stale"
    previewed(desk, {"book": "b1"}, "delete_book")
    assert desk.value("SELECT count(*) FROM takeback.previews") == 1


def test_a_repeat_of_a_call_that_was_held_to_a_preview_is_a_replay(desk: Desk):
    """S2.9: what it would affect now is not looked at."""
    seen = previewed(desk, {"book": "b1"}, "delete_book")
    first = desk.app.call(None, "delete_book", {"book": "b1"}, expect=seen["expect"])
    again = desk.app.call(None, "delete_book", {"book": "b1"}, expect=seen["expect"])
    assert (again.ref, again.replayed, again.status) == (first.ref, True, "done")


# What is asked instead, and what is not covered.


def test_checks_at_the_commit_are_named_only_where_there_are_some(desk: Desk):
    def deletes(session: Session, arguments: Any) -> None:
        session.execute(text("DELETE FROM desk.books WHERE id = 'b1'"))

    def sets(session: Session, arguments: Any) -> None:
        session.execute(text("UPDATE desk.clock SET shift = '0'"))

    desk.case("books", deletes)
    desk.case("clock", sets)
    assert previewed(desk, {"case": "books"})["not_covered"] == [UNNAMED, LATER_CHECKS, OUTSIDE]
    assert previewed(desk, {"case": "clock"})["not_covered"] == [UNNAMED, OUTSIDE]


@pytest.fixture
def with_faces(desk: Desk) -> Callable[..., Takeback]:
    """An app whose tools of these names have a preview of their own."""

    def make(**faces: Any) -> Takeback:
        def perform(*_: Any) -> None:
            desk.world.done.append(("performed", None))

        handlers = {
            name: Handler(perform=perform, preview=face, restore=lambda *_: None)
            for name, face in faces.items()
        }
        catalog = Catalog(*(tool for tool in CATALOG if tool.name in handlers))
        app = Takeback(catalog, handlers=handlers, settings=Settings(database_url=desk.url))
        desk._apps.append(app)
        return app

    return make


def test_a_handlers_own_preview_is_asked_and_nothing_is_performed(desk: Desk, with_faces: Any):
    def foretell(session: Session, arguments: Any) -> Performed:
        session.execute(text("UPDATE desk.books SET state = 'lost'"))
        return Performed(affected=[Affected(kind="book", id=arguments.book)], summary="It goes.")

    app = with_faces(delete_book=foretell)
    seen = app.preview(None, "delete_book", {"book": "b1"})
    assert (seen["would"], named(seen)) == ("done", [("book", "b1")])
    assert "It goes." in seen.summary
    assert desk.world.done == [] and desk.is_empty()
    assert desk.book("b1") == ("b1", "Emma", "in", 1)


def test_a_remote_tools_own_preview_is_asked_with_no_transaction_open(desk: Desk, with_faces: Any):
    seen_open = []

    async def foretell(arguments: Any) -> Performed:
        seen_open.append(
            desk.value(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'takeback'"
                " AND state LIKE 'idle in%%' AND datname = current_database()"
            )
        )
        return Performed(affected=[Affected(kind="charge", id=arguments.charge, label="129.00")])

    app = with_faces(refund=foretell)
    arguments = {"charge": "ch_1", "amount": 5, "currency": "EUR"}
    seen = app.preview(None, "refund", arguments)
    assert (seen["would"], seen.affected[0]["label"]) == ("scheduled", "129.00")
    assert seen_open == [0]
    assert app.call(None, "refund", arguments, expect=seen["expect"]).status == "scheduled"


def test_a_remote_preview_that_breaks_is_refused_without_a_word_of_why(with_faces: Any):
    def broken(arguments: Any) -> None:
        raise RuntimeError("a secret")

    app = with_faces(refund=broken)
    told = app.preview(None, "refund", {"charge": "ch_1", "amount": 5, "currency": "EUR"})
    assert told.code == "internal_error" and "secret" not in told.to_json()


def test_a_tool_that_names_nothing_says_so(desk: Desk):
    seen = previewed(desk, {"book": "b1", "title": "Emma II"}, "rename_book")
    assert seen["affected_count"] == 0 and UNNAMED in seen["not_covered"]


def test_an_answer_does_not_grow_with_the_rows(desk: Desk):
    def perform(session: Session, arguments: Any) -> Performed:
        return Performed(affected=[Affected(kind="row", id=f"r{n:06}") for n in range(20_000)])

    desk.case("many", perform)
    seen = previewed(desk, {"case": "many"})
    assert seen["affected_count"] == 20_000 and len(seen.affected) == 5
    assert len(seen.to_json()) < 1_500
    done = desk.app.call(None, "act", {"case": "many"}, expect=seen["expect"])
    assert done.status == "done"


def test_async_handlers_are_previewed_too(desk: Desk, caller: Caller):
    app = desk.make_app(awaiting=True)
    seen = caller.call(app, "preview", DELETION)
    assert named(seen)[0] == ("book", "b1")
    assert caller.call(app, "delete_book", {"book": "b1"}, expect=seen["expect"]).status == "done"


def test_what_waits_for_a_person_is_foretold_with_what_it_would_affect(desk: Desk):
    desk.case("wait", lambda *_: Performed(affected=[Affected(kind="book", id="b2")]))
    seen = previewed(desk, {"case": "wait"}, "act_over_limit")
    assert (seen["would"], named(seen)) == ("needs_approval", [("book", "b2")])
    assert desk.is_empty()


def test_what_a_person_has_stopped_is_refused_in_a_preview_too(desk: Desk):
    desk.app.freeze(tool="delete_book", reason="we look at it first", principal="dana")
    told = previewed(desk, {"book": "b1"}, "delete_book")
    assert told.code == "frozen" and told["repeat_can_succeed"]
    desk.app.thaw(tool="delete_book", reason="looked at", principal="dana")
    assert previewed(desk, {"book": "b1"}, "delete_book")["would"] == "done"


def test_what_was_stored_of_a_preview_is_no_part_of_the_log(desk: Desk):
    previewed(desk, {"book": "b1"}, "delete_book")
    assert desk.app.verify().problems == () and desk.is_empty()
