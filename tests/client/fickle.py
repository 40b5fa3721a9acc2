"""Handlers that end in every way there is, by dice that fall alike for the same case and turn."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import text

from takeback import (
    Affected,
    Found,
    InvalidReference,
    NoAccess,
    NotDispatched,
    OutcomeUnknown,
    Performed,
    Rejected,
)
from tests.client.desk import Loan, Play

MANY = [Affected(kind=("book", "loan")[n % 2], id=f"x-{n}", label=f"Number {n}") for n in range(40)]

ANSWERS: Mapping[str, Callable[[], Any]] = {
    "plain": lambda: {"number": 7},
    "nothing": lambda: None,
    "zero": lambda: 0,
    "many": lambda: Performed(result="x" * 5000, affected=MANY, summary="Many. " * 400),
    "few_of_many": lambda: Performed(affected=MANY[:2], affected_count=10**6, leaves=["a trace"]),
    "not_json": lambda: {"what": object()},
    "not_a_number": lambda: float("nan"),
    "surrogate": lambda: "\ud800\x00",
    "found": lambda: Found(matches=[{"id": n} for n in range(200)], more_matches_exist=True),
    "several": lambda: [{"id": n} for n in range(3)],
    "empty": list,
}

PROBLEMS: Mapping[str, Callable[[], Exception]] = {
    "rejected": lambda: Rejected("over the ceiling", alternatives=[{"amount": 50}]),
    "busy": lambda: NotDispatched("refused", retry_after_s=7),
    "no_access": lambda: NoAccess("not yours"),
    "no_such": lambda: InvalidReference("case", "x", message="is none", permitted=["y", "z"]),
    "unknown": lambda: OutcomeUnknown("who knows"),
    "broken": lambda: RuntimeError("SELECT secret FROM takeback.intents"),
}


class Fickle:
    """The faces of one case: each turn of each face is decided by the case's own dice."""

    def __init__(self, seed: str, case: str) -> None:
        self.seed = f"{seed} {case}"
        self.turns = 0

    def play(self) -> Play:
        """As the desk wants it."""
        return Play(perform=self.perform, restore=self.perform, drift=self.drift)

    def perform(self, *given: Any) -> Any:
        """Answers with something, or raises something, or breaks the session that it was lent."""
        dice = self._dice()
        if hasattr(given[0], "execute") and dice.random() < 0.12:
            return self._hurt(given[0], dice)
        if dice.random() < 0.3:
            problem = PROBLEMS[dice.choice(sorted(PROBLEMS))]()
            raise problem
        return ANSWERS[dice.choice(sorted(ANSWERS))]()

    def drift(self, *given: Any) -> Any:
        """Mostly nothing has changed since; what has, has until it is performed again."""
        dice = random.Random(f"{self.seed} drift {self.turns}")
        return [{"field": "title", "first": 1, "now": 2}] if dice.random() < 0.2 else []

    def _dice(self) -> random.Random:
        self.turns += 1
        return random.Random(f"{self.seed} {self.turns}")

    def _hurt(self, session: Any, dice: random.Random) -> Any:
        """SQL that fails at once, or when the transaction is to be committed."""
        if dice.random() < 0.5:
            session.execute(text("SELECT 1 / 0"))
        session.add(Loan(id=f"late-{dice.random()}", book="nowhere"))
        return None
