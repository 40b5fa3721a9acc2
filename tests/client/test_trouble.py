"""The database goes away before, at or after our own commit: what was recorded is found, once."""

import threading
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import text

from takeback import Call, Rejected
from tests.client.desk import Pauses, in_thread
from tests.client.proxy import Cut, answers, wire

LETTER = {"to": "dana@example.com", "subject": "hello"}


@pytest.fixture
def proxy(desk):
    with wire(desk.url) as proxy:
        yield proxy


@pytest.fixture
def pauses():
    """Short ones, so that the server has time to notice who has hung up."""
    return Pauses(meanwhile=lambda: threading.Event().wait(0.005))


@pytest.fixture
def app(desk, proxy, pauses):
    """An app whose database is at the other end of the wire."""
    return desk.make_app(url=proxy.url, pauses=pauses)


WORK = {
    "send_letter": lambda app: app.call(None, "send_letter", LETTER),
    "delete_book": lambda app: app.call(None, "delete_book", {"book": "b1"}),
    "batch": lambda app: app.call_many(None, [Call(tool="send_letter", arguments=LETTER)])[0],
}


@pytest.mark.parametrize("work", list(WORK))
@pytest.mark.parametrize(
    "cuts",
    [
        [Cut.BEFORE],
        [Cut.AFTER],
        [Cut.BEFORE, Cut.BEFORE],
        [Cut.AFTER, Cut.AFTER],
        [Cut.BEFORE, Cut.AFTER],
        [Cut.AFTER, Cut.BEFORE],
    ],
    ids=lambda cuts: "_then_".join(cut.name.lower() for cut in cuts),
)
def test_a_commit_whose_answer_is_lost_is_found_and_is_no_replay(desk, app, proxy, cuts, work):
    """S2.1: Applied or not, it is repeated inside: one intent, and the answer of a first call."""
    proxy.cut(*cuts)
    envelope = WORK[work](app)
    assert envelope.status in ("scheduled", "done")
    assert envelope["replayed"] is False
    assert list(desk.states()) == [envelope.ref]
    assert desk.counts()["intents"] == 1
    again = WORK[work](app)
    assert (again.ref, again["replayed"]) == (envelope.ref, True)
    assert (desk.book("b1") is None) is (work == "delete_book")


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
@pytest.mark.parametrize(
    "tool, arguments", [("send_letter", LETTER), ("delete_book", {"book": "b1"})]
)
def test_a_restore_whose_answer_is_lost_is_found_and_is_no_replay(
    desk, app, proxy, cut, tool, arguments
):
    first = desk.app.call(None, tool, arguments)
    proxy.cut(cut)
    told = app.restore(None, first.ref)
    assert (told.status, told["replayed"]) == ("done", False)
    assert list(desk.states()) == [first.ref, told.ref]
    again = app.restore(None, first.ref)
    assert (again.ref, again["replayed"]) == (told.ref, True)


@pytest.mark.parametrize("cut", [Cut.BEFORE, Cut.AFTER])
def test_a_redo_whose_answer_is_lost_is_done_once(desk, app, proxy, cut):
    first = desk.app.call(None, "send_letter", LETTER)
    restored = desk.app.restore(None, first.ref)
    proxy.cut(cut)
    told = app.restore(None, restored.ref)
    assert told.status == "done"
    assert desk.tools() == ["send_letter", "restore", "restore", "send_letter"]
    assert desk.state(told["redone"]["ref"]) == "held"


def test_a_remembered_rejection_whose_answer_is_lost_is_found(desk, app, proxy):
    def rejects(session, arguments):
        raise Rejected("no")

    play = desk.case("no", rejects)
    proxy.cut(Cut.AFTER)
    told = app.call(None, "act", {"case": "no"})
    assert told.code == "provider_rejected"
    assert play.performed == 1
    assert list(desk.states()) == [told.ref]


def test_a_handler_runs_again_only_when_its_first_run_was_rolled_back(desk, app, proxy):
    play = desk.case("x")
    proxy.cut(Cut.AFTER)
    assert app.call(None, "act", {"case": "x"}).status == "done"
    assert play.performed == 1
    other = desk.case("y")
    proxy.cut(Cut.BEFORE)
    assert app.call(None, "act", {"case": "y"}).status == "done"
    assert other.performed == 2


