"""From due to start: how late a worker in another process begins what has fallen due.

By the clock of one machine. ``at_once``: all due at one moment. ``spread``: one after the other
over a second. ``immediate``: recorded while the worker has something to do now and then.
``after_rest``: recorded when it has had nothing to do for long enough to look but rarely.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import quantiles
from types import SimpleNamespace
from typing import Any

import psycopg

from takeback.app import Takeback
from takeback.bench.subject import CATALOG, Notify, arguments_of, open_app
from takeback.settings import Settings

AHEAD = timedelta(seconds=3)
REST_SECONDS = 5.0
SECONDS_MAX = 60.0

LOOK_SECONDS = 0.02

BEGAN = """
SELECT query_start FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
  AND query_start > backend_start + interval '1 second'
"""
"""When each session began its latest statement; not what it said when it connected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """Milliseconds from due to start, of one kind of arrival."""

    name: str
    p50_ms: float
    p99_ms: float


class Watched:
    """A worker in a process of its own, which tells when each call began."""

    def __init__(self, url: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._starts = spawn.Queue()
        self._stop = spawn.Event()
        self._process = spawn.Process(
            target=_work, args=(url, self._starts, self._stop), daemon=True
        )

    def __enter__(self) -> Watched:
        self._process.start()
        self.starts(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._process.join(SECONDS_MAX)

    def starts(self, count: int) -> dict[int, float]:
        """The next ``count`` calls: their numbers, and when each began."""
        return dict(self._starts.get(timeout=SECONDS_MAX) for _ in range(count))


def _work(url: str, starts: Any, stop: Any) -> None:
    def began(arguments: Notify, attempt: object) -> None:
        starts.put((arguments.number, time.time()))

    handlers = SimpleNamespace(noop=began, noop_held=began, noop_blind=began)
    app = Takeback(CATALOG, handlers=handlers, settings=Settings(database_url=url))
    starts.put((-1, time.time()))
    app.worker(name="bench", sleep=stop.wait, stopping=stop.is_set).run()
    app.close()


def latenesses(url: str, *, count: int) -> list[Lateness]:
    """Each kind of arrival, ``count`` calls of it."""
    with Watched(url) as worker:
        return [
            _planned(url, worker, "at_once", [timedelta(0)] * count),
            _planned(url, worker, "spread", [timedelta(seconds=n / count) for n in range(count)]),
            _immediate(url, worker, "immediate", count, pause_seconds=0.1),
            _immediate(url, worker, "after_rest", max(count // 20, 2), pause_seconds=REST_SECONDS),
        ]


def idle_statements(url: str, *, seconds: float) -> float:
    """Statements a second of a worker that has nothing to do.

    By when the server says that each began, from the first that is seen to the last: what others
    do in the same database, such as a vacuum, is not counted.
    """
    began: set[datetime] = set()
    with Watched(url), psycopg.connect(url, autocommit=True) as connection:
        pause = threading.Event()
        pause.wait(REST_SECONDS)
        for _ in range(int(seconds / LOOK_SECONDS)):
            pause.wait(LOOK_SECONDS)
            began |= {at for (at,) in connection.execute(BEGAN)}
    rests = len(began) - 1
    return rests / (max(began) - min(began)).total_seconds() if rests > 0 else 0.0


def _planned(url: str, worker: Watched, name: str, offsets: Sequence[timedelta]) -> Lateness:
    app = open_app(url)
    first = datetime.now(UTC) + AHEAD
    dues = [first + offset for offset in offsets]
    for number, due in enumerate(dues):
        app.call(None, "noop", arguments_of(name, number), not_before=due)
    app.close()
    starts = worker.starts(len(dues))
    return summed(name, [starts[n] - due.timestamp() for n, due in enumerate(dues)])


def _immediate(
    url: str, worker: Watched, name: str, count: int, *, pause_seconds: float
) -> Lateness:
    app = open_app(url)
    pause = threading.Event()
    late = []
    for number in range(count):
        pause.wait(pause_seconds)
        app.call(None, "noop", arguments_of(name, number))
        committed_at = time.time()
        late.append(max(worker.starts(1)[number] - committed_at, 0.0))
    app.close()
    return summed(name, late)


def summed(name: str, seconds: Sequence[float]) -> Lateness:
    """The quantiles of ``seconds``, of which there are at least two."""
    cuts = quantiles(seconds, n=100, method="inclusive")
    return Lateness(name=name, p50_ms=cuts[49] * 1000, p99_ms=cuts[98] * 1000)
