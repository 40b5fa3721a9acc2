"""The text check of a declaration file: what it imports, and what it would run when it is loaded.

The file is read and never executed. Anywhere in it, imports are of the standard library, pydantic
and takeback.declare, and nothing loads code by name or from text. Where it runs at import (the
module, class bodies, decorators, defaults, and the functions of the file called from there) it may
only build values: of the standard library the modules that touch no file, network, process,
environment or clock, and of the builtins those that don't either.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

ALLOWED = "the standard library, pydantic and takeback.declare"

# They load, run or replace code, whatever the rest of the file looks like.
_LOADERS = frozenset(
    {"builtins", "code", "codeop", "imp", "importlib", "pkgutil", "runpy", "zipimport"}
)

_LOADING_NAMES = frozenset(
    {"__builtins__", "__import__", "__loader__", "__spec__", "compile", "eval", "exec"}
)

# Modules of the standard library that a declaration may use while it is loaded.
_VALUES = frozenset(
    {
        "__future__", "abc", "collections", "copy", "dataclasses", "datetime", "decimal", "enum",
        "fractions", "functools", "ipaddress", "itertools", "json", "math", "numbers", "operator",
        "re", "string", "textwrap", "types", "typing", "unicodedata", "uuid",
    }
)  # fmt: skip

# Builtins that reach beyond the file: they print, read, wait or look round.
_REACHING = frozenset(
    {"breakpoint", "delattr", "globals", "input", "locals", "open", "print", "setattr", "vars"}
)

# Of the modules above, what answers differently at each call or with the clock.
_CHANGING = frozenset({"now", "today", "utcnow", "uuid1", "uuid4", "getnode"})

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a line must not do; line 0 where it is about the file as a whole."""

    line: int
    message: str


def check_file(path: str | PathLike[str]) -> list[Finding]:
    """What keeps the file from being a declaration, by line; empty when nothing does."""
    try:
        source = Path(path).read_bytes()
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        message = f"can't be read ({reason}); expected a Python file; give the path of one"
        return [Finding(line=0, message=message)]
    except ValueError:
        return [Finding(line=0, message="the path is no path; give that of a Python file")]
    return check_source(source)


def check_source(source: bytes | str) -> list[Finding]:
    """As ``check_file``, for the text itself.

    >>> check_source("from takeback.declare import Catalog")
    []
    >>> [finding.line for finding in check_source("import sqlalchemy")]
    [1]
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as problem:
        message = f"is no Python ({problem.msg}); expected a declaration file; correct the line"
        return [Finding(line=problem.lineno or 0, message=message)]
    except (ValueError, RecursionError, MemoryError):
        message = "can't be read as Python: it holds NUL or is nested too deep; write it plainly"
        return [Finding(line=0, message=message)]
    try:
        found = {*_loading(tree), *_Run(tree).findings()}
    except RecursionError:
        return [Finding(line=0, message="is nested too deep to be checked; write it plainly")]
    return sorted(found, key=lambda finding: (finding.line, finding.message))


def _loading(tree: ast.Module) -> Iterator[Finding]:
    """Imports of anything else, and code loaded by name, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _import(node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.level:
            said = f"imports {'.' * node.level}{node.module or ''}, relative to a package"
            message = f"{said}; expected imports of {ALLOWED}; put what it needs into this file"
            yield Finding(line=node.lineno, message=message)
        elif isinstance(node, ast.ImportFrom):
            only_declare = all(alias.name == "declare" for alias in node.names)
            if node.module != "takeback" or not only_declare:
                yield from _import(node.lineno, node.module or "")
        elif isinstance(node, ast.Name) and node.id in _LOADING_NAMES:
            message = f"uses {node.id}; expected declarations only; write out what it would load"
            yield Finding(line=node.lineno, message=message)
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.modules":
            message = "uses sys.modules; expected declarations only; import what it needs by name"
            yield Finding(line=node.lineno, message=message)


def _import(line: int, module: str) -> Iterator[Finding]:
    root = module.partition(".")[0]
    if root in _LOADERS:
        message = f"imports {module}, which loads code; expected declarations only; drop it"
        yield Finding(line=line, message=message)
    elif module == "takeback.declare" or module.startswith("takeback.declare."):
        return
    elif root == "takeback":
        message = f"imports {module}; expected takeback.declare; import the names from there"
        yield Finding(line=line, message=message)
    elif root not in sys.stdlib_module_names and root != "pydantic":
        message = (
            f"imports {module}; expected imports of {ALLOWED}; move what needs it to the handlers"
        )
        yield Finding(line=line, message=message)


class _Run(ast.NodeVisitor):
    """What runs when the file is loaded, followed into the functions of the file it calls."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._found: list[Finding] = []
        # Names bound by imports of standard modules that do more than build values.
        self._reaching: dict[str, str] = {}
        self._functions: dict[str, _Function] = {}
        self._entered: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._remember(node)
            elif isinstance(node, _Function):
                self._functions.setdefault(node.name, node)

    def findings(self) -> list[Finding]:
        self.visit(self._tree)
        return self._found

    def _remember(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            module = node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
            root = module.partition(".")[0]
            if root in sys.stdlib_module_names and root not in _VALUES:
                bound = alias.asname or alias.name.partition(".")[0]
                self._reaching[bound] = module

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._definition(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._defaults(node.args)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # An annotation names types; only what it calls would run.
        for call in ast.walk(node.annotation):
            if isinstance(call, ast.Call):
                self.visit(call)
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            self._enter(node.func.id)
        elif isinstance(node.func, ast.Lambda):
            self.visit(node.func.body)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
            said = f"calls {ast.unparse(node.func)} while the file is loaded"
            self._note(node, f"{said}; expected values that are always the same; write one out")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._reaching:
            said = f"uses {self._reaching[node.id]} while the file is loaded"
            self._note(node, f"{said}; expected declarations only; move it to the handlers")
        elif node.id in _REACHING and node.id not in self._functions:
            said = f"uses {node.id} while the file is loaded"
            self._note(node, f"{said}; expected declarations only; move it to the handlers")

    def _definition(self, node: _Function) -> None:
        """A function's body doesn't run where it stands; its decorators and defaults do."""
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Name):
                self._enter(decorator.id)
            self.visit(decorator)
        self._defaults(node.args)

    def _defaults(self, arguments: ast.arguments) -> None:
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)

    def _enter(self, name: str) -> None:
        function = self._functions.get(name)
        if function is not None and name not in self._entered:
            self._entered.add(name)
            for statement in function.body:
                self.visit(statement)

    def _note(self, node: ast.expr, message: str) -> None:
        self._found.append(Finding(line=node.lineno, message=message))
