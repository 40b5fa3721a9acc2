"""Whatever a handler answers is stored as it is, or left out and said to be; questions too."""

import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from takeback import Affected, Found, Performed
from takeback.model.violation import SHOWN_LENGTH_MAX

CIRCLE: list = []
CIRCLE.append(CIRCLE)


def nested(depth):
    inner: list = []
    for _ in range(depth):
        inner = [inner]
    return inner


class Hostile:
    """What can't be said in JSON, and answers no question either."""

    def __str__(self):
        raise RuntimeError("secret")

    __repr__ = __str__


class Row(BaseModel):
    id: int


LITERAL: dict[str, Any] = {
    "none": None,
    "zero": 0,
    "empty_text": "",
    "empty_list": [],
    "empty_object": {},
    "false": False,
    "float": 0.1,
    "large": 2**70,
    "nul": "a\0b",
    "spelled_nul": "\\u0000",
    "surrogate": "\ud800",
    "text": "Grüße, \U0001f4ee, עברית",
    "deep": {"a": [{"b": [None, True]}]},
    "megabyte": "x" * 1_000_000,
}
UNSPEAKABLE = {
    "uuid": uuid.UUID(int=7),
    "instant": datetime(2026, 1, 1, tzinfo=UTC),
    "decimal": Decimal("1.50"),
    "bytes": b"a",
    "set": {1},
    "model": Row(id=1),
    "object": Hostile(),
    "nan": float("nan"),
    "infinity": float("inf"),
    "tuple_key": {(1, 2): 3},
    "circle": CIRCLE,
    "too_deep": nested(100_000),
    "too_many_digits": 10**5000,
}


def stored(desk, ref):
    return desk.app.show(ref).entry.bodies["result"]


def originals(desk, name):
    """What the restore of the case is handed."""
    handed: list = []
    desk.plays[name].restore = lambda session, original: handed.append(original.result)
    return handed


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "performed"])
@pytest.mark.parametrize("name", list(LITERAL))
def test_a_result_is_taken_literally_and_handed_to_its_restore(desk, name, wrapped):
    """powertools-python #4759: a zero was read as None."""
    result = LITERAL[name]
    desk.case(name, lambda *_: Performed(result=result) if wrapped else result)
    first = desk.app.call(None, "act", {"case": name})
    again = desk.app.call(None, "act", {"case": name})
    assert (again.ref, again["replayed"]) == (first.ref, True)
    assert desk.plays[name].performed == 1
    body = stored(desk, first.ref)
    assert (body["result"], type(body["result"])) == (result, type(result))
    assert "result_not_serialisable" not in body
    handed = originals(desk, name)
    assert desk.app.restore(None, first.ref).status == "done"
    assert handed == [result]
    assert len(first.to_json()) < 1000


@pytest.mark.parametrize("name", list(UNSPEAKABLE))
def test_a_result_that_json_cannot_hold_still_settles_and_says_so(desk, name):
    desk.case(name, lambda *_: Performed(result=UNSPEAKABLE[name], summary="It is done."))
    first = desk.app.call(None, "act", {"case": name})
    assert (first.status, first.summary) == ("done", "It is done.")
    body = stored(desk, first.ref)
    assert (body["result"], body["result_not_serialisable"]) == (None, True)
    assert desk.app.call(None, "act", {"case": name}).ref == first.ref
    assert desk.app.restore(None, first.ref).status == "done"


@pytest.mark.parametrize("name", ["zero", "nul", "surrogate", "megabyte"])
def test_a_workers_result_is_taken_literally(desk, name):
    desk.case(name, lambda *_: LITERAL[name])
    first = desk.app.call(None, "deliver", {"case": name})
    desk.work()
    assert desk.state(first.ref) == "succeeded"
    assert stored(desk, first.ref)["result"] == LITERAL[name]


@pytest.mark.parametrize("name", ["uuid", "object", "circle", "nan"])
def test_a_workers_result_that_json_cannot_hold_still_settles(desk, name):
    """The effect is in the world: an answer that can't be stored must not put it in doubt."""
    desk.case(name, lambda *_: UNSPEAKABLE[name])
    first = desk.app.call(None, "deliver", {"case": name})
    desk.work()
    assert desk.state(first.ref) == "succeeded"
    assert stored(desk, first.ref)["result_not_serialisable"] is True


