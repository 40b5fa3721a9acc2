"""A shop that is open, and a clock that tests can put forward."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from takeback.testing import MailServer
from tests.shop.counter import Counter

LOOKS_MAX = 400


@pytest.fixture
def mail() -> Iterator[MailServer]:
    """A real SMTP server with an empty mailbox."""
    with MailServer() as server:
        yield server


@pytest.fixture
def shop(
    database_url: str, mail: MailServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Counter]:
    """The shop, as good as new."""
    counter = Counter(database_url, mail, tmp_path / "state")
    monkeypatch.setenv("SHOP_SMTP_URL", mail.url)
    monkeypatch.setenv("SHOP_STATE_DIR", str(counter.state))
    yield counter
    counter.app.close()


@pytest.fixture
def later(database_url: str) -> Iterator[Callable[[timedelta], None]]:
    """Puts the database's clock forward, for as long as the test lasts."""
    with psycopg.connect(database_url, autocommit=True) as clock:
        former = clock.execute("SELECT pg_get_functiondef('takeback.now'::regproc)").fetchone()
        assert former is not None

        def put_forward(span: timedelta) -> None:
            clock.execute(
                "CREATE OR REPLACE FUNCTION takeback.now() RETURNS timestamptz"
                " LANGUAGE sql VOLATILE PARALLEL UNSAFE"
                f" RETURN clock_timestamp() + interval '{span.total_seconds()} s'".encode()
            )

        yield put_forward
        clock.execute(former[0])


@pytest.fixture
def waiting(database_url: str) -> Callable[[], None]:
    """Returns as soon as somebody waits for a lock, within a bounded time."""

    def until_somebody_waits() -> None:
        pause = threading.Event()
        with psycopg.connect(database_url, autocommit=True) as looker:
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
