"""The habits of the house hold everywhere, and each check of one can fail."""

from pathlib import Path

import pytest

from tests.tidy import chance, habit, shape, statement, word
from tests.tidy.source import Finding, Rule, Sources, read, sources

ROOT = Path(__file__).parents[2]
RULES = (*shape.RULES, *chance.RULES, *statement.RULES, *habit.RULES, *word.RULES)


def told(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings))


@pytest.fixture(scope="module")
def repository() -> Sources:
    found = read(ROOT)
    assert any(source.is_engine for source in found)
    return found


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_house_keeps_the_rule_that(rule: Rule, repository: Sources):
    findings = list(rule.find(repository))
    assert not findings, told(findings)


@pytest.mark.parametrize(
    ("rule", "sample"), [(rule, sample) for rule in RULES for sample in rule.bad], ids=str
)
def test_a_breach_is_found_of_the_rule_that(rule: Rule, sample):
    assert list(rule.find(sources(sample)))


@pytest.mark.parametrize(
    ("rule", "sample"), [(rule, sample) for rule in RULES for sample in rule.good], ids=str
)
def test_good_code_keeps_the_rule_that(rule: Rule, sample):
    findings = list(rule.find(sources(sample)))
    assert not findings, told(findings)


def test_every_rule_has_a_sample_of_its_breach():
    assert [str(rule) for rule in RULES if not rule.bad] == []


def test_a_finding_tells_where_it_was_made():
    assert str(Finding("a/b.py", 7, "sleeps")) == "a/b.py:7: sleeps"
