"""The types of arguments that have more than one spelling, and the one spelling each settles on.

Each refuses what it can't mean, by name, and answers with its canonical value, so that two
spellings of one call are one call. A refusal is an ``InvalidValue``: its words are shown to the
model, and ``permitted`` carries the closed set where there is one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from takeback.declare.currency import MINOR_UNIT_EXPONENTS

# The largest integer that every JSON reader keeps exactly (RFC 7493, 2.2).
INTEGER_MAX = 2**53 - 1

# The longest address that fits into an SMTP path, in octets (RFC 5321, 4.5.3.1.3).
EMAIL_BYTES_MAX = 254

# Characters with a meaning in an address header (RFC 5322, 3.2.3): in an address that is one
# recipient they would have to be quoted, and quoted addresses are not taken.
_ADDRESS_SPECIALS = frozenset('()<>[],;:\\"')

_DATE_AND_TIME = re.compile(r"\s*\d{4}-\d{2}-\d{2}")


class InvalidValue(ValueError):
    """A validator's own words about a value that can't be taken.

    Raise it in a validator of an argument model. ``message`` is shown to the model and goes on from
    the argument's name, such as "must end after it starts". ``code`` is a stable word for programs;
    ``permitted`` is the whole closed set when there is one.
    """

    def __init__(
        self, message: str, *, code: str = "malformed", permitted: Sequence[Any] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.permitted = tuple(permitted)


def _minor_units(value: Any) -> int:
    """The amount itself, when it is a positive whole number of minor units.

    >>> _minor_units(12900)
    12900
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidValue(
            "must be integer minor units, such as 12900 for 129.00", code="not_minor_units"
        )
    if not 0 < value <= INTEGER_MAX:
        raise InvalidValue(
            f"must be integer minor units from 1 to {INTEGER_MAX}, such as 12900 for 129.00",
            code="out_of_range",
        )
    return value


def _currency(value: Any) -> str:
    """The code itself, when it is one of the list in exactly this spelling.

    >>> _currency("EUR")
    'EUR'
    """
    if not isinstance(value, str):
        raise InvalidValue("must be an ISO 4217 code, such as EUR", code="wrong_type")
    if value not in MINOR_UNIT_EXPONENTS:
        raise InvalidValue(
            "must be an ISO 4217 code, such as EUR",
            code="not_permitted",
            permitted=tuple(MINOR_UNIT_EXPONENTS),
        )
    return value


def _text(value: str) -> str:
    """The text in NFC, so that one character typed in two ways is one character.

    >>> _text("e\\u0301") == "\\u00e9"
    True
    """
    if "\0" in value:
        raise InvalidValue("must not contain the character NUL", code="not_representable")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidValue("must be well-formed Unicode", code="not_representable")
    return unicodedata.normalize("NFC", value)


def _email(value: str) -> str:
    """The address trimmed, in NFC and case-folded.

    >>> _email("  Dana@Example.COM ")
    'dana@example.com'
    """
    folded = unicodedata.normalize("NFC", value.strip()).casefold()
    # Folding may take a character apart again, and what it makes may fold once more.
    address = unicodedata.normalize("NFC", unicodedata.normalize("NFC", folded).casefold())
    if not _is_address(address):
        raise InvalidValue("must be one email address, such as dana@example.com")
    if len(address.encode()) > EMAIL_BYTES_MAX:
        raise InvalidValue(f"must be at most {EMAIL_BYTES_MAX} bytes long", code="too_long")
    return address


def _is_address(address: str) -> bool:
    """Whether it names one mailbox and can't be read as a header or as two recipients.

    >>> _is_address("dana@example.com"), _is_address("dana@example.com\\nBcc: eve@example.com")
    (True, False)
    """
    if not (address.isascii() and address.isprintable()) and any(
        unicodedata.category(character)[0] in "CZ" for character in address
    ):
        return False
    if " " in address or not _ADDRESS_SPECIALS.isdisjoint(address):
        return False
    mailbox, at, domain = address.partition("@")
    return bool(mailbox and at) and "@" not in domain and all(domain.split("."))


def _moment(value: Any) -> Any:
    """Only a datetime or a written date and time: a bare number has no unit."""
    if isinstance(value, datetime) or (isinstance(value, str) and _DATE_AND_TIME.match(value)):
        return value
    raise InvalidValue(
        "must be an instant with its offset from UTC, such as 2026-11-29T14:05:10Z",
        code="wrong_type",
    )


def _in_utc(value: datetime) -> datetime:
    """The same instant in UTC.

    >>> _in_utc(datetime.fromisoformat("2026-11-29T15:05:10+01:00")).isoformat()
    '2026-11-29T14:05:10+00:00'
    """
    if value.utcoffset() is None:
        raise InvalidValue(
            "must say its offset from UTC, such as 2026-11-29T14:05:10Z", code="naive_instant"
        )
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise InvalidValue("must lie between the years 1 and 9999", code="out_of_range") from None


Money = Annotated[
    int,
    Field(gt=0, le=INTEGER_MAX, description="integer minor units, such as 12900 for 129.00"),
    BeforeValidator(_minor_units),
]

Currency = Annotated[
    str,
    Field(
        description="ISO 4217 currency code, such as EUR",
        json_schema_extra={"pattern": "^[A-Z]{3}$"},
    ),
    BeforeValidator(_currency),
]

Email = Annotated[
    str,
    Field(description="one email address", json_schema_extra={"format": "email"}),
    AfterValidator(_email),
]

Instant = Annotated[
    datetime,
    Field(description="an instant with its offset from UTC, such as 2026-11-29T14:05:10Z"),
    BeforeValidator(_moment),
    AfterValidator(_in_utc),
]

Text = Annotated[str, AfterValidator(_text)]
