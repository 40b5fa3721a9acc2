"""The one JSON form of a validated value, whatever spelling it was received in.

    text         NFC                                 whole number   within ±(2^53-1)
    float        the whole number when it is one     Decimal        "12.5": no exponent, no padding
    instant      "2026-11-29T14:05:10.000000Z"       date, time     ISO 8601
    timedelta    "P1DT90.5S"                         UUID, URL, path, IP address     text
    enum         its value                           set            a sorted list
    list, tuple  a list                              model, dataclass, dict          an object

What has no such form (NaN, a naive datetime, bytes, secrets) is a flaw that names the field.
"""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePath
from typing import Any
from uuid import UUID

from pydantic import AnyUrl, BaseModel, RootModel

from takeback.declare.argument import INTEGER_MAX
from takeback.model.key import canonical_bytes
from takeback.model.reading import DEPTH_MAX, Flaw, Path, text_flaw
from takeback.model.shape import called

# A Decimal is written out in full: 1E+1000000 would be a megabyte of zeros.
DECIMAL_PLACES_MAX = 1000

_Form = Callable[[Any, Any, Path, list[Flaw]], Any]


def canonical_arguments(
    model: BaseModel, received: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Flaw]]:
    """Every argument of ``model`` by name in its one form, defaults too, and what has none.

    ``received`` is what it was read from: it tells True from 1 where the model has become 1.
    """
    flaws: list[Flaw] = []
    return _model(model, received, (), flaws), flaws


def canonical_value(value: Any) -> tuple[Any, list[Flaw]]:
    """The one form of a value on its own, and what is wrong with it.

    >>> canonical_value({"b": 5.0, "a": Decimal("12.50"), "c": {3, 1}})
    ({'b': 5, 'a': '12.5', 'c': [1, 3]}, [])
    >>> [flaw.message for flaw in canonical_value(datetime(2026, 11, 29))[1]]
    ['must say its offset from UTC, such as 2026-11-29T14:05:10Z']
    """
    flaws: list[Flaw] = []
    return _canonical(value, None, (), flaws), flaws


def _canonical(value: Any, received: Any, path: Path, flaws: list[Flaw]) -> Any:
    kind = type(value)
    if kind is str and value.isascii() and "\0" not in value:
        return value
    form = _FORMS.get(kind)
    if form is None:
        form = next((form for base, form in _BASES if isinstance(value, base)), _unknown)
    return form(value, received, path, flaws)


def _same(value: Any, _received: Any, _path: Path, _flaws: list[Flaw]) -> Any:
    return value


def _text(value: str, _received: Any, path: Path, flaws: list[Flaw]) -> str:
    wrong = text_flaw(value)
    if wrong is not None:
        _note(flaws, path, wrong, value)
        return ""
    return unicodedata.normalize("NFC", str(value))


def _written(value: Any, received: Any, path: Path, flaws: list[Flaw]) -> str:
    return _text(str(value), received, path, flaws)


def _whole(value: int, received: Any, path: Path, flaws: list[Flaw]) -> Any:
    if isinstance(received, bool):
        return _note(flaws, path, "must be a number, not true or false", received, "wrong_type")
    if not -INTEGER_MAX <= value <= INTEGER_MAX:
        message = f"must be a whole number from -{INTEGER_MAX} to {INTEGER_MAX}"
        return _note(flaws, path, message, received, "out_of_range")
    return int(value)


def _float(value: float, received: Any, path: Path, flaws: list[Flaw]) -> Any:
    if not math.isfinite(value):
        return _note(flaws, path, "must be a finite number", str(value))
    if value.is_integer() or isinstance(received, bool):
        return _whole(int(value), received, path, flaws)
    return float(value)


def _decimal(value: Decimal, received: Any, path: Path, flaws: list[Flaw]) -> Any:
    if isinstance(received, bool):
        return _note(flaws, path, "must be a number, not true or false", received, "wrong_type")
    if not value.is_finite():
        return _note(flaws, path, "must be a finite number", str(value))
    if not value:
        return "0"
    exponent = int(value.as_tuple().exponent)
    if value.adjusted() > DECIMAL_PLACES_MAX or exponent < -DECIMAL_PLACES_MAX:
        message = f"must have at most {DECIMAL_PLACES_MAX} digits on either side of the point"
        return _note(flaws, path, message, str(value), "out_of_range")
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _instant(value: datetime, _received: Any, path: Path, flaws: list[Flaw]) -> Any:
    if value.utcoffset() is None:
        message = "must say its offset from UTC, such as 2026-11-29T14:05:10Z"
        return _note(flaws, path, message, value.isoformat(), "naive_instant")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        message = "must lie between the years 1 and 9999"
        return _note(flaws, path, message, value.isoformat(), "out_of_range")
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _iso(value: date | time, _received: Any, _path: Path, _flaws: list[Flaw]) -> str:
    return value.isoformat()


