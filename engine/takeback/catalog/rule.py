"""What a row must say before an app with it can be built, one rule a function.

Each rule answers with what it found and how to mend it. All rules are asked of every row, so that
one start names every problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from string import Formatter
from typing import Any

from pydantic import BaseModel, RootModel, ValidationError
from pydantic.errors import PydanticUserError

from takeback.catalog.consent_rule import name_problems
from takeback.catalog.effect_rule import Problem, effect_problems
from takeback.catalog.limit_rule import limit_problems
from takeback.declare import Approval, Key, Read, Tool
from takeback.declare.tool import OnDifference, ScopeKind
from takeback.model.canonical import canonical_arguments, canonical_value
from takeback.model.handler import Handler
from takeback.model.shape import Shape, single

RESERVED_TOOLS = frozenset(
    {"restore", "status", "preview", "list_intents", "search_tools", "permitted_values"}
)

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")

# Core types without a form in JSON that could be stored and compared.
_UNSPEAKABLE = frozenset(
    {"bytes", "callable", "complex", "generator", "is-instance", "is-subclass"}
)

_EMPTY_FACTORIES: tuple[Any, ...] = (dict, frozenset, list, set, tuple)


def problems(tool: Tool, handler: Handler | None) -> Iterator[Problem]:
    """Everything that keeps the row from being used; ``handler`` is None when none was found."""
    yield from _name(tool)
    yield from effect_problems(tool, handler)
    yield from _upgrades(tool)
    unusable = list(_model(tool))
    yield from unusable
    if not unusable:
        for rule in _ARGUMENT_RULES:
            yield from rule(tool)


def _name(tool: Tool) -> Iterator[Problem]:
    if _NAME.fullmatch(tool.name) is None:
        yield (
            "its name is not one: expected a lower-case letter, then up to 62 letters, digits or _",
            "rename the row and its handler",
        )
    if tool.name in RESERVED_TOOLS:
        yield (
            f"its name is reserved (as are {', '.join(sorted(RESERVED_TOOLS))})",
            "rename the row and its handler",
        )


def _model(tool: Tool) -> Iterator[Problem]:
    model: Any = tool.arguments
    if not isinstance(model, type) or not issubclass(model, BaseModel):
        yield "its arguments are no pydantic model", "give a class that derives from BaseModel"
        return
    if issubclass(model, RootModel):
        yield "its arguments have no names", "derive them from BaseModel, not from RootModel"
        return
    try:
        model.model_rebuild()
        model.model_json_schema()
    except (PydanticUserError, NameError) as wrong:
        yield (
            f"its arguments {model.__name__} have no JSON schema ({type(wrong).__name__})",
            "use types that JSON can say, defined before the row",
        )


def _upgrades(tool: Tool) -> Iterator[Problem]:
    if tool.version < 1:
        yield f"its version is {tool.version}, expected 1 or more", "count from 1"
    missing = [step for step in range(1, tool.version) if step not in tool.upgrades]
    if missing:
        steps = ", ".join(f"{step} to {step + 1}" for step in missing)
        yield (
            f"calls held under an earlier version can't be understood: no upgrade from {steps}",
            "add the steps to upgrades={1: ..., }",
        )
    beyond = [step for step in tool.upgrades if not 1 <= step < tool.version]
    if beyond:
        yield (
            f"it upgrades from version {beyond[0]}, and its own version is {tool.version}",
            "raise the version, or drop the step",
        )


def _forms(tool: Tool) -> Iterator[Problem]:
    shape = Shape(tool.arguments)
    for name in tool.arguments.model_fields:
        unspeakable = shape.all_kinds((name,)) & _UNSPEAKABLE
        if unspeakable:
            yield (
                f"argument {name!r} is {', '.join(sorted(unspeakable))}, which JSON can't say",
                "take text, numbers, instants, closed sets, or lists and objects of them",
            )


def _defaults(tool: Tool) -> Iterator[Problem]:
    shape = Shape(tool.arguments)
    for name, field in tool.arguments.model_fields.items():
        if not all(made in _EMPTY_FACTORIES for made in shape.default_factories(name)):
            yield (
                f"a default of argument {name!r} is made anew by every call, so no call repeats",
                "give a plain default, or let the handler make the value",
            )
        elif not field.is_required() and field.default_factory is None:
            yield from _default(tool.arguments, name, field.default)


def _default(model: type[BaseModel], name: str, default: Any) -> Iterator[Problem]:
    written, faults = canonical_value(default)
    try:
        given = {name: default}
        parsed = single(model, name).model_validate(given, by_alias=True, by_name=True)
        read, more = canonical_arguments(parsed, given)
    except ValidationError:
        # A default such as None may stand for "not given" where the type doesn't take it.
        read, more = {name: written}, []
    if faults or more:
        yield f"the default of argument {name!r} {(faults + more)[0].message}", "give another one"
    elif read[name] != written:
        yield (
            f"the default of argument {name!r} is {written!r}, which is not its one form",
            f"write it as {read[name]!r}",
        )


def _key(tool: Tool) -> Iterator[Problem]:
    if isinstance(tool.effect, Read):
        return
    fields = _fields(tool.key)
    if isinstance(fields, str):
        yield f"its key is the text {fields!r}, not a tuple", f"write ({fields!r},)"
        return
    if not tool.recipe.fields:
        yield (
            "it writes and has no key fields, so that nobody could tell a repeat from a new call",
            "name in key=(...) the arguments that make two calls the same one",
        )
    yield from _recipe(tool, tool.recipe)


def _fields(key: object) -> object:
    """The fields as they were written: a text where the comma of a tuple was forgotten."""
    return key.fields if isinstance(key, Key) else key


def _recipe(tool: Tool, recipe: Key) -> Iterator[Problem]:
    arguments = tool.arguments.model_fields
    shape = Shape(tool.arguments)
    for name in recipe.fields:
        if name not in arguments:
            yield (
                f"key field {name!r} is no argument",
                f"name one of {', '.join(arguments) or 'its arguments, once it has some'}",
            )
        elif "float" in shape.all_kinds((name,)):
            yield (
                f"key field {name!r} is a float, which has several spellings of one value",
                "use Money (integer minor units) or Decimal",
            )
    if recipe.scope.kind is ScopeKind.WINDOW and not (
        recipe.scope.length and recipe.scope.length > timedelta(0)
    ):
        yield "the window of its key has no length", "write scope=window(hours(24))"


def _differences(tool: Tool) -> Iterator[Problem]:
    if isinstance(tool.effect, Read) or isinstance(_fields(tool.key), str):
        return
    outside = [name for name in tool.arguments.model_fields if name not in tool.recipe.fields]
    words = tool.on_difference
    if isinstance(words, Mapping):
        for name in words:
            if name not in outside:
                yield (
                    f"on_difference names {name!r}, which is no argument outside the key",
                    "drop it",
                )
    elif isinstance(words, OnDifference):
        return
    unsaid = [name for name in outside if not isinstance(words, Mapping) or name not in words]
    if unsaid:
        yield (
            f"nothing says what a repeat with another {', '.join(unsaid)} is told",
            "add on_difference=CONFLICT or DIFFERS, or the argument to the key",
        )


def _approval(tool: Tool) -> Iterator[Problem]:
    approval: Approval | None = tool.approval
    if approval is None:
        return
    if approval.expires <= timedelta(0):
        yield "its approval expires at once", "give expires a positive length"
    if approval.rows_over is not None and approval.rows_over < 0:
        yield f"its approval's rows_over is {approval.rows_over}", "write 0 or more"
    if approval.argument is None:
        if approval.over is not None:
            yield "its approval has a bound and no argument", "add argument='...'"
    elif approval.over is None:
        yield "its approval looks at an argument and has no bound", "add over=..."
    elif approval.argument not in tool.arguments.model_fields:
        yield (
            f"its approval looks at {approval.argument!r}, which is no argument",
            f"name one of {', '.join(tool.arguments.model_fields)}",
        )
    elif Shape(tool.arguments).kinds((approval.argument,)) != {"int"}:
        yield (
            f"its approval compares {approval.argument!r}, which is no whole number",
            "name an argument that is Money or int",
        )


def _former(tool: Tool) -> Iterator[Problem]:
    """What was called under an earlier recipe is found by it, so it has to be one that can be."""
    recipes = [tool.recipe, *tool.recipe.former]
    versions = [recipe.version for recipe in recipes]
    for number, recipe in enumerate(tool.recipe.former):
        if recipe.version in versions[: number + 1]:
            yield (
                f"two recipes of its key have version {recipe.version}",
                "give the key of today the next version, and keep the former one's",
            )
        if recipe.former:
            yield (
                f"its former recipe of version {recipe.version} has former ones of its own",
                "write them all into the former=(...) of the key of today",
            )
        for wrong, fix in _recipe(tool, recipe):
            yield f"in its former recipe of version {recipe.version} {wrong}", fix


def _affects(tool: Tool) -> Iterator[Problem]:
    if tool.affects is not None and tool.affects.id not in tool.arguments.model_fields:
        yield (
            f"affects is identified by {tool.affects.id!r}, which is no argument",
            f"name one of {', '.join(tool.arguments.model_fields)}",
        )


def _wording(tool: Tool) -> Iterator[Problem]:
    wording = tool.wording
    if wording is None:
        return
    sentences = (
        wording.subject,
        wording.scheduled,
        wording.done,
        wording.taken_back,
        wording.undo,
        *wording.leaves,
    )
    known = {*tool.arguments.model_fields, "until"}
    for sentence in sentences:
        try:
            gaps = [gap for gap in Formatter().parse(sentence) if gap[1] is not None]
        except ValueError:
            yield f"its wording {sentence!r} has an unpaired brace", "write {{ or }} for a brace"
            continue
        for _, name, form, conversion in gaps:
            if "{" in (form or "") or conversion not in (None, "r", "s", "a"):
                yield (
                    f"its wording {sentence!r} fills in {name!r} in a form that is none",
                    f"write {{{name}}}, or a form that is fixed, such as {{{name}:>5}}",
                )
            if name not in known:
                yield (
                    f"its wording {sentence!r} fills in {name!r}, which is no argument",
                    f"name one of {', '.join(sorted(known))}",
                )


_ARGUMENT_RULES: tuple[Callable[[Tool], Iterator[Problem]], ...] = (
    name_problems,
    _forms,
    _defaults,
    _key,
    _differences,
    _approval,
    limit_problems,
    _former,
    _affects,
    _wording,
)
