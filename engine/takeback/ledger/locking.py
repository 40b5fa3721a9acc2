"""Taking intents for a change: their rows locked in one order, the clock, and places in the log.

A batch that changes intents begins here and ends in ``takeback.ledger.appending``. The statement
takes the barrier before it draws positions, so that a reader of the log never passes them by.
It answers with the locked version of each row, not with the one its snapshot saw; where it waits
for a row, the clock is read and the places are drawn after the wait.
Rows are locked by (tenant, id) ascending. Workers skip what somebody else holds: a caller who sits
in an open transaction on one intent must not stop the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.projection import COLUMNS, STORED_COLUMNS, WIDTH, intent_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.intent import Intent, instant

PLACES = 3
"""Positions drawn for each locked intent: no transition writes more events than that."""

_TAKEN = f"""{COLUMNS}, takeback.micros(takeback.now()),
       ARRAY[nextval('takeback.events_position'), nextval('takeback.events_position'),
             nextval('takeback.events_position')]"""

_RUNNABLE = """i.tool_version <= CAST(CAST(:tools AS jsonb) ->> i.tool AS int)
  AND (i.restores IS NULL OR (
      SELECT o.tool_version <= CAST(CAST(:tools AS jsonb) ->> o.tool AS int)
      FROM takeback.intents AS o WHERE o.tenant = i.tenant AND o.id = i.restores))"""
"""A worker takes only tools that it has, at versions that it knows: what a later release recorded
is left to workers of that release. A restore is as its original; asked for by a value and not by
EXISTS, which the planner would answer by reading the whole table once a claim."""

_OF_TENANT = "(CAST(:tenant AS text) IS NULL OR i.tenant = CAST(:tenant AS text))"
"""A null tenant is every one."""

_STOPPED = """stopped AS MATERIALIZED (
    SELECT f.tenant, f.tool, f.run FROM takeback.freezes AS f WHERE f.thawed_at IS NULL)"""

_IS_RUNNING = """(i.restores IS NOT NULL OR NOT EXISTS (
      SELECT FROM stopped AS f
      WHERE (f.tenant IS NULL OR f.tenant = i.tenant) AND (f.tool IS NULL OR f.tool = i.tool)
        AND (f.run IS NULL OR f.run = i.run)))"""
"""What is frozen is no work: it neither keeps a worker turning nor takes the place of others. What
takes back is never frozen."""

_IS_CLAIMABLE = f"""i.state IN ('held', 'due') AND i.due_at <= (SELECT takeback.now())
  AND {_OF_TENANT} AND {_RUNNABLE} AND {_IS_RUNNING}"""
"""What may be claimed now, whether it was looked for or asked for by its id."""

_IS_FROZEN = "i.restores IS NULL AND takeback.frozen(i.tenant, i.tool, i.run)"
"""Asked once the barrier is held, by a snapshot taken then: see ``takeback.ledger.braking``."""

LOCK = Statement(
    name="lock",
    sentence="Locks intents by their ids, waiting for whoever holds them.",
    index="intents_pkey",
    lock="the barrier (shared), then the rows, by (tenant, id)",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held),
locked AS MATERIALIZED (
    SELECT {STORED_COLUMNS}
    FROM barrier CROSS JOIN takeback.intents AS i
    WHERE i.tenant = CAST(:tenant AS text) AND i.id = ANY(CAST(:ids AS uuid[]))
    ORDER BY i.tenant, i.id FOR UPDATE OF i)
SELECT {_TAKEN} FROM locked AS i
"""),
)

LOCK_FREE = Statement(
    name="lock_free",
    sentence="Locks those of some intents that nobody else holds.",
    index="intents_pkey",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held)
SELECT {_TAKEN}, {_IS_FROZEN}
FROM barrier CROSS JOIN takeback.intents AS i
JOIN unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
  ON i.tenant = w.tenant AND i.id = w.id
ORDER BY i.tenant, i.id FOR UPDATE OF i SKIP LOCKED
"""),
)

LOCK_DUE = Statement(
    name="lock_due",
    sentence="Takes a batch of the intents that may be claimed now, the longest due first.",
    index="intents_due",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held),
{_STOPPED}
SELECT {_TAKEN}, {_IS_FROZEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE {_IS_CLAIMABLE}
ORDER BY i.due_at LIMIT CAST(:limit AS int) FOR UPDATE OF i SKIP LOCKED
"""),
)

LOCK_WANTED = Statement(
    name="lock_wanted",
    sentence="Takes those of some intents that may be claimed now.",
    index="intents_pkey",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held),
{_STOPPED}
SELECT {_TAKEN}, {_IS_FROZEN}
FROM barrier CROSS JOIN takeback.intents AS i
JOIN unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
  ON i.tenant = w.tenant AND i.id = w.id