ODD_ANSWERS = {
    "ids_that_are_no_text": Performed(affected=[Affected(kind="book", id=uuid.UUID(int=7))]),  # type: ignore[arg-type]
    "numbers": Performed(affected=[Affected(kind="book", id=7)]),  # type: ignore[arg-type]
    "nul_in_a_label": Performed(affected=[Affected(kind="book", id="1", label="a\0b")]),
    "surrogate_in_a_label": Performed(affected=[Affected(kind="book", id="1", label="\ud800")]),
    "summary_with_nul": Performed(summary="a\0b"),
    "summary_that_is_no_text": Performed(summary=7),  # type: ignore[arg-type]
    "leaves_that_are_no_texts": Performed(leaves=[7, "\ud800"]),  # type: ignore[list-item]
    "affected_as_objects": Performed(affected=[{"kind": "book", "id": "1"}]),  # type: ignore[list-item]
    "affected_that_is_none": Performed(affected=None),  # type: ignore[arg-type]
    "affected_that_is_hostile": Performed(affected=[Affected(kind="x", id=Hostile())]),  # type: ignore[arg-type]
    "count_below_zero": Performed(affected_count=-1),
    "count_that_is_text": Performed(affected_count="many"),  # type: ignore[arg-type]
    "count_beyond_measure": Performed(affected_count=2**80),
}


@pytest.mark.parametrize("name", list(ODD_ANSWERS))
@pytest.mark.parametrize("tool", ["act", "deliver"])
def test_an_answer_that_is_odd_settles_and_can_be_told(desk, tool, name):
    desk.case(name, lambda *_: ODD_ANSWERS[name])
    first = desk.app.call(None, tool, {"case": name})
    desk.work()
    told = desk.app.call(None, tool, {"case": name})
    assert (told.ref, told.status) == (first.ref, "done")
    told.to_json().encode()
    assert isinstance(told["affected_count"], int)
    assert told["affected_count"] >= 0
    for one in told.affected:
        assert {type(value) for value in one.values()} == {str}
    assert desk.app.restore(None, first.ref).status in ("done", "scheduled")


def test_a_lean_answer_shows_a_few_and_counts_all(desk):
    many = [Affected(kind="book", id=str(number), label="x" * 50) for number in range(10_000)]
    desk.case("many", lambda *_: Performed(affected=many))
    envelope = desk.app.call(None, "act", {"case": "many"})
    assert envelope["affected_count"] == 10_000
    assert len(envelope.affected) == 5
    assert len(envelope.to_json()) < 2000
    assert len(stored(desk, envelope.ref)["affected"]) == 10_000


def test_a_count_stands_for_what_is_not_listed(desk):
    desk.case("some", lambda *_: Performed(affected=[Affected(kind="a", id="1")], affected_count=9))
    envelope = desk.app.call(None, "act", {"case": "some"})
    assert (len(envelope.affected), envelope["affected_count"]) == (1, 9)
    assert desk.app.list()[0]["ref"] == envelope.ref


# ── what is asked ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udfff tail"])
@pytest.mark.parametrize("field", ["to", "subject", "note"])
def test_text_that_cannot_be_stored_is_refused_by_name(desk, field, text):
    letter = {"to": "dana", "subject": "hello", "note": "", field: text}
    told = desk.app.call(None, "send_letter", letter)
    assert told.code == "invalid_argument"
    assert [v["field"] for v in told.error["violations"]] == [field]
    told.to_json().encode()
    assert desk.is_empty()


@pytest.mark.parametrize(
    "text", ["Grüße", "日本語", "\U0001f4ee", "עברית", "a\u2028b", "  spaces  "]
)
def test_any_other_text_is_kept_to_the_letter(desk, text):
    letter = {"to": text, "subject": text, "note": text}
    first = desk.app.call(None, "send_letter", letter)
    assert desk.app.show(first.ref).entry.bodies["arguments"] == letter
    assert first.affected[0]["id"] == text
    desk.shift(desk.value("SELECT interval '2 minutes'"))
    desk.work()
    assert desk.world.done == [("letter", letter)]


