"""A SQLAlchemy session inside somebody's transaction, for handlers of Local tools.

Handlers are handed a Session whatever the caller holds: the caller's own, or one that joins the
caller's Connection or psycopg connection, flushes, and leaves the transaction as it is.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool


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


def lent_engine(raw: psycopg.Connection[Any]) -> Engine:
    """An engine whose one connection is ``raw``, lent for the length of a call."""
    return create_engine(
        "postgresql+psycopg://",
        creator=lambda: LentConnection(raw),
        poolclass=StaticPool,
        use_native_hstore=False,
    )
