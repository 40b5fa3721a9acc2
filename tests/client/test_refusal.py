"""Refusals: one closed shape, every fault at once, and no word of what broke inside."""

import json
import string
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from takeback import Call, HandlerError, InvalidReference, OutcomeUnknown, Rejected
from takeback.model import errors

LETTER = {"to": "dana@example.com", "subject": "hello"}
REFUND = {"charge": "c1", "amount": 100, "currency": "EUR"}
SECRETS = (
    "hunter2",
    "/srv/secret/app.py",
    "SELECT password FROM users",
    "psycopg.errors.UniqueViolation",
    "postgresql://me:hunter2@db.internal/prod",
    'File "/srv/secret/app.py", line 7, in perform',
)
ENVELOPE_NAMES = {"status", "effect", "repeat_can_succeed", "error", "trace_id"}
ERROR_NAMES = {
    "class",
    "code",
    "message",
    "retry_after_s",
    "violations",
    "next_call",
    "alternatives",
}
CODES = {
    "invalid_argument",
    "unknown_argument",
    "unknown_tool",
    "key_conflict",
    "preview_stale",
    "no_such_ref",
    "not_restorable",
    "restore_expired",
    "restore_conflict",
    "too_late",
    "no_transaction",
    "provider_rejected",
    "provider_unavailable",
    "no_access",
    "in_progress",
    "database_unavailable",
    "internal_error",
}


def assert_shaped(told):
    """The shape that CONTRACT gives, with closed sets and both questions answered."""
    more = set(told) - ENVELOPE_NAMES
    assert more <= {"ref", "again"}, more
    assert set(told) >= ENVELOPE_NAMES
    assert set(told.error) == ERROR_NAMES
    assert told.status in ("refused", "in_progress", "unavailable")
    assert told["effect"] in ("none", "committed", "unknown")
    assert isinstance(told["repeat_can_succeed"], bool)
    assert told.error["class"] in ("transient", "invalid_request", "terminal")
    assert told.code in CODES
    assert told.error["message"]
    assert (told.error["retry_after_s"] is not None) is (told.error["class"] == "transient")
    if told.error["class"] != "transient":
        assert told["repeat_can_succeed"] is (told.code == "no_transaction")
    for violation in told.error["violations"]:
        assert {"field", "code", "message", "repair"} <= set(violation)
        assert violation["repair"] in ("mechanical", "choice", "ask_user")
    assert len(told["trace_id"]) == 16
    assert set(told["trace_id"]) <= set(string.hexdigits)
    json.loads(told.to_json().encode())


# ── the call itself ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name, nearest",
    [
        ("send_leter", "send_letter"),
        ("Send_Letter", "send_letter"),
        ("refunds", "refund"),
        ("delete_boook", "delete_book"),
    ],
)
def test_an_unknown_tool_names_the_nearest(desk, holder, name, nearest):
    told = holder.call(desk.app, name, LETTER)
    assert_shaped(told)
    assert told.code == "unknown_tool"
    assert told.error["alternatives"][0] == nearest
    assert desk.is_empty()


@pytest.mark.parametrize("name", ["", "x" * 100_000, "\ud800", "a\0b", 7, None, ["refund"], {}])
def test_a_tool_that_can_be_nobodys_is_refused_in_few_words(desk, name):
    told = desk.app.call(None, name, LETTER)
    assert_shaped(told)
    assert told.code == "unknown_tool"
    assert len(told.to_json()) < 1000


@pytest.mark.parametrize(
    "arguments",
    [None, [], "text", 7, [("to", "dana")], b"{}", {1: 2}, {"to": {"to": {}}}, object()],
)
def test_arguments_that_are_no_mapping_of_names_are_refused(desk, arguments):
    told = desk.app.call(None, "send_letter", arguments)
    assert_shaped(told)
    assert told.code in ("invalid_argument", "unknown_argument")
    assert desk.is_empty()


def test_every_fault_of_a_call_is_named_at_once(desk, holder):
    told = holder.call(
        desk.app,
        "refund",
        {"charge": 7, "amount": -1, "currency": "EURO", "why": "?", "repeat_of": 7},
        run="two words",
        principal="a\0b",
        not_before=datetime(2026, 1, 1),  # noqa: DTZ001 a naive one is what is refused
    )
    assert_shaped(told)
    assert {violation["field"] for violation in told.error["violations"]} == {
        "charge",
        "amount",
        "currency",
        "why",
        "repeat_of",
        "run",
        "principal",
        "not_before",
    }
    assert desk.is_empty()


