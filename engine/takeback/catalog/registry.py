"""The rows of a catalog, each bound to its handler: what a call looks its tool up in.

Nothing half bound exists: ``build`` answers with a registry in which every row can be run, or
raises with every problem of every row.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from takeback.catalog.binding import Unbound, bind, strays
from takeback.catalog.connector_rule import connector_problems
from takeback.catalog.rule import problems
from takeback.declare import Catalog, Connector, Effect, Read, Tool
from takeback.model.errors import InvalidCatalog, UnknownTool
from takeback.model.handler import Handler
from takeback.model.likeness import alike, folded, look_alikes

NEAREST_MAX = 3

# Look-alikes and those that share a word, together.
OTHERS_MAX = 8

# Last in the schema of every tool that writes; they are the engine's, and no row declares them.
RESERVED_PROPERTIES: Mapping[str, Mapping[str, Any]] = {
    "repeat_of": {
        "type": "string",
        "description": "the ref of an earlier, equal call: do it once more, on purpose",
    },
    "expect": {
        "type": "string",
        "description": "what a preview answered: refused if anything else would be affected",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A row and the handler that carries it out."""

    tool: Tool
    handler: Handler

    @property
    def name(self) -> str:
        """The name of the row."""
        return self.tool.name

    @property
    def effect(self) -> Effect:
        """The effect of the row."""
        return self.tool.effect


class Registry:
    """Every bound row of an app, in the order of its catalog, and its ``connectors`` by name."""

    __slots__ = ("_bound", "connectors")

    def __init__(self, bound: Mapping[str, Bound], connectors: Sequence[Connector] = ()) -> None:
        self._bound = dict(bound)
        self.connectors: Mapping[str, Connector] = {one.name: one for one in connectors}

    def __iter__(self) -> Iterator[Bound]:
        return iter(self._bound.values())

    def __len__(self) -> int:
        return len(self._bound)

    def __contains__(self, name: object) -> bool:
        return name in self._bound

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rows, in the order of the catalog."""
        return tuple(self._bound)

    def tool(self, name: str) -> Bound:
        """The bound row of that name.

        Raises UnknownTool, with the nearest names.
        """
        found = self._bound.get(name)
        if found is None:
            nearest = _nearest(str(name), self.names)
            raise UnknownTool(name, nearest, others=_others(str(name), nearest, self))
        return found


def build(catalog: Catalog, handlers: ModuleType | Mapping[str, Any] | object) -> Registry:
    """Binds every row of ``catalog`` to its handler.

    Raises InvalidCatalog, whose message is one line per problem: the row, what is wrong, the fix.
    """
    lines: list[str] = []
    bound: dict[str, Bound] = {}
    for tool in catalog:
        handler = bind(handlers, tool.name)
        if isinstance(handler, Unbound):
            lines.append(f"row {tool.name!r}: {handler.found}; fix: {handler.fix}")
            found = problems(tool, None)
        else:
            bound[tool.name] = Bound(tool=tool, handler=handler)
            found = problems(tool, handler)
        lines += [f"row {tool.name!r}: {wrong}; fix: {fix}" for wrong, fix in found]
    names = [tool.name for tool in catalog]
    lines += [
        f"handler {name!r}: {stray.found}; fix: {stray.fix}"
        for name, stray in strays(handlers, names)
    ]
    lines += connector_problems(catalog)
    if lines:
        raise InvalidCatalog("\n".join(lines))
    return Registry(bound, catalog.connectors)


def schema(bound: Bound) -> dict[str, Any]:
    """The JSON schema of the row's arguments as a model sees it.

    Closed: nothing undeclared is taken. Tools that write end with ``repeat_of`` and ``expect``.
    """
    generated = bound.tool.arguments.model_json_schema()
    document: dict[str, Any] = _untitled(generated)
    document.pop("description", None)
    properties = dict(document.get("properties", {}))
    if not isinstance(bound.effect, Read):
        properties |= copy.deepcopy(dict(RESERVED_PROPERTIES))
    result = {
        "type": "object",
        "properties": properties,
        "required": document.get("required", []),
        "additionalProperties": False,
    }
    rest = {name: value for name, value in document.items() if name not in result}
    return result | rest


def _nearest(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    same = [known for known in names if alike(known, name[:NAME_LENGTH_READ])]
    near = [known for known in look_alikes(name, names) if known not in same]
    return tuple([*same, *near][:NEAREST_MAX])


def _others(name: str, nearest: Sequence[str], rows: Iterable[Bound]) -> list[str]:
    """Rows that share a word with the name, in their own or among what people say for them."""
    wanted = {folded(word) for word in _words(name[:NAME_LENGTH_READ])}
    shared = {
        row.name: len(wanted & {folded(word) for text in texts for word in _words(text)})
        for row in rows
        for texts in [(row.name, *row.tool.triggers)]
    }
    found = [known for known, count in shared.items() if count and known not in nearest]
    return sorted(found, key=lambda known: -shared[known])[: OTHERS_MAX - len(nearest)]


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\W_]+", text) if len(word) > WORD_LENGTH_MIN]


# Shorter words, such as a, the and to, say nothing about what a tool is for.
WORD_LENGTH_MIN = 2

# Of a name that is no tool's, only so much is compared.
NAME_LENGTH_READ = 200


def _untitled(node: Any) -> Any:
    """The schema without the titles that pydantic makes of the names, and closed at every level."""
    if isinstance(node, list):
        return [_untitled(each) for each in node]
    if not isinstance(node, dict):
        return node
    result: dict[str, Any] = {}
    for name, value in node.items():
        if name in {"properties", "$defs", "patternProperties"}:
            result[name] = {key: _untitled(each) for key, each in value.items()}
        elif name in {"default", "enum", "const", "examples"}:
            result[name] = value
        elif name != "title":
            result[name] = _untitled(value)
    if result.get("type") == "object" and "properties" in result:
        result.setdefault("additionalProperties", False)
    return result
