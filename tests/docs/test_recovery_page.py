"""docs/recovery.md says what is stored, and what is stored is what the promises are."""

import json
from importlib import resources
from typing import Any

import pytest

from takeback.bench import recovery
from takeback.testing.recovery.caller import CALLS_MAX, LOOKUPS_MAX
from tests.docs.page import read

PAGE = read("docs/recovery.md")
FIGURES = ("right", "right_or_honest_stop", "right_reason", "wrong_commits", "tokens_mean")
FOLDER = resources.files("takeback.bench") / recovery.STORED


def kept(version: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FOLDER / f"{version}.json").read_text("utf-8"))
    return document


def said(figures: dict[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(
        f"{figures[name]:.4f}" if name.startswith("right") else str(figures[name]) for name in names
    )


def test_the_figures_of_the_page_are_those_that_are_stored():
    """S2.26: stored per release, and told."""
    table = PAGE.table(
        "answers",
        "caller",
        "right",
        "right or an honest stop",
        "ends as it should",
        "wrong calls taken",
        "tokens",
    )
    stored = recovery.stored()
    assert stored is not None
    assert list(table.rows) == [
        (ablation, form, *said(figures, *FIGURES))
        for ablation, forms in stored["scores"].items()
        for form, figures in forms.items()
    ]
    assert f"{stored['cases']:,} malformed calls" in PAGE.text


def test_the_rewrite_is_shown_by_before_and_after():
    """S2.26."""
    table = PAGE.table(
        "whole answers",
        "caller",
        "right",
        "right or an honest stop",
        "wrong calls taken",
        "tokens",
    )
    short = [name for name in FIGURES if name != "right_reason"]
    assert list(table.rows) == [
        (version, form, *said(kept(version)["scores"]["whole"][form], *short))
        for form in ("informed", "uninformed")
        for version in ("0.1.0.dev0", "0.1.0")
    ]


def test_the_newest_release_that_is_stored_kept_its_promises():
    stored = recovery.stored()
    assert stored is not None
    assert stored["broken_promises"] == []
    assert stored["version"] == "0.1.0"


@pytest.mark.parametrize(
    "earlier, later",
    [("0.1.0.dev0", "0.1.0"), ("0.9.0", "0.10.0.dev1"), ("0.10.0.dev1", "0.10.0")],
)
def test_releases_are_compared_in_their_order(earlier: str, later: str):
    assert recovery._order(f"{earlier}.json") < recovery._order(f"{later}.json")


def test_the_budget_of_the_page_is_the_callers():
    assert (CALLS_MAX, LOOKUPS_MAX) == (4, 8)
    assert "at most four calls" in PAGE.text
    assert "at most eight times" in PAGE.text
