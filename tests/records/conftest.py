"""Seeing that somebody waits for a lock, without guessing how long that takes."""

import threading
from collections.abc import Callable

import psycopg
import pytest

LOOKS_MAX = 400


@pytest.fixture
def waiting() -> Callable[[str], None]:
    """Waits, for a bounded time, until a session of that database waits for a lock."""

    def until_somebody_waits(url: str) -> None:
        pause = threading.Event()
        with psycopg.connect(url, autocommit=True) as looker:
            for _ in range(LOOKS_MAX):
                found = looker.execute(
                    "SELECT count(1) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                ).fetchone()
                if found and found[0]:
                    return
                pause.wait(0.025)
        raise AssertionError("nobody waits for a lock")

    return until_somebody_waits
