"""docs/acceptance.md has a line for each behaviour, and each test that it names is there."""

import ast
import os
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

import pytest

from tests.docs.page import ROOT

PATH = ROOT / "docs/acceptance.md"
LINE = re.compile(r"^(S\d\.\d+): (.+)$", re.MULTILINE)
NUMBER = re.compile(r"\bS\d\.\d+\b")
LATER = {"later: Delivery", "later: Proof", "later: Rows", "later: World", "later: Tools"}

# How many behaviours each part has.
PARTS = {"S0": 27, "S1": 17, "S2": 26, "S3": 9, "S4": 19}
NUMBERS = [f"{part}.{n}" for part, count in PARTS.items() for n in range(1, count + 1)]

# Of these every one is shown by now; of the others, those that something shows.
DUE = {n for n in NUMBERS if n.startswith(("S2.", "S3."))} | {f"S0.{n}" for n in range(1, 14)}


@cache
def shown() -> Mapping[str, list[str]]:
    """The tests that say a number, by number, in the order of their files."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
                "test_"
            ):
                for number in dict.fromkeys(NUMBER.findall(ast.get_docstring(node) or "")):
                    if node.name not in found[number]:
                        found[number].append(node.name)
    return found


def told() -> dict[str, str]:
    return dict(LINE.findall(PATH.read_text()))


def page() -> str:
    """The page as it is made of what the tests say of themselves; what comes later stays."""
    later = {number: said for number, said in told().items() if said in LATER}
    lines = [
        f"{number}: {', '.join(shown()[number]) or later.get(number, 'later: Tools')}"
        for number in NUMBERS
    ]
    text = PATH.read_text()
    head = text[: text.index("S0.1:")]
    return head + "\n".join(lines) + "\n"


def test_the_page_is_what_the_tests_say_of_themselves():
    """A number in a test's docstring is a line here; `make pages` writes it down."""
    if os.environ.get("TAKEBACK_TEST_WRITE_PAGES"):
        PATH.write_text(page())
    assert PATH.read_text() == page(), "run `make pages`"


def test_each_number_has_one_line_in_order():
    assert [number for number, _ in LINE.findall(PATH.read_text())] == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_a_line_names_tests_or_what_brings_them(number: str):
    said = told()[number]
    if said in LATER:
        assert number not in DUE
        assert not shown()[number]
        return
    assert said.split(", ") == shown()[number]


def test_no_test_says_a_number_that_there_is_not():
    assert [number for number in shown() if number not in NUMBERS] == []
