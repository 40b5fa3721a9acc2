"""What an operator asks about the ledger: which server, which schema, what is open in the queue.

Each statement has its own snapshot: the figures belong together as closely as an operator needs.
Nothing here is read by anything that decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from takeback.ledger.barrier import HOLDERS
from takeback.ledger.faults import FaultName, count_recent, latest
from takeback.ledger.governing import LANE_COLUMNS, lane_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.intent import instant
from takeback.model.lane import Lane

COUNTED_MAX = 100_000
"""Of each kind of open intent so many are counted: a look stays quick however long the queue is."""

LANES_MAX = 1000

FAULTS_NAMED = 3
"""So many are named of the faults of a day: one is a cause to look for, more of them a pattern."""

SERVER = Statement(
    name="server",
    sentence="Says which server this is and what its clock shows, also where there is no ledger.",
    index=None,
    lock="none",
    text=text("""
SELECT current_setting('server_version'), CAST(current_setting('server_version_num') AS int),
       CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint), pg_is_in_recovery(),
       to_regclass('takeback.alembic_version') IS NOT NULL,
       to_regclass('takeback.faults') IS NOT NULL, to_regclass('takeback.connectors') IS NOT NULL
"""),
)

REVISION = Statement(
    name="revision",
    sentence="Reads the revision that the schema is at.",
    index=None,
    lock="none",
    text=text("SELECT v.version_num FROM takeback.alembic_version AS v LIMIT 1"),
)

STOPPED_EACH = """
    (SELECT i.state, i.tool, i.tool_version FROM takeback.intents AS i
     WHERE i.state = 'in_doubt' ORDER BY i.state, i.tool LIMIT CAST(:counted_max AS int))
    UNION ALL
    (SELECT i.state, i.tool, i.tool_version FROM takeback.intents AS i
     WHERE i.state = 'parked' ORDER BY i.state, i.tool LIMIT CAST(:counted_max AS int))
    UNION ALL
    (SELECT i.state, i.tool, i.tool_version FROM takeback.intents AS i
     WHERE i.state = 'awaiting_approval' ORDER BY i.state, i.tool LIMIT CAST(:counted_max AS int))
    UNION ALL
    (SELECT i.state, i.tool, i.tool_version FROM takeback.intents AS i
     WHERE i.state = 'waiting' ORDER BY i.state, i.tool LIMIT CAST(:counted_max AS int))
    UNION ALL
    (SELECT i.state, i.tool, i.tool_version FROM takeback.intents AS i
     WHERE i.state = 'restoring' ORDER BY i.state, i.tool LIMIT CAST(:counted_max AS int))
"""
"""What goes on by no worker's claim, each state up to the bound on its own: however many wait for
others, none hides what waits for a person."""

OPEN = Statement(
    name="open_intents",
    sentence="Counts what is not settled, by tool, version and state, each through its own index.",
    index="intents_due",
    lock="none",
    text=text(f"""
WITH moment AS MATERIALIZED (SELECT takeback.now() AS now),
queued AS MATERIALIZED (
    SELECT i.tool, i.tool_version, i.state, i.due_at, i.lease_until FROM takeback.intents AS i
    WHERE i.state IN ('held', 'due') ORDER BY i.due_at LIMIT CAST(:counted_max AS int)),
owned AS MATERIALIZED (
    SELECT i.tool, i.tool_version, i.state, i.due_at, i.lease_until FROM takeback.intents AS i
    WHERE i.state IN ('claimed', 'executing') ORDER BY i.lease_until
    LIMIT CAST(:counted_max AS int)),
stopped AS MATERIALIZED (
    SELECT e.tool, e.tool_version, e.state, CAST(NULL AS timestamptz) AS due_at,
           CAST(NULL AS timestamptz) AS lease_until
    FROM ({STOPPED_EACH}) AS e)
SELECT o.tool, o.tool_version, o.state, count(*),
       takeback.micros(min(o.due_at) FILTER (WHERE o.state IN ('held', 'due'))),
       count(*) FILTER (WHERE o.state IN ('claimed', 'executing') AND o.lease_until <= m.now),
       takeback.micros(min(m.now))
FROM (SELECT q.tool, q.tool_version, q.state, q.due_at, q.lease_until FROM queued AS q
      UNION ALL SELECT w.tool, w.tool_version, w.state, w.due_at, w.lease_until FROM owned AS w
      UNION ALL SELECT s.tool, s.tool_version, s.state, s.due_at, s.lease_until FROM stopped AS s
     ) AS o CROSS JOIN moment AS m
