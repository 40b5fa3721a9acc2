"""What the database's errors mean to us: the one place that knows SQLSTATEs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import psycopg
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm.exc import StaleDataError

from takeback.model.errors import (
    DatabaseUnavailable,
    LedgerClosed,
    NoTransaction,
    RetryTransaction,
    TakebackError,
)

# The transaction is lost and the same one may succeed: serialization failure, deadlock, and the
# timeouts that the owner of the connection has set on locks and statements.
RETRY = frozenset({"40001", "40P01", "55P03", "57014"})

# Of these: whose lock was not had in time, or in a circle; and what took too long or was cancelled.
LOCKED = frozenset({"40P01", "55P03"})
TIMED_OUT = frozenset({"57014"})

# The server is going away, starting, or full, or it ended our connection for being open too long.
UNAVAILABLE = frozenset({"57P01", "57P02", "57P03", "53300", "53400", "25P03", "25P04", "57P05"})

NOT_PREPARED = frozenset({"26000", "42P05"})
"""A prepared statement isn't there, or is there already: this is another session than its own."""

READ_ONLY = "25006"
"""A write was refused: by the transaction, or by a server that takes none."""

FAILED = (
    "the transaction has already failed and can only be rolled back; "
    "expected one that is still usable: roll back and start again"
)

_NO_LEDGER = (
    LedgerClosed,
    "the database has no ledger, or one of another release: run `takeback migrate`",
)

_FULL = (
    DatabaseUnavailable,
    (
        "the database server is out of space or of room for locks: an operator makes room, or "
        "fewer calls go into one transaction"
    ),
)

# Missing tables, schema or functions; no space; no privilege; a failed transaction, or a read-only
# one.
_SAID: Mapping[str, tuple[type[TakebackError], str]] = {
    "42P01": _NO_LEDGER,
    "3F000": _NO_LEDGER,
    "42883": _NO_LEDGER,
    "53100": _FULL,
    "53200": _FULL,
    "42501": (
        LedgerClosed,
        "the database role lacks a privilege: let the owner of what it needs grant it",
    ),
    "25P02": (NoTransaction, FAILED),
    READ_ONLY: (
        NoTransaction,
        "the transaction is read-only; expected one that may write: open a READ WRITE one",
    ),
}


def translate(problem: BaseException) -> TakebackError | None:
    """Our error for one of the driver's; None when it is a fault of ours to be seen as such."""
    if isinstance(problem, PoolTimeout | DisconnectionError):
        return DatabaseUnavailable("no connection to the database became free in time")
    if isinstance(problem, StaleDataError):
        # Somebody else has changed or deleted the row since the session has read it.
        return RetryTransaction(
            "rows that a handler has read were changed by somebody else before it wrote them: "
            "roll the transaction back and run all of it again"
        )
    if isinstance(problem, DBAPIError):
        problem = problem.orig or problem
    if not isinstance(problem, psycopg.Error):
        return None
    state = problem.sqlstate
    if state in RETRY:
        return RetryTransaction(
            "the transaction is lost (serialization failure, deadlock or timeout): "
            "roll it back and run all of it again"
        )
    if state is not None and state in _SAID:
        kind, message = _SAID[state]
        return kind(message)
    lost = isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError)
    if state in UNAVAILABLE or (state or "").startswith("08") or (state is None and lost):
        return DatabaseUnavailable("the database can't be reached, or went away")
    return None


def waited_for(problem: BaseException) -> Literal["lock", "time"] | None:
    """What was waited for in vain behind ``problem``: somebody's lock, or the end of a statement.

    None for every other failure: after one of these two a savepoint can be undone and gone on from.
    """
    behind: BaseException | None = problem
    while behind is not None:
        cause = behind.orig if isinstance(behind, DBAPIError) else behind
        if isinstance(cause, psycopg.Error):
            if cause.sqlstate in LOCKED:
                return "lock"
            return "time" if cause.sqlstate in TIMED_OUT else None
        behind = behind.__cause__
    return None


@contextmanager
def translated() -> Iterator[None]:
    """Turns the driver's errors into ours round a block; what is a fault of ours stays as it is.

    An interrupt breaks the connection, and the rollback that follows it fails: that failure must
    not hide the interrupt, or it would be repeated as a database that went away.
    """
    try:
        yield
    except (DBAPIError, psycopg.Error) as problem:
        interrupt = _interrupt_behind(problem)
        if interrupt is not None:
            raise interrupt from None
        known = translate(problem)
        if known is None:
            raise
        raise known from problem


def _interrupt_behind(problem: BaseException) -> BaseException | None:
    """The KeyboardInterrupt or SystemExit while whose handling ``problem`` came up, if any."""
    behind = problem.__context__
    while behind is not None and isinstance(behind, Exception):
        behind = behind.__context__
    return behind
