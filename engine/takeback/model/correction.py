"""What of a refused call can be put right without knowing what it means.

Spelling alone: another case, width or separator of one permitted value, a whole number written as
text, spaces round a value, an argument's name but for one slip, and the three arguments that
models like to add. Nothing here is ever applied to a call that is carried out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from takeback.model.likeness import folded, is_slip
from takeback.model.reading import Flaw, Path
from takeback.model.shape import Shape, parsed
from takeback.model.violation import Repair, Violation

_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,15}")

# So many values beside one may say what kind of object it stands in.
_BESIDE_MAX = 64

_SENT_ALONG = frozenset({"confirm", "force", "idempotencykey"})


def is_sent_along(path: Path, received: Any) -> bool:
    """Whether it is an argument that models add of their own accord, and that says nothing.

    A ``confirm`` of false does say something: that it is not to be done yet.

    >>> is_sent_along(("idempotency_key",), "k-1"), is_sent_along(("confirm",), True)
    (True, True)
    >>> is_sent_along(("confirm",), False), is_sent_along(("lines", 0, "force"), True)
    (False, False)
    """
    if len(path) != 1:
        return False
    name = folded(str(path[0])).replace("_", "")
    if name == "idempotencykey":
        return True
    return name in _SENT_ALONG and (received is True or (name == "force" and received is False))


def respelt(model: type[BaseModel], arguments: Mapping[str, Any], flaw: Flaw) -> Any:
    """The flawed value without what is wrong with its spelling; None where that is not all.

    An integer as text is that integer; a decimal is not, since 129.00 may be meant for 12900.

    >>> from pydantic import create_model
    >>> from takeback.declare import Money
    >>> Refund = create_model("Refund", amount=(Money, ...))
    >>> def of(amount):
    ...     return Flaw(path=("amount",), code="not_minor_units", message="", received=amount)
    >>> respelt(Refund, {"amount": "12900"}, of("12900"))
    12900
    >>> respelt(Refund, {"amount": "129.00"}, of("129.00")) is None
    True
    """
    received = flaw.received
    if not isinstance(received, str) or not flaw.path:
        return None
    bare = received.strip()
    candidates: list[Any] = []
    if flaw.code in {"not_minor_units", "wrong_type"} and _WHOLE_NUMBER.fullmatch(bare):
        if "int" in Shape(model).kinds(flaw.path):
            candidates.append(int(bare))
    elif flaw.code in {"malformed", "too_long", "wrong_type"} and bare != received:
        candidates.append(bare)
    fitting = [each for each in candidates if _fits(model, arguments, flaw.path, each)]
    return fitting[0] if len(fitting) == 1 else None


def names_meant(
    model: type[BaseModel], arguments: Mapping[str, Any], refusal: ValidationError
) -> dict[Path, str]:
    """The arguments whose names are those of absent ones but for a slip, and these names.

    >>> class Refund(BaseModel):
    ...     charge_id: str
    >>> try:
    ...     parsed(Refund, {"chrage_id": "ch_1"})
    ... except ValidationError as refusal:
    ...     names_meant(Refund, {"chrage_id": "ch_1"}, refusal)
    {('chrage_id',): 'charge_id'}
    """
    shape = Shape(model)
    meant: dict[Path, str] = {}
    known: dict[Path, tuple[tuple[str, str], ...]] = {}
    for error in refusal.errors(include_url=False, include_context=False):
        path = error["loc"]
        if error["type"] != "extra_forbidden" or not isinstance(path[-1], str):
            continue
        holder = _at(arguments, path[:-1])
        if not isinstance(holder, Mapping) or path[-1] not in holder:
            continue
        # One item of a list is as good as another.
        kind = tuple(0 if isinstance(part, int) else part for part in path[:-1])
        if kind not in known:
            known[kind] = shape.names(kind)
        absent = [alias for name, alias in known[kind] if not {name, alias} & holder.keys()]
        near = [name for name in absent if is_slip(path[-1], name)]
        if len(near) == 1:
            meant[path] = near[0]
    count = Counter((path[:-1], name) for path, name in meant.items())
    return {path: name for path, name in meant.items() if count[path[:-1], name] == 1}


def with_names(arguments: Mapping[str, Any], meant: Mapping[Path, str]) -> dict[str, Any]:
    """The arguments with some of them called as they were meant; what was given stays as it is.

    >>> with_names({"a": 1, "lines": [{"sise": 2}]}, {("lines", 0, "sise"): "size"})
    {'a': 1, 'lines': [{'size': 2}]}
    """
    result: dict[str, Any] = _with_names(arguments, meant, ())
    return result


def corrected(arguments: Any, violations: Sequence[Violation]) -> Any:
    """The arguments with every mechanical repair made; None when one is not, or finds no place.

    >>> wrong = Violation(field="status", code="not_permitted", message="", suggestion="open",
    ...                   repair=Repair.MECHANICAL)
    >>> corrected({"status": "OPEN"}, [wrong])
    {'status': 'open'}
    """
    # Names last: what is wrong with a value is told under the name that was meant.
    renaming = [each for each in violations if each.code == "unknown_argument"]
    for violation in [*renaming, *(each for each in violations if each not in renaming)]:
        if violation.repair is not Repair.MECHANICAL:
            return None
        if violation.code == "unknown_argument":
            arguments = _moved(arguments, violation.field, violation.suggestion)
        elif violation.suggestion is None:
            return None
        else:
            arguments = _replaced(arguments, violation.field, violation.suggestion)
        if arguments is None:
            return None
    return arguments


def _fits(model: type[BaseModel], arguments: Mapping[str, Any], path: Path, value: Any) -> bool:
    """Whether nothing objects to ``value`` at ``path``; of the rest only what is near is looked at.

    Else a call of ten thousand lines would be read anew for each of them.
    """
    place, near = _nearby(arguments, path, value)
    try:
        parsed(model, near)
    except ValidationError as refusal:
        return not any(
            _leads_to(error["loc"], place)
            for error in refusal.errors(include_url=False, include_context=False)
        )
    return True


def _leads_to(loc: Sequence[int | str], place: Path) -> bool:
    """Whether the place lies on the way; pydantic names the types in between too."""
    way = iter(loc)
    return all(part in way for part in place)


def _nearby(container: Any, path: Path, value: Any) -> tuple[Path, Any]:
    """The container with ``value`` at ``path`` and little else, and where that is now."""
    if not path:
        return (), value
    head, rest = path[0], path[1:]
    if isinstance(container, Mapping):
        place, inner = _nearby(container[str(head)], rest, value)
        beside: dict[Any, Any] = {}
        if len(container) <= _BESIDE_MAX:
            beside = {key: it for key, it in container.items() if isinstance(it, str | int)}
        return (head, *place), {**beside, head: inner}
    place, inner = _nearby(container[int(head)], rest, value)
    return (0, *place), [inner]


def _at(container: Any, path: Path) -> Any:
    for part in path:
        if isinstance(container, Mapping) and part in container:
            container = container[str(part)]
        elif isinstance(container, list) and isinstance(part, int) and part < len(container):
            container = container[part]
        else:
            return None
    return container


def _with_names(value: Any, meant: Mapping[Path, str], at: Path) -> Any:
    if isinstance(value, Mapping):
        return {
            meant.get((*at, key), key): _with_names(item, meant, (*at, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_with_names(item, meant, (*at, index)) for index, item in enumerate(value)]
    return value


def _replaced(container: Any, field: str, value: Any) -> Any:
    """A copy with ``value`` in the field of that path; None where there is none."""
    if isinstance(container, list):
        head, _, rest = field.partition(".")
        if not head.isascii() or not head.isdigit() or int(head) >= len(container):
            return None
        index = int(head)
        inner = value if not rest else _replaced(container[index], rest, value)
        if inner is None:
            return None
        return [*container[:index], inner, *container[index + 1 :]]
    if not isinstance(container, dict):
        return None
    if field in container:
        return container | {field: value}
    for key, item in container.items():
        if field.startswith(f"{key}."):
            inner = _replaced(item, field[len(key) + 1 :], value)
            if inner is not None:
                return container | {key: inner}
    return None


def _moved(container: Any, field: str, meant: str | None) -> Any:
    """A copy in which the field has the name that was meant, or, with None, is left out."""
    if isinstance(container, dict) and field in container:
        return {
            meant if meant is not None and key == field else key: item
            for key, item in container.items()
            if meant is not None or key != field
        }
    items: list[tuple[Any, Any]] = []
    if isinstance(container, dict):
        items = list(container.items())
    elif isinstance(container, list):
        items = list(enumerate(container))
    for key, item in items:
        if field.startswith(f"{key}."):
            inner = _moved(item, field[len(str(key)) + 1 :], meant)
            if inner is not None and isinstance(container, dict):
                return container | {key: inner}
            if inner is not None:
                return [*container[:key], inner, *container[key + 1 :]]
    return None
