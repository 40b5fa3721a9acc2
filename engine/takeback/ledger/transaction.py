"""A transaction of the caller's, or of ours, as the ledger sees it.

The seam to the driver: statements run on the psycopg connection underneath whatever the caller
holds, so that SQLAlchemy adds nothing to the recording path and an AsyncSession needs no second
implementation (inside ``run_sync`` its adapted cursor is as synchronous as any other).

Nothing here commits, rolls back, or sets anything on a connection that is not ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.errors import InvalidSavepointSpecification
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from sqlalchemy import Connection
from sqlalchemy.exc import PendingRollbackError, ResourceClosedError, UnboundExecutionError
from sqlalchemy.orm import Session, scoped_session

from takeback.ledger.borrowing import LentConnection, joined_session, lent_connection
from takeback.ledger.sqlstate import FAILED, translated
from takeback.ledger.statement import Statement
from takeback.model.errors import NoTransaction, TransactionEnded, UnsupportedConnection

Row = tuple[Any, ...]

CLOSED = "the connection is closed; expected an open one"


class Tx:
    """An open transaction: runs named statements, and nothing else.

    ``raw`` is the driver's connection; ``owned`` says whether Takeback opened the transaction,
    ``wrote`` whether a statement that locks or writes stands in it, not undone by a savepoint.
    ``ended``: a handler has ended it, so that nothing of it can be undone any more.
    """

    __slots__ = ("_cursor", "_given", "_session", "ended", "owned", "raw", "wrote")

    def __init__(
        self,
        raw: Any,
        cursor: Callable[[], Any],
        given: Session | Connection | None,
        *,
        owned: bool = False,
    ) -> None:
        self.raw = raw
        self.owned = owned
        self.wrote = False
        self.ended = False
        self._cursor = cursor
        self._given = given
        self._session = given if isinstance(given, Session) else None

    def rows(self, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        """Runs ``statement`` and answers with its rows.

        Raises RetryTransaction, NoTransaction or DatabaseUnavailable.
        """
        rows = self._run(statement.sql, parameters)
        self.wrote = self.wrote or statement.lock != "none"
        return rows

    @property
    def is_lost(self) -> bool:
        """Whether its connection is gone, and the transaction with it."""
        return bool(self.raw.closed)

    @property
    def is_over(self) -> bool:
        """Whether its connection is there, and in no transaction at all."""
        return self.raw.info.transaction_status is TransactionStatus.IDLE

    @property
    def is_aborted(self) -> bool:
        """Whether a statement has failed in it, so that it can only be rolled back."""
        return self.raw.info.transaction_status is TransactionStatus.INERROR

    def row(self, statement: Statement, parameters: Mapping[str, Any]) -> Row:
        """Like ``rows``, for a statement that always answers with a row."""
        return self.rows(statement, parameters)[0]

    @property
    def session(self) -> Session:
        """What a handler of a Local tool is handed: a session inside this transaction."""
        if self._session is None:
            if self._given is None:
                if self.raw.info.pipeline_status:
                    raise UnsupportedConnection(
                        "the connection is in a pipeline, where no handler can ask the database "
                        "anything; call Local tools, and restore, outside of it"
                    )
                self._given = lent_connection(self.raw)
            if isinstance(self._given, Connection):
                _begin(self._given)
                self._session = joined_session(self._given)
        if self._session is None:
            raise TypeError("a transaction was given neither a session nor a connection")
        return self._session

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Runs a block that is undone when it raises, while the transaction stays usable.

        With a session it is the session's own savepoint, so that its objects are put back too.
        Raises RetryTransaction, NoTransaction, DatabaseUnavailable, and TransactionEnded when there
        is no savepoint any more.
        """
        before = self.wrote
        try:
            with translated(), self.session.begin_nested():
                # The session says SAVEPOINT when its connection is first wanted: our statements
                # go past the session, so it has to be said now.
                self.session.connection()
                yield
        except BaseException as problem:
            self.wrote = before
            is_gone = isinstance(getattr(problem, "orig", problem), InvalidSavepointSpecification)
            self.ended = self.ended or is_gone
            if self.ended and not isinstance(problem, TransactionEnded):
                raise TransactionEnded from problem
            raise

    def _run(self, sql: str, parameters: Mapping[str, Any] | None) -> list[Row]:
        with translated():
            cursor = self._cursor()
            try:
                cursor.execute(sql, parameters)
                # Inside a pipeline the description is not there before the rows are.
                has_rows = cursor.description or self.raw.info.pipeline_status
                return cursor.fetchall() if has_rows else []
            finally:
                cursor.close()


