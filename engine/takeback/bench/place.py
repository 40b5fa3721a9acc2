"""Where measurements are made: a database of their own, and a bar that says how far they are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy.engine import make_url

from takeback import embedded, settings
from takeback.ledger.database import sqlalchemy_url


@contextmanager
def progress_bar(*, json_output: bool) -> Iterator[Progress]:
    """A bar on stderr while somebody watches; nothing with JSON, or without a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=json_output or not console.is_terminal,
    ) as progress:
        yield progress


def brokers_of(urls: Sequence[str]) -> dict[str, str | None]:
    """A URL for each kind of broker: of ``urls``, else the setting's; None where there is none.

    Raises InvalidSettings when one is no broker's.
    """
    own = settings.load(os.environ, Path.cwd()).broker_url
    found: dict[str, str | None] = {"redis": None, "rabbitmq": None}
    for url in urls or ([] if own is None else [own]):
        settings.Settings(broker_url=url)
        found["redis" if url.startswith("redis") else "rabbitmq"] = url
    return found


@contextmanager
def own_database() -> Iterator[tuple[str, str]]:
    """A database of its own on the server that is set, else on an embedded one; and its version."""
    url = settings.load(os.environ, Path.cwd()).database_url
    if url is not None:
        with _created(url) as found:
            yield found
        return
    with (
        tempfile.TemporaryDirectory(prefix="takeback-bench-") as directory,
        embedded.acquire(Path(directory) / "postgres") as server,
        _created(server.url) as found,
    ):
        yield found


@contextmanager
def _created(url: str) -> Iterator[tuple[str, str]]:
    name = f"takeback_bench_{os.getpid()}"
    parsed = make_url(sqlalchemy_url(url))
    own = parsed.set(drivername="postgresql", database=name).render_as_string(hide_password=False)
    plain = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield own, str(connection.info.parameter_status("server_version"))
        finally:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )
