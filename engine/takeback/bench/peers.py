"""The same no-op jobs through other queues of Python, as far as they are installed here.

They come with the dependency group ``peers`` and are found by name, so that nothing of ours needs
them. Each drains in a process of its own, like ours; what one process takes is not told apart from
what its database takes.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import multiprocessing
import time
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from psycopg import sql

BATCH = 100
SECONDS_MAX = 900


def installed() -> dict[str, bool]:
    """Which peers are here, with all that they need."""
    return {
        name: all(importlib.util.find_spec(one) is not None for one in (name, *NEEDS.get(name, ())))
        for name in PEERS
    }


def drain_peer(url: str, name: str, count: int) -> float:
    """Jobs a second that one process of the peer carries out, of ``count`` that are due."""
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    process = spawn.Process(target=_measure, args=(url, name, count, answers), daemon=True)
    process.start()
    seconds = float(answers.get(timeout=SECONDS_MAX))
    process.join()
    return count / seconds


def _measure(url: str, name: str, count: int, answers: Any) -> None:
    answers.put(asyncio.run(PEERS[name](url, count)))


async def _pgqueuer(url: str, count: int) -> float:
    """In batches of 100, with asyncpg: the quicker of its drivers."""
    pgqueuer, asyncpg = _modules("pgqueuer", "asyncpg")
    modes = importlib.import_module("pgqueuer.types").QueueExecutionMode
    connection = await asyncpg.connect(url)
    driver = pgqueuer.AsyncpgDriver(connection)
    queries = pgqueuer.Queries(driver)
    await queries.install()
    await queries.enqueue(["noop"] * count, [None] * count, [0] * count)
    manager = pgqueuer.QueueManager(queries)

    async def noop(_: Any) -> None:
        return None

    manager.entrypoint("noop")(noop)
    began = time.perf_counter()
    await manager.run(batch_size=BATCH, mode=modes.drain)
    seconds = time.perf_counter() - began
    await queries.uninstall()
    await connection.close()
    return seconds


async def _procrastinate(url: str, count: int) -> float:
    """With as many jobs beside each other as a batch of the others has."""
    (procrastinate,) = _modules("procrastinate")
    schema = "bench_procrastinate"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    connector = procrastinate.PsycopgConnector(
        conninfo=url, kwargs={"options": f"-c search_path={schema}"}
    )
    app = procrastinate.App(connector=connector)

    async def noop() -> None:
        return None

    task = app.task(name="noop")(noop)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await task.batch_defer_async(*[{} for _ in range(count)])
        began = time.perf_counter()
        await app.run_worker_async(
            wait=False, concurrency=BATCH, install_signal_handlers=False, listen_notify=False
        )
        seconds = time.perf_counter() - began
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    return seconds


def _modules(*names: str) -> list[Any]:
    return [importlib.import_module(name) for name in names]


NEEDS: Mapping[str, tuple[str, ...]] = {"pgqueuer": ("asyncpg",)}
"""What a peer does not bring itself."""

PEERS: Mapping[str, Callable[[str, int], Any]] = {
    "pgqueuer": _pgqueuer,
    "procrastinate": _procrastinate,
}
