"""A kiosk with a migrated database, and a terminal in its folder."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.cli.terminal import FOLDER, Bell, Terminal, forget_apps


@pytest.fixture
def terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Terminal]:
    """A terminal in the kiosk's folder; no database is set, and no app."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "80")
    logs = [logging.getLogger(name) for name in ("takeback", "sqlalchemy")]
    before = [(log.handlers, log.level, log.propagate) for log in logs]
    yield Terminal(capsys)
    for log, (handlers, level, propagate) in zip(logs, before, strict=True):
        log.handlers, log.level, log.propagate = handlers, level, propagate
    forget_apps()


@pytest.fixture
def kiosk(
    terminal: Terminal, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Terminal]:
    """A terminal whose app is the kiosk, on a migrated database with the kiosk's tables."""
    monkeypatch.setenv("TAKEBACK_DATABASE_URL", database_url)
    monkeypatch.setenv("TAKEBACK_APP", "kiosk:app")
    assert terminal("migrate").exit == 0
    yield terminal
    with psycopg.connect(database_url) as connection:
        connection.execute("DROP SCHEMA kiosk CASCADE")


@pytest.fixture
def bell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bell]:
    """The kiosk's bell, and ears for it."""
    bell = Bell(tmp_path / "bell")
    monkeypatch.setenv("KIOSK_BELL", str(bell.path))
    yield bell
    bell.close()
