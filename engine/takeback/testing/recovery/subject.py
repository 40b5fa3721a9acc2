"""What is called: an app, calls that are wanted of it, and how people get its words wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from takeback.declare import CONFLICT, KEYED, Catalog, Read, Remote, Tool, hours
from takeback.model.handler import Found, Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An app's catalog with its handlers, and the calls that somebody wants.

    ``near`` are words of nearly the same meaning by permitted value, ``foreign`` its translations,
    ``misnamed`` names that tools are called by and do not have.
    """

    name: str
    catalog: Catalog
    handlers: Any
    wanted: Sequence[tuple[str, Mapping[str, Any]]]
    near: Mapping[str, Sequence[str]] = field(default_factory=dict)
    foreign: Mapping[str, Sequence[str]] = field(default_factory=dict)
    misnamed: Mapping[str, Sequence[str]] = field(default_factory=dict)


def row(name: str, arguments: Any, description: str, **said: Any) -> Tool:
    """A row that writes, keyed by all its arguments, or another one as ``said`` has it."""
    if isinstance(said.get("effect"), Read):
        return Tool(name, arguments, description=description, **said)
    standing: dict[str, Any] = {
        "effect": Remote(upstream=KEYED(ttl=hours(24))),
        "key": tuple(arguments.model_fields),
        "on_difference": CONFLICT,
    }
    return Tool(name, arguments, description=description, **(standing | said))


def handlers_for(catalog: Catalog) -> Any:
    """Handlers that do nothing: only what was recorded is looked at."""
    return SimpleNamespace(**{tool.name: _handler(tool) for tool in catalog})


def _handler(tool: Tool) -> Handler:
    if isinstance(tool.effect, Read):
        return Handler(perform=lambda session, arguments: Found(matches=[]))
    return Handler(perform=lambda *_: None, restore=lambda *_: None)