def test_a_mapping_that_is_no_dict_is_as_good(desk):
    from types import MappingProxyType

    first = desk.app.call(None, "refund", MappingProxyType(REFUND))
    again = desk.app.call(None, "refund", MappingProxyType(REFUND | {"repeat_of": first.ref}))
    assert again.status == "scheduled"
    assert again.ref != first.ref


def test_the_corrected_call_is_handed_back_where_only_one_is_possible(desk):
    told = desk.app.call(None, "set_state", {"book": "b1", "state": "OUT"})
    assert_shaped(told)
    assert told.error["next_call"] == {
        "tool": "set_state",
        "arguments": {"book": "b1", "state": "out"},
    }
    corrected = told.error["next_call"]
    assert desk.app.call(None, corrected["tool"], corrected["arguments"]).status == "done"


@pytest.mark.parametrize(
    "said",
    [
        {"run": ""},
        {"run": " "},
        {"run": "a b"},
        {"run": "a\n"},
        {"run": "x" * 201},
        {"run": 7},
        {"principal": "a b"},
        {"principal": "a\0"},
        {"principal": "\ud800"},
        {"principal": 7},
        {"principal": "Agent:support"},
        {"principal": "robot:x"},
    ],
)
def test_a_run_or_principal_that_is_none_is_refused_by_name(desk, holder, said):
    told = holder.call(desk.app, "send_letter", LETTER, **said)
    assert_shaped(told)
    assert told.code == "invalid_argument"
    assert [violation["field"] for violation in told.error["violations"]] == list(said)
    assert desk.is_empty()


def test_a_run_and_a_principal_are_kept_as_they_are(desk):
    said = {"run": "run-42/a:b", "principal": "user:zoë"}
    envelope = desk.app.call(None, "send_letter", LETTER, **said)
    intent = desk.app.show(envelope.ref).entry.intent
    assert (intent.run, intent.principal) == (said["run"], said["principal"])


# ── not before ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "at",
    [
        datetime(2027, 1, 1),  # noqa: DTZ001
        "2027-01-01T00:00:00Z",
        1_800_000_000,
        datetime(1960, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    ],
)
def test_an_instant_that_nobody_can_wait_for_is_refused(desk, at):
    told = desk.app.call(None, "send_letter", LETTER, not_before=at)
    assert_shaped(told)
    assert [violation["field"] for violation in told.error["violations"]] == ["not_before"]
    assert desk.is_empty()


@pytest.mark.parametrize(
    "tool, arguments", [("delete_book", {"book": "b1"}), ("find_books", {"query": "e"})]
)
def test_only_a_remote_effect_can_wait(desk, holder, tool, arguments):
    """A Local one would be held for ever: nobody carries it out later."""
    later = datetime(2030, 1, 1, tzinfo=UTC)
    told = holder.call(desk.app, tool, arguments, not_before=later)
    assert_shaped(told)
    assert [violation["field"] for violation in told.error["violations"]] == ["not_before"]
    assert desk.is_empty()
    assert desk.book("b1") is not None


def test_a_remote_effect_waits_for_its_instant_in_any_zone(desk):
    at = desk.value("SELECT date_trunc('hour', takeback.now()) + '3 days'")
    there = at.astimezone(timezone(timedelta(hours=13)))
    envelope = desk.app.call(None, "refund", REFUND, not_before=there)
    assert envelope.status == "scheduled"
    assert envelope.restore["until"] == at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    desk.shift(timedelta(days=2))
    desk.work()
    assert desk.world.done == []
    desk.shift(timedelta(days=1))
    desk.work()
    assert desk.world.done == [("refund", 100)]


# ── expect and approval ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("inside", [False, True], ids=["said", "sent"])
def test_an_expectation_that_no_preview_gave_is_stale(desk, holder, inside):
    if inside:
        told = holder.call(desk.app, "delete_book", {"book": "b1", "expect": "x"})
    else:
        told = holder.call(desk.app, "delete_book", {"book": "b1"}, expect="x")
    assert_shaped(told)
    assert told.code == "preview_stale"
    assert desk.book("b1") is not None
    assert desk.is_empty()


def test_a_call_over_its_limit_waits_for_a_person_and_is_no_refusal(desk, holder):
    over = holder.call(desk.app, "refund", REFUND | {"amount": 50_001})
    under = holder.call(desk.app, "refund", REFUND | {"amount": 50_000})
    holder.commit()
    assert (over.status, under.status) == ("needs_approval", "scheduled")
    assert over.error is None
    desk.shift(timedelta(hours=23))
    desk.work()
    assert desk.world.done == [("refund", 50_000)]
    assert desk.state(over.ref) == "awaiting_approval"
    desk.shift(timedelta(days=1))
    desk.work()
    assert (desk.state(over.ref), len(desk.world.done)) == ("expired", 1)


