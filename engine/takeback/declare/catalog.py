"""The flat list of every tool."""

from __future__ import annotations

from collections.abc import Iterator

from takeback.declare.tool import Tool


class Catalog:
    """Every tool of an app, in one flat list; names are unique.

    Raises ValueError when two rows have one name.
    """

    __slots__ = ("tools",)

    def __init__(self, *tools: Tool) -> None:
        seen: set[str] = set()
        for tool in tools:
            if tool.name in seen:
                raise ValueError(
                    f"two rows are named {tool.name!r}; a name stands for one capability: "
                    "rename one"
                )
            seen.add(tool.name)
        self.tools = tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    def __contains__(self, name: object) -> bool:
        return any(tool.name == name for tool in self.tools)

    def get(self, name: str) -> Tool | None:
        """The row of that name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)
