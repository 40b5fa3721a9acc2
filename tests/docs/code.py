"""Every stable code that the source can say, found in the source itself.

A code is given as ``code=``, as the entry "code" of a document, as a class's ``code``, or by
position to one of a few functions; sentences for pydantic's errors have theirs in a table.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

from takeback.client import refusing
from takeback.model import envelope, errors, sentence
from tests.docs.page import ROOT

ENGINE = ROOT / "engine/takeback"
# Which argument of these functions, counted from 0, is a code.
PLACES = {"refusal": 0, "_violation": 2, "_failed": 0}
ABOUT_ARGUMENTS = (
    "declare/argument.py",
    "model/canonical.py",
    "model/explanation.py",
    "model/reading.py",
    "client/request.py",
    "client/calling.py",
)


def of_exceptions() -> dict[str, set[str]]:
    """The code of each of our exceptions, with the names of those that have it."""
    found: dict[str, set[str]] = {}
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.TakebackError):
            found.setdefault(kind.code, set()).add(name)
    return found


def of_refusals() -> set[str]:
    """The codes that the source puts into an envelope."""
    told = {kind.code for kind in refusing.TOLD}
    by_hand = handed(ENGINE / "client/refusing.py", "refusal")
    by_hand |= handed(ENGINE / "client/faulting.py", "refusal")
    from_workers = spoken(ENGINE / "dispatch/outcome.py")
    from_persons = chosen("client/resolving.py")
    remembered = set(envelope._CODES.values())
    handlers = {
        kind.code
        for kind in (
            errors.Rejected,
            errors.InvalidReference,
            errors.NotDispatched,
            errors.NoAccess,
        )
    }
    return told | by_hand | chosen() | from_workers | from_persons | remembered | handlers


def chosen(file: str = "client/refusing.py") -> set[str]:
    """The codes between which the mapper, or another file, chooses before it says one."""
    return {
        word
        for node in ast.walk(ast.parse((ENGINE / file).read_text()))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id == "code"
        for word in _words(node.value)
    }


def of_violations() -> set[str]:
    """The codes that one violation can bear."""
    found = {code for code, _ in sentence._SENTENCES.values()}
    found |= {code for code, _ in sentence._FAMILIES.values()} | {sentence._UNKNOWN[0]}
    found |= chosen() | set(refusing._CHANGED)
    for name in ABOUT_ARGUMENTS:
        found |= spoken(ENGINE / name)
    for node in ast.walk(ast.parse((ENGINE / "client/refusing.py").read_text())):
        match node:
            case ast.Dict(keys=keys, values=values):
                found |= set(_entries(keys, values))
            case ast.Call(func=ast.Name(id="Violation"), keywords=keywords):
                found |= set(_keywords(keywords))
    return found


def of_the_command_line() -> set[str]:
    """The codes that only the command line says."""
    found: set[str] = set()
    for path in (ENGINE / "cli").glob("*.py"):
        found |= spoken(path)
    return found - set(of_exceptions())


def spoken(path: Path) -> set[str]:
    """Every code that a file gives in one of the ways above."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Dict(keys=keys, values=values):
                found |= set(_entries(keys, values))
            case ast.Call(func=function, args=arguments, keywords=keywords):
                found |= set(_keywords(keywords))
                place = PLACES.get(getattr(function, "id", getattr(function, "attr", "")))
                if place is not None and len(arguments) > place:
                    found |= set(_words(arguments[place]))
            case ast.arguments(kwonlyargs=names, kw_defaults=defaults):
                pairs = zip(names, defaults, strict=True)
                found |= {w for n, d in pairs if n.arg == "code" and d for w in _words(d)}
    return found


def handed(path: Path, function: str) -> set[str]:
    """The codes that a file hands to one function."""
    return {
        word
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == function
        for word in _words(node.args[PLACES[function]])
    }


def _entries(keys: list[ast.expr | None], values: list[ast.expr]) -> Iterator[str]:
    for key, value in zip(keys, values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "code":
            yield from _words(value)


def _keywords(keywords: list[ast.keyword]) -> Iterator[str]:
    for keyword in keywords:
        if keyword.arg == "code":
            yield from _words(keyword.value)


def _words(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(word)):
            yield word
        case ast.IfExp(body=body, orelse=orelse):
            yield from _words(body)
            yield from _words(orelse)
