"""Carrying out no-op intents by workers that a broker wakes: real processes, from end to end.

Everything is due before it begins, and every process is up. What is timed is from the ticker's
start until nothing is open: publishing, the broker, dramatiq, claims, attempts and settling. The
broker is somebody's: the tenant, and so its queues, are the measurement's own.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from takeback.app import Takeback
from takeback.bench.subject import CATALOG, HANDLERS, arguments_of
from takeback.client.batching import Call
from takeback.settings import Settings

BATCH = 1000
LOOK_SECONDS = 0.02
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0

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
    environ = {
        **os.environ,
        "TAKEBACK_DATABASE_URL": url,
        "TAKEBACK_BROKER_URL": broker_url,
        "TAKEBACK_APP": "takeback.bench.noop:app",
        "TAKEBACK_TENANT": tenant,
        "TAKEBACK_LOG": "console",
        "PYTHONUNBUFFERED": "1",
    }
    counts = ["--processes", str(processes), "--threads", str(threads)]
    actors = [sys.executable, "-m", "dramatiq", "takeback_workers.actors", *counts]
    ticker = [sys.executable, "-m", "takeback.cli.main", "ticker"]
    with (
        _running(actors, environ, until="actors_started", times=processes),
        _running(ticker, environ, until="ticker_started", times=1),
    ):
        began = time.perf_counter()
        _await(lambda: _is_done(url, tenant), seconds_max, f"{intents} are carried out")
        return intents / (time.perf_counter() - began)


def _record(url: str, tenant: str, tool: str, count: int) -> None:
    settings = Settings(database_url=url, tenant=tenant)
    app = Takeback(CATALOG, handlers=HANDLERS, settings=settings)
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
