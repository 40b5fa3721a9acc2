"""Repeats, batches, and carrying out no-op intents, with the floor of the latter beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import psycopg

from takeback.bench.draining import record
from takeback.bench.subject import CLAIM, SETTLE, arguments_of, open_app


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Things a second: the median of the rounds."""

    name: str
    per_second: float


def measure(url: str, *, intents: int, rounds: int, tick: Callable[[str], None]) -> list[Speed]:
    """Replays, batches and drains, each ``rounds`` times, interleaved."""
    found: dict[str, list[float]] = {}
    for turn in range(rounds):
        steps: dict[str, Callable[[str], float]] = {
            "replay": lambda stream: _replays(url, stream, 500),
            "call_many": lambda stream: record(url, stream, "noop", intents),
            "drain": lambda _: _drain(url),
            "floor_drain": lambda _: floor_drain(url, intents),
            "drain_blind": lambda stream: _drain_blind(url, stream, intents // 5),
        }
        for name, step in steps.items():
            tick(name.replace("_", " "))
            found.setdefault(name, []).append(step(f"{name}.{turn}"))
    return [Speed(name=name, per_second=median(all_)) for name, all_ in found.items()]


def _replays(url: str, stream: str, count: int) -> float:
    app = open_app(url)
    arguments = arguments_of(stream, 0)
    app.call(None, "noop_held", arguments)
    with psycopg.connect(url) as connection:
        began = time.perf_counter()
        for _ in range(count):
            app.call(connection, "noop_held", arguments)
            connection.commit()
        seconds = time.perf_counter() - began
    app.close()
    return count / seconds


def _drain(url: str) -> float:
    """What the worker carries out a second, of what the batches have left due."""
    app = open_app(url)
    stop = threading.Event()
    worker = app.worker(name="bench", sleep=stop.wait, stopping=stop.is_set)
    began = time.perf_counter()
    tally = worker.run(drain=True)
    seconds = time.perf_counter() - began
    app.close()
    return tally.performed / seconds


def _drain_blind(url: str, stream: str, count: int) -> float:
    record(url, stream, "noop_blind", count)
    return _drain(url)


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