WHERE {_IS_CLAIMABLE}
ORDER BY i.tenant, i.id FOR UPDATE OF i SKIP LOCKED
"""),
)

LOCK_EXPIRED = Statement(
    name="lock_expired",
    sentence="Takes a batch of the intents whose lease is over.",
    index="intents_lease",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held)
SELECT {_TAKEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE i.state IN ('claimed', 'executing') AND i.lease_until <= (SELECT takeback.now())
  AND {_OF_TENANT}
ORDER BY i.lease_until LIMIT CAST(:limit AS int) FOR UPDATE OF i SKIP LOCKED
"""),
)

LOCK_LAPSED = Statement(
    name="lock_lapsed",
    sentence="Takes a batch of the requests for approval that nobody has decided in time.",
    index="intents_approval",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held)
SELECT {_TAKEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE i.state = 'awaiting_approval' AND i.expires_at <= (SELECT takeback.now())
  AND {_OF_TENANT}
ORDER BY i.expires_at LIMIT CAST(:limit AS int) FOR UPDATE OF i SKIP LOCKED
"""),
)

LOCK_OVERDUE = Statement(
    name="lock_overdue",
    sentence="Takes a batch of what is overdue in a scope that is frozen, the longest due first.",
    index="intents_due",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held)
SELECT {_TAKEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE i.state IN ('held', 'due') AND i.due_at <= (SELECT takeback.now()) AND i.restores IS NULL
  AND {_OF_TENANT}
  AND (CAST(:tool AS text) IS NULL OR i.tool = CAST(:tool AS text))
  AND (CAST(:run AS text) IS NULL OR i.run = CAST(:run AS text))
ORDER BY i.due_at LIMIT CAST(:limit AS int) FOR UPDATE OF i SKIP LOCKED
"""),
)

AGENDA = Statement(
    name="agenda",
    sentence="Says how long until something falls due, a lease is over or a request lapses.",
    index="intents_due",
    lock="none",
    text=text(f"""
WITH {_STOPPED}
SELECT takeback.micros(takeback.now()),
       (SELECT takeback.micros(i.due_at) FROM takeback.intents AS i
        WHERE i.state IN ('held', 'due') AND {_OF_TENANT} AND {_RUNNABLE} AND {_IS_RUNNING}
        ORDER BY i.due_at LIMIT 1),
       (SELECT takeback.micros(i.lease_until) FROM takeback.intents AS i
        WHERE i.state IN ('claimed', 'executing') AND {_OF_TENANT}
        ORDER BY i.lease_until LIMIT 1),
       (SELECT takeback.micros(i.expires_at) FROM takeback.intents AS i
        WHERE i.state = 'awaiting_approval' AND i.expires_at IS NOT NULL AND {_OF_TENANT}
        ORDER BY i.expires_at LIMIT 1)
"""),
)