def test_a_local_call_over_its_limit_is_not_performed(desk, holder):
    play = desk.case("x")
    told = holder.call(desk.app, "act_over_limit", {"case": "x"})
    holder.commit()
    assert told.status == "needs_approval"
    # Once, to see what it would affect, in a savepoint that was rolled back.
    assert play.performed == 1
    assert desk.app.call(None, "act_over_limit", {"case": "x"}).ref == told.ref
    desk.work()
    assert play.performed == 1


# ── every code ───────────────────────────────────────────────────────────────────────────────────


def test_every_refusal_of_the_client_has_the_one_shape(desk):
    """One of each code, made as it is made in earnest."""
    told = dict(refusals(desk))
    for envelope in told.values():
        assert_shaped(envelope)
    reached = {envelope.code for envelope in told.values()}
    assert reached == CODES - {"in_progress", "database_unavailable"}, "see the other suites"


def refusals(desk):
    app = desk.app

    def raises(problem):
        def perform(*_):
            raise problem

        return perform

    yield "unknown_tool", app.call(None, "x", {})
    yield "unknown_argument", app.call(None, "refund", REFUND | {"x": 1})
    yield "invalid_argument", app.call(None, "refund", REFUND | {"amount": 0})
    yield "preview_stale", app.call(None, "refund", REFUND, expect="x")
    yield "no_such_ref", app.restore(None, "x")
    yield "status", app.status("x")
    app.call(None, "refund", REFUND)
    yield "key_conflict", app.call(None, "refund", REFUND | {"reason": "duplicate"})
    for name, problem in (
        ("rejected", Rejected("no")),
        ("reference", InvalidReference("case", "x", message="m", permitted=list(range(500)))),
        ("broke", ZeroDivisionError()),
        ("unknown", OutcomeUnknown("x")),
        ("later", errors.NotDispatched("x", retry_after_s=7)),
    ):
        desk.case(name, raises(problem))
        if name != "rejected":
            yield name, app.call(None, "act", {"case": name})
        yield f"look_{name}", app.call(None, "look", {"case": name})
    failed = app.call(None, "act", {"case": "rejected"})
    yield "not_restorable", app.restore(None, failed.ref)
    desk.case("drifted", drift=lambda *_: [{"field": "x"}])
    drifted = app.call(None, "act", {"case": "drifted"})
    yield "restore_conflict", app.restore(None, drifted.ref)
    yield "no_access", app.restore(None, drifted.ref, force=True)
    letter = app.call(None, "send_letter", LETTER)
    deleted = app.call(None, "delete_book", {"book": "b1"})
    desk.shift(timedelta(days=31))
    desk.work()
    yield "too_late", app.restore(None, letter.ref)
    yield "restore_expired", app.restore(None, deleted.ref)
    desk.eye.execute("SET default_transaction_isolation = 'read committed'")
    yield "no_transaction", app.call(desk.eye, "refund", REFUND | {"charge": "c9"})


def test_a_remembered_refusal_answers_both_questions_too(desk):
    desk.case("no", lambda *_: (_ for _ in ()).throw(Rejected("no")))
    told = desk.app.call(None, "act", {"case": "no"})
    assert set(told.error) == ERROR_NAMES
    assert (told["effect"], told["repeat_can_succeed"]) == ("none", False)
    assert told.error["class"] == "terminal"


def test_a_large_closed_set_is_not_dumped(desk):
    known = [f"case-{number}" for number in range(5_000)]

    def perform(session, arguments):
        raise InvalidReference("case", arguments.case, message="is unknown", permitted=known)

    desk.case("case-5001", perform)
    told = desk.app.call(None, "act", {"case": "case-5001"})
    (violation,) = told.error["violations"]
    assert violation["permitted_count"] == 5_000
    assert violation["permitted"] == known[: len(violation["permitted"])]
    assert len(told.to_json()) < 2000


# ── no word of what broke ────────────────────────────────────────────────────────────────────────


