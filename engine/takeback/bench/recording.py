"""One business write, one call, one commit: how much of the bare transaction is left.

Variants, interleaved round by round: the business write alone (``bare``), with one statement that
inserts two rows (``two_rows``, the floor), and with a call (``call``: due at once; ``held``: with
an undo window). Each on psycopg and through a Session, with one client and with several.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import psycopg
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from takeback.bench.subject import TWO_ROWS, WRITE, arguments_of, open_app

VARIANTS = ("bare", "two_rows", "call", "held")
DRIVERS = ("psycopg", "session")

WARM_UP = 20
"""Transactions before the clock starts: connections open, statements prepared, caches warm."""

ROUND_SECONDS_MAX = 300

TOOLS = {"call": "noop", "held": "noop_held"}


class Counting(psycopg.Connection[Any]):
    """Counts what it waits for, without commits: the statements of a transaction."""

    statements = 0

    def wait(self, *arguments: Any, **options: Any) -> Any:
        """As psycopg's, and one more in the count."""
        Counting.statements += 1
        return super().wait(*arguments, **options)

    def commit(self) -> None:
        """As psycopg's, and not counted."""
        super().commit()
        Counting.statements -= 1

    def rollback(self) -> None:
        """As psycopg's, and not counted: a pool says it whenever a connection comes back."""
        super().rollback()
        Counting.statements -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One client's round, per transaction: seconds on the wall and of its processor, statements."""

    seconds: float
    cpu_seconds: float
    statements: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Medians over the rounds of one variant: transactions a second of all clients together."""

    driver: str
    variant: str
    clients: int
    per_second: float
    cpu_ms: float
    statements: float


Transaction = Callable[[int], None]


@contextmanager
def _on_psycopg(url: str, variant: str, stream: str) -> Iterator[Transaction]:
    app = open_app(url)
    connection = Counting.connect(url)

    def transact(number: int) -> None:
        connection.execute(WRITE, {"id": number % 1000 + 1})
        if variant == "two_rows":
            connection.execute(TWO_ROWS, {"arguments": str(arguments_of(stream, number))})
        elif variant in TOOLS:
            app.call(connection, TOOLS[variant], arguments_of(stream, number), run="bench")
        connection.commit()

    try:
        yield transact
    finally:
        connection.close()
        app.close()


_WRITE = text(WRITE.replace("%(id)s", ":id"))
_TWO_ROWS = text(TWO_ROWS.replace("%(arguments)s", ":arguments"))


@contextmanager
def _on_session(url: str, variant: str, stream: str) -> Iterator[Transaction]:
    app = open_app(url)
    engine = create_engine("postgresql+psycopg://", creator=lambda: Counting.connect(url))

    def transact(number: int) -> None:
        with Session(engine) as session, session.begin():
            session.execute(_WRITE, {"id": number % 1000 + 1})
            if variant == "two_rows":
                session.execute(_TWO_ROWS, {"arguments": str(arguments_of(stream, number))})
            elif variant in TOOLS:
                app.call(session, TOOLS[variant], arguments_of(stream, number), run="bench")

    try:
        yield transact
    finally:
        engine.dispose()
        app.close()


_OPENERS = {"psycopg": _on_psycopg, "session": _on_session}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """What one client measures: ``count`` transactions of one variant, on arguments of its own."""

    url: str
    driver: str
    variant: str
    stream: str
    count: int


def _client(stand: Stand, start: Any, answers: Any) -> None:
    with _OPENERS[stand.driver](stand.url, stand.variant, stand.stream) as transact:
        for number in range(WARM_UP):
            transact(number)
        start.wait()
        statements, began, cpu = Counting.statements, time.perf_counter(), time.process_time()
        for number in range(WARM_UP, WARM_UP + stand.count):
            transact(number)
        answers.put(
            Measured(
                seconds=(time.perf_counter() - began) / stand.count,
                cpu_seconds=(time.process_time() - cpu) / stand.count,
                statements=(Counting.statements - statements) / stand.count,
            )
        )


def round_of(stands: Sequence[Stand]) -> list[Measured]:
    """Each client's figures, all clients at once, each a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Barrier(len(stands)), spawn.Queue()
    processes = [
        spawn.Process(target=_client, args=(stand, start, answers), daemon=True) for stand in stands
    ]
    for process in processes:
        process.start()
    measured = [answers.get(timeout=ROUND_SECONDS_MAX) for _ in processes]
    for process in processes:
        process.join()
    return measured


def rates(
    url: str, *, clients: int, count: int, rounds: int, tick: Callable[[str], None]
) -> list[Rate]:
    """Every driver and variant, in interleaved rounds."""
    found: dict[tuple[str, str], list[Rate]] = {}
    for turn in range(rounds):
        for driver in DRIVERS:
            for variant in VARIANTS:
                tick(f"{clients} client{'s' if clients > 1 else ''}, {driver}, {variant}")
                measured = round_of(
                    [
                        Stand(
                            url=url,
                            driver=driver,
                            variant=variant,
                            stream=f"{clients}.{turn}.{driver}.{variant}.{client}",
                            count=count,
                        )
                        for client in range(clients)
                    ]
                )
                found.setdefault((driver, variant), []).append(
                    Rate(
                        driver=driver,
                        variant=variant,
                        clients=clients,
                        per_second=sum(1 / one.seconds for one in measured),
                        cpu_ms=median(one.cpu_seconds for one in measured) * 1000,
                        statements=median(one.statements for one in measured),
                    )
                )
    return [_median(all_) for all_ in found.values()]


def _median(all_: list[Rate]) -> Rate:
    return Rate(
        driver=all_[0].driver,
        variant=all_[0].variant,
        clients=all_[0].clients,
        per_second=median(one.per_second for one in all_),
        cpu_ms=median(one.cpu_ms for one in all_),
        statements=median(one.statements for one in all_),
    )
