"""The closed set of currencies."""

import re

import pytest

from takeback.declare.currency import MINOR_UNIT_EXPONENTS, minor_unit_exponent


def test_codes_are_three_capitals_in_order():
    assert all(re.fullmatch("[A-Z]{3}", code) for code in MINOR_UNIT_EXPONENTS)
    assert list(MINOR_UNIT_EXPONENTS) == sorted(MINOR_UNIT_EXPONENTS)


@pytest.mark.parametrize(
    "code, exponent",
    [
        ("EUR", 2), ("USD", 2), ("JPY", 0), ("KRW", 0), ("CLP", 0), ("ISK", 0), ("UGX", 0),
        ("KWD", 3), ("BHD", 3), ("TND", 3), ("IQD", 3), ("CLF", 4), ("UYW", 4), ("HUF", 2),
        ("MGA", 2), ("ZWG", 2), ("XCG", 2), ("XOF", 0), ("XCD", 2),
    ],
)  # fmt: skip
def test_minor_units_are_those_of_the_standard(code, exponent):
    assert minor_unit_exponent(code) == exponent


@pytest.mark.parametrize("code", ["XAU", "XXX", "XTS", "XDR", "DEM", "HRK", "ZWL", "SLL", "eur"])
def test_what_cannot_be_paid_in_is_left_out(code):
    with pytest.raises(KeyError):
        minor_unit_exponent(code)
