"""One thing that is wrong with a call, in fields that a program can act upon."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# What is shown of a value: enough to recognise it, never a payload.
SHOWN_LENGTH_MAX = 200
_SHOWN_ITEMS_MAX = 20
_SHOWN_DEPTH_MAX = 4
_SHOWN_BITS_MAX = 512

# A larger number loses digits in some readers of JSON, and is shown as text.
_JSON_BITS_MAX = 53


class Repair(StrEnum):
    """Who can mend a violation: anybody, somebody who knows the meaning, or only the user."""

    MECHANICAL = "mechanical"
    CHOICE = "choice"
    ASK_USER = "ask_user"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violated rule of a tool's schema.

    ``field`` is a path such as ``lines.0.amount``. ``permitted`` holds the nearest few of
    ``permitted_count`` permitted values, and ``lookup`` is the ready call that searches the rest.
    ``suggestion`` is never applied by the engine; of an unknown argument it is the name that was
    meant, and one without it that is mechanical is left out.
    """

    field: str
    code: str
    message: str
    received: Any = None
    permitted: Sequence[Any] = ()
    permitted_count: int | None = None
    suggestion: Any = None
    lookup: Mapping[str, Any] | None = None
    repair: Repair = Repair.CHOICE

    def to_json(self) -> dict[str, Any]:
        """The wire shape; fields that say nothing are left out."""
        document: dict[str, Any] = {
            "field": self.field,
            "code": self.code,
            "message": self.message,
            "received": self.received,
        }
        if self.permitted_count is not None:
            document["permitted"] = list(self.permitted)
            document["permitted_count"] = self.permitted_count
        if self.suggestion is not None:
            document["suggestion"] = self.suggestion
        if self.lookup is not None:
            document["lookup"] = dict(self.lookup)
        document["repair"] = self.repair.value
        return document


def of_term(field: str, received: Any, code: str, message: str) -> Violation:
    """What is wrong with a term of a call, which whoever calls may choose anew.

    >>> of_term("run", "x" * 1000, "malformed", "must be short").received[-2:]
    'x…'
    """
    return Violation(field=field, code=code, message=message, received=shown(received))


def shown(value: Any) -> Any:
    """The value as a refusal shows it: JSON, short, and well-formed whatever it was.

    Long text is cut, a large list or object is described, and what JSON can't say is named by its
    type.

    >>> shown({"status": "OPEN"}), shown("x" * 1000)[-2:], shown(list(range(1000))), shown(b"")
    ({'status': 'OPEN'}, 'x…', 'a list of 1000', 'bytes')
    """
    try:
        small = _small(value, _SHOWN_DEPTH_MAX)
    except OverflowError:
        return _described(value)
    if isinstance(small, dict | list) and len(json.dumps(small)) > SHOWN_LENGTH_MAX:
        return _described(value)
    return small


def _small(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if type(value) is int:
        if value.bit_length() > _SHOWN_BITS_MAX:
            return f"a whole number of {value.bit_length()} bits"
        return value if value.bit_length() <= _JSON_BITS_MAX else str(value)
    if type(value) is float:
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, str):
        return _short(value)
    if isinstance(value, Mapping | list | tuple):
        if depth == 0 or len(value) > _SHOWN_ITEMS_MAX:
            raise OverflowError
        if isinstance(value, Mapping):
            return {_short(str(key)): _small(item, depth - 1) for key, item in value.items()}
        return [_small(item, depth - 1) for item in value]
    return type(value).__name__


def _short(text: str) -> str:
    text = text if len(text) <= SHOWN_LENGTH_MAX else f"{text[: SHOWN_LENGTH_MAX - 1]}…"
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\u0000")


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    return f"a list of {len(value)}"