def test_a_database_that_stays_away_after_the_commit_leaves_the_effect_unknown(
    desk, app, proxy, pauses
):
    """The commit was carried out, and nobody could ask any more: unknown, not none."""
    app.call(None, "find_books", {"query": "e"})
    pauses.meanwhile = proxy.refuse
    proxy.cut(Cut.AFTER)
    told = app.call(None, "send_letter", LETTER)
    assert (told.status, told.code) == ("refused", "database_unavailable")
    assert (told["effect"], told["repeat_can_succeed"]) == ("unknown", True)
    assert told.error["class"] == "transient"
    assert 2 < sum(pauses.seconds) <= 3
    (ref,) = desk.states()
    proxy.let_in()
    again = app.call(None, "send_letter", LETTER)
    assert (again.ref, again.status) == (ref, "scheduled")


def test_a_database_that_stays_away_from_the_start_has_no_effect(desk, app, proxy, pauses):
    proxy.refuse()
    for told in (
        app.call(None, "send_letter", LETTER),
        app.call(None, "delete_book", {"book": "b1"}),
        app.call(None, "find_books", {"query": "e"}),
        app.restore(None, "send_letter-00000000"),
        app.status("send_letter-00000000"),
        *app.call_many(None, [Call(tool="send_letter", arguments=LETTER)]),
    ):
        assert told.code == "database_unavailable"
        assert (told["effect"], told["repeat_can_succeed"]) == ("none", True)
        assert told.error["retry_after_s"] is not None
        for secret in ("127.0.0.1", "Traceback", "psycopg", "postgresql://"):
            assert secret not in told.to_json()
    assert desk.is_empty()


def test_calls_that_are_wrong_in_themselves_are_refused_as_such_although_the_database_is_away(
    app, proxy
):
    proxy.refuse()
    wrong, right = app.call_many(
        None,
        [
            Call(tool="send_letter", arguments={}),
            Call(tool="send_letter", arguments=LETTER),
        ],
    )
    assert (wrong.code, right.code) == ("invalid_argument", "database_unavailable")
    assert app.call(None, "nothing", {}).code == "unknown_tool"


def test_the_operator_finds_out_why_the_database_was_away(app, proxy, caplog):
    proxy.refuse()
    told = app.call(None, "send_letter", LETTER)
    assert told["trace_id"] in caplog.text
    assert "OperationalError" in caplog.text


def test_the_pool_recovers_when_the_database_is_back(desk, app, proxy):
    """Every pooled connection is dead at once: the next call gets through all the same."""

    def several():
        with (
            in_thread(lambda: app.call(None, "find_books", {"query": "e"})),
            in_thread(lambda: app.call(None, "find_books", {"query": "u"})),
        ):
            app.call(None, "find_books", {"query": "m"})

    for _ in range(3):
        several()
    proxy.break_all()
    assert app.call(None, "send_letter", LETTER).status == "scheduled"
    proxy.refuse()
    assert app.call(None, "find_books", {"query": "e"}).code == "database_unavailable"
    proxy.let_in()
    assert app.call(None, "find_books", {"query": "emma"}).status == "ok"
    assert app.call(None, "send_letter", LETTER)["replayed"] is True


def test_a_connection_that_dies_under_a_handler_is_tried_again(desk, app, proxy):
    """S0.2."""

    def perform(session, arguments):
        if play.performed == 1:
            proxy.break_all()
        session.execute(text("UPDATE desk.books SET version = version + 1 WHERE id = 'b1'"))

    play = desk.case("x", perform)
    envelope = app.call(None, "act", {"case": "x"})
    assert envelope.status == "done"
    assert play.performed == 2
    assert desk.book("b1")[3] == 2


def test_a_connection_that_dies_under_a_read_is_tried_again(desk, app, proxy):
    def look(session, arguments):
        if play.performed == 1:
            proxy.break_all()
        return session.execute(text("SELECT 1")).all()

    play = desk.case("x", look)
    assert app.call(None, "look", {"case": "x"}).status == "ok"
    assert play.performed == 2


