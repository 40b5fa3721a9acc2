"""What is wrong with a call, all of it at once, in fields that a program can act upon.

Order: the arguments as the tool declares them, then rules about several of them, then unknown
arguments. One violation per value: where it may be of several types, their objections are joined,
or those of the type it comes nearest to are given.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from takeback.declare.argument import InvalidValue
from takeback.model.likeness import folded, nearest_first
from takeback.model.reading import Fault, Path
from takeback.model.sentence import sentence_for
from takeback.model.shape import Shape, called
from takeback.model.violation import Repair, Violation, shown

# A larger closed set is not listed: its nearest members and its size are.
PERMITTED_MAX = 8

# Of ten thousand wrong lines the first are named, and how many there are.
VIOLATIONS_MAX = 100

# The field of what concerns the arguments as a whole.
WHOLE_CALL = "arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objection:
    """A fault, and which of several types objects: where the types fork, and the one taken."""

    fault: Fault
    fork: Path | None = None
    branch: str = ""


def explain(
    model: type[BaseModel],
    arguments: Mapping[str, Any],
    faults: Sequence[Fault],
    refusal: ValidationError | None,
) -> tuple[Violation, ...]:
    """Every violation of a call that was refused, at most VIOLATIONS_MAX of them."""
    shape = Shape(model)
    found = list(faults) + _not_within(_objections(shape, arguments, refusal), faults)
    first_of_each: dict[Path, Fault] = {}
    for fault in found:
        first_of_each.setdefault(fault.path, fault)
    order = _names_of(model)
    ordered = sorted(first_of_each.values(), key=lambda fault: _position(fault, order))
    violations = [_violation(model, fault) for fault in ordered[:VIOLATIONS_MAX]]
    if len(ordered) > VIOLATIONS_MAX:
        message = f"and {len(ordered) - VIOLATIONS_MAX} more violations"
        violations.append(Violation(field=WHOLE_CALL, code="too_many_violations", message=message))
    return tuple(violations)


def not_permitted(field: str, received: Any, permitted: Sequence[Any]) -> Violation:
    """The violation of a closed set.

    The suggestion is mechanical where the value is one member but for its spelling; everything
    else is a choice.

    >>> violation = not_permitted("status", "OPEN", ["open", "pending", "closed"])
    >>> violation.message, violation.suggestion, violation.repair.value
    ('must be one of: open, pending, closed', 'open', 'mechanical')
    >>> not_permitted("status", "opened", ["open", "pending", "closed"]).suggestion is None
    True
    """
    by_text = {_said(value): value for value in permitted}
    nearest: Iterable[str] = by_text
    message = f"must be one of: {', '.join(by_text)}"
    if len(by_text) > PERMITTED_MAX:
        nearest = nearest_first(_said(received), by_text)[:PERMITTED_MAX]
        message = f"must be one of {len(by_text)} values; the nearest are: {', '.join(nearest)}"
    same = [
        value
        for value in by_text.values()
        if isinstance(value, str)
        and isinstance(received, str)
        and folded(value) == folded(received)
    ]
    return Violation(
        field=field,
        code="not_permitted",
        message=message,
        received=shown(received),
        permitted=tuple(by_text[text] for text in nearest),
        permitted_count=len(by_text),
        suggestion=same[0] if len(same) == 1 else None,
        repair=Repair.MECHANICAL if len(same) == 1 else Repair.CHOICE,
    )


def _objections(
    shape: Shape, arguments: Mapping[str, Any], refusal: ValidationError | None
) -> list[Fault]:
    if refusal is None:
        return []
    objections = [_objection(shape, arguments, error) for error in refusal.errors()]
    forks = {each.fork for each in objections if each.fork is not None}
    # From the inside out, so that a fork within a fork is settled first.
    for fork in sorted(forks, key=len, reverse=True):
        objections = _settled(objections, fork)
    return [each.fault for each in objections]


def _objection(
    shape: Shape,
    arguments: Mapping[str, Any],
    error: Mapping[str, Any],
) -> _Objection:
    kind, received = error["type"], error["input"]
    context = error.get("ctx", {})
    code, message = sentence_for(kind, context)
    path, fork, branch = _located(arguments, error["loc"], is_missing=code == "missing")
    if kind.startswith("union_tag"):
        tag = str(context.get("discriminator", "")).strip("'")
        path = (*path, tag)
        received = received.get(tag) if isinstance(received, Mapping) else received
    permitted: tuple[Any, ...] = ()
    own = context.get("error")
    if isinstance(own, InvalidValue):
        code, message, permitted = own.code, own.message, own.permitted
    elif code in {"not_permitted", "missing"}:
        permitted = shape.closed_set(path)
        if permitted and code == "not_permitted":
            message = not_permitted("", received, permitted).message
    if code == "missing":
        received = None
    fault = Fault(path=path, code=code, message=message, received=received, permitted=permitted)
    return _Objection(fault=fault, fork=fork, branch=branch)


def _located(
    arguments: Mapping[str, Any], loc: Path, *, is_missing: bool
) -> tuple[Path, Path | None, str]:
    """The path of the value, and where pydantic's ``loc`` names one of several types tried."""
    path: Path = ()
    fork, branch = None, ""
    here: Any = arguments
    for index, part in enumerate(loc):
        if _has(here, part):
            here, path = here[part], (*path, part)
        elif is_missing and index == len(loc) - 1:
            path = (*path, part)
        elif fork is None:
            fork, branch = path, str(part)
    return path, fork, branch


