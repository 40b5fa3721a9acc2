"""The lanes: a row for each connector, shared by all workers of the ledger.

Whoever claims locks the rows of its connectors before it locks an intent, and tries no more than
that: a lane that somebody else holds has no room this time. How much is under way is counted by a
statement of its own, whose snapshot is taken under the lock. Whoever has heard something of a
provider locks them while it holds nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import text

from takeback.declare import Connector
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.intent import instant, micros
from takeback.model.lane import Lane

IDLE = timedelta(seconds=10)
"""A worker that is stopped in the middle of a claim (a paused machine, a debugger) would keep the
connectors' rows from all others: its transaction is ended when it has said nothing for so long."""

LANE_COLUMNS = """
    c.name, c.tokens, takeback.micros(c.refilled_at), c.failures, takeback.micros(c.opened_at),
    takeback.micros(c.paused_until), c.pause_us, takeback.micros(c.probe_until)"""

REGISTER_LANES = Statement(
    name="register_lanes",
    sentence="Makes a row, with a full bucket, for each connector that has none.",
    index="connectors_pkey",
    lock="the new rows",
    text=text("""
INSERT INTO takeback.connectors (name, tokens, refilled_at)
SELECT n.name, n.tokens, takeback.now()
FROM json_to_recordset(CAST(:lanes AS json)) AS n (name text, tokens float8)
WHERE (SELECT c.name FROM takeback.connectors AS c WHERE c.name = n.name LIMIT 1) IS NULL
ORDER BY n.name
ON CONFLICT (name) DO NOTHING
"""),
)
"""What is there is left out before: by itself ON CONFLICT waits for whoever is writing the row."""

LOCK_LANES = Statement(
    name="lock_lanes",
    sentence="Locks those of some connectors that nobody else holds, and bounds for how long.",
    index="connectors_pkey",
    lock="the connectors that are free, by name",
    text=text(f"""
SELECT {LANE_COLUMNS},
       set_config('idle_in_transaction_session_timeout', CAST(:idle_ms AS text), true)
FROM takeback.connectors AS c
WHERE c.name = ANY(CAST(:names AS text[]))
ORDER BY c.name FOR UPDATE SKIP LOCKED
"""),
)

AWAIT_LANES = Statement(
    name="await_lanes",
    sentence="Locks some connectors, waiting for whoever holds them.",
    index="connectors_pkey",
    lock="the connectors, by name",
    text=text(f"""
SELECT {LANE_COLUMNS} FROM takeback.connectors AS c
WHERE c.name = ANY(CAST(:names AS text[]))
ORDER BY c.name FOR UPDATE
"""),
)

READ_LANES = Statement(
    name="read_lanes",
    sentence="Reads some connectors as they stand.",
    index="connectors_pkey",
    lock="none",
    text=text(f"""
SELECT {LANE_COLUMNS} FROM takeback.connectors AS c
WHERE c.name = ANY(CAST(:names AS text[]))
"""),
)

LANES_WANTED = Statement(
    name="lanes_wanted",
    sentence="Says through which lanes some intents go.",
    index="intents_pkey",
    lock="none",
    text=text("""
SELECT i.lane
FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
JOIN takeback.intents AS i ON i.tenant = w.tenant AND i.id = w.id
"""),
)

WRITE_LANES = Statement(
    name="write_lanes",
    sentence="Writes connectors that are locked.",
    index="connectors_pkey",
    lock="none beyond those that are held",
    text=text("""
UPDATE takeback.connectors AS c
SET tokens = n.tokens, refilled_at = takeback.instant(n.refilled_us), failures = n.failures,
    opened_at = takeback.instant(n.opened_us), paused_until = takeback.instant(n.paused_us),
    pause_us = n.pause_us, probe_until = takeback.instant(n.probe_us)
FROM json_to_recordset(CAST(:lanes AS json)) AS n (
    name text, tokens float8, refilled_us bigint, failures int, opened_us bigint,
    paused_us bigint, pause_us bigint, probe_us bigint)
WHERE c.name = n.name AND c.name = ANY(CAST(:names AS text[]))
"""),
)

IN_FLIGHT = Statement(
    name="in_flight",
    sentence="Says the time, and how many intents of some connectors are claimed or executing.",
    index="intents_lease",
    lock="none",
    text=text("""
SELECT takeback.micros(takeback.now()), coalesce((
    SELECT json_object_agg(f.lane, f.count) FROM (
        SELECT o.lane, count(*) AS count FROM (
            SELECT i.lane FROM takeback.intents AS i
            WHERE i.state IN ('claimed', 'executing') AND i.lease_until IS NOT NULL
              AND i.lane = ANY(CAST(:names AS text[]))
            ORDER BY i.lease_until OFFSET 0) AS o
        GROUP BY o.lane) AS f), '{}')
"""),
)