def test_a_composed_and_a_decomposed_letter_are_one(desk):
    first = desk.app.call(None, "send_letter", {"to": "Zo\u00eb", "subject": "x"})
    again = desk.app.call(None, "send_letter", {"to": "Zoe\u0308", "subject": "x"})
    assert again.ref == first.ref


def test_a_megabyte_of_arguments_is_kept(desk, holder):
    letter = {"to": "dana", "subject": "hello", "note": "n" * 1_000_000}
    first = holder.call(desk.app, "send_letter", letter)
    holder.commit()
    assert desk.app.show(first.ref).entry.bodies["arguments"]["note"] == letter["note"]
    assert len(first.to_json()) < 1000
    differing = holder.call(desk.app, "send_letter", letter | {"note": "m" * 1_000_000})
    assert differing["differs"][0]["field"] == "note"
    assert len(differing.to_json()) < 5 * SHOWN_LENGTH_MAX + 1000


def test_a_sentence_about_long_arguments_stays_short(desk):
    letter = {"to": "d" * 100_000, "subject": "s" * 100_000}
    first = desk.app.call(None, "send_letter", letter)
    assert len(first.to_json()) < 3000
    assert desk.app.call(None, "send_letter", letter)["summary"] == first.summary
    short = desk.app.call(None, "send_letter", {"to": "dana", "subject": "hello"})
    assert short.summary.startswith("Letter 'hello' to dana to {dana} leaves at ")


def test_arguments_without_end_are_refused(desk):
    for note in (nested(70), list(range(200_000)), CIRCLE):
        told = desk.app.call(None, "send_letter", {"to": "d", "subject": "s", "note": note})
        assert told.code == "invalid_argument"
        assert len(told.to_json()) < 5000
    assert desk.is_empty()


# ── reads ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "answer, matches",
    [
        ([], []),
        (None, []),
        ([{"id": 1}, {"id": 2}], [{"id": 1}, {"id": 2}]),
        ({"id": 1}, [{"id": 1}]),
        ("text", [{"result": "text"}]),
        (["a"], [{"result": "a"}]),
        ([{"at": datetime(2026, 1, 1, tzinfo=UTC)}], [{"at": "2026-01-01 00:00:00+00:00"}]),
        (
            [{"id": uuid.UUID(int=7), "sum": Decimal("1.50")}],
            [{"id": "00000000-0000-0000-0000-000000000007", "sum": "1.50"}],
        ),
        (Found(matches=[{"id": 1}], more_matches_exist=True), [{"id": 1}]),
    ],
)
def test_whatever_a_read_finds_can_be_told(desk, answer, matches):
    desk.case("x", lambda *_: answer)
    told = desk.app.call(None, "look", {"case": "x"})
    assert told.status == ("ok" if matches else "no_matches")
    assert told["matches"] == matches
    assert told["more_matches_exist"] is isinstance(answer, Found)
    told.to_json().encode()
    assert desk.is_empty()


@pytest.mark.parametrize("answer", [[{"x": float("nan")}], [{(1, 2): 3}], [Hostile()], CIRCLE])
def test_what_a_read_finds_and_cannot_be_told_is_unavailable(desk, answer):
    desk.case("x", lambda *_: answer)
    told = desk.app.call(None, "look", {"case": "x"})
    assert (told.status, told.code) == ("unavailable", "provider_unavailable")


def test_a_plain_result_of_a_remote_tool_leaves_what_the_row_says_it_affects(desk):
    """The refund's handler answers with a number: the charge is what it was all along."""
    refund = {"charge": "ch_1", "amount": 500, "currency": "EUR"}
    first = desk.app.call(None, "refund", refund)
    desk.work()
    told = desk.app.status(first.ref)
    assert (told.status, told.affected) == ("done", first.affected)
    assert told.affected[0]["id"] == "ch_1" and told["affected_count"] == 1
