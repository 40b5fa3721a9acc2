"""docs/guarantees.md names tests that are there, and tells of mail what the connector does."""

import ast
import re
from functools import cache

import pytest

from takeback.connectors.smtp import delivery
from tests.crash.workflow import WORKFLOWS
from tests.docs.page import ROOT, read

PAGE = read("docs/guarantees.md")
NAMED = sorted({span for span in PAGE.spans if span.startswith("test_")})
PLACES = PAGE.table("place")


@cache
def names_of_tests() -> set[str]:
    """Every test of the suite."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
    return found


@pytest.mark.parametrize("name", NAMED)
def test_each_test_that_the_page_names_is_there(name: str):
    assert name in names_of_tests()


def test_each_workflow_that_the_page_names_is_there_and_none_is_left_out():
    named = {name for cell in PLACES.column("shown by") for name in re.findall(r'"([^"]+)"', cell)}
    assert named == set(WORKFLOWS)


@pytest.mark.parametrize(
    "table", [table for table in PAGE.tables if "shown by" in table.header], ids=lambda t: t.section
)
def test_each_promise_in_a_table_names_what_shows_it(table):
    shown = table.column("shown by")
    assert all(re.search(r'`test_\w+`|"[^"]+"', cell) for cell in shown)


def test_mail_is_told_in_the_words_of_the_connector():
    """The connector's own table of outcomes, line by line."""
    assert delivery.__doc__ is not None
    said = [" ".join(cell.split()) for cell in PAGE.table("what happened").column("what happened")]
    assert said == [event for event, _ in outcomes(delivery.__doc__)]
    told = [row[1] for row in PAGE.table("what happened").rows]
    words = {"NotDispatched": "nothing happened", "Rejected": "never", "OutcomeUnknown": "nobody"}
    for (event, raised), cell in zip(outcomes(delivery.__doc__), told, strict=True):
        assert cell.startswith(words.get(raised, "sent")), event


def outcomes(text: str) -> list[tuple[str, str]]:
    """The rows of the table in the connector's docstring: what happened, and what is raised."""
    _, _, table = text.partition("─\n")
    found: list[tuple[str, str]] = []
    for line in table.partition("\n\n")[0].splitlines():
        event, raised = line[4:67].strip(), line[67:].split()
        if line.startswith(" " * 6):
            event, earlier = f"{found[-1][0]} {event}", found.pop()[1]
            raised = raised or [earlier]
        found.append((event, raised[0].rstrip(":") if raised else ""))
    return found
