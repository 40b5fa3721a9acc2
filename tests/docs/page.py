"""What users read, taken apart: fenced blocks, tables, links and words between backticks.

A block's first line says what the tests do with it:

    ```python              runs after the earlier ones of its page, in one namespace
    ```python file=NAME    is written to a file of that name
    ```python no-run       is only compiled
    ```sql                 runs; ``no-run`` as above
    ```console             its lines that begin with `takeback` are held against the command line
    ```json of=NAME        is held against what the test of that page produces under that name
    ```text                is for people
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, the words and the name=value pairs after it, its text."""

    page: str
    line: int
    language: str
    words: frozenset[str]
    said: Mapping[str, str]
    text: str

    @property
    def place(self) -> str:
        """Where it begins, as editors take it."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table under the heading ``section``; cells as they are written."""

    section: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One document; ``name`` is its path from the top of the repository."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        """The file."""
        return ROOT / self.name

    @property
    def blocks(self) -> list[Block]:
        """The fenced blocks, in order."""
        return [
            _block(self, match["info"], match["text"], self.text.count("\n", 0, match.end("info")))
            for match in _FENCE.finditer(self.text)
        ]

    @property
    def unfenced(self) -> str:
        """The text without its fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def prose(self) -> str:
        """The text without the blocks that are fenced or only indented."""
        return re.sub(r"^(?: {4}|\t).*$", "", self.unfenced, flags=re.MULTILINE)

    @property
    def links(self) -> list[str]:
        """Where its links lead, as written."""
        return _LINK.findall(self.prose)

    @property
    def spans(self) -> list[str]:
        """What stands between backticks in its sentences and tables."""
        return _SPAN.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """What a link into this page may name after ``#``."""
        return {anchor_of(heading) for heading in _HEADING.findall(self.unfenced)}

    @property
    def tables(self) -> list[Table]:
        """The tables, in order."""
        return list(_tables(self.prose))

    def table(self, *header: str) -> Table:
        """The one table whose columns begin with ``header``."""
        found = [table for table in self.tables if table.header[: len(header)] == header]
        assert len(found) == 1, f"{self.name} has {len(found)} tables of {header}"
        return found[0]


def read(name: str) -> Page:
    """The page of that name."""
    return Page(name=name, text=(ROOT / name).read_text())


def pages() -> list[Page]:
    """Everything that users read."""
    found = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
    return [read(path.relative_to(ROOT).as_posix()) for path in found]


def anchor_of(heading: str) -> str:
    """What a heading is called in a link.

    >>> anchor_of("What `call` takes, and why"), anchor_of("In doubt")
    ('what-call-takes-and-why', 'in-doubt')
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def cells(line: str) -> tuple[str, ...]:
    r"""The cells of a table's line; ``\|`` is no border.

    >>> cells("| `a` | b \\| c |")
    ('`a`', 'b | c')
    """
    inner = line.strip().removeprefix("|").removesuffix("|")
    return tuple(cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", inner))


def unquoted(cell: str) -> str:
    """A cell that holds one word between backticks, without them.

    >>> unquoted("`intent.held`")
    'intent.held'
    """
    return cell.removeprefix("`").removesuffix("`")


def _block(page: Page, info: str, text: str, line: int) -> Block:
    language, *rest = info.split() or [""]
    return Block(
        page=page.name,
        line=line + 1,
        language=language,
        words=frozenset(word for word in rest if "=" not in word),
        said=dict(word.split("=", 1) for word in rest if "=" in word),
        text=text,
    )


def _tables(prose: str) -> Iterator[Table]:
    section = ""
    lines: list[str] = []
    for line in [*prose.splitlines(), ""]:
        if line.startswith("|"):
            lines.append(line)
            continue
        if lines:
            yield _table(section, lines)
            lines = []
        if heading := _HEADING.match(line):
            section = heading[1]


def _table(section: str, lines: Sequence[str]) -> Table:
    header, _, *rows = map(cells, lines)
    wrong = [row for row in rows if len(row) != len(header)]
    assert not wrong, f"rows that are not as wide as their header: {wrong}"
    return Table(section=section, header=header, rows=tuple(rows))
