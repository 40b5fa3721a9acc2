"""What is wrong with a call, all of it at once, in fields that a program can act upon.

Order: the arguments as the tool declares them, then rules about several of them, then unknown
arguments. One violation per value: where it may be of several types, their objections are joined,
or those of the type it comes nearest to are given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from takeback.declare import Tool
from takeback.declare.argument import InvalidValue
from takeback.model.closed_set import (
    PERMITTED_MAX,
    Member,
    closed_set,
    lookup_of,
    not_permitted,
)
from takeback.model.correction import is_sent_along, respelt
from takeback.model.likeness import nearest_first
from takeback.model.reading import Flaw, Path
from takeback.model.sentence import sentence_for
from takeback.model.shape import Shape, called
from takeback.model.violation import Repair, Violation, shown

# Of ten thousand wrong lines the first are named, and how many there are.
VIOLATIONS_MAX = 100

# Nor are a hundred named when each has much to say: about four thousand tokens are read at most.
VIOLATIONS_BYTES_MAX = 16_000

# The field of what concerns the arguments as a whole.
WHOLE_CALL = "arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Objection:
    """A flaw, and which of several types objects: where the types fork, and the one taken."""

    flaw: Flaw
    fork: Path | None = None
    branch: str = ""


def explain(
    tool: Tool,
    arguments: Mapping[str, Any],
    flaws: Sequence[Flaw],
    refusal: ValidationError | None,
    *,
    meant: Mapping[Path, str] | None = None,
) -> tuple[Violation, ...]:
    """Every violation of a call that was refused, as many as a refusal has room for.

    ``meant`` are the paths of misspelt names with the right ones, under which ``arguments`` has
    them already, so that what is wrong with their values is told too.

    >>> from pydantic import create_model
    >>> from takeback.declare import Read
    >>> row = Tool("look", create_model("Look", query=(str, ...)), effect=Read(), description="")
    >>> flaw = Flaw(path=("query",), code="missing", message="is required")
    >>> [(each.field, each.repair.value) for each in explain(row, {}, [flaw], None)]
    [('query', 'ask_user')]
    """
    meant = meant or {}
    model = tool.arguments
    found = list(flaws) + _not_within(_objections(model, arguments, refusal), flaws)
    found += [Flaw(path=path, code="unknown_argument", message="") for path in meant]
    first_of_each: dict[Path, Flaw] = {}
    for flaw in found:
        first_of_each.setdefault(flaw.path, flaw)
    order = _names_of(model)
    ordered = sorted(first_of_each.values(), key=lambda flaw: _position(flaw, order))
    violations = list(
        _that_fit(_violation(tool, arguments, flaw, meant) for flaw in ordered[:VIOLATIONS_MAX])
    )
    if len(ordered) > len(violations):
        message = f"and {len(ordered) - len(violations)} more violations"
        violations.append(Violation(field=WHOLE_CALL, code="too_many_violations", message=message))
    return tuple(violations)


def _that_fit(violations: Iterator[Violation]) -> Iterator[Violation]:
    """Those that there is room for; the first one always."""
    left = VIOLATIONS_BYTES_MAX
    for number, violation in enumerate(violations):
        left -= len(json.dumps(violation.to_json(), ensure_ascii=False).encode())
        if left < 0 and number > 0:
            return
        yield violation


def _objections(
    model: type[BaseModel], arguments: Mapping[str, Any], refusal: ValidationError | None
) -> list[Flaw]:
    if refusal is None:
        return []
    shape = Shape(model)
    objections = [_objection(model, shape, arguments, error) for error in refusal.errors()]
    forks = {each.fork for each in objections if each.fork is not None}
    # From the inside out, so that a fork within a fork is settled first.
    for fork in sorted(forks, key=len, reverse=True):
        objections = _settled(objections, fork)
    return [each.flaw for each in objections]


def _objection(
    model: type[BaseModel],
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
        if not permitted:
            permitted = tuple(member.value for member in closed_set(model, path))
        if permitted and code == "not_permitted":
            members = [Member(value=value) for value in permitted]
            message = not_permitted("", received, members).message
    if code == "missing":
        received = None
    flaw = Flaw(path=path, code=code, message=message, received=received, permitted=permitted)
    return _Objection(flaw=flaw, fork=fork, branch=branch)


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
        if len(each.flaw.path) > len(fork):
            below.setdefault(each.branch, []).append(each)
    if below:
        chosen = min(below.values(), key=len)
    else:
        chosen = [replace(inside[0], flaw=_joined([each.flaw for each in inside]))]
    return outside[:first] + chosen + outside[first:]


def _joined(flaws: Sequence[Flaw]) -> Flaw:
    # What stands in a closed set is said last, since the set follows it.
    ordered = sorted(flaws, key=lambda flaw: flaw.code == "not_permitted")
    message = ", or ".join(dict.fromkeys(flaw.message for flaw in ordered))
    return replace(ordered[-1], message=message)


def _not_within(objections: Sequence[Flaw], flaws: Sequence[Flaw]) -> list[Flaw]:
    """Objections to what stands in for a flawed value say nothing about the call: they go."""
    replaced = {flaw.path for flaw in flaws}
    return [
        flaw
        for flaw in objections
        if not any(flaw.path[:depth] in replaced for depth in range(1, len(flaw.path) + 1))
        and not (replaced and flaw.path == ())
    ]


def _violation(
    tool: Tool, arguments: Mapping[str, Any], flaw: Flaw, meant: Mapping[Path, str]
) -> Violation:
    field = ".".join(str(shown(str(part))) for part in flaw.path) or WHOLE_CALL
    if flaw.path in meant:
        return _misnamed(field, arguments, flaw, meant[flaw.path])
    if flaw.code == "unknown_argument":
        return _unknown(field, flaw, tool.arguments)
    if flaw.permitted:
        return _outside(tool, field, flaw)
    respelling = respelt(tool.arguments, arguments, flaw)
    repair = Repair.ASK_USER if flaw.code == "missing" else Repair.CHOICE
    return Violation(
        field=field,
        code=flaw.code,
        message=flaw.message,
        received=shown(flaw.received),
        suggestion=respelling,
        repair=repair if respelling is None else Repair.MECHANICAL,
    )


def _outside(tool: Tool, field: str, flaw: Flaw) -> Violation:
    """A value that is in no closed set, or none at all where one of a closed set has to be."""
    members = closed_set(tool.arguments, flaw.path)
    is_whole = tuple(member.value for member in members) == flaw.permitted
    if not is_whole:
        members = tuple(Member(value=value) for value in flaw.permitted)
    lookup = None
    if is_whole and len(members) > PERMITTED_MAX:
        lookup = lookup_of(tool.name, field, flaw.received)
    if flaw.code == "not_permitted":
        closed = not_permitted(field, flaw.received, members)
        # The sentence of a validator of the author's is the better one.
        own = flaw.message if not flaw.message.startswith("must be one of ") else closed.message
        return replace(closed, message=own, lookup=lookup)
    return Violation(
        field=field,
        code=flaw.code,
        message=flaw.message,
        received=shown(flaw.received),
        permitted=flaw.permitted[:PERMITTED_MAX],
        permitted_count=len(members),
        lookup=lookup,
    )


def _misnamed(field: str, arguments: Mapping[str, Any], flaw: Flaw, name: str) -> Violation:
    """An argument that has another one's name but for a slip."""
    value: Any = arguments
    for part in (*flaw.path[:-1], name):
        value = value[part]
    return Violation(
        field=field,
        code=flaw.code,
        message=f"is not an argument of this tool; {name} is, and was left out",
        received=shown(value),
        suggestion=name,
        repair=Repair.MECHANICAL,
    )


