"""Received arguments before any type is known: text in NFC, bounded in depth and size.

What no type could take (NUL, lone surrogates, keys that are not text, endless nesting) is noted as
a flaw and replaced by nothing, so that the rest can still be checked in the same answer.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel, RootModel

# Deeper than any call a person could check; far from the interpreter's own limit.
DEPTH_MAX = 64

# Lists and objects of one call together hold at most this many values.
VALUES_MAX = 100_000

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """One thing that is wrong with the value at ``path``; ``permitted`` is a whole closed set."""

    path: Path
    code: str
    message: str
    received: Any = None
    permitted: tuple[Any, ...] = ()


def read(received: Any) -> tuple[dict[str, Any], list[Flaw]]:
    """The arguments with every text in NFC, and what is wrong with them in themselves.

    >>> read({"note": "e\\u0301"}) == ({"note": "\\u00e9"}, [])
    True
    >>> read([])[1][0].message
    'must be an object that gives each argument by name'
    """
    reader = _Reader()
    if isinstance(received, Mapping):
        return reader.object(received, ()), reader.flaws
    message = "must be an object that gives each argument by name"
    return {}, [Flaw(path=(), code="wrong_type", message=message, received=received)]


def text_flaw(text: str) -> str | None:
    """What keeps a text from being stored as JSON in Postgres; None for nothing.

    >>> text_flaw("caf\\u00e9"), text_flaw("a\\0")
    (None, 'must not contain the character NUL')
    """
    if "\0" in text:
        return "must not contain the character NUL"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "must be well-formed Unicode"
    return None


_SCALARS = frozenset({type(None), bool, int, float})


def _opened(value: Any) -> Any:
    """The fields of a ready-made model or dataclass: what was made elsewhere is checked here."""
    if isinstance(value, RootModel):
        return value.root
    if isinstance(value, BaseModel):
        return dict(value.__dict__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value


class _Reader:
    """One walk over received arguments."""

    __slots__ = ("flaws", "values")

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self.values = 0

    def object(self, received: Mapping[Any, Any], path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if not self._fits(received, path):
            return result
        for given, value in received.items():
            key = self._key(given, path)
            if key is None:
                continue
            if key in result:
                self._flaw(path, "two keys are the same text", given)
            result[key] = self._value(value, (*path, key))
        return result

    def _value(self, value: Any, path: Path) -> Any:
        if type(value) in _SCALARS or isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return self._text(value, path)
        value = _opened(value)
        if isinstance(value, Mapping):
            return self.object(value, path)
        if isinstance(value, list | tuple):
            return self._items(value, path)
        if isinstance(value, set | frozenset):
            # A set has no order of its own: a list made of it must be the same in every process.
            return sorted(self._items(value, path), key=repr)
        return value

    def _items(
        self, items: list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any], path: Path
    ) -> list[Any]:
        if not self._fits(items, path):
            return []
        return [self._value(item, (*path, index)) for index, item in enumerate(items)]

    def _key(self, key: Any, path: Path) -> str | None:
        if isinstance(key, Enum):
            key = key.value
        if not isinstance(key, str):
            self._flaw(path, "must have text as the names of its fields", key)
            return None
        if key.isascii() and "\0" not in key:
            return key
        wrong = text_flaw(key)
        if wrong is not None:
            self._flaw(path, f"has a name that {wrong}", key)
            return None
        return unicodedata.normalize("NFC", key)

    def _text(self, text: str, path: Path) -> str:
        if text.isascii() and "\0" not in text:
            return text
        wrong = text_flaw(text)
        if wrong is not None:
            self._flaw(path, wrong, text)
            return ""
        return unicodedata.normalize("NFC", text)

    def _fits(
        self,
        container: Mapping[Any, Any] | list[Any] | tuple[Any, ...] | set[Any] | frozenset[Any],
        path: Path,
    ) -> bool:
        self.values += len(container)
        if self.values > VALUES_MAX:
            message = f"must not hold more than {VALUES_MAX} values"
            self.flaws.append(Flaw(path=path[:1], code="too_large", message=message))
        elif len(path) >= DEPTH_MAX:
            message = f"must not be nested deeper than {DEPTH_MAX} levels"
            self.flaws.append(Flaw(path=path[:1], code="too_deep", message=message))
        else:
            return True
        return False

    def _flaw(self, path: Path, message: str, received: Any) -> None:
        self.flaws.append(
            Flaw(path=path, code="not_representable", message=message, received=received)
        )