SPARED = Statement(
    name="attempts_spared",
    sentence="Counts, of some intents, the attempts that met an outage or were never called.",
    index="events_pkey",
    lock="none",
    text=text("""
SELECT CAST(e.intent_id AS text), count(*)
FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
CROSS JOIN LATERAL (
    SELECT e.intent_id FROM takeback.events AS e
    WHERE e.tenant = w.tenant AND e.intent_id = w.id AND e.kind = 'intent.deferred'
      AND CAST(e.payload AS json) ->> 'cause' IN ('outage', 'interrupted')
    ORDER BY e.version OFFSET 0) AS e
GROUP BY e.intent_id
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The time, and how many intents are under way in each lane that has any."""

    now: datetime
    in_flight: Mapping[str, int]


def register_lanes(tx: Tx, connectors: Collection[Connector]) -> None:
    """Makes the rows that are missing; waits for somebody who is making them."""
    lanes = [{"name": one.name, "tokens": one.tokens_max} for one in connectors]
    tx.rows(REGISTER_LANES, {"lanes": json.dumps(lanes)})


def lock_lanes(tx: Tx, names: Collection[str], *, idle: timedelta = IDLE) -> list[Lane]:
    """Those of ``names`` that nobody else holds.

    The server ends the transaction when it says nothing for ``idle``.
    """
    assert tx.owned, "the transaction is the caller's"
    idle_ms = str(max(idle // timedelta(milliseconds=1), 1))
    rows = tx.rows(LOCK_LANES, {"names": sorted(names), "idle_ms": idle_ms})
    return [lane_of(row) for row in rows]


def await_lanes(tx: Tx, names: Collection[str]) -> list[Lane]:
    """Those of ``names`` that there are, locked; for who holds no lock yet."""
    return [lane_of(row) for row in tx.rows(AWAIT_LANES, {"names": sorted(names)})]


def read_lanes(tx: Tx, names: Collection[str]) -> list[Lane]:
    """Those of ``names`` that there are, as they stand."""
    return [lane_of(row) for row in tx.rows(READ_LANES, {"names": sorted(names)})]


def lanes_of(tx: Tx, intents: Sequence[tuple[str, UUID]]) -> set[str]:
    """The names of the lanes that ``intents`` (tenant, id) go through."""
    parameters = {"tenants": [t for t, _ in intents], "ids": [str(id_) for _, id_ in intents]}
    return {lane for (lane,) in tx.rows(LANES_WANTED, parameters)}


def write_lanes(tx: Tx, lanes: Sequence[Lane]) -> None:
    """Writes ``lanes``, whose rows are locked."""
    tx.rows(
        WRITE_LANES,
        {
            "lanes": json.dumps([_stored(lane) for lane in lanes]),
            "names": sorted(lane.name for lane in lanes),
        },
    )


def read_traffic(tx: Tx, names: Collection[str]) -> Traffic:
    """What is under way in the lanes ``names``, by a snapshot that is taken now."""
    now_us, in_flight = tx.row(IN_FLIGHT, {"names": sorted(names)})
    return Traffic(now=instant(now_us), in_flight=in_flight)


def attempts_spared(tx: Tx, intents: Sequence[tuple[str, UUID]]) -> Mapping[UUID, int]:
    """How many attempts of each of ``intents`` (tenant, id) were ended by an outage, or had begun
    and were never called.
    """
    parameters = {"tenants": [t for t, _ in intents], "ids": [str(id_) for _, id_ in intents]}
    return {UUID(id_): count for id_, count in tx.rows(SPARED, parameters)}


def lane_of(row: Row) -> Lane:
    """The lane in the first columns of a row that was selected with ``LANE_COLUMNS``."""
    return Lane(
        name=row[0],
        tokens=row[1],
        refilled_at=instant(row[2]),
        failures=row[3],
        opened_at=_instant(row[4]),
        paused_until=_instant(row[5]),
        pause=timedelta(microseconds=row[6]),
        probe_until=_instant(row[7]),
    )


def _stored(lane: Lane) -> dict[str, Any]:
    return {
        "name": lane.name,
        "tokens": lane.tokens,
        "refilled_us": micros(lane.refilled_at),
        "failures": lane.failures,
        "opened_us": _micros(lane.opened_at),
        "paused_us": _micros(lane.paused_until),
        "pause_us": lane.pause // timedelta(microseconds=1),
        "probe_us": _micros(lane.probe_until),
    }


def _instant(value: int | None) -> datetime | None:
    return None if value is None else instant(value)


def _micros(value: datetime | None) -> int | None:
    return None if value is None else micros(value)
