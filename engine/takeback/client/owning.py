"""A transaction of our own round a call: opened, committed, and repeated when it is lost.

A commit may have happened although its answer was lost. Repeating is safe then: the key finds what
was recorded, and the ref tells that it was this very call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from takeback.client.context import Context
from takeback.ledger.transaction import Tx
from takeback.model.errors import (
    CommitUnknown,
    DatabaseUnavailable,
    InProgress,
    RetryTransaction,
    Unavailable,
)

LOST_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2)
"""Seconds between repeats: less than three in all."""

Answer = TypeVar("Answer")


def in_own_transaction(context: Context, work: Callable[[Tx], Answer]) -> Answer:
    """What ``work`` answers once its transaction is committed.

    Raises DatabaseUnavailable when the database stays away (CommitUnknown when the last commit may
    have happened), and InProgress when others keep
    getting in the way.
    """
    pauses = iter(LOST_PAUSES)
    while True:
        worked = False
        try:
            with context.database.transaction() as tx:
                answer = work(tx)
                worked = True
            return answer
        except (RetryTransaction, DatabaseUnavailable) as problem:
            pause = next(pauses, None)
            if pause is None:
                raise _final(problem, worked=worked) from problem
        context.pause(pause)


def _final(problem: RetryTransaction | DatabaseUnavailable, *, worked: bool) -> Unavailable:
    if isinstance(problem, RetryTransaction):
        return InProgress("others work on the same rows; call again")
    if worked:
        return CommitUnknown(
            "the database went away during the commit, so it may have happened; "
            "call again: an equal call finds what was recorded"
        )
    return problem
