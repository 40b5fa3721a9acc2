"""The argument types: what each refuses by name, and the one spelling each settles on."""

import math
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from takeback.declare import Currency, Email, Instant, Money, Text
from takeback.declare.argument import EMAIL_BYTES_MAX, INTEGER_MAX, InvalidValue

MONEY = TypeAdapter(Money)
CURRENCY = TypeAdapter(Currency)
EMAIL = TypeAdapter(Email)
INSTANT = TypeAdapter(Instant)
TEXT = TypeAdapter(Text)


def refusal(adapter: TypeAdapter, value: object) -> InvalidValue:
    """What the type says of a value that it doesn't take."""
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(value)
    (error,) = caught.value.errors()
    problem = error["ctx"]["error"]
    assert isinstance(problem, InvalidValue)
    return problem


@pytest.mark.parametrize("amount", [1, 12900, INTEGER_MAX])
def test_money_is_a_positive_whole_number_of_minor_units(amount):
    assert MONEY.validate_python(amount) == amount


@pytest.mark.parametrize(
    "value",
    [129.0, 129.5, "12900", "129.00", True, False, None, math.nan, Decimal(129), [129], b"1"],
)
def test_money_of_any_other_kind_is_refused_by_name(value):
    problem = refusal(MONEY, value)
    assert problem.code == "not_minor_units"
    assert "integer minor units, such as 12900 for 129.00" in problem.message


@pytest.mark.parametrize("value", [0, -1, -12900, INTEGER_MAX + 1, 10**40])
def test_money_out_of_range_is_refused(value):
    assert refusal(MONEY, value).code == "out_of_range"


def test_a_currency_is_a_code_in_its_own_spelling():
    assert CURRENCY.validate_python("EUR") == "EUR"


@pytest.mark.parametrize("value", ["eur", "Eur", " EUR", "EURO", "XAU", "XXX", "ZZZ", "", "€"])
def test_another_spelling_of_a_currency_is_refused_with_the_closed_set(value):
    problem = refusal(CURRENCY, value)
    assert problem.code == "not_permitted"
    assert "EUR" in problem.permitted


@pytest.mark.parametrize("value", [978, None, ["EUR"]])
def test_a_currency_that_is_no_text_is_refused(value):
    assert refusal(CURRENCY, value).code == "wrong_type"


@pytest.mark.parametrize(
    "spelling",
    ["dana@example.com", " Dana@Example.COM ", "DANA@EXAMPLE.COM\n", "\tdana@example.com\u00a0"],
)
def test_every_spelling_of_an_address_is_one_address(spelling):
    assert EMAIL.validate_python(spelling) == "dana@example.com"


def test_an_address_typed_in_decomposed_form_is_the_same_address():
    composed = "andré@exämple.com"
    assert EMAIL.validate_python(unicodedata.normalize("NFD", composed).upper()) == composed


@pytest.mark.parametrize(
    "value",
    [
        "",
        "dana",
        "@example.com",
        "dana@",
        "dana@@example.com",
        "dana@example.com@example.com",
        "dana@example.com, eve@example.com",
        "dana@example.com;eve@example.com",
        "Dana Ruiz <dana@example.com>",
        "dana ruiz@example.com",
        "dana@exa mple.com",
        "dana@example.com\r\nBcc: eve@example.com",
        "dana\n@example.com",
        "dana\0@example.com",
        "da\u200bna@example.com",
        "dana\u2028@example.com",
        "\u202edana@example.com",
        "dana\ud800@example.com",
        "dana@example..com",
        "dana@.com",
        '"dana"@example.com',
    ],
)
def test_what_is_not_one_address_is_refused(value):
    assert refusal(EMAIL, value).code == "malformed"


def test_an_address_is_bounded_in_bytes():
    longest = "d" * (EMAIL_BYTES_MAX - len("@example.com")) + "@example.com"
    assert EMAIL.validate_python(longest) == longest
    assert refusal(EMAIL, f"d{longest}").code == "too_long"
    assert refusal(EMAIL, f"{'é' * 130}@example.com").code == "too_long"


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_a_canonical_address_is_its_own_canonical_form(mailbox, domain):
    try:
        address = EMAIL.validate_python(f"{mailbox}@{domain}")
    except ValidationError:
        return
    assert EMAIL.validate_python(address) == address


@pytest.mark.parametrize(
    "spelling",
    [
        "2026-11-29T14:05:10Z",
        "2026-11-29T15:05:10+01:00",
        "2026-11-29 09:05:10.000-05:00",
        datetime(2026, 11, 29, 14, 5, 10, tzinfo=UTC),
        datetime(2026, 11, 29, 19, 35, 10, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    ],
)
def test_an_instant_is_in_utc_wherever_it_was_written(spelling):
    instant = INSTANT.validate_python(spelling)
    assert instant.isoformat() == "2026-11-29T14:05:10+00:00"


@pytest.mark.parametrize(
    "value", ["2026-11-29T14:05:10", "2026-11-29", datetime.fromisoformat("2026-11-29")]
)
def test_a_naive_datetime_is_refused_by_name(value):
    problem = refusal(INSTANT, value)
    assert problem.code == "naive_instant"
    assert "offset from UTC" in problem.message


@pytest.mark.parametrize(
    "value", [1764425110, 1764425110.5, "1764425110", True, None, [2026, 11, 29]]
)
def test_a_bare_number_is_no_instant(value):
    assert refusal(INSTANT, value).code == "wrong_type"


def test_an_instant_that_utc_cannot_say_is_refused():
    assert refusal(INSTANT, "0001-01-01T00:00:00+10:00").code == "out_of_range"


def test_text_is_composed():
    assert TEXT.validate_python("cafe\u0301") == "caf\u00e9"


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_text_that_cannot_be_stored_is_refused(value):
    assert refusal(TEXT, value).code == "not_representable"


@given(st.text())
def test_text_is_refused_or_in_its_one_form(value):
    try:
        text = TEXT.validate_python(value)
    except ValidationError:
        assert "\0" in value or any(0xD800 <= ord(each) <= 0xDFFF for each in value)
    else:
        assert unicodedata.is_normalized("NFC", text)
        assert TEXT.validate_python(unicodedata.normalize("NFD", text)) == text


def test_the_schemas_say_what_is_taken():
    assert MONEY.json_schema() == {
        "type": "integer",
        "exclusiveMinimum": 0,
        "maximum": INTEGER_MAX,
        "description": "integer minor units, such as 12900 for 129.00",
    }
    assert CURRENCY.json_schema()["pattern"] == "^[A-Z]{3}$"
    assert EMAIL.json_schema()["format"] == "email"
    assert INSTANT.json_schema()["format"] == "date-time"