WAITING = Statement(
    name="waiting",
    sentence="Lists a batch of what may be claimed now, and how long until the next falls due.",
    index="intents_due",
    lock="none",
    text=text(f"""
WITH {_STOPPED},
due AS (
    SELECT i.tenant, i.id, i.version FROM takeback.intents AS i WHERE {_IS_CLAIMABLE}
    ORDER BY i.due_at LIMIT CAST(:limit AS int)),
later AS (
    SELECT i.due_at FROM takeback.intents AS i
    WHERE i.state IN ('held', 'due') AND i.due_at > (SELECT takeback.now())
      AND {_OF_TENANT} AND {_RUNNABLE} AND {_IS_RUNNING}
    ORDER BY i.due_at LIMIT 1)
SELECT d.tenant, CAST(d.id AS text), d.version, CAST(NULL AS bigint) FROM due AS d
UNION ALL
SELECT NULL, NULL, NULL, takeback.micros(l.due_at) - takeback.micros(takeback.now())
FROM later AS l
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An intent whose row is locked, the database's clock, and its places in the log.

    ``is_frozen`` says that a person has stopped it: it must not begin. Only those who begin, or
    skip what is held, are told.
    """

    intent: Intent
    now: datetime
    positions: tuple[int, ...]
    is_frozen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """How long until a worker has something to do; None when nothing is planned."""

    due_in: timedelta | None
    lease_over_in: timedelta | None
    request_over_in: timedelta | None

    @property
    def sweep_in(self) -> timedelta | None:
        """How long until there is something to sweep: what nobody does in time, or holds on to."""
        spans = [one for one in (self.lease_over_in, self.request_over_in) if one is not None]
        return min(spans, default=None)


@dataclass(frozen=True, slots=True)
class Due:
    """An intent that may be claimed now, as far as a look can tell; it has this version."""

    tenant: str
    id: UUID
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits to be claimed, the longest due first, and how long until the next joins it."""

    due: Sequence[Due]
    next_in: timedelta | None


def lock(tx: Tx, tenant: str, ids: Sequence[UUID]) -> list[Taken]:
    """Those of ``ids`` that exist, locked in one order; waits for their holders."""
    rows = tx.rows(LOCK, {"tenant": tenant, "ids": [str(i) for i in ids]})
    return [_taken(row) for row in rows]


def lock_free(tx: Tx, intents: Sequence[Intent]) -> list[Taken]:
    """Those of ``intents`` that nobody else holds at this moment."""
    tenants = [i.tenant for i in intents]
    ids = [str(i.id) for i in intents]
    return [_taken(row) for row in tx.rows(LOCK_FREE, {"tenants": tenants, "ids": ids})]


def lock_due(tx: Tx, tools: Mapping[str, int], limit: int, *, tenant: str | None) -> list[Taken]:
    """At most ``limit`` claimable intents of ``tenant`` (None: of all), the longest due first.

    ``tools`` are those that the worker has, with the versions of their rows. What was frozen a
    moment ago may be among them, and says so.
    """
    parameters = {"tools": json.dumps(dict(tools)), "limit": limit, "tenant": tenant}
    return [_taken(row) for row in tx.rows(LOCK_DUE, parameters)]


def lock_wanted(
    tx: Tx,
    tools: Mapping[str, int],
    wanted: Sequence[tuple[str, UUID]],
    *,
    tenant: str | None,
) -> list[Taken]:
    """Those of ``wanted``, by tenant and id, that ``lock_due`` might take now too."""
    parameters = {
        "tools": json.dumps(dict(tools)),
        "tenants": [whose for whose, _ in wanted],
        "ids": [str(i) for _, i in wanted],
        "tenant": tenant,
    }
    return [_taken(row) for row in tx.rows(LOCK_WANTED, parameters)]


def lock_expired(tx: Tx, limit: int, *, tenant: str | None = None) -> list[Taken]:
    """At most ``limit`` intents of ``tenant`` (None: of all) whose owner let its lease run out."""
    return [_taken(row) for row in tx.rows(LOCK_EXPIRED, {"limit": limit, "tenant": tenant})]


def lock_overdue(
    tx: Tx, *, tenant: str | None, tool: str | None, run: str | None, limit: int
) -> list[Taken]:
    """At most ``limit`` intents that have fallen due while their scope is frozen (None: every)."""
    parameters = {"tenant": tenant, "tool": tool, "run": run, "limit": limit}
    return [_taken(row) for row in tx.rows(LOCK_OVERDUE, parameters)]


def lock_lapsed(tx: Tx, limit: int, *, tenant: str | None = None) -> list[Taken]:
    """At most ``limit`` intents of ``tenant`` (None: of all) that nobody has approved in time."""
    return [_taken(row) for row in tx.rows(LOCK_LAPSED, {"limit": limit, "tenant": tenant})]


def agenda(tx: Tx, tools: Mapping[str, int], *, tenant: str | None = None) -> Agenda:
    """When a worker of ``tenant`` (None: of all) that has ``tools`` has something to do next."""
    now_us, due_us, lease_us, request_us = tx.row(
        AGENDA, {"tools": json.dumps(dict(tools)), "tenant": tenant}
    )
    return Agenda(
        due_in=_until(now_us, due_us),
        lease_over_in=_until(now_us, lease_us),
        request_over_in=_until(now_us, request_us),
    )


def waiting(tx: Tx, tools: Mapping[str, int], limit: int, *, tenant: str | None) -> Waiting:
    """At most ``limit`` of what ``lock_due`` would take now; nothing is locked."""
    rows = tx.rows(WAITING, {"tools": json.dumps(dict(tools)), "limit": limit, "tenant": tenant})
    due = [Due(row[0], UUID(row[1]), row[2]) for row in rows if row[0] is not None]
    spans = [timedelta(microseconds=row[3]) for row in rows if row[0] is None]
    return Waiting(due=due, next_in=min(spans, default=None))


def _until(now_us: int, then_us: int | None) -> timedelta | None:
    return None if then_us is None else timedelta(microseconds=then_us - now_us)


def _taken(row: Row) -> Taken:
    return Taken(
        intent=intent_of(row),
        now=instant(row[WIDTH]),
        positions=tuple(row[WIDTH + 1]),
        is_frozen=len(row) > WIDTH + 2 and row[WIDTH + 2],
    )
