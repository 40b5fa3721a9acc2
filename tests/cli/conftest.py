"""A kiosk with a migrated database, and a terminal in its folder."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests import database
from tests.cli.folder.kiosk import TABLES
from tests.cli.terminal import FOLDER, Bell, Terminal, forget_apps


@pytest.fixture
def terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Terminal]:
    """A terminal in the kiosk's folder; no database is set, and no app."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "80")
    logs = [logging.getLogger(name) for name in ("takeback", "takeback.answers", "sqlalchemy")]
    before = [(log.handlers, log.level, log.propagate) for log in logs]
    yield Terminal(capsys)
    for log, (handlers, level, propagate) in zip(logs, before, strict=True):
        log.handlers, log.level, log.propagate = handlers, level, propagate
    forget_apps()


@pytest.fixture(scope="session")
def kiosk_database(databases: database.Databases) -> Iterator[tuple[str, database.Snapshot]]:
    """The address of the kiosk's and the shop's, and what it looks like when it is new."""
    with databases.empty() as url:
        database.migrate(url)
        with psycopg.connect(url) as tx:
            tx.execute(TABLES)
        with psycopg.connect(url) as tx:
            snapshot = database.look(tx)
        yield url, snapshot


@pytest.fixture
def database_url(kiosk_database: tuple[str, database.Snapshot]) -> str:
    """A migrated database with the tables of the kiosk and of the shop, as good as new."""
    url, snapshot = kiosk_database
    assert database.put_back(url, snapshot), "a test has changed the schema"
    return url


@pytest.fixture
def kiosk(terminal: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal whose app is the kiosk."""
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    monkeypatch.setenv("TAKEBACK_APP", "kiosk:app")
    return terminal


@pytest.fixture
def bell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bell]:
    """The kiosk's bell, and ears for it."""
    bell = Bell(tmp_path / "bell")
    monkeypatch.setenv("KIOSK_BELL", str(bell.path))
    yield bell
    bell.close()
