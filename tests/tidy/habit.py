"""How tests are written, and which packages the library may know."""

import ast
import sys
import tomllib
from collections.abc import Iterator

from tests.tidy.source import (
    ROOTS,
    Finding,
    Rule,
    Sources,
    aliases,
    dotted,
    functions,
    imported,
    references,
    under,
)

TEST_NAME_WORDS_MIN = 3
OURS = frozenset(ROOTS.values())
# Known everywhere: what arguments are made of.
HOMELESS = frozenset({"pydantic", "pydantic_core", "typing_extensions"})
HOME = "home: "


def tests_are_named_by_what_they_show(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_test and source.path.rsplit("/", 1)[-1].startswith("test_"):
            for function in functions(source.tree):
                words = [word for word in function.name.split("_")[1:] if word]
                if function.name.startswith("test_") and len(words) < TEST_NAME_WORDS_MIN:
                    what = f"{function.name} is no sentence; say what happens"
                    yield Finding(source.path, function.lineno, what)


def nothing_of_ours_is_mocked(sources: Sources) -> Iterator[Finding]:
    for source in sources:
        if source.is_test:
            for name, line in [*imported(source.tree), *references(source.tree)]:
                if under(name, ("mock", "unittest.mock")):
                    yield Finding(source.path, line, "a mock; fakes are of the world alone")
            yield from replaced(source.path, source.tree)


def replaced(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Where `monkeypatch.setattr` puts something else into one of our own modules."""
    names = aliases(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="monkeypatch"), attr="setattr"),
                args=[target, *_],
            ):
                match target:
                    case ast.Constant(value=str(name)):
                        pass
                    case _:
                        name = dotted(target, names) or ""
                if under(name, OURS):
                    yield Finding(path, node.lineno, f"{name} is replaced; hand it in")


def every_foreign_package_has_a_home(sources: Sources) -> Iterator[Finding]:
    """What a contract named `home: …` in pyproject.toml speaks of, import-linter keeps there."""
    known = HOMELESS | OURS | sys.stdlib_module_names | housed(sources)
    for source in sources:
        if source.is_engine:
            for name, line in imported(source.tree):
                package = name.split(".")[0]
                if package not in known:
                    what = f"{package} has no home; give it a contract in pyproject.toml"
                    yield Finding(source.path, line, what)


def housed(sources: Sources) -> frozenset[str]:
    for source in sources:
        if source.path == "pyproject.toml":
            contracts = tomllib.loads(source.text)["tool"]["importlinter"]["contracts"]
            return frozenset(
                package
                for contract in contracts
                if contract["name"].startswith(HOME)
                for package in contract["forbidden_modules"]
            )
    return frozenset()


_ENGINE = "engine/takeback/client/a.py"
_TEST = "tests/client/test_a.py"
_CONTRACT = """
[[tool.importlinter.contracts]]
name = "home: keys"
forbidden_modules = ["rfc8785"]
"""

RULES = (
    Rule(
        find=tests_are_named_by_what_they_show,
        bad=[{_TEST: "def test_undo():\n    pass\n"}, {_TEST: "def test_undo_works(): pass\n"}],
        good=[{_TEST: "async def test_undo_after_lease_is_refused(): pass\n"}],
    ),
    Rule(
        find=nothing_of_ours_is_mocked,
        bad=[
            {_TEST: "from unittest.mock import MagicMock\n"},
            {_TEST: "from unittest import mock\n"},
            {_TEST: "import unittest\nx = unittest.mock.Mock()\n"},
            {_TEST: "def test_a_b_c(monkeypatch): monkeypatch.setattr('takeback.a.b', 1)\n"},
            {_TEST: "import takeback as t\ndef f(monkeypatch): monkeypatch.setattr(t, 'b', 1)"},
        ],
        good=[
            {_TEST: "import os\ndef f(monkeypatch): monkeypatch.setattr(os, 'fsync', f)\n"},
            {_TEST: "def f(monkeypatch): monkeypatch.setenv('TAKEBACK_TENANT', 'a')\n"},
        ],
    ),
    Rule(
        find=every_foreign_package_has_a_home,
        bad=[
            {_ENGINE: "import requests\n", "pyproject.toml": _CONTRACT},
            {_ENGINE: "def f():\n    from yaml import load\n"},
        ],
        good=[
            {_ENGINE: "import rfc8785\nimport pydantic\nimport json\n", "pyproject.toml": _CONTRACT}
        ],
    ),
)
