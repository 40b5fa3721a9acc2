"""The flat list of every tool, and of the connectors that several of them share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from takeback.declare.connector import Connector
from takeback.declare.tool import Tool


class Catalog:
    """Every tool of an app, in one flat list; names are unique.

    ``connectors`` bound what goes through one way to a provider, whichever tool it is of. Without
    any the names that tools give are looked up nowhere.

    Raises ValueError when two rows have one name.
    """

    __slots__ = ("connectors", "tools")

    def __init__(self, *tools: Tool, connectors: Sequence[Connector] = ()) -> None:
        _require_distinct([tool.name for tool in tools], "a name stands for one capability")
        _require_distinct([one.name for one in connectors], "a name stands for one connector")
        self.tools = tools
        self.connectors = tuple(connectors)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, name: object) -> bool:
        return any(tool.name == name for tool in self.tools)

    def get(self, name: str) -> Tool | None:
        """The row of that name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)


def _require_distinct(names: Sequence[str], why: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"two rows are named {name!r}; {why}: rename one")
        seen.add(name)
