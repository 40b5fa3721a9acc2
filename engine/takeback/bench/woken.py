"""Carrying out no-op intents by workers that a broker wakes: real processes, from end to end.

Drained, everything is due before it begins, and every process is up: what is timed is from the
ticker's start until nothing is open. How late a call begins is read from the ledger, by its clock:
from the instant that it was due, or was recorded, to the mark just before its call. The broker is
somebody's: the tenant, and so its queues, are the measurement's own.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg

from takeback import process
from takeback.app import Takeback
from takeback.bench.subject import CATALOG, HANDLERS, arguments_of
from takeback.bench.waking import AHEAD, Lateness, summed
from takeback.client.batching import Call
from takeback.model import errors
from takeback.settings import Settings

BATCH = 1000
LOOK_SECONDS = 0.02
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0

STARTS = """
SELECT i.ref, extract(epoch FROM i.recorded_at)::float8, extract(epoch FROM e.recorded_at)::float8
FROM takeback.intents AS i JOIN takeback.events AS e ON e.tenant = i.tenant AND e.intent_id = i.id
WHERE i.tenant = %(tenant)s AND e.kind = 'intent.attempt_began'
"""

OPEN = """
SELECT EXISTS (SELECT FROM takeback.intents
               WHERE state IN ('held', 'due', 'claimed', 'executing') AND tenant = %(tenant)s)
"""


def drain_woken(
    url: str,
    broker_url: str,
    *,
    tool: str = "noop",
    intents: int,
    processes: int = 1,
    threads: int = 8,
    seconds_max: float = 300.0,
) -> float:
    """Intents a second that actors of ``processes`` carry out, ``threads`` beside each other.

    Raises TimeoutError when they are not done within ``seconds_max``, and RuntimeError, with what
    it said, when a process ends before its time.
    """
    tenant = f"bench-{secrets.token_hex(4)}"
    _record(url, tenant, tool, intents)
    with _at_work(url, broker_url, tenant, processes=processes, threads=threads):
        began = time.perf_counter()
        _await(lambda: _is_done(url, tenant), seconds_max, f"{intents} are carried out")
        return intents / (time.perf_counter() - began)


def latenesses_woken(
    url: str, broker_url: str, *, count: int, threads: int = 8, seconds_max: float = 60.0
) -> list[Lateness]:
    """Each kind of arrival, ``count`` calls of it, as ``waking.latenesses`` has them; one process
    of actors. Raises as ``drain_woken``.
    """
    tenant = f"bench-{secrets.token_hex(4)}"
    app = _open(url, tenant)
    pause = threading.Event()
    found = []
    with _at_work(url, broker_url, tenant, processes=1, threads=threads):
        for name, spread_seconds, is_planned in (
            ("at_once", 0.0, True),
            ("spread", 1.0, True),
            ("immediate", 0.1 * count, False),
        ):
            due: dict[str | None, float] = {}
            first = time.time() + AHEAD.total_seconds()
            for number in range(count):
                at = first + spread_seconds * number / count if is_planned else None
                not_before = None if at is None else datetime.fromtimestamp(at, UTC)
                arguments = arguments_of(f"{tenant}.{name}", number)
                called = app.call(None, "noop_blind", arguments, not_before=not_before)
                due[called.ref] = at or 0.0
                if at is None:
                    pause.wait(spread_seconds / count)
            _await(lambda: _is_done(url, tenant), seconds_max, f"{count} are carried out")
            found.append(summed(name, _late(url, tenant, due)))
    app.close()
    return found


def _late(url: str, tenant: str, due: Mapping[str | None, float]) -> list[float]:
    """Of each in ``due`` how late it began; what was due at once (0) counts from its record."""
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(STARTS, {"tenant": tenant}).fetchall()
    return [max(began - (due[ref] or recorded), 0.0) for ref, recorded, began in rows if ref in due]


@contextmanager
def _at_work(
    url: str, broker_url: str, tenant: str, *, processes: int, threads: int
) -> Iterator[None]:
    """Actors and a ticker, which have begun; they end with the block."""
    environ = {
        **os.environ,
        "TAKEBACK_DATABASE_URL": url,
        "TAKEBACK_BROKER_URL": broker_url,
        "TAKEBACK_APP": "takeback.bench.noop:app",
        "TAKEBACK_TENANT": tenant,
        "TAKEBACK_LOG": "console",
        "TAKEBACK_METRICS": "",
        "PYTHONUNBUFFERED": "1",
    }
    counts = ["--processes", str(processes), "--threads", str(threads)]
    actors = [sys.executable, "-m", "dramatiq", "takeback_workers.actors", *counts]
    ticker = [sys.executable, "-m", "takeback.cli.main", "ticker"]
    with (
        _running(actors, environ, until="actors_started", times=processes),
        _running(ticker, environ, until="ticker_started", times=1),
    ):
        yield


def reachable(broker_url: str) -> str | None:
    """None where workers can be woken through that broker; else why they can't."""
    try:
        process.workers("broker").queue_lengths(broker_url, "bench")
    except (errors.InvalidSettings, errors.BrokerUnavailable) as problem:
        return str(problem)
    return None


def _open(url: str, tenant: str) -> Takeback:
    settings = Settings(database_url=url, tenant=tenant)
    return Takeback(CATALOG, handlers=HANDLERS, settings=settings)


def _record(url: str, tenant: str, tool: str, count: int) -> None:
    app = _open(url, tenant)
    calls = [Call(tool=tool, arguments=arguments_of(tenant, n)) for n in range(count)]
    for start in range(0, count, BATCH):
        app.call_many(None, calls[start : start + BATCH])
    app.close()


def _is_done(url: str, tenant: str) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(OPEN, {"tenant": tenant}).fetchone() == (False,)


@contextmanager
def _running(
    command: Sequence[str], environ: dict[str, str], *, until: str, times: int
) -> Iterator[None]:
    """A process that has said ``until`` so often; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="takeback-bench-") as directory:
        log = Path(directory) / "log"
        with log.open("wb") as file:
            child = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

        def is_up() -> bool:
            if child.poll() is not None:
                raise RuntimeError(f"{command[2:]} ended: {log.read_text()[-2000:]}")
            return log.read_text().count(until) >= times

        try:
            _await(is_up, START_SECONDS_MAX, until)
            yield
        finally:
            child.terminate()
            try:
                child.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _await(met: Callable[[], bool], seconds_max: float, what: str) -> None:
    pause = threading.Event()
    until = time.perf_counter() + seconds_max
    while not met():
        if time.perf_counter() > until:
            raise TimeoutError(f"not within {seconds_max:g} s: {what}")
        pause.wait(LOOK_SECONDS)