def _span(value: timedelta, _received: Any, _path: Path, _flaws: list[Flaw]) -> str:
    micros = value // timedelta(microseconds=1)
    seconds, rest = divmod(abs(micros), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"{'-' if micros < 0 else ''}P{days}DT{seconds}{fraction}S"


def _enum(value: Enum, received: Any, path: Path, flaws: list[Flaw]) -> Any:
    return _canonical(value.value, received, path, flaws)


def _list(value: Iterable[Any], received: Any, path: Path, flaws: list[Flaw]) -> list[Any]:
    if _too_deep(path, flaws):
        return []
    given = received if isinstance(received, list | tuple) else ()
    return [
        _canonical(item, given[index] if index < len(given) else None, (*path, index), flaws)
        for index, item in enumerate(value)
    ]


def _set(value: Iterable[Any], received: Any, path: Path, flaws: list[Flaw]) -> list[Any]:
    items = _list(value, None, path, flaws)
    if isinstance(received, list | tuple) and not any(isinstance(item, bool) for item in items):
        for index, given in enumerate(received):
            if isinstance(given, bool):
                message = "must be a number, not true or false"
                _note(flaws, (*path, index), message, given, "wrong_type")
    if all(type(item) is str for item in items):
        return sorted(set(items))
    if all(type(item) in {int, float} for item in items):
        return sorted(set(items))
    by_bytes = {canonical_bytes(item): item for item in items}
    return [by_bytes[key] for key in sorted(by_bytes)]


def _dict(value: Mapping[Any, Any], received: Any, path: Path, flaws: list[Flaw]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if _too_deep(path, flaws):
        return result
    given = received if isinstance(received, Mapping) else {}
    for key, item in value.items():
        name = _canonical(key, None, path, flaws)
        if not isinstance(name, str):
            _note(flaws, path, "must have text as the names of its fields", key)
        elif name in result:
            _note(flaws, path, "two keys are the same text", key)
        else:
            result[name] = _canonical(item, given.get(name), (*path, name), flaws)
    return result


def _model(value: BaseModel, received: Any, path: Path, flaws: list[Flaw]) -> dict[str, Any]:
    if _too_deep(path, flaws):
        return {}
    given = received if isinstance(received, Mapping) else {}
    values = value.__dict__
    return {
        name: _canonical(
            values.get(name), given.get(name, given.get(called(name, field))), (*path, name), flaws
        )
        for name, field in type(value).model_fields.items()
    }


def _root_model(value: RootModel[Any], received: Any, path: Path, flaws: list[Flaw]) -> Any:
    return _canonical(value.root, received, path, flaws)


def _unknown(value: Any, received: Any, path: Path, flaws: list[Flaw]) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _dict(fields, received, path, flaws)
    return _note(flaws, path, "has no form in JSON that could be stored", type(value).__name__)


def _too_deep(path: Path, flaws: list[Flaw]) -> bool:
    if len(path) < DEPTH_MAX:
        return False
    message = f"must not be nested deeper than {DEPTH_MAX} levels"
    flaws.append(Flaw(path=path[:1], code="too_deep", message=message))
    return True


def _note(
    flaws: list[Flaw], path: Path, message: str, received: Any, code: str = "not_representable"
) -> Any:
    """Note a flaw, and answer with the null that stands in for the value."""
    flaws.append(Flaw(path=path, code=code, message=message, received=received))
    return None


# The exact types first, since almost every value is of one of them; then what is derived from them.
_FORMS: dict[type, _Form] = {
    type(None): _same,
    bool: _same,
    str: _text,
    int: _whole,
    float: _float,
    Decimal: _decimal,
    datetime: _instant,
    date: _iso,
    time: _iso,
    timedelta: _span,
    UUID: _written,
    list: _list,
    tuple: _list,
    set: _set,
    frozenset: _set,
    dict: _dict,
}

_BASES: tuple[tuple[type, _Form], ...] = (
    (Enum, _enum),
    (RootModel, _root_model),
    (BaseModel, _model),
    (PurePath, _written),
    (AnyUrl, _written),
    (IPv4Address, _written),
    (IPv6Address, _written),
    *_FORMS.items(),
    (Mapping, _dict),
    (deque, _list),
)
