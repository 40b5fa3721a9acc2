"""Our own connections: a pool, transactions that this room opens and ends, and nothing else.

Prepared statements are off, since a pooler in transaction mode may stand in between; a caller's own
connection follows the caller's own setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.orm import Session

from takeback.ledger.sqlstate import translated
from takeback.ledger.transaction import Tx, adopt
from takeback.model.errors import InvalidSettings

# Found dead within a quarter of a minute, however the other side vanished.
_LIVENESS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


class Database:
    """The ledger's database, by URL; opens connections when they are first wanted."""

    def __init__(self, url: str, *, pool_size: int = 5, application: str = "takeback") -> None:
        self.url = url
        self.engine: Engine = create_engine(
            sqlalchemy_url(url),
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_timeout=5,
            pool_pre_ping=False,
            isolation_level="READ COMMITTED",
            connect_args={
                "prepare_threshold": None,
                "application_name": application,
                "client_encoding": "utf8",
                **_LIVENESS,
            },
        )

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        """A transaction of our own: committed at the end of the block, rolled back when it raises.

        Raises DatabaseUnavailable or RetryTransaction; after the former, the commit may still
        have happened.
        """
        with translated(), Session(self.engine) as session, session.begin():
            tx = adopt(session)
            tx.owned = True
            yield tx

    @contextmanager
    def statements(self) -> Iterator[Tx]:
        """Statements outside of a transaction block, each with its own snapshot."""
        with translated(), self.engine.connect() as connection:
            raw = connection.execution_options(
                isolation_level="AUTOCOMMIT"
            ).connection.driver_connection
            if not isinstance(raw, psycopg.Connection):
                raise TypeError("the engine of a Database is made by Database, with psycopg")
            yield Tx(raw, lambda: raw.cursor(row_factory=tuple_row), None, owned=True)

    def close(self) -> None:
        """Closes every connection that nobody is using."""
        self.engine.dispose()


def sqlalchemy_url(url: str) -> str:
    """The URL with the driver that we use; takes what libpq takes, and SQLAlchemy's spelling.

    >>> sqlalchemy_url("postgresql://127.0.0.1/shop")
    'postgresql+psycopg://127.0.0.1/shop'

    Raises InvalidSettings when it is no URL of Postgres; the message never shows a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as problem:
        raise InvalidSettings(
            "the database URL can't be read; expected postgresql://user@host:port/name"
        ) from problem
    if parsed.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise InvalidSettings(
            f"the database URL begins with {parsed.drivername!r}; expected postgresql:// or "
            "postgresql+psycopg://"
        )
    return parsed.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
