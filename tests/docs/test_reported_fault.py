"""Faults that users of such systems have reported: each has a test that names the report."""

import ast

import pytest

from tests.docs.page import ROOT

REPORTS = (
    "crewAI #5802",
    "composio #3586, #3654",
    "langgraph #6626",
    "agentmail-mcp #49",
    "keeperhub #2207",
    "orbit #407, prosper202 #147",
    "trinity #2846, aegra #547",
    "dramatiq #431, #461, #597",
    "archestra #5580",
    "square-mcp-server #31",
    "flexprice #2488",
    "mastodon #37879",
    "idempot-js #183, ravel #1653",
    "spliit-cloud #68",
    "dj-stripe #455",
    "saleor/apps #2446",
    "powertools-python #4759",
    "extra #139, pydantic-ai #6968",
)
"""Of calls that were repeated, and of approvals that did not hold for what was done."""

OF_QUEUES = (
    "procrastinate #307, pgqueuer #475",
    "dbos-transact-py #716",
    "river #1302",
    "oban #1141",
    "procrastinate #1599, river #785",
    "dramatiq #527",
    "dramatiq #258, chancy #88",
    "que #297",
    "authentik #23876",
)
"""Of queues and workers: work that was lost, done again, or stood still."""


@pytest.fixture(scope="module")
def said() -> str:
    """What all tests say of themselves, a line of text each."""
    return "\n".join(
        " ".join((ast.get_docstring(node) or "").split())
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


@pytest.mark.parametrize("report", [*REPORTS, *OF_QUEUES])
def test_a_reported_fault_has_a_test_that_names_it(said: str, report: str):
    assert report in said
