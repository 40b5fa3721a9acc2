"""Repeats of a call, and calls in batches: what they come to a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import psycopg

from takeback.bench.draining import drain, record
from takeback.bench.subject import arguments_of, open_app


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Things a second: the median of the rounds."""

    name: str
    per_second: float


def measure(url: str, *, intents: int, rounds: int, tick: Callable[[str], None]) -> list[Speed]:
    """Replays and batches, each ``rounds`` times, interleaved. Leaves nothing due."""
    found: dict[str, list[float]] = {}
    for turn in range(rounds):
        steps: dict[str, Callable[[str], float]] = {
            "replay": lambda stream: _replays(url, stream, max(intents // 20, 1)),
            "call_many": lambda stream: record(url, stream, "noop", intents),
        }
        for name, step in steps.items():
            tick(name.replace("_", " "))
            found.setdefault(name, []).append(step(f"{name}.{turn}"))
    drain(url)
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
