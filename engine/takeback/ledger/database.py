"""Our own connections: two pools, transactions that this room opens and ends, and nothing else.

``engine`` is where a handler's statements may run too: nothing is set there, and nothing prepared,
since a pooler in transaction mode may stand in between; a caller's own connection follows the
caller's own setting. On ``internal`` nothing runs but statements of ours, whose plans are kept.

One connection that was lost speaks for all that were opened before it: they are opened anew when
they are next wanted, so that a restart or a failover costs one failure and not one for each. The
same where the server takes no writes any more; with several hosts in the URL libpq then finds the
one that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from takeback.ledger.patience import DRIVER
from takeback.ledger.planning import KEEP_TO_INDEX, keep_plans
from takeback.ledger.sqlstate import NOT_PREPARED, READ_ONLY, translated
from takeback.ledger.transaction import Tx, adopt
from takeback.model.errors import DatabaseUnavailable, InvalidSettings, NoTransaction

# Found dead within a quarter of a minute, however the other side vanished.
_LIVENESS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}

ANSWER_SECONDS_MAX = 60.0
"""No statement of ours takes nearly so long; a server that does hangs."""

PLAN_SECONDS_MAX = 300
"""So long a connection keeps its plans: one made for a table of a hundred rows may not suit it when
it has grown, until the server has analysed it anew."""


class Database:
    """The ledger's database, by URL; opens connections when they are first wanted."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 5,
        application: str = "takeback",
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
        plan_seconds_max: int = PLAN_SECONDS_MAX,
    ) -> None:
        self.url = url
        self._answer_seconds_max = answer_seconds_max
        self._era = 0
        self._keeps_plans = True
        self.engine, self.internal = (
            create_engine(
                sqlalchemy_url(url),
                module=DRIVER,
                pool_size=pool_size,
                max_overflow=pool_size,
                pool_timeout=5,
                pool_pre_ping=False,
                pool_use_lifo=True,
                pool_recycle=recycle,
                isolation_level="READ COMMITTED",
                connect_args={
                    "prepare_threshold": None,
                    "application_name": application,
                    "client_encoding": "utf8",
                    **_LIVENESS,
                },
            )
            for recycle in (-1, plan_seconds_max)
        )
        event.listen(self.internal, "connect", self._opened_internal)
        for engine in self.engines:
            event.listen(engine, "connect", self._opened)
            event.listen(engine, "checkout", self._wanted)

    @property
    def engines(self) -> tuple[Engine, Engine]:
        """Both pools, for who watches every connection of ours."""
        return self.engine, self.internal

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        """A transaction of our own: committed at the end of the block, rolled back when it raises.

        Raises DatabaseUnavailable or RetryTransaction; after the former, the commit may still
        have happened.
        """
        with self._transaction(lambda: Session(self.engine)) as tx:
            yield tx

    @contextmanager
    def internal_transaction(self) -> Iterator[Tx]:
        """Like ``transaction``, for statements of ours alone: no handler may run in it."""
        with self._transaction(self.internal.connect) as tx:
            if tx.raw.prepare_threshold is None:
                tx.rows(KEEP_TO_INDEX, {})
            yield tx

    @contextmanager
    def _transaction(self, open_: Callable[[], Session | Connection]) -> Iterator[Tx]:
        tx: Tx | None = None
        with self._heeding():
            try:
                with translated(), open_() as opened, opened.begin():
                    tx = adopt(opened)
                    tx.owned = True
                    yield tx
            except NoTransaction as problem:
                if tx is None or not _is_for_want_of_writes(tx, problem):
                    raise
                raise DatabaseUnavailable(_READ_ONLY_NOW) from problem

    @contextmanager
    def statements(self, *, for_work: bool = False) -> Iterator[Tx]:
        """Statements of ours outside of a transaction block, each with its own snapshot.

        ``for_work`` refuses a server that takes no writes, without asking it: whoever only looks
        there would look for ever. Raises DatabaseUnavailable.
        """
        engine = self.internal if for_work else self.engine
        with self._heeding(), translated(), engine.connect() as connection:
            raw = connection.execution_options(
                isolation_level="AUTOCOMMIT"
            ).connection.driver_connection
            if not isinstance(raw, psycopg.Connection):
                raise TypeError("the engine of a Database is made by Database, with psycopg")
            tx = _plain(raw)
            if for_work and _takes_no_writes(tx):
                raise DatabaseUnavailable(_READ_ONLY_NOW)
            yield tx

    def close(self) -> None:
        """Closes every connection that nobody is using."""
        for engine in self.engines:
            engine.dispose()

    @contextmanager
    def _heeding(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as problem:
            if problem.sqlstate not in NOT_PREPARED:
                raise
            self._keeps_plans = False
            self._era += 1
            raise DatabaseUnavailable(_PLAN_LOST) from problem
        except DatabaseUnavailable as problem:
            if not isinstance(problem.__cause__, PoolTimeout):
                self._era += 1
            raise

    def _opened(self, connection: Any, record: Any) -> None:
        connection.answer_seconds_max = self._answer_seconds_max
        record.info["era"] = self._era

    def _opened_internal(self, connection: Any, _: Any) -> None:
        if self._keeps_plans:
            with connection.transaction():
                keep_plans(_plain(connection))

    def _wanted(self, connection: Any, record: Any, proxy: Any) -> None:
        if record.info["era"] != self._era:
            raise InvalidatePoolError("a connection of its time was lost")


_PLAN_LOST = "a pooler in front of the database has lost what was prepared; from now on nothing is"

_READ_ONLY_NOW = (
    "the database server takes no writes: it is a replica, or was set read-only; the primary is "
    "looked for at the next try"
)


def _plain(raw: psycopg.Connection[Any]) -> Tx:
    return Tx(raw, lambda: raw.cursor(row_factory=tuple_row), None, owned=True)


def _is_for_want_of_writes(tx: Tx, problem: NoTransaction) -> bool:
    """Tells a server that takes no writes from a transaction that somebody made read-only."""
    cause = problem.__cause__
    cause = cause.orig if isinstance(cause, DBAPIError) else cause
    is_refused = isinstance(cause, psycopg.Error) and cause.sqlstate == READ_ONLY
    return is_refused and _takes_no_writes(tx) is not False


def _takes_no_writes(tx: Tx) -> bool | None:
    """By what the server has reported of itself; None where a pooler keeps that back."""
    said = [tx.raw.pgconn.parameter_status(name) for name in _REPORTED]
    return None if None in said else b"on" in said


_REPORTED = (b"in_hot_standby", b"default_transaction_read_only")
"""Postgres reports these unasked, and again whenever they change."""


def sqlalchemy_url(url: str) -> str:
    """The URL with the driver that we use; takes what libpq takes, and SQLAlchemy's spelling.

    >>> sqlalchemy_url("postgresql://127.0.0.1/shop")
    'postgresql+psycopg://127.0.0.1/shop'
    >>> sqlalchemy_url("postgresql://dana@a,b:5433/shop?target_session_attrs=read-write")
    'postgresql+psycopg://dana@/shop?host=a%2Cb&port=%2C5433&target_session_attrs=read-write'

    Raises InvalidSettings when it is no URL of Postgres; the message never shows a password.
    """
    try:
        parsed = make_url(_one_host(url))
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


def _one_host(url: str) -> str:
    """The same, with several hosts written as parameters: SQLAlchemy reads no list of them."""
    scheme, separator, rest = url.partition("://")
    end = min((rest.find(mark) for mark in "/?" if mark in rest), default=len(rest))
    authority, tail = rest[:end], rest[end:]
    credentials, at, hosts = authority.rpartition("@")
    if "," not in hosts:
        return url
    pairs = [_host_and_port(one) for one in hosts.split(",")]
    path, _, query = tail.partition("?")
    parts = [f"host={','.join(host for host, _ in pairs)}"]
    if any(port for _, port in pairs):
        parts.append(f"port={','.join(port for _, port in pairs)}")
    query = "&".join([*parts, *([query] if query else [])])
    return f"{scheme}{separator}{credentials}{at}{path or '/'}?{query}"


def _host_and_port(one: str) -> tuple[str, str]:
    if one.startswith("["):
        host, _, rest = one[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = one.partition(":")
    return host, port