def _has(container: Any, part: str | int) -> bool:
    if isinstance(container, Mapping):
        return part in container
    return isinstance(container, list) and isinstance(part, int) and part < len(container)


def _settled(objections: list[_Objection], fork: Path) -> list[_Objection]:
    """One type's objections below the fork, the fewest; or all that are about the forked value."""
    inside = [each for each in objections if each.fork == fork]
    first = objections.index(inside[0])
    outside = [each for each in objections if each.fork != fork]
    below: dict[str, list[_Objection]] = {}
    for each in inside:
        if len(each.fault.path) > len(fork):
            below.setdefault(each.branch, []).append(each)
    if below:
        chosen = min(below.values(), key=len)
    else:
        chosen = [replace(inside[0], fault=_joined([each.fault for each in inside]))]
    return outside[:first] + chosen + outside[first:]


def _joined(faults: Sequence[Fault]) -> Fault:
    # What stands in a closed set is said last, since the set follows it.
    ordered = sorted(faults, key=lambda fault: fault.code == "not_permitted")
    message = ", or ".join(dict.fromkeys(fault.message for fault in ordered))
    return replace(ordered[-1], message=message)


def _not_within(objections: Sequence[Fault], faults: Sequence[Fault]) -> list[Fault]:
    """Objections to what stands in for a faulty value say nothing about the call: they go."""
    replaced = {fault.path for fault in faults}
    return [
        fault
        for fault in objections
        if not any(fault.path[:depth] in replaced for depth in range(1, len(fault.path) + 1))
        and not (replaced and fault.path == ())
    ]


def _violation(model: type[BaseModel], fault: Fault) -> Violation:
    field = ".".join(str(shown(str(part))) for part in fault.path) or WHOLE_CALL
    if fault.code == "unknown_argument":
        return _unknown(field, fault, model)
    if fault.code == "not_permitted" and fault.permitted:
        closed = not_permitted(field, fault.received, fault.permitted)
        return replace(closed, message=fault.message)
    return Violation(
        field=field,
        code=fault.code,
        message=fault.message,
        received=shown(fault.received),
        permitted=fault.permitted[:PERMITTED_MAX],
        permitted_count=len(fault.permitted) or None,
        repair=Repair.ASK_USER
        if fault.code == "missing" and not fault.permitted
        else Repair.CHOICE,
    )


def _unknown(field: str, fault: Fault, model: type[BaseModel]) -> Violation:
    """An argument that there is not; whatever it says, the call is not carried out without it."""
    if len(fault.path) > 1:
        message = "is not a field of this argument; leave it out"
        return Violation(
            field=field, code=fault.code, message=message, received=shown(fault.received)
        )
    names = nearest_first(str(fault.path[0]), _names_of(model))
    takes = f"it takes: {', '.join(names[:PERMITTED_MAX])}" if names else "it takes none"
    return Violation(
        field=field,
        code=fault.code,
        message=f"is not an argument of this tool; leave it out ({takes})",
        received=shown(fault.received),
        permitted=tuple(names[:PERMITTED_MAX]),
        permitted_count=len(names),
    )


def _names_of(model: type[BaseModel]) -> list[str]:
    """What a caller calls the arguments, in declared order."""
    return [called(name, field) for name, field in model.model_fields.items()]


def _position(fault: Fault, order: Sequence[str]) -> tuple[Any, ...]:
    top = str(fault.path[0]) if fault.path else ""
    is_unknown = fault.code == "unknown_argument" and len(fault.path) == 1
    declared = order.index(top) if top in order else len(order)
    return (
        is_unknown,
        declared,
        [
            (isinstance(part, str), part if isinstance(part, int) else 0, str(part))
            for part in fault.path
        ],
    )


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(shown(value))
