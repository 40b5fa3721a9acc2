"""A transaction of our own round a call: opened, committed, and repeated when it is lost.

A commit may have happened although its answer was lost. Repeating is safe then: the key finds what
was recorded, and the ref tells that it was this very call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from takeback.client.context import Context
from takeback.ledger.transaction import Tx
from takeback.model.errors import DatabaseUnavailable, InProgress, RetryTransaction

LOST_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2)
"""Seconds between repeats: less than three in all."""

Answer = TypeVar("Answer")


def in_own_transaction(context: Context, work: Callable[[Tx], Answer]) -> Answer:
    """What ``work`` answers once its transaction is committed.

    Raises DatabaseUnavailable when the database stays away, and InProgress when others keep
    getting in the way.
    """
    pauses = iter(LOST_PAUSES)
    while True:
        try:
            with context.database.transaction() as tx:
                answer = work(tx)
            return answer
        except (RetryTransaction, DatabaseUnavailable) as problem:
            pause = next(pauses, None)
            if pause is None:
                if isinstance(problem, RetryTransaction):
                    raise InProgress("others work on the same rows; call again") from problem
                raise
        context.pause(pause)
