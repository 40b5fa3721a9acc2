"""A call joins the caller's transaction, whoever holds it: both are there, or neither is."""

import asyncio
import contextlib
from datetime import timedelta

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from takeback.ledger.database import sqlalchemy_url
from takeback.model.errors import UnsupportedConnection
from tests.client.caller import CALLERS, Counted
from tests.client.desk import Book, in_thread

LETTER = {"to": "dana@example.com", "subject": "hello"}
TICKET = "INSERT INTO desk.books (id, title) VALUES ('mine', 'Ticket')"
ASYNC = ("async_session", "async_connection")


def test_a_commit_stores_the_callers_row_and_the_intent(desk, caller):
    caller.sql(TICKET)
    envelope = caller.call(desk.app, "send_letter", LETTER)
    caller.commit()
    assert envelope.status == "scheduled"
    assert desk.book("mine") is not None
    assert desk.states() == {envelope.ref: "held"}


@pytest.mark.parametrize(
    ("tool", "arguments", "first", "again"),
    [("send_letter", LETTER, 1, 2), ("delete_book", {"book": "b3"}, 20, 4)],
    ids=["remote", "local"],
)
def test_a_call_sends_few_statements_and_a_repeat_no_more_than_it_needs(
    desk, tool, arguments, first, again
):
    with Counted.connect(desk.url) as connection:

        def sent(work):
            connection.execute("SELECT 1")
            before = Counted.statements
            work()
            return Counted.statements - before

        def call():
            desk.app.call(connection, tool, arguments)

        sent(lambda: desk.app.call(connection, "delete_book", {"book": "b1"}))
        assert sent(call) <= first
        assert sent(call) == again


def test_a_rollback_records_nothing_and_nothing_is_sent(desk, caller):
    """dj-stripe #455: the key was rolled back after the charge was made."""
    caller.sql(TICKET)
    envelope = caller.call(desk.app, "refund", {"charge": "c1", "amount": 100, "currency": "EUR"})
    assert envelope.status == "scheduled"
    caller.rollback()
    desk.work()
    assert desk.book("mine") is None
    assert desk.is_empty()
    assert desk.world.done == []


def test_a_call_leaves_the_callers_transaction_open(desk, caller):
    caller.sql(TICKET)
    xid = caller.xid()
    caller.call(desk.app, "send_letter", LETTER)
    assert caller.xid() == xid
    assert caller.status is TransactionStatus.INTRANS
    assert desk.is_empty(), "others see it before the caller commits"
    assert desk.value("SELECT state FROM pg_stat_activity WHERE pid = %s", caller.pid) == (
        "idle in transaction"
    )
    caller.commit()


@pytest.mark.parametrize("awaiting", [False, True], ids=["plain_faces", "async_faces"])
def test_a_local_effect_happens_in_the_callers_transaction(desk, caller, awaiting):
    app = desk.make_app(awaiting=awaiting)
    caller.sql(TICKET)
    xid = caller.xid()
    envelope = caller.call(app, "delete_book", {"book": "b1"})
    assert envelope.status == "done"
    assert envelope["affected_count"] == 3
    assert caller.xid() == xid
    assert desk.book("b1") is not None, "others see it before the caller commits"
    caller.commit()
    assert desk.book("b1") is None
    assert desk.loans("b1") == []
    assert desk.states() == {envelope.ref: "succeeded"}


def test_a_local_effect_is_rolled_back_with_the_caller(desk, caller):
    assert caller.call(desk.app, "delete_book", {"book": "b1"}).status == "done"
    caller.rollback()
    assert desk.book("b1") is not None
    assert desk.is_empty()


