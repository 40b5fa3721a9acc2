"""What `takeback bench` measures of brokers is done by real processes, which end with it."""

from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from takeback.bench.woken import drain_woken
from tests.workers.server import Server, free_port


@pytest.mark.slow
def test_no_op_intents_are_drained_by_actors_and_nobody_stays(database_url: str, server: Server):
    assert drain_woken(database_url, server.url, intents=60, threads=4) > 0
    with psycopg.connect(database_url) as tx:
        rows = tx.execute(
            "SELECT state, attempt, count(*) FROM takeback.intents GROUP BY 1, 2"
        ).fetchall()
    assert rows == [("succeeded", 1, 60)]
    assert processes_of(database_url) == 0


def processes_of(url: str) -> int:
    """Those of the measurement on this database, by what stands in their environment."""
    found = 0
    of_database = f"TAKEBACK_DATABASE_URL={url}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            held = path.read_bytes().split(b"\0")
            found += {b"TAKEBACK_APP=takeback.bench.noop:app", of_database} <= set(held)
    return found


@pytest.mark.slow
def test_a_measurement_whose_broker_is_not_there_says_so_and_leaves_nobody(database_url: str):
    with pytest.raises(RuntimeError, match="can't be reached"):
        drain_woken(database_url, f"redis://127.0.0.1:{free_port()}/0", intents=1)
