"""Carrying out no-op intents by processes of their own, one or several at once, and its floor.

What is timed is from the moment at which all are ready until the last is done.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from typing import Any

import psycopg

from takeback.bench.subject import CLAIM, SETTLE, arguments_of, open_app
from takeback.client.batching import Call

BATCH = 1000
SECONDS_MAX = 900


def record(url: str, stream: str, tool: str, count: int) -> float:
    """Records ``count`` calls that are due at once; answers with how many a second."""
    app = open_app(url)
    calls = [Call(tool=tool, arguments=arguments_of(stream, n)) for n in range(count)]
    began = time.perf_counter()
    for start in range(0, count, BATCH):
        app.call_many(None, calls[start : start + BATCH])
    seconds = time.perf_counter() - began
    app.close()
    return count / seconds


def _drain(url: str, name: str, start: Any, answers: Any) -> None:
    app = open_app(url)
    stop = threading.Event()
    worker = app.worker(name=name, sleep=stop.wait, stopping=stop.is_set)
    start.wait()
    began = time.time()
    performed = worker.run(drain=True).performed
    answers.put((began, time.time(), performed))
    app.close()


def drain(url: str, *, processes: int = 1) -> float:
    """How many intents a second so many workers carry out, until nothing is due."""
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Barrier(processes), spawn.Queue()
    workers = [
        spawn.Process(target=_drain, args=(url, f"bench-{n}", start, answers), daemon=True)
        for n in range(processes)
    ]
    for worker in workers:
        worker.start()
    ends = [answers.get(timeout=SECONDS_MAX) for _ in workers]
    for worker in workers:
        worker.join()
    seconds = max(end for _, end, _ in ends) - min(began for began, _, _ in ends)
    return float(sum(performed for _, _, performed in ends) / seconds)


def floor_drain(url: str, count: int) -> float:
    """What claiming and settling bare rows comes to, a hundred at a time: rows a second."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO bench.jobs (state, due_at, arguments)"
            " SELECT 'due', clock_timestamp(), '{}' FROM generate_series(1, %(count)s)",
            {"count": count},
        )
        connection.commit()
        began = time.perf_counter()
        while ids := [row[0] for row in connection.execute(CLAIM)]:
            connection.commit()
            connection.execute(SETTLE, {"ids": ids})
            connection.commit()
        seconds = time.perf_counter() - began
        connection.commit()
    return count / seconds