def said_by(desk, problem):
    """Every envelope that a handler's exception can come into."""

    def breaks(*_):
        raise problem

    desk.case("x", breaks)
    desk.case("restored", restore=breaks)
    desk.case("drifted", drift=breaks)
    app = desk.app
    yield app.call(None, "act", {"case": "x"})
    yield app.call(None, "act", {"case": "x"})
    yield app.call(None, "look", {"case": "x"})
    yield from app.call_many(None, [Call(tool="act", arguments={"case": "x"})])
    for case in ("restored", "drifted"):
        first = app.call(None, "act", {"case": case})
        yield app.restore(None, first.ref)
    standing = app.call(None, "act_standing", {"case": "drifted"})
    yield standing
    yield app.call(None, "act_standing", {"case": "drifted"})
    remote = app.call(None, "deliver", {"case": "x"})
    compensated = app.call(None, "deliver", {"case": "restored"})
    desk.work()
    yield app.restore(None, compensated.ref)
    desk.work()
    for ref in (remote.ref, compensated.ref):
        yield app.status(ref)
        yield app.restore(None, ref)
    yield app.call(None, "deliver", {"case": "x"})


class Chained(Exception):
    """An exception with another behind it, and notes."""


def chained(secret):
    problem = Chained(secret)
    problem.__cause__ = ValueError(secret)
    problem.add_note(secret)
    return problem


NOTHING: dict[str, str] = {}

PROBLEMS: dict[str, Callable[[str], Exception]] = {
    "value_error": ValueError,
    "runtime_error": RuntimeError,
    "key_error": KeyError,
    "os_error": lambda secret: OSError(2, secret, secret),
    "unicode_error": lambda secret: UnicodeDecodeError("utf-8", secret.encode(), 0, 1, secret),
    "chained": chained,
    "group": lambda secret: ExceptionGroup(secret, [ValueError(secret)]),
    "timeout": TimeoutError,
    "stop_iteration": StopIteration,
    "database_unavailable": errors.DatabaseUnavailable,
    "no_transaction": errors.NoTransaction,
    "corrupt": errors.LedgerCorrupt,
    "catalog": errors.InvalidCatalog,
    "not_dispatched": errors.NotDispatched,
    "outcome_unknown": OutcomeUnknown,
    "own_handler_error": type("OwnError", (HandlerError,), {}),
}


@pytest.mark.parametrize("kind", list(PROBLEMS))
def test_nothing_of_an_exceptions_text_reaches_a_model(desk, kind):
    secret = " ".join(SECRETS)
    for told in said_by(desk, PROBLEMS[kind](secret)):
        document = told.to_json()
        for one in SECRETS:
            assert one not in document, document
        assert "Traceback" not in document
        assert "Error" not in document.replace("internal_error", "").replace('"error"', "")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(secret=st.text(min_size=8, max_size=60), kind=st.sampled_from(sorted(PROBLEMS)))
def test_whatever_the_exception_says_it_says_it_to_the_operator_alone(desk, secret, kind):
    marked = f"{secret}\u241f7f3k9qdm\u241f{secret}"
    desk.plays.clear()

    def breaks(*_):
        raise PROBLEMS[kind](marked)

    desk.case("x", breaks)
    for tool in ("act", "look"):
        assert "7f3k9qdm" not in desk.app.call(None, tool, {"case": "x"}).to_json()


def test_what_the_database_says_of_a_handlers_statement_stays_inside(desk):
    def perform(session, arguments):
        session.execute(text("SELECT 'hunter2'::int"))

    desk.case("x", perform)
    told = desk.app.call(None, "act", {"case": "x"})
    assert told.code == "internal_error"
    assert "hunter2" not in told.to_json()


@pytest.mark.parametrize(
    "tool, code", [("act", "internal_error"), ("look", "provider_unavailable")]
)
def test_the_operator_finds_the_cause_under_the_trace_id(desk, caplog, tool, code):
    desk.case("x", lambda *_: NOTHING["hunter2"])
    told = desk.app.call(None, tool, {"case": "x"})
    assert told.code == code
    (record,) = [one for one in caplog.records if told["trace_id"] in one.getMessage()]
    assert "hunter2" in record.getMessage()
    assert "KeyError" in record.getMessage()


def test_the_operator_finds_the_cause_of_a_restore_under_its_trace_id(desk, caplog):
    desk.case("x", restore=lambda *_: NOTHING["hunter2"])
    first = desk.app.call(None, "act", {"case": "x"})
    told = desk.app.restore(None, first.ref)
    assert told.code == "internal_error"
    (record,) = [one for one in caplog.records if told["trace_id"] in one.getMessage()]
    assert "hunter2" in record.getMessage()


def test_trace_ids_are_not_used_twice(desk):
    ids = [desk.app.call(None, "x", {})["trace_id"] for _ in range(50)]
    ids += [e["trace_id"] for e in desk.app.call_many(None, [Call(tool="x", arguments={})] * 50)]
    assert len(set(ids)) == 100
