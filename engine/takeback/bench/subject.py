"""What is measured: no-op tools, a business table, and the bare tables that the floor writes to."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import psycopg
from pydantic import BaseModel

from takeback.app import Takeback
from takeback.declare import (
    BLIND,
    CONFLICT,
    DIFFERS,
    KEYED,
    Catalog,
    Email,
    Remote,
    Tool,
    hours,
    minutes,
)
from takeback.settings import Settings


class Notify(BaseModel):
    """A call with the number and kinds of arguments that such calls have."""

    to: Email
    template: str
    order_id: str
    number: int
    note: str | None = None


def _row(name: str, effect: Remote) -> Tool:
    return Tool(
        name,
        Notify,
        effect=effect,
        description="Does nothing.",
        key=("to", "template", "order_id", "number"),
        on_difference=DIFFERS if effect.upstream is BLIND else CONFLICT,
    )


CATALOG = Catalog(
    _row("noop", Remote(upstream=KEYED(ttl=hours(24)))),
    _row("noop_held", Remote(upstream=KEYED(ttl=hours(24)), window=minutes(10))),
    _row("noop_blind", Remote(upstream=BLIND)),
)


def nothing(arguments: Notify, attempt: object) -> None:
    """A handler that does nothing, so that only the engine is measured."""


HANDLERS = SimpleNamespace(noop=nothing, noop_held=nothing, noop_blind=nothing)

BUSINESS = """
CREATE SCHEMA bench;
CREATE TABLE bench.tickets (id bigint PRIMARY KEY, status text NOT NULL, version int NOT NULL);
INSERT INTO bench.tickets SELECT n, 'open', 0 FROM generate_series(1, 1000) AS n;
CREATE TABLE bench.jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL,
    due_at timestamptz NOT NULL, arguments text NOT NULL);
CREATE INDEX jobs_due ON bench.jobs (due_at) WHERE state = 'due';
CREATE TABLE bench.job_events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job bigint NOT NULL, kind text NOT NULL,
    at timestamptz NOT NULL, payload text NOT NULL);
"""

WRITE = "UPDATE bench.tickets SET status = 'closed', version = version + 1 WHERE id = %(id)s"

TWO_ROWS = """
WITH job AS (
    INSERT INTO bench.jobs (state, due_at, arguments)
    VALUES ('due', clock_timestamp(), %(arguments)s) RETURNING id)
INSERT INTO bench.job_events (job, kind, at, payload)
SELECT id, 'recorded', clock_timestamp(), %(arguments)s FROM job RETURNING job
"""

CLAIM = """
WITH picked AS (
    SELECT id FROM bench.jobs WHERE state = 'due' AND due_at <= clock_timestamp()
    ORDER BY due_at LIMIT 100 FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE bench.jobs AS j SET state = 'claimed' FROM picked WHERE j.id = picked.id RETURNING j.id
), event AS (
    INSERT INTO bench.job_events (job, kind, at, payload)
    SELECT id, 'claimed', clock_timestamp(), '{}' FROM claimed
)
SELECT id FROM claimed
"""

SETTLE = """
WITH settled AS (
    UPDATE bench.jobs SET state = 'done' WHERE id = ANY(%(ids)s) RETURNING id)
INSERT INTO bench.job_events (job, kind, at, payload)
SELECT id, 'done', clock_timestamp(), '{}' FROM settled
"""


def open_app(url: str) -> Takeback:
    """The app whose tools do nothing, on the database behind ``url``."""
    return Takeback(CATALOG, handlers=HANDLERS, settings=Settings(database_url=url))


def prepare_database(url: str) -> None:
    """Migrates an empty database and adds the business table and the floor's tables."""
    app = open_app(url)
    app.migrate()
    app.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BUSINESS)


def arguments_of(stream: str, number: int) -> dict[str, object]:
    """Arguments that no other call of the run has."""
    return {
        "to": f"{stream}.{number}@example.com",
        "template": "refund_issued",
        "order_id": f"O-{number}",
        "number": number,
        "note": None,
    }


def python_version() -> str:
    """The interpreter that the figures belong to."""
    return ".".join(str(part) for part in sys.version_info[:3])
