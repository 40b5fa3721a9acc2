"""The text check of a declaration file: nothing of it is run."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.catalog.check import check_file, check_source

DECLARATION = '''
"""The tools of a shop."""

from __future__ import annotations

import enum
import re as patterns
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import pydantic
from pydantic import BaseModel, Field, field_validator
from takeback import declare
from takeback.declare import OMIT, Catalog, Money, Read, Tool, hours
from takeback.declare.tool import Key

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = patterns.compile("ch_[0-9]+")
DAY = timedelta(days=1)
NAMES = tuple(sorted({name.upper() for name in ("a", "b")}))


class Area(enum.StrEnum):
    ORDERS = enum.auto()


class Refund(BaseModel):
    charge_id: Annotated[str, Field(max_length=30)]
    amount: Money
    where: "Path | None" = None
    area: Area = Area.ORDERS
    reason: Literal["duplicate"] = "duplicate"

    @field_validator("charge_id")
    @classmethod
    def _shaped(cls, value: str) -> str:
        print("a validator runs when it is called, not here")
        return value


def upgraded(arguments: dict) -> dict:
    with open("nothing") as file:
        return arguments | {"reason": file.read()}


def row(name: str) -> Tool:
    effect = Read(on_forbidden=OMIT)
    return Tool(name, Refund, effect=effect, description=f"Does {name}.", upgrades={1: upgraded})


CATALOG = Catalog(row("one"), *map(row, NAMES), declare.Tool("two", Refund, effect=None))
'''


def messages(source: str) -> list[str]:
    return [finding.message for finding in check_source(source)]


def test_a_declaration_passes(tmp_path):
    path = tmp_path / "catalog.py"
    path.write_text(DECLARATION, encoding="utf-8")
    assert check_file(path) == []
    assert check_file(str(path)) == []


@pytest.mark.parametrize(
    "line, found",
    [
        ("import sqlalchemy", "imports sqlalchemy"),
        ("import psycopg.rows as rows", "imports psycopg.rows"),
        ("from dramatiq import actor", "imports dramatiq"),
        ("import datetime, requests", "imports requests"),
        ("import takeback", "imports takeback;"),
        ("from takeback import Takeback", "imports takeback;"),
        ("from takeback import declare, client", "imports takeback;"),
        ("from takeback.client import call", "imports takeback.client"),
        ("from takeback.declared import Tool", "imports takeback.declared"),
        ("import pydantic_core", "imports pydantic_core"),
        ("from pydantic_settings import BaseSettings", "imports pydantic_settings"),
        ("from . import handlers", "imports ., relative to a package"),
        ("from ..shop.models import Refund", "imports ..shop.models, relative to a package"),
        ("import importlib", "imports importlib, which loads code"),
        ("from importlib import import_module", "imports importlib, which loads code"),
        ("import runpy", "imports runpy, which loads code"),
        ("import builtins", "imports builtins, which loads code"),
        ("db = __import__('psycopg')", "uses __import__"),
        ("load = __import__", "uses __import__"),
        ("exec('import psycopg')", "uses exec"),
        ("eval('1')", "uses eval"),
        ("x = compile('1', '', 'eval')", "uses compile"),
        ("x = __builtins__['open']", "uses __builtins__"),
        ("import sys\ndef f():\n    return sys.modules['psycopg']", "uses sys.modules"),
        ("def f():\n    import psycopg", "imports psycopg"),
        ("class A:\n    import psycopg", "imports psycopg"),
        ("try:\n    import psycopg\nexcept ImportError:\n    pass", "imports psycopg"),
    ],
)
def test_whatever_loads_anything_else_is_found_wherever_it_stands(line, found):
    (message,) = messages(line)
    assert message.startswith(found)


@pytest.mark.parametrize(
    "source, found",
    [
        ("open('x')", "uses open while the file is loaded"),
        ("print('x')", "uses print while the file is loaded"),
        ("import os\nHOME = os.environ['HOME']", "uses os while the file is loaded"),
        ("import os\nrun = os.system", "uses os while the file is loaded"),
        ("from os import system as s\ns('x')", "uses os while the file is loaded"),
        ("import os.path as p\np.exists('x')", "uses os.path while the file is loaded"),
        ("from pathlib import Path\nTEXT = Path('x').read_text()", "uses pathlib while"),
        ("import socket\nclass A:\n    s = socket.socket()", "uses socket while"),
        ("import time\ndef f(at=time.time()): ...", "uses time while"),
        ("import functools, os\n@functools.lru_cache(os.getpid())\ndef f(): ...", "uses os while"),
        ("import logging\n@logging.f\nclass A: ...", "uses logging while"),
        ("def f():\n    return open('x')\nX = f()", "uses open while"),
        ("def g():\n    open('x')\ndef f():\n    g()\nf()", "uses open while"),
        ("def f(c):\n    open('x')\n@f\ndef h(): ...", "uses open while"),
        ("(lambda: open('x'))()", "uses open while"),
        ("X = [open(n) for n in 'ab']", "uses open while"),
        ("import os\nclass A:\n    x: str = os.sep", "uses os while"),
        ("import os\nclass A:\n    x: f(os.sep)", "uses os while"),
        ("from datetime import datetime\nAT = datetime.now()", "calls datetime.now while"),
        ("import datetime\nDAY = datetime.date.today()", "calls datetime.date.today while"),
        ("import uuid\nX = uuid.uuid4()", "calls uuid.uuid4 while"),
        ("import random\nX = random.random()", "uses random while"),
    ],
)
def test_whatever_would_run_on_loading_is_found(source, found):
    (message,) = messages(source)
    assert message.startswith(found)


@pytest.mark.parametrize(
    "source",
    [
        "import os\ndef f():\n    return os.getcwd()",
        "import os\nf = lambda: os.getcwd()",
        "import os\nclass A:\n    def f(self):\n        return os.getcwd()",
        "import os\nclass A:\n    where: os.PathLike",
        "async def f():\n    open('x')",
        "def f():\n    f()\nf()",
        "",
        "# nothing",
    ],
)
def test_what_does_not_run_on_loading_is_left_alone(source):
    assert messages(source) == []


def test_every_finding_has_its_line_in_order():
    source = "import psycopg\nimport datetime\nimport sqlalchemy\nopen('x')\n"
    assert [finding.line for finding in check_source(source)] == [1, 3, 4]


def test_every_message_says_found_expected_and_what_to_do():
    source = "import psycopg\nfrom . import a\nimport takeback\nexec('')\nopen('')\nimport runpy\n"
    for message in messages(source):
        assert message.count("; ") == 2
        assert "; expected " in message


def test_every_standard_module_but_the_loaders_may_be_imported():
    loaders = {"builtins", "code", "codeop", "imp", "importlib", "pkgutil", "runpy", "zipimport"}
    names = sorted(sys.stdlib_module_names - loaders)
    assert messages("\n".join(f"import {name}" for name in names)) == []


def test_a_missing_file_is_a_finding(tmp_path):
    for path in (tmp_path / "missing.py", tmp_path, "a\0b"):
        (finding,) = check_file(path)
        assert finding.line == 0


@pytest.mark.parametrize(
    "source",
    [
        b"class (",
        b"\xff\xfe\x00",
        b"\x00",
        b"# coding: nonsense\n",
        b"x = 'caf\xe9'",
        b"(" * 10_000 + b")" * 10_000,
        b"x = " + b"-" * 100_000 + b"1",
        b"x = " + b"a." * 50_000 + b"b",
        b"def f():\n\t x\n        y",
    ],
    ids=range(9),
)
def test_what_is_no_python_is_a_finding(tmp_path, source):
    path = tmp_path / "catalog.py"
    path.write_bytes(source)
    findings = check_file(path)
    assert len(findings) == 1 or source.endswith(b".b")


def test_nothing_of_the_file_is_run(tmp_path):
    witness = tmp_path / "witness"
    path = tmp_path / "catalog.py"
    path.write_text(f"open({str(witness)!r}, 'w').close()\nraise SystemExit\n")
    check_file(path)
    assert not witness.exists()


@given(st.text() | st.binary())
def test_no_text_breaks_the_check(source):
    for finding in check_source(source):
        assert finding.message