def _unknown(field: str, flaw: Flaw, model: type[BaseModel]) -> Violation:
    """An argument that there is not; whatever it says, the call is not carried out without it."""
    if len(flaw.path) > 1:
        message = "is not a field of this argument; leave it out"
        return Violation(
            field=field, code=flaw.code, message=message, received=shown(flaw.received)
        )
    names = nearest_first(str(flaw.path[0]), _names_of(model))
    takes = f"it takes: {', '.join(names[:PERMITTED_MAX])}" if names else "it takes none"
    adds_nothing = is_sent_along(flaw.path, flaw.received)
    return Violation(
        field=field,
        code=flaw.code,
        message=f"is not an argument of this tool; leave it out ({takes})",
        received=shown(flaw.received),
        permitted=tuple(names[:PERMITTED_MAX]),
        permitted_count=len(names),
        repair=Repair.MECHANICAL if adds_nothing else Repair.CHOICE,
    )


def _names_of(model: type[BaseModel]) -> list[str]:
    """What a caller calls the arguments, in declared order."""
    return [called(name, field) for name, field in model.model_fields.items()]


def _position(flaw: Flaw, order: Sequence[str]) -> tuple[Any, ...]:
    top = str(flaw.path[0]) if flaw.path else ""
    is_unknown = flaw.code == "unknown_argument" and len(flaw.path) == 1
    declared = order.index(top) if top in order else len(order)
    return (
        is_unknown,
        declared,
        [
            (isinstance(part, str), part if isinstance(part, int) else 0, str(part))
            for part in flaw.path
        ],
    )
