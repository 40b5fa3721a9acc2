"""Arguments of a call: one form however they are spelt, or every violation at once, in fields."""

import dataclasses
import json
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator, model_validator

from takeback.declare import Local
from takeback.declare.argument import InvalidValue
from takeback.model.arguments import validate
from takeback.model.errors import InvalidArguments
from takeback.model.explanation import VIOLATIONS_BYTES_MAX, VIOLATIONS_MAX
from takeback.model.violation import Repair, Violation
from tests.model.ticket import RIGHT, TOOL, Everything, Line, canonical, only, tool, violations

# ── what is taken ──


def test_every_argument_is_in_the_canonical_form_defaults_too():
    arguments = validate(TOOL, RIGHT)
    assert list(arguments.canonical) == list(Everything.model_fields)
    assert arguments.canonical["currency"] == "EUR"
    assert arguments.canonical["numbers"] == []
    assert isinstance(arguments.model, Everything)


@pytest.mark.parametrize("count", [5, 5.0, "5", Decimal(5)])
def test_a_whole_number_has_one_form_however_it_is_spelt(count):
    assert canonical(RIGHT | {"count": count})["count"] == 5


@pytest.mark.parametrize("price", ["12.50", "12.5", 12.5, Decimal("12.500"), "1.25e1"])
def test_a_decimal_has_one_form_however_it_is_spelt(price):
    assert canonical(RIGHT | {"price": price})["price"] == "12.5"


def test_the_model_holds_the_same_text_as_the_canonical_form():
    arguments = validate(TOOL, RIGHT | {"ticket_id": "cafe\u0301", "free": {"e\u0301": 1}})
    assert isinstance(arguments.model, Everything)
    assert arguments.model.ticket_id == arguments.canonical["ticket_id"] == "caf\u00e9"
    assert arguments.model.free == arguments.canonical["free"] == {"\u00e9": 1}


def test_any_mapping_is_taken():
    assert canonical(MappingProxyType(RIGHT)) == canonical(RIGHT)


def test_an_argument_is_called_by_its_alias_or_its_name():
    by_alias = canonical(RIGHT | {"from": "Dana@Example.com"})
    assert by_alias["sender"] == "dana@example.com"
    assert canonical(RIGHT | {"sender": "dana@example.com"}) == by_alias


def test_a_ready_made_model_is_checked_like_what_it_was_made_of():
    unchecked: Any = Line.model_construct
    made = unchecked(amount=5, reason="duplicate")
    assert canonical(RIGHT | {"lines": [made]}) == canonical(RIGHT | {"lines": [{"amount": 5}]})
    wrong = unchecked(amount=5.0)
    assert only(RIGHT | {"lines": [wrong]}).field == "lines.0.amount"


def test_a_megabyte_of_text_is_taken():
    assert len(canonical(RIGHT | {"note": "x" * 1_000_000})["note"]) == 1_000_000


def test_what_was_received_is_left_as_it_was():
    received = RIGHT | {"free": ["e\u0301"], "count": 5.0}
    validate(TOOL, received)
    assert received == RIGHT | {"free": ["e\u0301"], "count": 5.0}


# ── what is refused ──


def test_the_refusal_of_a_closed_set_is_the_documented_one():
    """S2.11: the field, what it received, what is permitted, and the mechanical repair."""
    assert only(RIGHT | {"status": "OPEN"}).to_json() == {
        "field": "status",
        "code": "not_permitted",
        "message": "must be one of: open, pending, closed",
        "received": "OPEN",
        "permitted": ["open", "pending", "closed"],
        "permitted_count": 3,
        "suggestion": "open",
        "repair": "mechanical",
    }


def test_every_violation_is_named_at_once_in_the_order_of_the_schema():
    """S2.12."""
    found = violations(
        {
            "zzz": 1,
            "status": "OPEN",
            "lines": [{"amount": 129.0, "colour": 1}, {"reason": "x"}, {"amount": 1}],
            "count": "many",
            "labels": {"b": "x", "a": "y"},
            "free": "a\0",
            "idempotency_key": "k",
        }
    )
    assert list(found) == [
        "ticket_id",
        "status",
        "count",
        "lines.0.amount",
        "lines.0.colour",
        "lines.1.amount",
        "lines.1.reason",
        "labels.a",
        "labels.b",
        "free",
        "idempotency_key",
        "zzz",
    ]


