"""The arguments of one call: checked against the tool's model, and brought into one form.

``canonical`` holds every argument, defaults too, as JSON: keys are made of it, repeats are compared
by it, it is what is stored, and ``revive`` rebuilds the model from it, under a later version of the
row too.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from takeback.declare import Tool
from takeback.model.canonical import canonical_arguments, canonical_value
from takeback.model.correction import corrected, names_meant, with_names
from takeback.model.errors import InvalidArguments, InvalidCatalog
from takeback.model.explanation import explain
from takeback.model.key import canonical_bytes
from takeback.model.reading import Flaw, Path, read
from takeback.model.shape import called, parsed, single
from takeback.model.violation import Violation, shown

# A corrected call is handed back whole; one with a long text in it is corrected where it was made.
NEXT_CALL_BYTES_MAX = 8_000

# Mending one thing shows another, such as the value of an argument whose name was misspelt.
_CORRECTIONS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Validated arguments: the model a handler gets, and the one JSON form of all of them."""

    model: BaseModel
    canonical: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field that two calls disagree on; None where a call has no such field."""

    field: str
    first: Any
    now: Any

    def to_json(self) -> dict[str, Any]:
        """The wire shape: enough of both values to recognise them."""
        return {"field": self.field, "first": shown(self.first), "now": shown(self.now)}


def validate(tool: Tool, received: Mapping[str, Any]) -> Arguments:
    """The arguments of a call of ``tool``.

    Raises InvalidArguments with every violation at once.
    """
    given, flaws = read(received)
    if not isinstance(received, Mapping):
        raise InvalidArguments(explain(tool, given, flaws, None))
    try:
        model = parsed(tool.arguments, given)
    except ValidationError as refusal:
        raise InvalidArguments(_explained(tool, given, flaws, refusal)) from None
    canonical, unspeakable = canonical_arguments(model, given)
    if flaws or unspeakable:
        raise InvalidArguments(explain(tool, given, flaws + unspeakable, None))
    return Arguments(model=model, canonical=canonical)


def revive(tool: Tool, version: int, canonical: Mapping[str, Any]) -> Arguments:
    """Stored canonical arguments as this release understands them.

    ``version`` is the row's version they were recorded under; the row's upgrades lead from there
    to its version now.
    Raises InvalidCatalog when a step is missing or fails, InvalidArguments when what comes out is
    no call of this tool.
    """
    if version > tool.version:
        raise InvalidCatalog(
            f"row {tool.name!r}: arguments were recorded under version {version}, and this release "
            f"has version {tool.version}; fix: run them with the later release"
        )
    held = copy.deepcopy(dict(canonical))
    for step in range(version, tool.version):
        held = _upgraded(tool, step, held)
    return validate(tool, held)


def differences(first: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Where two calls' canonical arguments disagree, sorted by field.

    >>> differences({"note": "a", "to": "x"}, {"note": "b", "to": "x"})
    (Difference(field='note', first='a', now='b'),)
    """
    found: list[tuple[Path, Any, Any]] = []
    _compare(dict(first), dict(now), (), found)
    found.sort(key=lambda each: [(type(part) is str, part) for part in each[0]])
    return tuple(
        Difference(field=".".join(map(str, path)), first=was, now=is_now)
        for path, was, is_now in found
    )


def next_call(
    tool: Tool,
    received: Mapping[str, Any],
    violations: Sequence[Violation],
    *,
    beside: Collection[str] = (),
) -> dict[str, Any] | None:
    """The call with every mechanical repair made; None unless that mends all of it.

    What it answers with is valid, and the one reading that there is. ``beside`` are arguments that
    aren't the tool's own, such as ``repeat_of``; they stay as they are.
    """
    arguments, flaws = canonical_value(dict(received))
    if flaws or not violations:
        return None
    for _ in range(_CORRECTIONS_MAX):
        arguments = corrected(arguments, violations)
        if arguments is None:
            return None
        try:
            validate(tool, {name: arguments[name] for name in arguments if name not in beside})
        except InvalidArguments as again:
            violations = again.violations
        else:
            fits = len(canonical_bytes(arguments)) <= NEXT_CALL_BYTES_MAX
            return {"tool": tool.name, "arguments": arguments} if fits else None
    return None


