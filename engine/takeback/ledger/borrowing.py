"""A SQLAlchemy session inside somebody's transaction, for handlers of Local tools.

Handlers are handed a Session whatever the caller holds: the caller's own, or one that joins the
caller's Connection or psycopg connection, flushes, and leaves the transaction as it is.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool


class LentConnection:
    """A psycopg connection that nobody but its owner can commit, roll back or close."""

    def __init__(self, owner: psycopg.Connection[Any]) -> None:
        self.owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.owner, name)

    def cursor(self, name: str = "") -> Any:
        """A cursor as SQLAlchemy wants it, whatever rows and cursors its owner likes."""
        if name:
            return psycopg.ServerCursor(self.owner, name, row_factory=tuple_row)
        return psycopg.Cursor(self.owner, row_factory=tuple_row)

    def add_notice_handler(self, handler: object) -> None:
        """Does nothing: a handler would stay with the owner for ever, one more for each call."""

    def commit(self) -> None:
        """Does nothing: who opened the transaction ends it."""

    def rollback(self) -> None:
        """Does nothing: who opened the transaction ends it."""

    def close(self) -> None:
        """Does nothing: the connection stays with its owner."""


def joined_session(connection: Connection) -> Session:
    """A session in the transaction that ``connection`` is in; closing it leaves that open."""
    return Session(bind=connection, join_transaction_mode="rollback_only")


def lent_connection(raw: psycopg.Connection[Any]) -> Connection:
    """``raw``, lent for the length of a call, as SQLAlchemy knows connections."""
    lent = _LENT.set(raw)
    try:
        info = raw.info
        server = (info.host, info.port, info.dbname, info.user, info.server_version)
        return lending_engine(*server).connect()
    finally:
        _LENT.reset(lent)


_LENT: ContextVar[psycopg.Connection[Any]] = ContextVar("lent")


@lru_cache(maxsize=64)
def lending_engine(host: str, port: int, dbname: str, user: str, server_version: int) -> Engine:
    """The engine of a database, which holds no connection: to ask what server it is takes four
    statements, so a process asks that at its first call and not at every one."""
    return create_engine(
        "postgresql+psycopg://",
        creator=lambda: LentConnection(_LENT.get()),
        poolclass=NullPool,
        use_native_hstore=False,
    )
