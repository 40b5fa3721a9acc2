"""What an argument model says about the value at a path: its closed set, and the kinds it takes.

Read from pydantic's core schema, in which annotations, aliases of types and forward references are
resolved already. Where a value may be of several types, all of them are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from takeback.model.reading import Path

_Node = Mapping[str, Any]

# Schemas that stand round another one and take the same value.
_WRAPPERS = frozenset(
    {
        "custom-error",
        "dataclass",
        "dataclass-field",
        "default",
        "definitions",
        "function-after",
        "function-before",
        "function-wrap",
        "model",
        "model-field",
        "named-tuple-field",
        "nullable",
        "typed-dict-field",
    }
)


def called(name: str, field: FieldInfo) -> str:
    """What a caller calls the field ``name`` of a model: its alias, where it has one.

    >>> called("from_", FieldInfo(validation_alias="from")), called("to", FieldInfo())
    ('from', 'to')
    """
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name


@lru_cache(maxsize=1024)
def single(model: type[BaseModel], name: str) -> type[BaseModel]:
    """A model of that one argument, without the rules about several.

    >>> class Refund(BaseModel):
    ...     charge_id: str
    ...     amount: int = 1
    >>> single(Refund, "amount")(amount=5)
    Refund(amount=5)
    """
    field = model.model_fields[name]
    fields: dict[str, Any] = {name: (field.annotation, field)}
    return create_model(model.__name__, __config__=model.model_config, **fields)


def parsed(model: type[BaseModel], given: Mapping[str, Any]) -> BaseModel:
    """The model of the given arguments; raises pydantic's ValidationError.

    What is not declared is refused, also where the model would let it pass.

    >>> class Refund(BaseModel):
    ...     charge_id: str
    >>> parsed(Refund, {"charge_id": "ch_1"})
    Refund(charge_id='ch_1')
    """
    return model.model_validate(given, extra="forbid", by_alias=True, by_name=True)


class Shape:
    """The core schema of one argument model."""

    __slots__ = ("_definitions", "_root")

    def __init__(self, model: type[BaseModel]) -> None:
        self._root: _Node = model.__pydantic_core_schema__
        definitions: Sequence[_Node] = self._root.get("definitions", ())
        self._definitions = {str(node["ref"]): node for node in definitions}

    def closed_set(self, path: Path) -> tuple[Any, ...]:
        """The permitted values at ``path`` in declared order; empty where any value may stand."""
        return tuple(dict.fromkeys(value for value, _ in self.members(path)))

    def members(self, path: Path) -> list[tuple[Any, str | None]]:
        """The permitted values at ``path`` and, where an Enum names them, their names."""
        permitted: list[Any] = []
        for node in self._at(path):
            if node["type"] == "literal":
                permitted += node["expected"]
            elif node["type"] == "enum":
                permitted += node["members"]
        return [
            (value.value, value.name) if isinstance(value, Enum) else (value, None)
            for value in permitted
        ]

    def names(self, path: Path) -> tuple[tuple[str, str], ...]:
        """The fields of the object at ``path``, each with what a caller calls it.

        Empty where there is none, or where it may be one of several.
        """
        nodes = [node for node in self._at(path) if "fields" in node]
        if len(nodes) != 1:
            return ()
        return tuple(
            (name, alias if isinstance(alias := field.get("validation_alias"), str) else name)
            for name, field in _fields(nodes[0])
        )

    def kinds(self, path: Path) -> frozenset[str]:
        """The types that a value at ``path`` may have, as pydantic's core schema calls them."""
        return frozenset(node["type"] for node in self._at(path))

    def all_kinds(self, path: Path) -> frozenset[str]:
        """The types at ``path`` and of everything within it."""
        return frozenset(node["type"] for node in self._within(path))

    def default_factories(self, name: str) -> list[Any]:
        """What makes the defaults of the argument ``name``, and of everything within it."""
        fields = [field for node in self._at(()) for field in _children(node, name)]
        fields += [field for node in self._within((name,)) for field in _children(node)]
        schemas = [field.get("schema", field) for field in fields]
        return [each["default_factory"] for each in schemas if "default_factory" in each]

    def _within(self, path: Path) -> list[_Node]:
        found: dict[int, _Node] = {}
        waiting = self._at(path)
        while waiting:
            node = waiting.pop()
            if id(node) not in found:
                found[id(node)] = node
                waiting += [leaf for child in _children(node) for leaf in self._leaves(child)]
        return list(found.values())

    def _at(self, path: Path) -> list[_Node]:
        nodes = list(self._leaves(self._root))
        for part in path:
            children = [child for node in nodes for child in _children(node, part)]
            nodes = [leaf for child in children for leaf in self._leaves(child)]
        return nodes

    def _leaves(self, node: _Node, seen: frozenset[str] = frozenset()) -> Iterator[_Node]:
        """The schemas that take the value itself, with everything round them taken off."""
        kind = node["type"]
        if kind == "definition-ref":
            reference = node["schema_ref"]
            if reference not in seen and reference in self._definitions:
                yield from self._leaves(self._definitions[reference], seen | {reference})
            return
        inner = _inside(node)
        if not inner:
            yield node
        for child in inner:
            yield from self._leaves(child, seen)


def _inside(node: _Node) -> Sequence[_Node]:
    kind = node["type"]
    if kind in _WRAPPERS:
        return (node["schema"],)
    if kind == "union":
        return [choice[0] if isinstance(choice, tuple) else choice for choice in node["choices"]]
    if kind == "tagged-union":
        return [choice for choice in node["choices"].values() if isinstance(choice, Mapping)]
    if kind == "lax-or-strict":
        return (node["lax_schema"],)
    if kind == "json-or-python":
        return (node["json_schema"],)
    if kind == "chain":
        return (node["steps"][0],)
    return ()


def _children(node: _Node, part: str | int | None = None) -> list[_Node]:
    """The schemas of the members of a container: of the one called ``part``, or of every one."""
    if "fields" in node:
        return [
            field for name, field in _fields(node) if part is None or part in _names(name, field)
        ]
    children: list[_Node] = []
    if not isinstance(part, str):
        items = node.get("items_schema", ())
        children += [items] if isinstance(items, Mapping) else items
    if node["type"] == "dict" and not isinstance(part, int):
        children += [node[key] for key in ("values_schema",) if key in node]
    return children


def _fields(node: _Node) -> list[tuple[str, _Node]]:
    fields = node["fields"]
    if isinstance(fields, Mapping):
        return list(fields.items())
    return [(field["name"], field) for field in fields]


def _names(name: str, field: _Node) -> set[Any]:
    alias = field.get("validation_alias")
    return {name, alias} if isinstance(alias, str) else {name}
