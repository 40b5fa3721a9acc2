"""Whether a value out of JSON is what the annotation of an event's field says."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin


def fits(value: Any, hint: Any) -> bool:
    """Whether a value out of JSON is what an annotation says, and its number one that is stored.

    >>> fits("due", Literal["held", "due"]), fits("later", Literal["held", "due"])
    (True, False)
    >>> fits(True, int), fits(2**63, int)
    (False, False)
    >>> fits(None, int | None), fits(["a"], tuple[str, ...]), fits("a", tuple[str, ...])
    (True, True, False)
    """
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return type(value) is str and value in get_args(hint)
    if origin is tuple:
        return type(value) is list and all(type(item) is str for item in value)
    return type(value) is hint and (hint is not int or -(2**63) <= value < 2**63)
