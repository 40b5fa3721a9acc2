"""Death at every boundary: a stage counts what a process says to the world, and strikes at a point.

    stage = Stage(observer)                             # counts only
    stage.watch(*app.context.database.engines)
    ...                                                 # a workflow
    for number in range(len(stage.points)):
        Stage(observer, strike={number: Fault.DEATH})   # the same workflow dies there

Points are discovered from the driver's events: before and after each connection, each statement
and each COMMIT, and before and after each call of whatever ``face`` wraps. So "after COMMIT" is a
commit that was applied and whose answer was lost, "before COMMIT" one that was not applied.

A death cuts every connection of the process, waits until the server has noticed, and raises Died,
which nothing catches; whatever the process tries afterwards raises it again, in every thread. A
simulated crash that only raised would let the process tidy up behind itself, and hide faults.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from functools import cache, wraps
from typing import Any

import psycopg
from psycopg.pq import ConnStatus, TransactionStatus
from sqlalchemy import Engine, event

from takeback.ledger.statement import STATEMENTS

STILL_THERE = """
SELECT pg_sleep(0.001) FROM pg_stat_activity AS a WHERE a.pid = ANY(%s) LIMIT 1
"""
"""Its transactions are over when a backend is gone; waits a moment where one is not."""

GONE_LOOKS_MAX = 10_000


class Died(BaseException):
    """The process is dead at this point. No ``except Exception`` may live through it."""


class Fault(StrEnum):
    """What happens at a point."""

    DEATH = "death"
    """The process dies."""
    LOST = "lost"
    """Its connection is cut there, and the process lives on."""


class Stage:
    """One process. ``points`` are the names of the boundaries that it has come to, in order.

    ``strike`` maps numbers of points to what happens there. ``die`` is how the process dies: None
    simulates it; otherwise it is called at the point and does not come back (``os._exit``, a
    SIGKILL to itself). ``observer``, in autocommit, sees to it that a cut connection is gone.
    """

    def __init__(
        self,
        observer: psycopg.Connection[Any],
        *,
        strike: Mapping[int, Fault] | None = None,
        die: Callable[[], object] | None = None,
    ) -> None:
        self.points: list[str] = []
        self.struck: list[str] = []
        self._observer = observer
        self._strike = dict(strike or {})
        self._die = die
        self._turn = threading.RLock()
        self._connections: list[StagedConnection] = []
        self._is_dead = False

    @property
    def is_dead(self) -> bool:
        """Whether the process has died."""
        return self._is_dead

    def watch(self, *engines: Engine) -> None:
        """From now on ``engines`` open connections of this process.

        What is asked of a new connection, and set there, belongs to the connecting.
        """
        for engine in engines:
            self._watch(engine)

    def _watch(self, engine: Engine) -> None:
        @event.listens_for(engine, "do_connect")
        def _(dialect: Any, record: Any, cargs: Any, cparams: Any) -> psycopg.Connection[Any]:
            return self._connect(*cargs, **cparams)

        @event.listens_for(engine, "checkout")
        def _(connection: StagedConnection, record: Any, proxy: Any) -> None:
            if self._is_dead:
                raise Died("after death")
            connection.stage = self

    def connect(self, *args: Any, **options: Any) -> psycopg.Connection[Any]:
        """A connection of this process, as ``psycopg.connect`` makes it."""
        connection = self._connect(*args, **options)
        connection.stage = self
        return connection

    def _connect(self, *args: Any, **options: Any) -> StagedConnection:
        self.reach("before connect", None)
        connection = StagedConnection.connect(*args, **options)
        with self._turn:
            self._connections.append(connection)
        self.reach("after connect", connection)
        return connection

    def face(self, name: str, face: Callable[..., Any]) -> Callable[..., Any]:
        """``face``, with a point before each call and one after it."""

        @wraps(face)
        def staged(*args: Any, **options: Any) -> Any:
            self.reach(f"before call {name}", None)
            answer = face(*args, **options)
            self.reach(f"after call {name}", None)
            return answer

        return staged

    @contextmanager
    def around(self, what: str, connection: StagedConnection) -> Iterator[None]:
        """A point before the block and one after it."""
        self.reach(f"before {what}", connection)
        yield
        self.reach(f"after {what}", connection)

    def reach(self, name: str, connection: StagedConnection | None) -> None:
        """The process has come to a point. Raises Died, or OperationalError where it loses it."""
        with self._turn:
            if self._is_dead:
                raise Died(name)
            fault = self.fault_at(len(self.points), name)
            self.points.append(name)
            if fault is None:
                return
            self.struck.append(name)
            if fault is Fault.DEATH:
                self._end(name)
        if connection is not None:
            self._cut([connection])
        raise psycopg.OperationalError(f"the connection was lost {name}")

    def fault_at(self, number: int, name: str) -> Fault | None:
        """What happens at the point; a stage of your own may choose by its name."""
        return self._strike.get(number)

    def _end(self, name: str) -> None:
        if self._die is not None:
            self._die()
        self._is_dead = True
        self._cut(self._connections)
        raise Died(name)

    def _cut(self, connections: list[StagedConnection]) -> None:
        """Ends connections without a word, and waits until the server has noticed."""
        pids = [pid for connection in connections for pid in _cut(connection)]
        for pid in pids:
            self._observer.execute("SELECT pg_terminate_backend(%s)", [pid])
        for _ in range(GONE_LOOKS_MAX):
            if not self._observer.execute(STILL_THERE, [pids]).fetchall():
                return
        raise TimeoutError(f"the server still has one of the cut connections {pids}")


def _cut(connection: StagedConnection) -> list[int]:
    if connection.pgconn.status != ConnStatus.OK:
        return []
    pid = connection.info.backend_pid
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
    connection.pgconn.finish()
    return [pid]


class StagedConnection(psycopg.Connection[Any]):
    """A connection that belongs to a stage; until it is open it has none.

    Whatever is said to the server goes through ``wait``, whoever made the cursor.
    """

    stage: Stage | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """As of psycopg, between two points."""
        name = self._name(gen)
        if self.stage is None or name is None:
            return super().wait(gen, *args, **options)
        with self.stage.around(name, self):
            return super().wait(gen, *args, **options)

    def _name(self, gen: Any) -> str | None:
        """What ``gen`` says to the server; None when it is nothing."""
        kind = gen.__name__.strip("_").removesuffix("_gen")
        is_idle = self.info.transaction_status == TransactionStatus.IDLE
        if kind.startswith("set_") or (is_idle and kind in ("commit", "rollback")):
            return None
        query = gen.gi_frame.f_locals.get("query") if gen.gi_frame is not None else None
        return kind.upper() if query is None else _statement_name(str(query))


@cache
def _statement_name(query: str) -> str:
    """The name of one of ours, else the first words."""
    for statement in STATEMENTS.values():
        if statement.sql == query:
            return statement.name
    return " ".join(query.split()[:4])
