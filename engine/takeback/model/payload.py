"""The full answer: everything, for people and their interfaces, and out of the reach of accidents.

A lean answer is made to be copied into a model's input. The full one is made beside it, in the
same pass from the same inputs, and can't be: it is no mapping, can't be iterated, printed, pickled
or turned into JSON. What it holds comes out by ``disclose`` alone, for a door that may have it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn, Self, final

from takeback.model.brevity import size
from takeback.model.door import OPENINGS, Door
from takeback.model.moment import iso


@final
class Full:
    """Everything that is known of one answer. It shows nothing of itself."""

    __slots__ = ("__weakref__", "_about", "_open")

    def __init__(self, about: str, content: Mapping[str, Any]) -> None:
        self._about = about
        # Behind a function: what goes through an object's attributes finds no content.
        self._open: Callable[[], Mapping[str, Any]] = lambda: content

    def disclose(self, door: Door) -> dict[str, Any]:
        """Everything, as a document of plain JSON values, for one of the doors that may have it.

        Raises TypeError for any other door, and for what is none.
        """
        if not isinstance(door, Door):
            raise TypeError(f"{door!r} is no door; a full answer leaves at a registered one only")
        if not OPENINGS[door].full:
            raise TypeError(f"the door {door.value!r} has lean answers only")
        return _plain(self._open())

    def byte_count(self) -> int:
        """How many bytes ``disclose`` answers with, as JSON."""
        return size(_plain(self._open()))

    def __repr__(self) -> str:
        return f"<the full answer of {self._about}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a full answer leaves by disclose() at a registered door only")


def _plain(content: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(content, default=_said))
    return plain


def _said(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return str(value)
