"""Everybody who may hold the transaction that a call joins, told apart by nothing but a name."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row, tuple_row
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from takeback import Envelope, Takeback
from takeback.ledger.database import sqlalchemy_url


class Counted(psycopg.Connection[Any]):
    """A connection that counts the statements sent on it, ours as well as everybody's."""

    statements = 0

    def wait(self, *given: Any, **named: Any) -> Any:
        type(self).statements += 1
        return super().wait(*given, **named)


class Caller(ABC):
    """One connection and the transaction on it."""

    @abstractmethod
    def call(self, app: Takeback, tool: str, arguments: Any, **said: Any) -> Envelope:
        """A call in this transaction."""

    @abstractmethod
    def call_many(self, app: Takeback, calls: Any, **said: Any) -> list[Envelope]:
        """Many calls in this transaction."""

    @abstractmethod
    def restore(self, app: Takeback, ref: str | None, **said: Any) -> Envelope:
        """A restore in this transaction."""

    @abstractmethod
    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The caller's own statement."""

    @abstractmethod
    def commit(self) -> None:
        """Ends the transaction well."""

    @abstractmethod
    def rollback(self) -> None:
        """Ends the transaction badly."""

    @abstractmethod
    def close(self) -> None:
        """Leaves."""

    @property
    @abstractmethod
    def raw(self) -> Any:
        """The driver's connection."""

    @property
    def status(self) -> TransactionStatus:
        """What the driver says of the transaction."""
        return TransactionStatus(self.raw.info.transaction_status)

    @property
    def pid(self) -> int:
        """The backend."""
        return int(self.raw.info.backend_pid)

    def xid(self) -> Any:
        """The transaction's number, None before it has written."""
        return self.sql("SELECT pg_current_xact_id_if_assigned()::text")[0][0]


class PsycopgCaller(Caller):
    """A psycopg connection with these options."""

    def __init__(self, url: str, **options: Any) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(url, **options)

    def call(self, app: Takeback, tool: str, arguments: Any, **said: Any) -> Envelope:
        return app.call(self.connection, tool, arguments, **said)

    def call_many(self, app: Takeback, calls: Any, **said: Any) -> list[Envelope]:
        return app.call_many(self.connection, calls, **said)

    def restore(self, app: Takeback, ref: str | None, **said: Any) -> Envelope:
        return app.restore(self.connection, ref or "", **said)

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.Cursor(self.connection, row_factory=tuple_row) as cursor:
            cursor.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()

    @property
    def raw(self) -> Any:
        return self.connection


class SqlalchemyCaller(Caller):
    """A Session or a Connection of SQLAlchemy."""

    def __init__(self, url: str, make: Callable[[Any], Session | Connection]) -> None:
        self.engine = create_engine(sqlalchemy_url(url), poolclass=NullPool)
        self.given = make(self.engine)

    def call(self, app: Takeback, tool: str, arguments: Any, **said: Any) -> Envelope:
        return app.call(self.given, tool, arguments, **said)

    def call_many(self, app: Takeback, calls: Any, **said: Any) -> list[Envelope]:
        return app.call_many(self.given, calls, **said)

    def restore(self, app: Takeback, ref: str | None, **said: Any) -> Envelope:
        return app.restore(self.given, ref or "", **said)

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        answer = self._connection().exec_driver_sql(statement, parameters or None)
        return [tuple(row) for row in answer] if answer.returns_rows else []

    def commit(self) -> None:
        self.given.commit()

    def rollback(self) -> None:
        self.given.rollback()

    def close(self) -> None:
        # A server that is gone can't be told to roll back.
        with suppress(OperationalError):
            self.given.close()
        self.engine.dispose()

    @property
    def raw(self) -> Any:
        return self._connection().connection.driver_connection

    def _connection(self) -> Connection:
        return self.given if isinstance(self.given, Connection) else self.given.connection()


class AsyncCaller(Caller):
    """An AsyncSession or an AsyncConnection, each step run to its end in a loop of its own."""

    def __init__(self, url: str, make: Callable[[Any], Any]) -> None:
        self._loop = asyncio.Runner()
        self.engine = create_async_engine(sqlalchemy_url(url), poolclass=NullPool)
        self.given: AsyncSession | AsyncConnection = self._run(self._begin(make))

    async def _begin(self, make: Callable[[Any], Any]) -> Any:
        given = make(self.engine)
        return await given if isinstance(given, AsyncConnection) else given

    def call(self, app: Takeback, tool: str, arguments: Any, **said: Any) -> Envelope:
        return self._run(app.acall(self.given, tool, arguments, **said))

    def call_many(self, app: Takeback, calls: Any, **said: Any) -> list[Envelope]:
        return list(self._run(app.acall_many(self.given, calls, **said)))

    def restore(self, app: Takeback, ref: str | None, **said: Any) -> Envelope:
        return self._run(app.arestore(self.given, ref or "", **said))

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        async def answer() -> list[tuple[Any, ...]]:
            given = await (await self._connection()).exec_driver_sql(statement, parameters or None)
            return [tuple(row) for row in given] if given.returns_rows else []

        return self._run(answer())

    def commit(self) -> None:
        self._run(self.given.commit())

    def rollback(self) -> None:
        self._run(self.given.rollback())

    def close(self) -> None:
        async def leave() -> None:
            with suppress(OperationalError):
                await self.given.close()
            await self.engine.dispose()

        self._run(leave())
        self._loop.close()

    @property
    def raw(self) -> Any:
        async def driver() -> Any:
            return (await (await self._connection()).get_raw_connection()).driver_connection

        return self._run(driver())

    async def _connection(self) -> AsyncConnection:
        if isinstance(self.given, AsyncConnection):
            return self.given
        return await self.given.connection()

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run(coroutine)


CALLERS: Mapping[str, Callable[[str], Caller]] = {
    "session": lambda url: SqlalchemyCaller(url, Session),
    "connection": lambda url: SqlalchemyCaller(url, lambda engine: engine.connect()),
    "psycopg": PsycopgCaller,
    "psycopg_unprepared": lambda url: PsycopgCaller(url, prepare_threshold=None),
    "psycopg_dict_row": lambda url: PsycopgCaller(url, row_factory=dict_row),
    "async_session": lambda url: AsyncCaller(url, AsyncSession),
    "async_connection": lambda url: AsyncCaller(url, lambda engine: engine.connect()),
}