@pytest.mark.parametrize("awaiting", [False, True], ids=["plain_faces", "async_faces"])
def test_a_restore_happens_in_the_callers_transaction(desk, caller, awaiting):
    app = desk.make_app(awaiting=awaiting)
    before = desk.book("b1")
    deleted = app.call(None, "delete_book", {"book": "b1"})
    restored = caller.restore(app, deleted.ref)
    assert restored.status == "done"
    assert desk.book("b1") is None, "others see it before the caller commits"
    caller.commit()
    assert desk.book("b1") == before
    assert desk.loans("b1") == ["l1", "l2"]
    assert desk.states() == {deleted.ref: "restored", restored.ref: "succeeded"}


def test_a_restore_is_rolled_back_with_the_caller(desk, caller):
    letter = desk.app.call(None, "send_letter", LETTER)
    assert caller.restore(desk.app, letter.ref).status == "done"
    caller.rollback()
    assert desk.states() == {letter.ref: "held"}


@pytest.mark.parametrize("awaiting", [False, True], ids=["plain_faces", "async_faces"])
def test_a_read_sees_what_the_caller_has_not_committed(desk, caller, awaiting):
    app = desk.make_app(awaiting=awaiting)
    caller.sql(TICKET)
    found = caller.call(app, "find_books", {"query": "ticket"})
    assert found.status == "ok"
    assert found["matches"] == [{"id": "mine", "title": "Ticket"}]
    caller.rollback()
    assert desk.is_empty()


def test_many_calls_join_the_callers_transaction(desk, caller):
    from takeback import Call

    calls = [Call(tool="send_letter", arguments=LETTER | {"to": f"r{n}"}) for n in range(3)]
    assert [e.status for e in caller.call_many(desk.app, calls)] == ["scheduled"] * 3
    assert desk.is_empty()
    caller.rollback()
    assert desk.is_empty()
    envelopes = caller.call_many(desk.app, calls)
    caller.commit()
    assert list(desk.states()) == [e.ref for e in envelopes]


@pytest.mark.parametrize("awaiting", [False, True], ids=["call", "acall"])
def test_without_a_transaction_given_the_call_commits_its_own(desk, awaiting):
    if awaiting:
        envelope = asyncio.run(desk.app.acall(None, "send_letter", LETTER))
    else:
        envelope = desk.app.call(None, "send_letter", LETTER)
    assert desk.states() == {envelope.ref: "held"}


async def test_an_async_face_is_awaited_although_the_loop_runs_in_this_thread(desk):
    app = desk.make_app(awaiting=True)
    with Session(app.context.database.engine) as session:
        assert app.call(session, "delete_book", {"book": "b1"}).status == "done"
        session.commit()
    assert desk.book("b1") is None


async def test_an_async_face_may_wait_for_the_loop_inside_an_async_session(desk):
    """The session is a plain one, the loop is the caller's: both work in one face."""

    async def perform(session, arguments):
        first = session.execute(text("SELECT title FROM desk.books WHERE id = 'b1'")).scalar_one()
        ready = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(ready.set_result, "later")
        second = await asyncio.wait_for(ready, 5)
        session.execute(text("UPDATE desk.books SET title = 'Persuasion' WHERE id = 'b1'"))
        return [first, second]

    desk.case("loop", perform)
    engine = create_async_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        envelope = await desk.app.acall(session, "act", {"case": "loop"})
        await session.commit()
    await engine.dispose()
    assert envelope.status == "done"
    assert desk.app.show(envelope.ref).entry.bodies["result"]["result"] == ["Emma", "later"]
    assert desk.book("b1")[1] == "Persuasion"


async def test_a_call_in_an_async_session_that_is_cancelled_records_nothing(desk):
    begun = asyncio.Event()

    async def perform(session, arguments):
        begun.set()
        await asyncio.Event().wait()

    desk.case("endless", perform)
    engine = create_async_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        calling = asyncio.create_task(desk.app.acall(session, "act", {"case": "endless"}))
        await begun.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        await session.commit()
    await engine.dispose()
    assert desk.is_empty()


