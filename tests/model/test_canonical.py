"""One value has one JSON form, and what has none is refused naming the field."""

import collections
import dataclasses
import ipaddress
import math
import pathlib
import unicodedata
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, RootModel, SecretStr, TypeAdapter

from takeback.declare.argument import INTEGER_MAX
from takeback.model.canonical import canonical_value
from takeback.model.key import canonical_bytes
from takeback.model.reading import DEPTH_MAX, VALUES_MAX, read


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Odd(Enum):
    PAIR = (1, 2.0)


class Point(NamedTuple):
    x: int
    y: float


@dataclasses.dataclass
class Box:
    width: Decimal
    label: str = "e\u0301"


class Line(BaseModel):
    amount: int
    tags: set[str] = set()


class Lines(RootModel[list[Line]]):
    pass


def form(value: Any) -> Any:
    canonical, faults = canonical_value(value)
    assert faults == []
    return canonical


def fault(value: Any) -> Any:
    _, faults = canonical_value({"field": value})
    assert faults[0].path[0] == "field"
    return faults[0]


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, None),
        (True, True),
        (0, 0),
        (5, 5),
        (5.0, 5),
        (-0.0, 0),
        (5.5, 5.5),
        (float(INTEGER_MAX), INTEGER_MAX),
        ("", ""),
        ("e\u0301", "\u00e9"),
        (Decimal("12.50"), "12.5"),
        (Decimal("1E+3"), "1000"),
        (Decimal(100), "100"),
        (Decimal("0.00"), "0"),
        (Decimal("-0"), "0"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("123456789012345678901234567890.10"), "123456789012345678901234567890.1"),
        (date(2026, 11, 29), "2026-11-29"),
        (time(14, 5), "14:05:00"),
        (timedelta(days=1, seconds=90.5), "P1DT90.5S"),
        (timedelta(seconds=-1), "-P0DT1S"),
        (datetime(2026, 11, 29, 14, 5, 10, tzinfo=UTC), "2026-11-29T14:05:10.000000Z"),
        (
            datetime(2026, 11, 29, 14, 5, 10, 7, tzinfo=timezone(timedelta(hours=2))),
            "2026-11-29T12:05:10.000007Z",
        ),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Odd.PAIR, [1, 2]),
        ([1, 2.0, "x"], [1, 2, "x"]),
        ((1, (2,)), [1, [2]]),
        (Point(1, 2.0), [1, 2]),
        (collections.deque([1, 2]), [1, 2]),
        ({"b", "a"}, ["a", "b"]),
        ({10, 9, 9.5}, [9, 9.5, 10]),
        (frozenset({("b", 1), ("a", 2)}), [["a", 2], ["b", 1]]),
        ({"b": 1, "a": {"c": 2.0}}, {"b": 1, "a": {"c": 2}}),
        ({Colour.RED: 1}, {"red": 1}),
        ({uuid.UUID(int=1): 1}, {"00000000-0000-0000-0000-000000000001": 1}),
        (Box(Decimal("1.0")), {"width": "1", "label": "\u00e9"}),
        (Line(amount=1, tags={"b", "a"}), {"amount": 1, "tags": ["a", "b"]}),
        (Lines([Line(amount=1)]), [{"amount": 1, "tags": []}]),
        (AnyUrl("https://Example.com"), "https://example.com/"),
        (pathlib.PurePosixPath("a/b"), "a/b"),
        (ipaddress.ip_address("127.0.0.1"), "127.0.0.1"),
    ],
)
def test_a_value_has_one_form(value, expected):
    canonical = form(value)
    assert canonical == expected
    assert canonical_bytes(canonical) == canonical_bytes(expected)
    assert form(canonical) == canonical