def test_another_database_that_fails_a_handler_is_not_the_ledgers_trouble(desk):
    """A handler has a connection of its own to somewhere: that proves nothing here."""

    def perform(session, arguments):
        raise psycopg.OperationalError("the other database is away")

    play = desk.case("x", perform)
    pauses = Pauses()
    app = desk.make_app(pauses=pauses)
    assert app.call(None, "act", {"case": "x"}).code == "internal_error"
    assert play.performed == 1
    assert pauses.seconds == []


def test_a_lost_commit_that_is_still_under_way_is_waited_for(desk, app, proxy, pauses, callers):
    """The old backend still holds the key while we ask again: in progress, then found."""
    blocker = callers()
    blocker.sql("LOCK TABLE desk.books IN ACCESS EXCLUSIVE MODE")
    desk.rows(
        """
        CREATE OR REPLACE FUNCTION desk.slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM 1 FROM desk.books; RETURN NULL; END $$
        """
    )
    desk.rows(
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON takeback.intents "
        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION desk.slow()"
    )
    try:
        with in_thread(lambda: app.call(None, "send_letter", LETTER)) as told:
            desk.wait_until(lambda: proxy.commits)
            desk.wait_until(lambda: desk.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))
            proxy.break_all()
            # One whole patience with an uncommitted twin is over, and more.
            desk.wait_until(lambda: len(pauses.seconds) >= 12)
            blocker.rollback()
        assert told[0].status == "scheduled"
        assert list(desk.states()) == [told[0].ref]
    finally:
        blocker.rollback()
        desk.rows("DROP TRIGGER slow ON takeback.intents")
        desk.rows("DROP FUNCTION desk.slow")


async def test_a_call_of_its_own_from_async_code_finds_its_lost_commit_too(desk, app, proxy):
    proxy.cut(Cut.AFTER)
    envelope = await app.acall(None, "send_letter", LETTER)
    assert (envelope.status, envelope["replayed"]) == ("scheduled", False)
    assert list(desk.states()) == [envelope.ref]


def test_a_callers_own_connection_that_is_cut_is_the_callers_to_run_again(desk, proxy):
    """We never repeat a transaction that we have not opened."""
    with psycopg.connect(proxy.url) as connection:
        desk.app.call(connection, "send_letter", LETTER)
        proxy.break_all()
        told = desk.app.call(connection, "send_letter", LETTER | {"to": "eve"})
        assert told.code in ("database_unavailable", "no_transaction")
    assert desk.is_empty()


def test_a_retry_inside_does_not_outlast_three_seconds(desk, app, proxy, pauses):
    """S0.2, S0.10."""
    proxy.cut(*[Cut.BEFORE] * 100)
    told = app.call(None, "send_letter", LETTER)
    assert told.code == "database_unavailable"
    assert told["effect"] == "unknown"
    assert sum(pauses.seconds) <= 3
    assert desk.is_empty()


def test_a_database_that_takes_its_time_to_be_away_is_asked_twice(desk, app, proxy, pauses):
    """Each connection attempt may take seconds: eight of them would hold up the caller."""
    proxy.refuse()
    minutes = iter(range(0, 100_000, 60))
    app.context = replace(app.context, monotonic=lambda: float(next(minutes)))
    assert app.call(None, "send_letter", LETTER).code == "database_unavailable"
    assert len(pauses.seconds) == 1


def test_the_wire_of_these_tests_tells_the_two_cuts_apart(desk, proxy):
    for number, cut in enumerate((Cut.BEFORE, Cut.AFTER)):
        proxy.cut(cut)
        connection = psycopg.connect(proxy.url)
        connection.execute("INSERT INTO desk.books (id, title) VALUES (%s, %s)", [cut.name] * 2)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        connection.close()
        assert (desk.book(cut.name) is not None) is bool(number)
    proxy.refuse()
    assert not answers(proxy.url)
    proxy.let_in()
    assert answers(proxy.url)