GROUP BY o.tool, o.tool_version, o.state
ORDER BY o.tool, o.tool_version, o.state
"""),
)


LANES = Statement(
    name="lanes",
    sentence="Reads the connectors, and counts for each what is under way and what is due.",
    index="connectors_pkey",
    lock="none",
    text=text(f"""
SELECT {LANE_COLUMNS}, flying.count, due.count
FROM takeback.connectors AS c
CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM (
        SELECT FROM takeback.intents AS i
        WHERE i.state IN ('claimed', 'executing') AND i.lease_until IS NOT NULL
          AND i.lane = c.name
        ORDER BY i.lease_until LIMIT CAST(:counted_max AS int)) AS o) AS flying
CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM (
        SELECT FROM takeback.intents AS i
        WHERE i.state IN ('held', 'due') AND i.lane = c.name
          AND i.due_at <= (SELECT takeback.now())
        ORDER BY i.lane, i.tenant, i.priority, i.due_at NULLS FIRST
        LIMIT CAST(:counted_max AS int)) AS o) AS due
ORDER BY c.name LIMIT CAST(:lanes_max AS int)
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneHealth:
    """A connector: its lane, how many intents are under way in it, and how many are due."""

    lane: Lane
    in_flight: int
    due: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """How many intents of a tool, recorded under one version of its row, stand in one state."""

    tool: str
    tool_version: int
    state: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A transaction that keeps readers of the log waiting: its process and its age."""

    pid: int
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What is open; ``overdue_seconds`` is for how long the oldest is due, None when none is."""

    open: tuple[Open, ...]
    oldest_due_at: datetime | None
    overdue_seconds: float | None
    expired_leases: int
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The ledger's database. ``revision`` and ``queue`` are None where there is no ledger yet.

    ``faults`` counts what broke within the last day, of which ``latest_faults`` names a few; None
    where the schema keeps none yet.
    ``lanes`` are the connectors that a worker has come to, by name.
    """

    server_version: str
    server_number: int
    now: datetime
    is_replica: bool
    revision: str | None
    queue: Queue | None
    faults: int | None
    latest_faults: tuple[FaultName, ...] = ()
    lanes: tuple[LaneHealth, ...] = ()


def look(tx: Tx) -> Health:
    """How the ledger's database is. Raises DatabaseUnavailable."""
    version, number, now_us, replica, migrated, keeps_faults, keeps_lanes = tx.row(SERVER, {})
    rows = tx.rows(REVISION, {}) if migrated else []
    return Health(
        server_version=version,
        server_number=number,
        now=instant(now_us),
        is_replica=replica,
        revision=rows[0][0] if rows else None,
        queue=_queue(tx) if rows else None,
        faults=count_recent(tx) if keeps_faults else None,
        latest_faults=latest(tx, FAULTS_NAMED) if keeps_faults else (),
        lanes=lanes(tx, counted_max=COUNTED_MAX) if keeps_lanes else (),
    )


def lanes(tx: Tx, *, counted_max: int) -> tuple[LaneHealth, ...]:
    """The connectors by name; of each no more than ``counted_max`` intents are counted."""
    rows = tx.rows(LANES, {"counted_max": counted_max, "lanes_max": LANES_MAX})
    return tuple(LaneHealth(lane=lane_of(row), in_flight=row[-2], due=row[-1]) for row in rows)


def _queue(tx: Tx) -> Queue:
    rows = tx.rows(OPEN, {"counted_max": COUNTED_MAX})
    oldest_us = min((row[4] for row in rows if row[4] is not None), default=None)
    overdue_us = rows[0][6] - oldest_us if oldest_us is not None else 0
    return Queue(
        open=tuple(
            Open(tool=tool, tool_version=version, state=state, count=count)
            for tool, version, state, count, *_ in rows
        ),
        oldest_due_at=None if oldest_us is None else instant(oldest_us),
        overdue_seconds=overdue_us / 1_000_000 if overdue_us > 0 else None,
        expired_leases=sum(row[5] for row in rows),
        holders=tuple(
            Holder(pid=pid or 0, age_seconds=age) for _, pid, age in tx.rows(HOLDERS, {})
        ),
    )