def test_the_order_of_violations_does_not_depend_on_the_order_of_arguments():
    received = {"b": 1, "a": 1, "status": "x", "count": "x", "labels": {"d": "x", "c": "x"}}
    backwards = dict(reversed(received.items()))
    backwards["labels"] = {"c": "x", "d": "x"}
    assert list(violations(received)) == list(violations(backwards))


@pytest.mark.parametrize("name", ["idempotency_key", "confirm", "repeat_of", "TicketID", ""])
def test_an_unknown_argument_is_refused_with_the_nearest_names(name):
    """square-mcp-server #31: a fresh key minted by the model makes every retry a new call."""
    violation = violations(RIGHT | {name: "x"})[name or "arguments"]
    assert violation.code == "unknown_argument"
    is_added = name == "idempotency_key"
    assert violation.repair is (Repair.MECHANICAL if is_added else Repair.CHOICE)
    assert violation.suggestion is None
    assert violation.permitted_count == len(Everything.model_fields)
    assert len(violation.permitted) == 8
    if name == "TicketID":
        assert violation.permitted[0] == "ticket_id"


def test_an_unknown_argument_is_compared_with_what_a_caller_calls_them():
    assert violations(RIGHT | {"fro_m_whom": "x"})["fro_m_whom"].permitted[0] == "from"


def test_a_missing_argument_is_asked_of_the_user_and_a_closed_one_is_a_choice():
    found = violations({})
    assert (found["ticket_id"].code, found["ticket_id"].repair) == ("missing", Repair.ASK_USER)
    assert found["status"].permitted == ("open", "pending", "closed")
    assert found["status"].repair is Repair.CHOICE


@pytest.mark.parametrize(
    "received, suggestion",
    [
        ("OPEN", "open"),
        (" open\n", "open"),
        ("Open", "open"),
        ("opened", None),
        ("resolved", None),
        ("", None),
        (1, None),
        (None, None),
        (True, None),
        (["open"], None),
    ],
)
def test_only_another_spelling_is_mechanical(received, suggestion):
    violation = only(RIGHT | {"status": received})
    assert violation.code == "not_permitted"
    assert violation.suggestion == suggestion
    assert violation.repair is (Repair.MECHANICAL if suggestion else Repair.CHOICE)


@pytest.mark.parametrize("received", ["requested-by-customer", "Requested By Customer"])
def test_dashes_and_spaces_are_spellings_of_the_underscore(received):
    violation = only(RIGHT | {"lines": [{"amount": 1, "reason": received}]})
    assert violation.field == "lines.0.reason"
    assert violation.suggestion == "requested_by_customer"


def test_two_members_of_one_spelling_are_a_choice():
    class Clash(BaseModel):
        size: Literal["a-b", "a_b"]

    violation = only({"size": "A B"}, tool(Clash))
    assert (violation.suggestion, violation.repair) == (None, Repair.CHOICE)


def test_a_set_of_249_is_bounded_nearest_first_with_its_size():
    """S2.13."""
    violation = only(RIGHT | {"region": "abx"})
    assert violation.permitted_count == 249
    assert len(violation.permitted) == 8
    assert violation.permitted[0] == "AB"
    assert violation.suggestion is None
    assert len(violation.message) < 200


def test_a_currency_in_lower_case_is_mended_mechanically():
    violation = only(RIGHT | {"currency": "usd"})
    assert (violation.suggestion, violation.permitted[0]) == ("USD", "USD")
    assert violation.permitted_count is not None
    assert violation.permitted_count > 150


@pytest.mark.parametrize("amount", [129.0, 129.5, True, "12900"])
def test_money_that_is_not_in_minor_units_is_refused_by_name(amount):
    violation = only(RIGHT | {"lines": [{"amount": amount}]})
    assert violation.field == "lines.0.amount"
    assert "integer minor units, such as 12900 for 129.00" in violation.message


