"""What came of many trials: attempts, tokens, wrong commits and reasons to stop, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from takeback.testing.recovery.trial import Result

HONEST = frozenset({"choice", "ask_user", "terminal"})
"""Reasons to stop that say who has to go on."""


@dataclass(slots=True, kw_only=True)
class Score:
    """The count of one form of the caller, with one kind of answers.

    ``as_expected`` are those that ended as it was written down beforehand: for who knows what is
    wanted, with the wanted call. ``attempts`` counts the cases that were got right by how many
    calls they took, and ``given_up`` those that ended with neither the wanted call nor an honest
    stop, by reason.
    """

    cases: int = 0
    right: int = 0
    wrong: int = 0
    honest: int = 0
    as_expected: int = 0
    tokens: int = 0
    lookups: int = 0
    attempts: Counter[int] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    amiss: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Counts one more result."""
        self.cases += 1
        self.tokens += result.tokens
        self.lookups += result.lookups
        reached = "taken" if result.is_right else result.reason
        expected = "taken" if result.form == "informed" else result.case.expects
        self.as_expected += reached == expected
        if result.is_right:
            self.right += 1
            self.attempts[result.attempts] += 1
        elif result.is_wrong:
            self.wrong += 1
        elif result.reason in HONEST:
            self.honest += 1
        else:
            self.given_up[result.reason] += 1
        if result.is_wrong or not (result.is_right or result.reason in HONEST):
            self.amiss.append(result)

    @property
    def attempts_mean(self) -> float:
        """Calls for each case that was got right; 0 when none was."""
        calls = sum(number * count for number, count in self.attempts.items())
        return calls / self.right if self.right else 0.0

    def share(self, count: int) -> float:
        """A count as a share of the cases."""
        return count / self.cases if self.cases else 0.0

    def to_json(self) -> dict[str, Any]:
        """The figures, rounded so that a difference between two releases is one that matters."""
        return {
            "cases": self.cases,
            "right": round(self.share(self.right), 4),
            "right_or_honest_stop": round(self.share(self.right + self.honest), 4),
            "right_reason": round(self.share(self.as_expected), 4),
            "wrong_commits": self.wrong,
            "attempts": {str(number): self.attempts[number] for number in sorted(self.attempts)},
            "attempts_mean": round(self.attempts_mean, 3),
            "lookups": self.lookups,
            "tokens_mean": round(self.tokens / self.cases, 1) if self.cases else 0.0,
            "given_up": dict(sorted(self.given_up.items())),
        }


Scores = dict[tuple[str, str], Score]


def scored(results: Iterable[Result]) -> Scores:
    """The scores by kind of answers and form of the caller."""
    scores: Scores = {}
    for result in results:
        scores.setdefault((result.ablation, result.form), Score()).add(result)
    return scores


def by_fault(results: Iterable[Result]) -> Mapping[str, Scores]:
    """The scores of each fault; a case of several counts among ``several`` alone."""
    found: dict[str, Scores] = {}
    for result in results:
        of_fault = found.setdefault(result.case.faults[0], {})
        of_fault.setdefault((result.ablation, result.form), Score()).add(result)
    return found
