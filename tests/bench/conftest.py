"""A ledger for measurements of no size, each test's own."""

from collections.abc import Callable

import psycopg
import pytest

from takeback.bench.subject import prepare_database


@pytest.fixture
def bench_url(empty_database_url: str) -> str:
    """A migrated database with the tables of the floor."""
    prepare_database(empty_database_url)
    return empty_database_url


@pytest.fixture
def states(bench_url: str) -> Callable[[], dict[tuple[str, str, int], int]]:
    """How many intents stand where, by tool, state and attempt."""

    def look() -> dict[tuple[str, str, int], int]:
        with psycopg.connect(bench_url) as tx:
            rows = tx.execute(
                "SELECT tool, state::text, attempt, count(*) FROM takeback.intents GROUP BY 1, 2, 3"
            ).fetchall()
        return {(tool, state, attempt): count for tool, state, attempt, count in rows}

    return look