def valid_call(
    tool: Tool, received: Mapping[str, Any], *, beside: Collection[str] = ()
) -> dict[str, Any] | None:
    """The call of ``tool`` as it was received or, where that mends it, mechanically corrected.

    None when neither is valid.
    """
    try:
        validate(tool, {name: received[name] for name in received if name not in beside})
    except InvalidArguments as problem:
        return next_call(tool, received, problem.violations, beside=beside)
    arguments = canonical_value(dict(received))[0]
    fits = len(canonical_bytes(arguments)) <= NEXT_CALL_BYTES_MAX
    return {"tool": tool.name, "arguments": arguments} if fits else None


def _explained(
    tool: Tool, given: Mapping[str, Any], flaws: list[Flaw], refusal: ValidationError
) -> tuple[Violation, ...]:
    """Every violation; an argument with a misspelt name is looked at under the right one."""
    meant = {} if flaws else names_meant(tool.arguments, given, refusal)
    if not meant:
        elsewhere = _flaws_elsewhere(tool.arguments, given, refusal)
        return explain(tool, given, flaws + elsewhere, refusal)
    renamed = with_names(given, meant)
    try:
        model = parsed(tool.arguments, renamed)
    except ValidationError as other:
        elsewhere = _flaws_elsewhere(tool.arguments, renamed, other)
        return explain(tool, renamed, elsewhere, other, meant=meant)
    unspeakable = canonical_arguments(model, renamed)[1]
    return explain(tool, renamed, unspeakable, None, meant=meant)


def _flaws_elsewhere(
    model: type[BaseModel], given: Mapping[str, Any], refusal: ValidationError
) -> list[Flaw]:
    """What has no canonical form among the arguments that the refusal says nothing about."""
    refused = {error["loc"][0] for error in refusal.errors(include_url=False) if error["loc"]}
    flaws: list[Flaw] = []
    for name, field in model.model_fields.items():
        key = name if name in given else called(name, field)
        if key not in given or key in refused:
            continue
        try:
            alone = parsed(single(model, name), {key: given[key]})
        except ValidationError:
            continue
        flaws += canonical_arguments(alone, given)[1]
    return flaws


def _upgraded(tool: Tool, step: int, held: dict[str, Any]) -> dict[str, Any]:
    upgrade = tool.upgrades.get(step)
    if upgrade is None:
        raise InvalidCatalog(
            f"row {tool.name!r}: no upgrade from version {step} to {step + 1}; "
            f"fix: add upgrades={{{step}: ...}} to the row"
        )
    try:
        result = upgrade(held)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as wrong:
        raise InvalidCatalog(
            f"row {tool.name!r}: its upgrade from version {step} raised {type(wrong).__name__}; "
            f"fix: make it take every call that version {step} recorded"
        ) from wrong
    if not isinstance(result, dict):
        raise InvalidCatalog(
            f"row {tool.name!r}: its upgrade from version {step} answered "
            f"{type(result).__name__}; fix: answer the arguments of version {step + 1} as a dict"
        )
    return result


def _compare(first: Any, now: Any, path: Path, found: list[tuple[Path, Any, Any]]) -> None:
    if isinstance(first, dict) and isinstance(now, dict):
        for key in first.keys() | now.keys():
            _compare(first.get(key), now.get(key), (*path, key), found)
    elif isinstance(first, list) and isinstance(now, list) and len(first) == len(now):
        for index, (was, is_now) in enumerate(zip(first, now, strict=True)):
            _compare(was, is_now, (*path, index), found)
    # True equals 1 in Python, and not in JSON.
    elif type(first) is not type(now) or first != now:
        found.append((path, first, now))
