"""A transaction of our own round a call: opened, committed, and repeated when it is lost.

A commit may have happened although its answer was lost. Repeating is safe then: the key finds what
was recorded, and the ref tells that it was this very call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from takeback.client.context import Context
from takeback.ledger.transaction import Tx
from takeback.model.errors import (
    CommitRefused,
    CommitUnknown,
    DatabaseUnavailable,
    InProgress,
    LedgerClosed,
    RetryTransaction,
    Unavailable,
)

LOST_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2)
"""Seconds between repeats: less than three in all."""

AWAY_SECONDS_MAX = 3.0
"""A database may take longer than that to say that it is not there: then it is asked once more."""

Answer = TypeVar("Answer")


def in_own_transaction(context: Context, work: Callable[[Tx], Answer]) -> Answer:
    """What ``work`` answers once its transaction is committed.

    Raises DatabaseUnavailable when the database stays away (CommitUnknown when a commit may have
    happened), InProgress when others keep getting in the way, and CommitRefused.
    """
    ends = context.monotonic() + AWAY_SECONDS_MAX
    unknown = False
    lost: Unavailable = InProgress("others work on the same rows; call again")
    for tried, pause in enumerate((*LOST_PAUSES, None)):
        worked = False
        try:
            with context.database.transaction() as tx:
                answer = work(tx)
                worked = True
            return answer
        except LedgerClosed:
            raise
        except DatabaseUnavailable as problem:
            unknown = unknown or worked
            lost = problem
            if tried and context.monotonic() > ends:
                break
        except RetryTransaction as problem:
            lost = InProgress("others work on the same rows; call again")
            lost.__cause__ = problem
        except InProgress as problem:
            # Our own lost commit may still be under way, and hold the key.
            if not unknown:
                raise
            lost = problem
        except DBAPIError as problem:
            if not worked:
                raise
            raise CommitRefused from problem
        if pause is not None:
            context.pause(pause)
    if unknown:
        raise _unknown() from lost
    raise lost


def _unknown() -> CommitUnknown:
    return CommitUnknown(
        "the database went away during the commit, so it may have happened; "
        "call again: an equal call finds what was recorded"
    )
