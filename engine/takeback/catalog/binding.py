"""From the handlers an app gives to the handler of each row: bound by name, nothing registered.

A module, an object or a mapping may hold them. Each is a ``Handler``, a plain function (its
``perform``), or a class or instance with ``perform`` and perhaps ``restore``, ``preview``, ``find``
and ``drift``.

What stands there under a name that no row has is refused: of a mapping every entry; of a module
or an object its ``__all__``, else what it defines itself, is public and could be a handler.
Imported names, private names, and classes of which an instance is bound, are no handlers.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from takeback.model.handler import Handler
from takeback.model.likeness import look_alikes

FACES = ("perform", "restore", "preview", "find", "drift")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbound:
    """Why a name has no handler, and what to do about it."""

    found: str
    fix: str


def bind(handlers: Any, name: str) -> Handler | Unbound:
    """The handler of the row ``name``."""
    missing = object()
    if isinstance(handlers, Mapping):
        given = handlers.get(name, missing)
    else:
        given = getattr(handlers, name, missing)
    if given is missing:
        where = _place(handlers)
        return Unbound(found="it has no handler", fix=f"define {name} in {where}")
    return _handler(name, given)


def strays(handlers: Any, names: Collection[str]) -> Iterator[tuple[str, Unbound]]:
    """What stands among the handlers as one, under a name that no row has; sorted by name."""
    classes = {type(_member(handlers, name)) for name in names}
    for name in sorted(_public(handlers, classes)):
        if name not in names:
            near = look_alikes(name, names)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            yield (
                name,
                Unbound(
                    found=f"no row has this name{hint}",
                    fix=f"give it the name of a row, add the row, or call it _{name}",
                ),
            )


def _handler(name: str, given: Any) -> Handler | Unbound:
    if inspect.isclass(given) and callable(getattr(given, "perform", None)):
        try:
            given = given()
        except TypeError:
            return Unbound(
                found=f"its handler is the class {given.__name__}, which can't be made without "
                "arguments",
                fix="bind an instance of it",
            )
    handler = given if isinstance(given, Handler) else _faces(given)
    if handler is None:
        return Unbound(
            found="what is bound to it is no handler",
            fix=f"make {name} a function, a Handler, or a class with perform",
        )
    for face in FACES:
        value = getattr(handler, face)
        if not callable(value) and (value is not None or face == "perform"):
            return Unbound(
                found=f"the face {face!r} of its handler can't be called", fix="make it a function"
            )
    return handler


def _faces(given: Any) -> Handler | None:
    if not inspect.isclass(given) and getattr(given, "perform", None) is not None:
        faces: dict[str, Any] = {face: getattr(given, face, None) for face in FACES}
        return Handler(**faces)
    if callable(given) and not inspect.isclass(given):
        return Handler(perform=given)
    return None


def _public(handlers: Any, bound_classes: Collection[type]) -> Iterator[str]:
    if isinstance(handlers, Mapping):
        yield from (str(name) for name in handlers)
    elif isinstance(handlers, ModuleType) and hasattr(handlers, "__all__"):
        yield from handlers.__all__
    else:
        for name in dir(handlers):
            if not name.startswith("_"):
                value = _member(handlers, name)
                if _is_defined_here(handlers, value) and not _is_class_of(value, bound_classes):
                    yield name


def _member(handlers: Any, name: str) -> Any:
    """The member as it stands there: no property is run."""
    if isinstance(handlers, Mapping):
        return handlers.get(name)
    return inspect.getattr_static(handlers, name, None)


def _is_defined_here(handlers: Any, value: Any) -> bool:
    if isinstance(value, Handler):
        return True
    could_perform = inspect.isfunction(value) or hasattr(value, "perform")
    if not isinstance(handlers, ModuleType):
        return could_perform or isinstance(value, staticmethod | classmethod)
    home = value if hasattr(value, "__module__") else type(value)
    return could_perform and getattr(home, "__module__", None) == handlers.__name__


def _is_class_of(value: Any, bound_classes: Collection[type]) -> bool:
    return inspect.isclass(value) and any(issubclass(bound, value) for bound in bound_classes)


def _place(handlers: Any) -> str:
    if isinstance(handlers, ModuleType):
        return f"the module {handlers.__name__}"
    return "the mapping" if isinstance(handlers, Mapping) else type(handlers).__name__
