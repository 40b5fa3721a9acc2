"""A transaction that somebody has forgotten keeps dead rows: a claim must not walk them."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from takeback.client.batching import Call
from tests.dispatch.office import Office
from tests.dispatch.shift import eventually

PAGES = """
SELECT coalesce(sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read), 0)::bigint
FROM pg_statio_user_tables WHERE schemaname = 'takeback' AND relname = 'intents'
"""
OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'takeback'
"""
SETTLED = 1000


@pytest.fixture
def look(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def pages(office: Office, look: psycopg.Connection[Any]) -> int:
    """All pages of intents that were ever read; a backend tells its own when it ends."""
    office.context.database.close()
    eventually(lambda: look.execute(OTHERS).fetchone() == (0,), "its connections are gone")
    (count,) = look.execute(PAGES).fetchone() or (0,)
    return int(count)


def cost_of_a_claim(office: Office, worker: Any, look: psycopg.Connection[Any]) -> int:
    before = pages(office, look)
    assert worker._dispatcher.run_once(10).count == 10
    return pages(office, look) - before


def letters(office: Office, count: int, name: str) -> None:
    office.call_many(
        None, [Call(tool="pay", arguments={"to": f"{name}-{n}"}) for n in range(count)]
    )


def test_an_old_snapshot_makes_no_claim_dearer(office, look, database_url, clock):
    """que #297: an old open transaction collapsed the queue, since every claim walked the dead rows
    that it kept. Counted in pages, without a clock."""
    worker = office.worker_of("w", sleep=clock.advance)
    letters(office, 20, "first")
    few = cost_of_a_claim(office, worker, look)
    with psycopg.connect(database_url) as forgotten:
        forgotten.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        forgotten.execute("SELECT count(*) FROM takeback.intents")
        letters(office, SETTLED, "settled")
        worker = office.worker_of("w", sleep=clock.advance)
        assert worker.run(drain=True).performed >= SETTLED
        look.execute("VACUUM takeback.intents")
        letters(office, 20, "last")
        many = cost_of_a_claim(office, worker, look)

    print(f"pages for a claim of ten: {few} at first, {many} with {SETTLED} dead rows kept")
    assert many <= few + 100