def adopt(given: object) -> Tx:
    """The caller's transaction behind a Session, a Connection or a psycopg connection.

    Raises NoTransaction for a connection in autocommit or one whose transaction has failed,
    DatabaseUnavailable when a Session can't connect, and UnsupportedConnection for anything else;
    an AsyncSession goes through ``acall``.
    """
    if isinstance(given, scoped_session):
        given = given()
    if isinstance(given, Session):
        return _adopt_connection(_connection_of(given), given)
    if isinstance(given, Connection):
        return _adopt_connection(given, given)
    if isinstance(given, psycopg.Connection):
        _require_transaction(given)
        return Tx(given, lambda: psycopg.Cursor(given, row_factory=tuple_row), None)
    raise UnsupportedConnection(
        f"can't join a transaction of {type(given).__name__!r}; expected a SQLAlchemy Session or "
        "Connection, a psycopg Connection, or None for a transaction of its own "
        "(for an AsyncSession or AsyncConnection await the method with an `a` before its name)"
    )


def _connection_of(session: Session) -> Connection:
    try:
        with translated():
            return session.connection()
    except PendingRollbackError as problem:
        raise NoTransaction(FAILED) from problem
    except ResourceClosedError as problem:
        raise NoTransaction(CLOSED) from problem
    except UnboundExecutionError as problem:
        raise UnsupportedConnection(
            "the session is bound to no one engine; expected its connection, as in "
            "session.connection(bind_arguments=...)"
        ) from problem


def _adopt_connection(connection: Connection, session: Session | Connection) -> Tx:
    if connection.closed or connection.invalidated:
        raise NoTransaction(CLOSED)
    raw = connection.connection.driver_connection
    if isinstance(raw, LentConnection):
        raw = raw.owner
    if isinstance(raw, psycopg.Connection):
        _require_transaction(raw)
        _begin(connection)
        return Tx(raw, lambda: psycopg.Cursor(raw, row_factory=tuple_row), session)
    if isinstance(raw, psycopg.AsyncConnection):
        _require_transaction(raw)
        _begin(connection)
        return Tx(raw, connection.connection.cursor, session)
    raise UnsupportedConnection(
        f"the engine's driver is {connection.dialect.driver!r}; expected psycopg: "
        "use a URL that starts with postgresql+psycopg://"
    )


_UTF8 = frozenset({"utf8", "unicode"})
"""Postgres reports it in one spelling; a pooler as its client has spelt it."""


def _plain(encoding: bytes | None) -> str:
    return (encoding or b"").decode().lower().translate({ord("-"): None, ord("_"): None})


def _begin(connection: Connection) -> None:
    """What SQLAlchemy's own autobegin does, so that the caller's commit includes our rows."""
    if not connection.in_transaction():
        connection.begin()


def _require_transaction(raw: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if raw.closed:
        raise NoTransaction(CLOSED)
    encoding = raw.pgconn.parameter_status(b"client_encoding")
    if _plain(encoding) not in _UTF8:
        raise UnsupportedConnection(
            f"the connection's client_encoding is {(encoding or b'').decode()!r}, which can't say "
            "every argument; expected UTF8: connect with client_encoding=utf8"
        )
    status = raw.info.transaction_status
    if status is TransactionStatus.INERROR:
        raise NoTransaction(FAILED)
    if status is TransactionStatus.IDLE and raw.autocommit:
        raise NoTransaction(
            "the connection is in autocommit, so there is no transaction to join; expected an "
            "open one: begin it, or pass None for a transaction of its own"
        )