@pytest.mark.parametrize("field", ["count", "ratio", "price", "limit"])
def test_true_is_no_number(field):
    violation = only(RIGHT | {field: True})
    assert violation.field == field
    assert violation.code in {"wrong_type", "not_permitted"}
    assert violation.received is True


def test_true_is_no_number_within_lists_objects_and_sets():
    found = violations(RIGHT | {"labels": {"a": True}, "numbers": [1, True]})
    assert list(found) == ["labels.a", "numbers.1"]


@pytest.mark.parametrize(
    "field, value, code",
    [
        ("count", 2**53, "out_of_range"),
        ("count", 5.5, "wrong_type"),
        ("count", "1" * 5000, "wrong_type"),
        ("ratio", float("nan"), "not_representable"),
        ("ratio", "inf", "not_representable"),
        ("free", 2**53, "out_of_range"),
        ("free", float("nan"), "not_representable"),
        ("free", "a\0b", "not_representable"),
        ("free", "\ud800", "not_representable"),
        ("free", {1: "x"}, "not_representable"),
        ("free", b"x", "not_representable"),
        ("ticket_id", 7, "wrong_type"),
        ("note", [], "wrong_type"),
        ("labels", [], "wrong_type"),
        ("lines", {}, "wrong_type"),
        ("lines", "x", "wrong_type"),
        ("at", "2026-11-29T14:05:10", "naive_instant"),
        ("at", 1764425110, "wrong_type"),
        ("plain_at", "2026-11-29T14:05:10", "naive_instant"),
        ("from", "dana", "malformed"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(field, value, code):
    violation = only(RIGHT | {field: value})
    assert (violation.field.split(".")[0], violation.code) == (field, code)


def test_what_has_no_form_is_named_together_with_what_has_the_wrong_type():
    found = violations({"status": "OPEN", "plain_at": "2026-11-29T14:05:10", "count": 2**60})
    assert list(found) == ["ticket_id", "status", "count", "plain_at"]


def test_a_value_of_several_types_has_one_violation_that_names_them_all():
    violation = only(RIGHT | {"limit": "ALL"})
    assert violation.message == "must be a whole number, or must be one of: all"
    assert violation.suggestion == "all"


def test_a_wrong_tag_names_the_permitted_ones():
    assert only(RIGHT | {"pay": {"kind": "Card", "number": "1"}}).suggestion == "card"
    assert only(RIGHT | {"pay": {"number": "1"}}).field == "pay.kind"
    assert only(RIGHT | {"pay": {"kind": "card"}}).field == "pay.number"
    assert only(RIGHT | {"pay": 5}).message == "must be an object"


def test_of_several_objects_the_one_it_comes_nearest_to_is_explained():
    class Address(BaseModel):
        street: str
        town: str
        country: str

    class Either(BaseModel):
        place: Address | Line | int

    assert list(violations({"place": {"street": "x", "town": "y"}}, tool(Either))) == [
        "place.country"
    ]
    message = only({"place": "x"}, tool(Either)).message
    assert message == "must be an object, or must be a whole number"


@pytest.mark.parametrize("received", [None, [], "x", 5, [("ticket_id", "x")], object()])
def test_what_is_no_object_is_one_violation_of_the_whole(received):
    (violation,) = violations(received).values()
    assert (violation.field, violation.code) == ("arguments", "wrong_type")


def test_names_that_are_no_text_are_refused():
    assert violations(RIGHT | {5: "x"})["arguments"].code == "not_representable"


def test_the_same_name_in_two_forms_is_refused():
    assert "arguments" in violations(RIGHT | {"e\u0301": 1, "\u00e9": 1})


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"inner": value}
    return value


def test_endless_nesting_is_a_violation():
    round_and_round: list[Any] = []
    round_and_round.append(round_and_round)
    assert only(RIGHT | {"free": nested(100_000)}).code == "too_deep"
    assert only(RIGHT | {"free": round_and_round}).code == "too_deep"
    assert canonical(RIGHT | {"free": nested(60)})["free"] == nested(60)


def test_too_many_values_are_a_violation():
    assert only(RIGHT | {"free": [0] * 1_000_000}).code == "too_large"


def test_an_endless_list_of_violations_is_cut_and_counted():
    found = violations(RIGHT | {"lines": [{"amount": 0}] * 5000})
    left = 5000 - (len(found) - 1)
    assert 50 <= len(found) <= VIOLATIONS_MAX + 1
    assert found["arguments"].message == f"and {left} more violations"


@pytest.mark.parametrize(
    "received",
    [
        {"region": "é" * 100_000, "status": "é" * 100_000, "currency": "é" * 100_000},
        {"lines": [{"amount": "\U0001f600" * 1000, "reason": "é" * 1000}] * 3000},
        {f"{number}" + "\U0001f600" * 999: number for number in range(3000)},
        {"labels": {f"{number}" + "é" * 999: "x" for number in range(3000)}},
        {"lines": [{str(number) * 99: 1 for number in range(99)}] * 99},
    ],
    ids=["values", "items", "names", "keys", "fields"],
)
def test_a_refusal_is_bounded_in_bytes_whatever_was_sent(received):
    """S2.13: a refusal is read by somebody who pays for each token."""
    found = violations(RIGHT | received)
    document = json.dumps([each.to_json() for each in found.values()], ensure_ascii=False)
    assert len(document.encode()) <= VIOLATIONS_BYTES_MAX + 1000


@pytest.mark.parametrize(
    "value, shown",
    [
        ("x" * 1000, f"{'x' * 199}…"),
        (list(range(1000)), "a list of 1000"),
        ({"a": "x" * 300}, "an object of 1"),
        (b"secret", "bytes"),
        (2**60, str(2**60)),
        pytest.param(10**5000, "a whole number of 16610 bits", id="huge"),
        (float("inf"), "inf"),
    ],
)
def test_received_values_are_shown_short_and_as_json(value, shown):
    assert only(RIGHT | {"status": value}).received == shown


def test_a_name_is_shown_short_and_well_formed():
    found = violations(RIGHT | {"n" * 1000: 1})
    assert all(len(field) <= 200 for field in found)


def test_no_sentence_is_pydantics():
    """S2.17."""
    found = violations({"status": "x", "count": "x", "lines": [1, {"amount": 1.5}], "x": 1})
    text = json.dumps([each.to_json() for each in found.values()])
    for word in ("pydantic", "Input should", "http", "Field required", "Value error"):
        assert word not in text


def test_rules_of_the_author_speak_only_in_words_meant_for_the_model():
    class Booking(BaseModel):
        start: int
        end: int
        room: str = "A"

        @field_validator("room")
        @classmethod
        def _known(cls, room: str) -> str:
            if room == "boom":
                raise ValueError("SELECT * FROM rooms")
            return room

        @model_validator(mode="after")
        def _ordered(self) -> "Booking":
            if self.end <= self.start:
                raise InvalidValue("must end after it starts", code="out_of_range")
            return self

    row = tool(Booking)
    assert only({"start": 2, "end": 1}, row).message == "must end after it starts"
    assert only({"start": 2, "end": 1}, row).field == "arguments"
    assert only({"start": 1, "end": 2, "room": "boom"}, row).message == "breaks a rule of this tool"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from([*Everything.model_fields, "from", "idempotency_key"]) | st.text()
VALUES = JSON | st.fixed_dictionaries(
    {}, optional={"kind": JSON, "amount": JSON, "number": JSON, "reason": JSON}
)


@given(st.dictionaries(NAMES, VALUES | st.lists(VALUES, max_size=3), max_size=8) | JSON)
def test_whatever_is_received_is_taken_or_refused_in_fields(received):
    found: tuple[Violation, ...] = ()
    try:
        validate(TOOL, received)
    except InvalidArguments as problem:
        found = problem.violations
    text = json.dumps([each.to_json() for each in found], ensure_ascii=False, allow_nan=False)
    assert "\0" not in json.loads(text)
    text.encode()


def test_a_row_of_any_effect_is_checked_alike():
    local = dataclasses.replace(TOOL, effect=Local())
    assert validate(local, RIGHT).canonical == canonical(RIGHT)