# ── nothing to join ──────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def autocommit_connection(kind, url):
    if kind == "psycopg":
        with psycopg.connect(url, autocommit=True) as connection:
            yield connection
        return
    engine = create_engine(sqlalchemy_url(url), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with Session(engine) if kind == "session" else engine.connect() as given:
        yield given
    engine.dispose()


@pytest.mark.parametrize("kind", ["psycopg", "session", "connection"])
@pytest.mark.parametrize("tool", ["send_letter", "delete_book", "find_books"])
def test_a_connection_in_autocommit_has_no_transaction_to_join(desk, kind, tool):
    arguments = {
        "send_letter": LETTER,
        "delete_book": {"book": "b1"},
        "find_books": {"query": "e"},
    }
    with autocommit_connection(kind, desk.url) as given:
        envelope = desk.app.call(given, tool, arguments[tool])
    assert envelope.code == "no_transaction"
    assert "autocommit" in envelope.error["message"]
    assert envelope["effect"] == "none"
    assert desk.is_empty()
    assert desk.book("b1") is not None


async def test_an_async_session_in_autocommit_has_no_transaction_to_join(desk):
    engine = create_async_engine(
        sqlalchemy_url(desk.url), isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    async with AsyncSession(engine) as session:
        envelope = await desk.app.acall(session, "send_letter", LETTER)
    await engine.dispose()
    assert envelope.code == "no_transaction"
    assert desk.is_empty()


def test_restores_and_batches_in_autocommit_are_refused_too(desk):
    from takeback import Call

    letter = desk.app.call(None, "send_letter", LETTER)
    with psycopg.connect(desk.url, autocommit=True) as connection:
        assert desk.app.restore(connection, letter.ref).code == "no_transaction"
        batch = desk.app.call_many(connection, [Call(tool="send_letter", arguments=LETTER)] * 2)
    assert [e.code for e in batch] == ["no_transaction"] * 2
    assert desk.states() == {letter.ref: "held"}


def test_a_transaction_block_of_an_autocommit_connection_is_joined(desk):
    with psycopg.connect(desk.url, autocommit=True) as connection:
        with connection.transaction():
            desk.app.call(connection, "send_letter", LETTER)
            assert desk.is_empty()
        (ref,) = desk.states()
        with (
            contextlib.suppress(ZeroDivisionError),
            connection.transaction(),
        ):
            desk.app.call(connection, "send_letter", LETTER | {"to": "eve"})
            desk.app.call(connection, "delete_book", {"book": "b1"})
            raise ZeroDivisionError
    assert desk.states() == {ref: "held"}
    assert desk.book("b1") is not None


def test_a_nested_transaction_block_that_is_rolled_back_takes_its_call_along(desk):
    with psycopg.connect(desk.url) as connection:
        kept = desk.app.call(connection, "send_letter", LETTER)
        with contextlib.suppress(ZeroDivisionError), connection.transaction():
            desk.app.call(connection, "send_letter", LETTER | {"to": "eve"})
            desk.app.call(connection, "delete_book", {"book": "b1"})
            raise ZeroDivisionError
    assert desk.states() == {kept.ref: "held"}


def test_a_failed_transaction_is_refused_until_it_is_rolled_back(desk, caller):
    with pytest.raises(Exception, match="division by zero"):
        caller.sql("SELECT 1 / 0")
    for envelope in (
        caller.call(desk.app, "send_letter", LETTER),
        caller.call(desk.app, "delete_book", {"book": "b1"}),
        caller.restore(desk.app, "send_letter-00000000"),
    ):
        assert envelope.code == "no_transaction"
        assert "roll back" in envelope.error["message"]
    caller.rollback()
    envelope = caller.call(desk.app, "send_letter", LETTER)
    caller.commit()
    assert desk.states() == {envelope.ref: "held"}


def test_a_session_whose_flush_failed_is_refused_until_it_is_rolled_back(desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with Session(engine) as session:
        session.add(Book(id="b9", title="Emma"))
        with pytest.raises(Exception, match="title_is_unique"):
            session.flush()
        envelope = desk.app.call(session, "send_letter", LETTER)
        assert envelope.code == "no_transaction"
        assert "roll back" in envelope.error["message"]
        session.rollback()
        assert desk.app.call(session, "send_letter", LETTER).status == "scheduled"
        session.commit()
    engine.dispose()
    assert list(desk.states().values()) == ["held"]


@pytest.mark.parametrize(
    "tool, arguments", [("send_letter", LETTER), ("delete_book", {"book": "b1"})]
)
def test_a_read_only_transaction_is_refused_by_name(desk, caller, tool, arguments):
    caller.sql("SET TRANSACTION READ ONLY")
    envelope = caller.call(desk.app, tool, arguments)
    assert envelope.code == "no_transaction"
    assert "read-only" in envelope.error["message"]
    caller.rollback()
    assert desk.is_empty()


def test_a_read_works_in_a_read_only_transaction(desk, caller):
    caller.sql("SET TRANSACTION READ ONLY")
    assert caller.call(desk.app, "find_books", {"query": "emma"}).status == "ok"


@pytest.mark.parametrize("kind", ["psycopg", "connection"])
def test_a_closed_connection_is_refused_by_name(desk, callers, kind):
    caller = callers(kind)
    caller.close()
    envelope = caller.call(desk.app, "send_letter", LETTER)
    assert envelope.code == "no_transaction"
    assert "closed" in envelope.error["message"]


@pytest.mark.parametrize(
    "call",
    [
        lambda app, joined: joined.call(app, "send_letter", LETTER),
        lambda app, joined: joined.call(app, "delete_book", {"book": "b1"}),
        lambda app, joined: joined.call(app, "find_books", {"query": "emma"}),
        lambda app, joined: joined.restore(app, "send_letter-00000000"),
    ],
    ids=["remote", "local", "read", "restore"],
)
def test_a_connection_whose_server_is_gone_is_refused_as_unavailable(desk, joined, call):
    joined.sql(TICKET)
    desk.rows("SELECT pg_terminate_backend(%s, 5000)", joined.pid)
    envelope = call(desk.app, joined)
    assert envelope.code == "database_unavailable"
    assert (envelope["effect"], envelope["repeat_can_succeed"]) == ("none", True)
    assert desk.is_empty()


@pytest.mark.parametrize("what", ["engine", "sessionmaker", "url", "cursor", "object"])
def test_what_is_no_connection_is_refused_with_what_is_expected(desk, what):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with psycopg.connect(desk.url) as connection, connection.cursor() as cursor:
        given = {
            "engine": engine,
            "sessionmaker": sessionmaker(engine),
            "url": desk.url,
            "cursor": cursor,
            "object": object(),
        }[what]
        with pytest.raises(UnsupportedConnection, match="expected a SQLAlchemy Session"):
            desk.app.call(given, "send_letter", LETTER)
    engine.dispose()
    assert desk.is_empty()


async def test_an_async_connection_of_psycopg_is_refused_with_what_is_expected(desk):
    async with await psycopg.AsyncConnection.connect(desk.url) as connection:
        with pytest.raises(UnsupportedConnection, match="AsyncSession"):
            await desk.app.acall(connection, "send_letter", LETTER)


async def test_an_async_session_is_refused_by_the_plain_call(desk):
    engine = create_async_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        with pytest.raises(UnsupportedConnection, match="`a` before its name"):
            desk.app.call(session, "send_letter", LETTER)
    await engine.dispose()


def test_a_session_of_another_database_is_refused_by_its_driver(desk):
    engine = create_engine("sqlite://")
    with Session(engine) as session, pytest.raises(UnsupportedConnection, match="'pysqlite'"):
        desk.app.call(session, "send_letter", LETTER)
    engine.dispose()


def test_a_session_that_is_bound_to_nothing_is_refused(desk):
    with Session() as session, pytest.raises(UnsupportedConnection, match="bound to no"):
        desk.app.call(session, "send_letter", LETTER)


# ── the caller's own habits ──────────────────────────────────────────────────────────────────────


def test_a_connection_that_never_began_commits_the_call_with_its_own_rows(desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with engine.connect() as connection:
        envelope = desk.app.call(connection, "send_letter", LETTER)
        connection.execute(text(TICKET))
        connection.commit()
        desk.app.call(connection, "send_letter", LETTER | {"to": "eve"})
    engine.dispose()
    assert desk.states() == {envelope.ref: "held"}
    assert desk.book("mine") is not None


def test_a_begun_connection_commits_at_the_end_of_its_block(desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with engine.begin() as connection:
        envelope = desk.app.call(connection, "delete_book", {"book": "b1"})
        assert desk.is_empty()
    engine.dispose()
    assert desk.states() == {envelope.ref: "succeeded"}


def test_a_scoped_session_stands_for_the_session_of_its_thread(desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    registry = scoped_session(sessionmaker(engine))
    registry.add(Book(id="mine", title="Ticket"))
    envelope = desk.app.call(registry, "send_letter", LETTER)
    assert desk.is_empty()
    registry.commit()
    registry.remove()
    engine.dispose()
    assert desk.states() == {envelope.ref: "held"}
    assert desk.book("mine") is not None


async def test_an_async_scoped_session_stands_for_the_session_of_its_task(desk):
    engine = create_async_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    registry = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
    envelope = await desk.app.acall(registry, "send_letter", LETTER)
    assert desk.is_empty()
    await registry.commit()
    await registry.remove()
    await engine.dispose()
    assert desk.states() == {envelope.ref: "held"}


def test_pending_objects_of_the_session_are_there_when_the_handler_looks(desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        session.add(Book(id="mine", title="Ticket"))
        assert desk.app.call(session, "rename_book", {"book": "mine", "title": "Done"}).status == (
            "done"
        )
    engine.dispose()
    assert desk.book("mine")[1] == "Done"


def test_a_handler_changes_the_very_objects_that_the_session_holds(desk):
    engine = create_engine(sqlalchemy_url(desk.url), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        book = session.get_one(Book, "b1")
        desk.app.call(session, "set_state", {"book": "b1", "state": "lost"})
        assert (book.state, book.version) == ("lost", 2)
    engine.dispose()


def test_a_client_side_or_raw_cursor_factory_changes_nothing(desk):
    for factory in (psycopg.ClientCursor, psycopg.RawCursor):
        with psycopg.connect(desk.url, cursor_factory=factory) as connection:
            held = desk.app.call(connection, "send_letter", LETTER)
            assert held.status == "scheduled"
            assert desk.app.call(connection, "delete_book", {"book": "b1"}).status == "done"
            assert desk.app.restore(connection, held.ref).status == "done"
            connection.rollback()


def test_a_call_works_inside_a_pipeline(desk):
    with psycopg.connect(desk.url) as connection:
        with connection.pipeline():
            connection.execute(TICKET)
            envelope = desk.app.call(connection, "send_letter", LETTER)
            assert envelope.status == "scheduled"
        connection.commit()
    assert desk.states() == {envelope.ref: "held"}


def test_a_local_call_inside_a_pipeline_is_refused_by_name(desk):
    with psycopg.connect(desk.url) as connection:
        with (
            connection.pipeline(),
            pytest.raises(UnsupportedConnection, match="outside of it"),
        ):
            desk.app.call(connection, "delete_book", {"book": "b1"})
        assert desk.app.call(connection, "delete_book", {"book": "b1"}).status == "done"


def test_a_savepoint_may_be_asked_for_round_a_remote_call(desk, caller):
    envelope = caller.call(desk.app, "send_letter", LETTER, savepoint=True)
    conflict = caller.call(desk.app, "refund", {"charge": "c"}, savepoint=True)
    caller.commit()
    assert (envelope.status, conflict.code) == ("scheduled", "invalid_argument")
    assert desk.states() == {envelope.ref: "held"}


SETTINGS = """
SELECT name, setting FROM pg_settings WHERE NOT starts_with(name, 'plpgsql.')
UNION ALL SELECT 'takeback.tenant', coalesce(current_setting('takeback.tenant', true), '')
UNION ALL SELECT 'takeback.intent', coalesce(current_setting('takeback.intent', true), '')
ORDER BY 1
"""


def test_nothing_is_set_on_a_connection_that_is_not_ours(desk, caller):
    before = caller.sql(SETTINGS)
    letter = caller.call(desk.app, "send_letter", LETTER)
    caller.call(desk.app, "delete_book", {"book": "b1"})
    caller.call(desk.app, "find_books", {"query": "e"})
    caller.restore(desk.app, letter.ref)
    assert caller.sql(SETTINGS) == before
    caller.commit()
    assert caller.sql(SETTINGS) == before


def test_a_psycopg_connection_is_given_back_as_it_was(desk):
    def looks(connection):
        return (
            connection.row_factory,
            connection.cursor_factory,
            connection.prepare_threshold,
            connection.autocommit,
            connection.isolation_level,
            len(connection._notice_handlers),
        )

    with psycopg.connect(desk.url, prepare_threshold=3) as connection:
        before = looks(connection)
        for _ in range(3):
            desk.app.call(connection, "delete_book", {"book": "b1"})
            desk.app.call(connection, "find_books", {"query": "e"})
            connection.rollback()
        assert looks(connection) == before
        assert not connection.closed


@pytest.mark.parametrize(
    "setting",
    [
        "TimeZone = 'Pacific/Auckland'",
        "DateStyle = 'German, DMY'",
        "IntervalStyle = 'sql_standard'",
        "bytea_output = 'escape'",
        "search_path = ''",
        "extra_float_digits = -15",
        "standard_conforming_strings = on",
        "lc_messages = 'C'",
    ],
)
def test_the_settings_of_the_session_do_not_matter(desk, callers, setting):
    caller = callers("psycopg")
    caller.sql(f"SET {setting}")
    held = caller.call(desk.app, "send_letter", LETTER)
    again = caller.call(desk.app, "send_letter", LETTER)
    assert again.ref == held.ref
    assert again.restore == held.restore
    assert caller.restore(desk.app, held.ref).status == "done"
    caller.commit()
    plain = desk.app.status(held.ref)
    assert plain.status == "taken_back"
    due, recorded = desk.rows("SELECT window_us, recorded_at IS NOT NULL FROM takeback.intents")[0]
    assert (due, recorded) == (60_000_000, True)


def test_a_window_counts_from_the_commit_of_the_caller(desk, caller):
    """A held call in a transaction that lasts: the minute begins when it is committed."""
    envelope = caller.call(desk.app, "send_letter", LETTER)
    desk.shift(timedelta(seconds=90))
    caller.commit()
    assert desk.value("SELECT due_at > takeback.now() + '55 s' FROM takeback.intents")
    desk.work()
    assert desk.world.done == []
    shown = desk.app.show(envelope.ref)
    assert [event.kind for event in shown.events] == ["intent.recorded", "intent.window_moved"]


def test_two_threads_of_one_app_record_in_transactions_of_their_own(desk):
    with in_thread(lambda: desk.app.call(None, "send_letter", LETTER | {"to": "a"})) as first:
        second = desk.app.call(None, "send_letter", LETTER | {"to": "b"})
    assert set(desk.states()) == {first[0].ref, second.ref}


def test_every_kind_of_caller_is_among_those_tried():
    assert {"session", "connection", "psycopg", *ASYNC} < set(CALLERS)
