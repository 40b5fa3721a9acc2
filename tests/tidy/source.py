"""The repository as the tidy rules read it: files, what they import, what a rule finds in them.

A rule is a function over all files, so that "at most one of these" is as easy to say as "none of
these in any file". It carries samples of what it refuses and what it lets through, and the tests
run both: a check that can't fail is a defect.
"""

import ast
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOTS: Mapping[str, str] = {
    "engine": "takeback",
    "workers": "takeback_workers",
    "migrations": "takeback_migrations",
    "examples": "takeback_shop",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its path from the top of the repository, with slashes, and its text."""

    path: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return parse(self.text)

    @property
    def is_code(self) -> bool:
        """Whether it is Python of one of the four roots, which is what goes into the wheel."""
        return self.path.endswith(".py") and self.path.split("/")[0] in ROOTS

    @property
    def is_engine(self) -> bool:
        return self.path.endswith(".py") and self.path.startswith("engine/")

    @property
    def is_test(self) -> bool:
        return self.path.endswith(".py") and self.path.startswith("tests/")

    @property
    def module(self) -> str:
        """The dotted name under which it is imported.

        >>> Source("engine/takeback/model/__init__.py", "").module
        'takeback.model'
        """
        parts = self.path.removesuffix(".py").split("/")
        named = parts[1:] if parts[0] in ROOTS else parts
        return ".".join(named).removesuffix(".__init__")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule found, and where."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


Sources = Sequence[Source]
Sample = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A habit of the house with its samples: file names and what stands in them."""

    find: Callable[[Sources], Iterable[Finding]]
    bad: Sequence[Sample]
    good: Sequence[Sample] = ()

    def __str__(self) -> str:
        return self.find.__name__


def sources(sample: Sample) -> Sources:
    return [Source(path, text) for path, text in sample.items()]


def read(root: Path) -> Sources:
    """Every text file that is tracked or about to be; what git ignores is nobody's."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout
    found = []
    for path in sorted(set(listed.split("\0"))):
        if path and (root / path).is_file():
            try:
                found.append(Source(path, (root / path).read_text()))
            except UnicodeDecodeError:
                continue
    return found


@cache
def parse(text: str) -> ast.Module:
    return ast.parse(text)


def functions(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def aliases(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for.

    >>> aliases(ast.parse("import datetime as dt; from time import sleep"))
    {'dt': 'datetime', 'sleep': 'time.sleep'}
    """
    named = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                # `import a.b` binds `a`, `import a.b as c` binds all of it.
                top = name.name.split(".")[0]
                named[name.asname or top] = name.name if name.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                named[name.asname or name.name] = f"{node.module}.{name.name}"
    return named


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every module or name that is imported, whole, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                yield f"{node.module}.{name.name}", node.lineno


def dotted(node: ast.AST, names: Mapping[str, str]) -> str | None:
    """The whole name of what an expression refers to, where it starts at an import.

    >>> tree = ast.parse("import datetime as dt; dt.datetime.now")
    >>> dotted(tree.body[1].value, aliases(tree))
    'datetime.datetime.now'
    """
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=value, attr=attr):
            start = dotted(value, names)
            return f"{start}.{attr}" if start else None
    return None


def references(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every use of something imported, with its whole name and line."""
    names = aliases(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node, names)):
            yield name, node.lineno


def under(name: str, prefixes: Iterable[str]) -> bool:
    """Whether a dotted name is one of these, or below one.

    >>> under("takeback.ledger.pool", ["takeback.ledger"])
    True
    >>> under("takeback.ledgers", ["takeback.ledger"])
    False
    """
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
