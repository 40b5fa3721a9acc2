"""How long the embedded Postgres takes to its first query, from nothing and from a stopped one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg

from takeback import embedded


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Seconds to the first answer: ``cold`` makes the database first, ``warm`` finds it stopped."""

    cold_seconds: float
    warm_seconds: float


def starts(*, rounds: int, tick: Callable[[str], None]) -> Start:
    """The medians of ``rounds`` cold and warm starts, each in a directory of its own.

    Raises EmbeddedUnavailable.
    """
    cold: list[float] = []
    warm: list[float] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="takeback-bench-") as parent:
            directory = Path(parent) / "postgres"
            tick("embedded, cold")
            cold.append(_first_query(directory))
            tick("embedded, warm")
            warm.append(_first_query(directory))
            embedded.discard(directory)
    return Start(cold_seconds=median(cold), warm_seconds=median(warm))


def _first_query(directory: Path) -> float:
    began = time.perf_counter()
    with embedded.acquire(directory) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("SELECT 1")
        return time.perf_counter() - began
