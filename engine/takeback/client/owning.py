"""A transaction of our own round a call: opened, committed, and repeated when it is lost.

A commit may have happened although its answer was lost. Repeating is safe then: the key finds what
was recorded, and the ref tells that it was this very call.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from takeback.client.context import Context
from takeback.ledger.transaction import Tx, adopt
from takeback.model.code import WireEffect
from takeback.model.errors import (
    CommitRefused,
    CommitUnknown,
    DatabaseUnavailable,
    HandlerError,
    InProgress,
    LedgerClosed,
    NoTransaction,
    RetryTransaction,
    TransactionAborted,
    TransactionEnded,
    Unavailable,
)

LOST_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.2)
"""Seconds between repeats: less than three in all."""

AWAY_SECONDS_MAX = 3.0
"""A database may take longer than that to say that it is not there: then it is asked once more."""

Answer = TypeVar("Answer")


def in_transaction(context: Context, given: object, work: Callable[[Tx], Answer]) -> Answer:
    """What ``work`` answers inside the transaction ``given``, or in one of our own when it is None.

    Raises TransactionAborted when the caller's can only be rolled back by then: no answer may let
    them commit it. Else as ``adopt`` and ``in_own_transaction`` do.
    """
    if given is None:
        return in_own_transaction(context, work)
    tx = adopt(given)
    if context.course is not None:
        context.course.tx = tx
    with _Usable(tx):
        return work(tx)


class _Usable:
    """Round work in a caller's transaction, which may have been aborted however it ends."""

    __slots__ = ("_tx",)

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    def __enter__(self) -> None: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The caller acts upon these; what is read-only, or failed before, has nothing to lose.
        theirs = HandlerError | NoTransaction | RetryTransaction | TransactionEnded
        is_theirs = isinstance(problem, theirs)
        is_interrupt = problem is not None and not isinstance(problem, Exception)
        if self._tx.is_aborted and not is_theirs and not is_interrupt:
            raise TransactionAborted from problem


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
        _note(context, "unknown" if unknown else "none")
        try:
            with context.database.transaction() as tx:
                answer = work(tx)
                worked = True
                _note(context, "unknown" if tx.wrote else "none")
            _note(context, "committed" if tx.wrote else "none")
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
            _note(context, "none")
            raise CommitRefused from problem
        if pause is not None:
            context.pause(pause)
    if unknown:
        raise _unknown() from lost
    raise lost


def _note(context: Context, effect: WireEffect) -> None:
    if context.course is not None:
        context.course.own_effect = effect


def _unknown() -> CommitUnknown:
    return CommitUnknown(
        "the database went away during the commit, so it may have happened; "
        "call again: an equal call finds what was recorded"
    )
