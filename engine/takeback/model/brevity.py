"""Short forms of long things: what is told of a text or a value has a bound, whatever it holds.

Bounds are in bytes of UTF-8 JSON, since that is what a model is charged for. What was cut ends
with an ellipsis. Ids made for machines are told by their ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from takeback.model.violation import shown

ELLIPSIS = "…"
_ELLIPSIS_BYTES = 3

_MACHINE_ID = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|[0-9a-f]{32}"
    r"|[0-7][0-9A-HJKMNP-TV-Z]{25}"
    r")(?![0-9A-Za-z])",
    re.IGNORECASE,
)
"""A UUID with or without dashes, or a ULID."""

_MACHINE_ID_LENGTH_MIN = 26
_END_LENGTH = 8


def brief(text: str, bytes_max: int) -> str:
    """The text in at most ``bytes_max`` bytes of JSON, with no id in it that only machines read.

    >>> brief("x" * 50, 10), brief("Grüße", 6), brief("a 01890a5d-ac96-774b-bcce-b302099a8057", 40)
    ('xxxxxxx…', 'Gr…', 'a …099a8057')
    """
    return cut(legible(text), bytes_max)


def cut(text: str, bytes_max: int) -> str:
    r"""The text in at most ``bytes_max`` bytes of JSON, quotes aside, and well-formed.

    >>> cut("abcdef", 6), cut("abcdefg", 6), cut("\n" * 5, 10), cut("\ud800", 10)
    ('abcdef', 'abc…', '\n\n\n\n\n', '\\ud800')
    """
    if len(text) <= bytes_max and _is_plain(text):
        return text
    # No character is less than a byte: what is beyond can't be told anyway.
    head = text[: bytes_max + 1].encode("utf-8", "backslashreplace").decode()
    if len(text) <= bytes_max and weight(head) <= bytes_max:
        return head
    room, kept = bytes_max - _ELLIPSIS_BYTES, 0
    for character in head:
        room -= weight(character)
        if room < 0:
            break
        kept += 1
    return head[:kept] + ELLIPSIS


def _is_plain(text: str) -> bool:
    """Whether each of its characters is one byte of JSON."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def weight(text: str) -> int:
    r"""How many bytes the text is in JSON, without its quotes.

    >>> weight("a"), weight("ü"), weight("\n"), weight('"')
    (1, 2, 2, 2)
    """
    return size(text) - 2


def size(value: Any) -> int:
    """How many bytes the value is in JSON.

    >>> size({"a": [1, "ü"]})
    16
    """
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def legible(text: str) -> str:
    """The text with its UUIDs and ULIDs told by their ends: a whole one is in the full answer.

    >>> legible("order 01ARZ3NDEKTSV4RRFFQ69G5FAV of C-1")
    'order …Q69G5FAV of C-1'
    """
    if len(text) < _MACHINE_ID_LENGTH_MIN:
        return text
    return _MACHINE_ID.sub(lambda found: ELLIPSIS + found.group()[-_END_LENGTH:], text)


def compact(value: Any, bytes_max: int) -> Any:
    """The value in at most ``bytes_max`` bytes of JSON: text is cut, what is large is described.

    >>> compact("x" * 50, 12), compact([1, 2], 12), compact(list(range(50)), 12), compact(1.5, 12)
    ('xxxxxxx…', [1, 2], 'a list of 50', 1.5)
    """
    if isinstance(value, str):
        return cut(value, bytes_max - 2)
    small = shown(value)
    if not isinstance(small, str) and size(small) <= bytes_max:
        return small
    if isinstance(value, Mapping):
        return cut(f"an object of {len(value)}", bytes_max - 2)
    if isinstance(value, list | tuple):
        return cut(f"a list of {len(value)}", bytes_max)
    return cut(str(small), bytes_max - 2)


def as_stored(value: Any) -> Any:
    """An argument as it comes back from the ledger: a sentence about it is the same at any time.

    >>> as_stored({"b": 5.0, "a": [-0.0, 2.5]})
    {'a': [0, 2.5], 'b': 5}
    """
    if type(value) is float and value.is_integer() and abs(value) < _WRITTEN_WHOLE:
        return int(value)
    if isinstance(value, dict | list) and len(value) > _ITEMS_TOLD_MAX:
        return value
    if isinstance(value, dict):
        return {key: as_stored(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [as_stored(one) for one in value]
    return value


_ITEMS_TOLD_MAX = 20
"""Larger ones are described by their number, which is the same in every form."""

_WRITTEN_WHOLE = 1e21
"""Below this, canonical JSON writes a float without a fraction as a whole number."""
