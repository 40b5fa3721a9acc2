"""The corrected call: handed back where one reading is possible, and never carried out by us."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from takeback.declare import Money
from takeback.model.arguments import NEXT_CALL_BYTES_MAX, next_call, validate
from takeback.model.correction import corrected
from takeback.model.errors import InvalidArguments
from takeback.model.violation import Repair, Violation
from tests.model.ticket import RIGHT, TOOL, tool, violations


class Refund(BaseModel):
    charge_id: str
    amount: Money
    reason: Literal["duplicate", "fraudulent"]
    note: str | None = None
    line1: str | None = None
    line2: str | None = None
    to: str | None = None


REFUND = tool(Refund)
REFUNDED = {"charge_id": "ch_1", "amount": 12900, "reason": "duplicate"}


def mended(received: dict[str, Any], row: Any = TOOL) -> dict[str, Any] | None:
    found = next_call(row, received, tuple(violations(received, row).values()))
    return None if found is None else found["arguments"]


def test_a_call_that_is_wrong_in_spelling_only_is_handed_back_corrected():
    received = RIGHT | {
        "status": "OPEN",
        "lines": [{"amount": 1}, {"amount": 1, "reason": "Duplicate"}],
    }
    call = next_call(TOOL, received, tuple(violations(received).values()))
    assert call == {
        "tool": "update_ticket",
        "arguments": RIGHT | {"lines": [{"amount": 1}, {"amount": 1, "reason": "duplicate"}]},
    }
    assert received["status"] == "OPEN"
    validate(TOOL, call["arguments"])


def test_a_call_with_one_violation_of_meaning_is_not_handed_back():
    """A gated tool never gets its meaning repaired: 43 % of such choices were wrong."""
    assert mended(RIGHT | {"status": "OPEN", "count": "many"}) is None
    assert mended(RIGHT | {"status": "opened"}) is None
    assert mended(RIGHT | {"status": "OPEN", "why": "x"}) is None


def test_a_right_call_has_no_correction():
    assert next_call(TOOL, RIGHT, []) is None


@pytest.mark.parametrize(
    "added",
    [
        {"idempotency_key": "k-1"},
        {"idempotencyKey": "k-1"},
        {"confirm": True},
        {"force": True},
        {"force": False, "confirm": True, "Idempotency-Key": 7},
    ],
)
def test_what_models_add_of_their_own_accord_is_left_out(added):
    assert mended(REFUNDED | added, REFUND) == REFUNDED


@pytest.mark.parametrize("said", [False, None, "no", 0, {}])
def test_a_confirmation_that_is_withheld_is_not_left_out(said):
    """Leaving it out would do what was not to be done yet."""
    assert mended(REFUNDED | {"confirm": said}, REFUND) is None


def test_what_is_left_out_at_the_top_is_a_choice_further_down():
    assert mended(RIGHT | {"lines": [{"amount": 1, "confirm": True}]}) is None


@pytest.mark.parametrize("name", ["chargeId", "charge-id", "Charge_ID", "chrage_id", "charg_id"])
def test_a_misspelt_name_of_one_missing_argument_is_that_argument(name):
    received = {name: "ch_1", "amount": 12900, "reason": "duplicate"}
    found = violations(received, REFUND)
    assert list(found) == [name]
    assert (found[name].suggestion, found[name].repair) == ("charge_id", Repair.MECHANICAL)
    assert found[name].received == "ch_1"
    assert mended(received, REFUND) == REFUNDED


def test_the_value_under_a_misspelt_name_is_looked_at_in_the_same_answer():
    """S2.12: what is wrong with the value does not wait for the name to be mended."""
    found = violations({"charge_id": "x", "amuont": 1.5, "raeson": "Duplicate"}, REFUND)
    assert list(found) == ["amount", "reason", "amuont", "raeson"]
    assert found["reason"].suggestion == "duplicate"
    received = {"charge_id": "ch_1", "amuont": "12900", "raeson": "Duplicate"}
    assert mended(received, REFUND) == REFUNDED


def test_a_misspelt_name_further_down_is_mended_there():
    received = RIGHT | {"lines": [{"amount": 1}, {"amonut": 2}]}
    assert list(violations(received)) == ["lines.1.amonut"]
    assert mended(received) == RIGHT | {"lines": [{"amount": 1}, {"amount": 2}]}


@pytest.mark.parametrize(
    "received",
    [
        REFUNDED | {"amounts": 5},  # is there already
        REFUNDED | {"line3": "x"},  # another digit is another line
        REFUNDED | {"tp": "x"},  # too short to tell
        REFUNDED | {"nte": "x", "noe": "y"},  # two for one
        REFUNDED | {"comment": "x"},  # another word
    ],
)
def test_a_name_that_may_mean_another_thing_is_a_choice(received):
    found = violations(received, REFUND)
    assert all(one.repair is Repair.CHOICE for one in found.values())
    assert mended(received, REFUND) is None


def test_a_name_near_two_absent_arguments_is_a_choice():
    class Move(BaseModel):
        start: str | None = None
        smart: str | None = None

    assert mended({"sart": "x"}, tool(Move)) is None


def test_an_argument_with_an_alias_is_meant_by_its_alias():
    assert mended(RIGHT | {"form": "dana@example.com"}) == RIGHT | {"from": "dana@example.com"}


@pytest.mark.parametrize("amount", ["12900", " 12900 "])
def test_an_integer_written_as_text_is_that_integer(amount):
    assert mended(REFUNDED | {"amount": amount}, REFUND) == REFUNDED


@pytest.mark.parametrize("amount", ["129.00", "129,00", "12 900", 129.0, "012900", "-5", "1e4", ""])
def test_a_decimal_is_never_turned_into_minor_units(amount):
    """FINDINGS: a wrong unit is a choice of meaning."""
    assert mended(REFUNDED | {"amount": amount}, REFUND) is None


def test_spaces_round_a_value_are_no_part_of_it():
    class Ship(BaseModel):
        order_id: str = Field(pattern=r"^O-[0-9]+$")

    assert mended({"order_id": " O-7\n"}, tool(Ship)) == {"order_id": "O-7"}
    assert mended({"order_id": " 7 "}, tool(Ship)) is None


def test_a_call_too_long_to_repeat_is_corrected_where_it_was_made():
    received = REFUNDED | {"reason": "Duplicate", "note": "x" * NEXT_CALL_BYTES_MAX}
    assert mended(received, REFUND) is None
    assert violations(received, REFUND)["reason"].suggestion == "duplicate"


def test_a_value_of_one_of_several_types_is_mended_where_it_fits():
    received = RIGHT | {"pay": {"kind": " Card", "number": "1"}, "lines": [{"amount": "7"}]}
    assert mended(received) == RIGHT | {
        "pay": {"kind": "card", "number": "1"},
        "lines": [{"amount": 7}],
    }


def test_a_call_of_thousands_of_wrong_lines_is_read_a_few_times_only():
    """The time that a refusal takes grows with the call, not with its square."""
    read: list[int] = []

    class Item(BaseModel):
        amount: Money

        @field_validator("amount", mode="before")
        @classmethod
        def _count(cls, amount: Any) -> Any:
            read.append(1)
            return amount

    class Bulk(BaseModel):
        lines: list[Item]

    found = violations({"lines": [{"amount": "5"}] * 2000}, tool(Bulk))
    assert found["lines.0.amount"].suggestion == 5
    assert len(read) < 3 * 2000


def test_what_is_the_engines_own_stays_as_it_was():
    received = REFUNDED | {"reason": "Duplicate"}
    found = tuple(violations(received, REFUND).values())
    call = next_call(REFUND, received | {"repeat_of": "r"}, found, beside={"repeat_of"})
    assert call == {"tool": "update_ticket", "arguments": REFUNDED | {"repeat_of": "r"}}


def test_a_field_that_is_not_there_is_not_invented():
    for field in ("nothing", "lines.0.reason", "lines.x", "lines.7", "status.x"):
        for code in ("not_permitted", "unknown_argument"):
            violation = Violation(
                field=field, code=code, message="", suggestion="x", repair=Repair.MECHANICAL
            )
            assert corrected(RIGHT | {"lines": [1]}, [violation]) is None


def test_keys_with_dots_are_found():
    violation = Violation(
        field="a.b.c", code="not_permitted", message="", suggestion=1, repair=Repair.MECHANICAL
    )
    assert corrected({"a": 5, "a.b": {"c": 0}}, [violation]) == {"a": 5, "a.b": {"c": 1}}


SPOILT = {
    "status": st.sampled_from(["open", "OPEN", " Closed", "pending ", "resolved", 1]),
    "ticket_id": st.sampled_from(["T-7", 7]),
}
OPTIONAL = {
    "currency": st.sampled_from(["EUR", "eur", " usd ", "EURO", "ＥＵＲ"]),
    "lines": st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "amount": st.sampled_from([5, "5", "5.0", 5.0]),
                "amuont": st.just(7),
                "reason": st.sampled_from(["Duplicate", "REQUESTED", "none"]),
            },
        ),
        max_size=2,
    ),
    "confirm": st.booleans(),
    "idempotency_key": st.just("k"),
    "curency": st.sampled_from(["EUR", "Eur", 5]),
    "region": st.sampled_from(["aa", "AA", "ZZ"]),
    "count": st.sampled_from(["5", "five", 5.5, 5]),
    "limit": st.sampled_from(["ALL", "all", 3, "many"]),
}


@given(st.fixed_dictionaries(SPOILT, optional=OPTIONAL))
def test_a_corrected_call_is_valid_word_for_word_and_changes_nothing_that_was_right(received):
    """S2.10, S2.24: sent verbatim it is taken, and its right arguments are the ones received."""
    before = json.dumps(received)
    found = refused(received)
    call = next_call(TOOL, received, found)
    assert json.dumps(received) == before
    if call is None:
        return
    assert all(one.repair is Repair.MECHANICAL for one in found)
    validate(TOOL, call["arguments"])
    touched = {one.field.split(".")[0] for one in found}
    for name, value in received.items():
        if name not in touched:
            assert call["arguments"][name] == value


def refused(received: dict[str, Any]) -> tuple[Violation, ...]:
    try:
        validate(TOOL, received)
    except InvalidArguments as problem:
        return problem.violations
    return ()
