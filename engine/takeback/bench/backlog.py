"""A ledger with a past and a future: settled intents and held ones, by the million, made in SQL.

They are shaped as the library would have left them, rows and events, without their hashes being
right: nothing here is proved, only walked past.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

BATCH = 50_000

SETTLED = """
WITH made AS (
    INSERT INTO takeback.intents
        (tenant, id, ref, tool, tool_version, effect, key, generation, run, principal, state,
         version, recorded_at, window_us, settled_at, attempt, head_hash)
    SELECT 'default', gen_random_uuid(), 'old-' || n, 'noop', 1, 'remote', 'old-' || n, 0,
           'run-' || n / 10, 'agent:bench', 'succeeded', 4, now() - interval '1 day', 0,
           now() - interval '1 day', 1, sha256('')
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
    RETURNING tenant, id)
INSERT INTO takeback.events
    (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
SELECT m.tenant, m.id, v, nextval('takeback.events_position'), 'intent.due', 1,
       now() - interval '1 day', '{}', sha256('')
FROM made AS m CROSS JOIN generate_series(1, 4) AS v
"""

HELD = """
WITH made AS (
    INSERT INTO takeback.intents
        (tenant, id, ref, tool, tool_version, effect, key, generation, run, principal, state,
         version, recorded_at, window_us, due_at, head_hash)
    SELECT 'default', gen_random_uuid(), 'later-' || n, 'noop', 1, 'remote', 'later-' || n, 0,
           'run-' || n / 10, 'agent:bench', 'due', 1, now(), 0, now() + interval '1 day', sha256('')
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
    RETURNING tenant, id)
INSERT INTO takeback.events
    (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
SELECT m.tenant, m.id, 1, nextval('takeback.events_position'), 'intent.recorded', 3, now(), '{}',
       sha256('')
FROM made AS m
"""


def fill(url: str, *, settled: int, held: int) -> None:
    """Adds so many of each, in batches, and has the planner know of them."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement, count in ((SETTLED, settled), (HELD, held)):
            for first in range(1, count + 1, BATCH):
                last = min(first + BATCH - 1, count)
                connection.execute(statement, {"first": first, "last": last})
        connection.execute("VACUUM (ANALYZE) takeback.intents, takeback.events")


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """Somebody's transaction that sees everything as it was: no dead row can be cleared away."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM takeback.freezes")
        yield
        connection.rollback()