@pytest.mark.parametrize(
    "value, code",
    [
        (math.nan, "not_representable"),
        (math.inf, "not_representable"),
        (-math.inf, "not_representable"),
        (Decimal("NaN"), "not_representable"),
        (Decimal("sNaN"), "not_representable"),
        (Decimal("Infinity"), "not_representable"),
        (Decimal("1E+1000000"), "out_of_range"),
        (Decimal("1E-1000000"), "out_of_range"),
        (INTEGER_MAX + 1, "out_of_range"),
        (-INTEGER_MAX - 1, "out_of_range"),
        pytest.param(10**5000, "out_of_range", id="huge"),
        (1e300, "out_of_range"),
        ("a\0b", "not_representable"),
        ("\ud800", "not_representable"),
        (datetime.fromisoformat("2026-11-29T14:05:10"), "naive_instant"),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=10))), "out_of_range"),
        (b"bytes", "not_representable"),
        (SecretStr("secret"), "not_representable"),
        (object(), "not_representable"),
        (1j, "not_representable"),
        (iter([]), "not_representable"),
        ({1: "x"}, "not_representable"),
        ({None: "x"}, "not_representable"),
        ({"e\u0301": 1, "\u00e9": 2}, "not_representable"),
        ({"a\0": 1}, "not_representable"),
    ],
)
def test_what_has_no_form_is_refused_naming_the_field(value, code):
    assert fault(value).code == code
    assert fault([1, {"x": value}]).code == code


def test_a_secret_is_not_shown():
    assert "secret" not in repr(fault(SecretStr("secret"))).lower().replace("secretstr", "")


def test_nesting_is_bounded_without_recursing():
    value: Any = "leaf"
    for _ in range(DEPTH_MAX - 2):
        value = [value]
    assert form({"field": value}) == {"field": value}
    for _ in range(100_000):
        value = [value]
    assert fault(value).code == "too_deep"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-INTEGER_MAX, INTEGER_MAX)
    | st.floats(allow_nan=False, allow_infinity=False, min_value=-(2**52), max_value=2**52)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs", "Mn"])), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_a_form_is_its_own_form(value):
    canonical, faults = canonical_value(value)
    if not faults:
        assert form(canonical) == canonical
        assert canonical_bytes(form(canonical)) == canonical_bytes(canonical)


@given(st.sets(st.text(max_size=3) | st.integers(-9, 9) | st.booleans(), max_size=8), st.randoms())
def test_a_set_has_one_order_and_no_twins(values, dice):
    shuffled = list(values)
    dice.shuffle(shuffled)
    one, faults = canonical_value(values)
    if not faults:
        other = form(set(shuffled))
        assert canonical_bytes(one) == canonical_bytes(other)
        distinct = {canonical_bytes(item) for item in one}
        assert len(distinct) == len(one)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=None))
def test_a_decimal_is_written_plainly_and_keeps_its_value(value):
    canonical, faults = canonical_value(value)
    if not faults:
        assert Decimal(canonical) == value
        assert "E" not in canonical
        assert not ("." in canonical and canonical.endswith(("0", ".")))


@given(st.timedeltas())
def test_a_span_is_read_back_as_it_was(value):
    assert TypeAdapter(timedelta).validate_python(form(value)) == value


@given(st.datetimes(timezones=st.timezones()))
def test_an_instant_is_one_in_every_zone(value):
    canonical, faults = canonical_value(value)
    if not faults:
        assert canonical == form(value.astimezone(UTC))
        assert len(canonical) == len("2026-11-29T14:05:10.000000Z")


def test_received_text_is_composed_wherever_it_stands():
    decomposed = {"e\u0301": ["e\u0301", {"a": ("e\u0301",)}]}
    assert read(decomposed) == ({"\u00e9": ["\u00e9", {"a": ["\u00e9"]}]}, [])


def test_a_received_set_has_one_order():
    words = {f"word{number}" for number in range(50)}
    assert read({"words": words})[0]["words"] == sorted(words, key=repr)


def test_a_received_enum_stays_one():
    assert read({"colour": Colour.RED})[0]["colour"] is Colour.RED


def test_received_values_are_bounded_in_number():
    assert read({"many": list(range(VALUES_MAX - 1))})[1] == []
    (fault_,) = read({"many": list(range(VALUES_MAX))})[1]
    assert (fault_.path, fault_.code) == (("many",), "too_large")


@given(st.text())
def test_received_text_is_refused_or_composed(text):
    arguments, faults = read({"text": text})
    if not faults:
        assert arguments["text"] == unicodedata.normalize("NFC", text)
