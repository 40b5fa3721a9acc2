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
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.ordering import IS_IN_TURN
from takeback.ledger.projection import COLUMNS, STORED_COLUMNS, WIDTH, intent_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.intent import Intent, instant

PLACES = 3
"""Positions drawn for each locked intent: no transition writes more events than that."""

TAKEN = f"""{COLUMNS}, takeback.micros(takeback.now()),
       ARRAY[nextval('takeback.events_position'), nextval('takeback.events_position'),
             nextval('takeback.events_position')]"""

RUNNABLE = """i.tool_version <= CAST(CAST(:tools AS jsonb) ->> i.tool AS int)
  AND (i.restores IS NULL OR (
      SELECT o.tool_version <= CAST(CAST(:tools AS jsonb) ->> o.tool AS int)
      FROM takeback.intents AS o WHERE o.tenant = i.tenant AND o.id = i.restores))"""
"""A worker takes only tools that it has, at versions that it knows: what a later release recorded
is left to workers of that release. A restore is as its original; asked for by a value and not by
EXISTS, which the planner would answer by reading the whole table once a claim."""

OF_TENANT = "(CAST(:tenant AS text) IS NULL OR i.tenant || '' = CAST(:tenant AS text))"
"""A null tenant is every one. Said so that no index is thought of: where there is but one tenant,
the planner would read all that it ever had."""

STOPPED = """stopped AS MATERIALIZED (
    SELECT f.tenant, f.tool, f.run FROM takeback.freezes AS f WHERE f.thawed_at IS NULL)"""

IS_RUNNING = """(i.restores IS NOT NULL OR NOT EXISTS (
      SELECT FROM stopped AS f
      WHERE (f.tenant IS NULL OR f.tenant = i.tenant) AND (f.tool IS NULL OR f.tool = i.tool)
        AND (f.run IS NULL OR f.run = i.run)))"""
"""What is frozen is no work: it neither keeps a worker turning nor takes the place of others. What
takes back is never frozen."""

_MAY_BEGIN = f"""i.due_at <= (SELECT takeback.now())
  AND {RUNNABLE} AND {IS_RUNNING} AND {IS_IN_TURN}"""

IS_CLAIMABLE = f"i.state IN ('held', 'due') AND {_MAY_BEGIN}"
"""What may be claimed now, of any tenant, as it is looked for."""

_IS_CLAIMABLE_ALSO = f"i.state || '' IN ('held', 'due') AND {_MAY_BEGIN}"
"""The same of what is asked for by its id. A state is said so wherever a row is looked up by its
key: the planner would else look for each row in an index of all that is in that state."""

IS_FROZEN = "i.restores IS NULL AND takeback.frozen(i.tenant, i.tool, i.run)"
"""Asked once the barrier is held, by a snapshot taken then: see ``takeback.ledger.braking``."""

NOW, FROZEN, CALLED_WITH = WIDTH, WIDTH + 2, WIDTH + 3
"""Where in a row of a claim the clock stands, whether it is frozen, and its arguments."""

ARGUMENTS = """(SELECT b.body FROM takeback.bodies AS b
        WHERE b.tenant = i.tenant AND b.intent_id = i.id AND b.version = 1
          AND b.name = 'arguments')"""
"""What it was called with, for who carries it out; null where that is forgotten."""

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
SELECT {TAKEN} FROM locked AS i
"""),
)

_NAMED = f"""
    SELECT {STORED_COLUMNS}
    FROM barrier
    CROSS JOIN unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
    CROSS JOIN LATERAL (
        SELECT {STORED_COLUMNS} FROM takeback.intents AS i
        WHERE i.tenant = w.tenant AND i.id = w.id"""
"""Each is looked up by itself, in the order in which they are given: to have a join in order that
nothing sorts, the planner would go through every intent there is."""

_FREE = """
        LIMIT 1 FOR UPDATE OF i SKIP LOCKED) AS i)"""

LOCK_FREE = Statement(
    name="lock_free",
    sentence="Locks those of some intents that nobody else holds.",
    index="intents_pkey",
    lock="the barrier (shared), then the rows that are free, in the order given",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held),
free AS MATERIALIZED ({_NAMED}{_FREE}
SELECT {TAKEN}, {IS_FROZEN} FROM free AS i
"""),
)

LOCK_WANTED = Statement(
    name="lock_wanted",
    sentence="Takes those of some intents that may be claimed now.",
    index="intents_pkey",
    lock="the barrier (shared), then the rows that are free, in the order given",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held),
{STOPPED},
free AS MATERIALIZED ({_NAMED} AND {OF_TENANT} AND {_IS_CLAIMABLE_ALSO}{_FREE}
SELECT {TAKEN}, {IS_FROZEN}, {ARGUMENTS} FROM free AS i
"""),
)

LOCK_EXPIRED = Statement(
    name="lock_expired",
    sentence="Takes a batch of the intents whose lease is over.",
    index="intents_lease",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held)
SELECT {TAKEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE i.state IN ('claimed', 'executing') AND i.lease_until <= (SELECT takeback.now())
  AND {OF_TENANT}
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
SELECT {TAKEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE i.state = 'awaiting_approval' AND i.expires_at <= (SELECT takeback.now())
  AND {OF_TENANT}
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
SELECT {TAKEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE i.state IN ('held', 'due') AND i.due_at <= (SELECT takeback.now()) AND i.restores IS NULL
  AND {OF_TENANT}
  AND (CAST(:tool AS text) IS NULL OR i.tool = CAST(:tool AS text))
  AND (CAST(:run AS text) IS NULL OR i.run = CAST(:run AS text))
ORDER BY i.due_at LIMIT CAST(:limit AS int) FOR UPDATE OF i SKIP LOCKED
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


def lock(tx: Tx, tenant: str, ids: Sequence[UUID]) -> list[Taken]:
    """Those of ``ids`` that exist, locked in one order; waits for their holders."""
    rows = tx.rows(LOCK, {"tenant": tenant, "ids": [str(i) for i in ids]})
    return [taken_of(row) for row in rows]


def lock_free(tx: Tx, intents: Sequence[Intent]) -> list[Taken]:
    """Those of ``intents`` that nobody else holds at this moment."""
    named = sorted((i.tenant, str(i.id)) for i in intents)
    return [taken_of(row) for row in tx.rows(LOCK_FREE, _named(named))]


def lock_wanted(
    tx: Tx,
    tools: Mapping[str, int],
    wanted: Sequence[tuple[str, UUID]],
    *,
    tenant: str | None,
) -> list[Row]:
    """The rows of those of ``wanted``, by tenant and id, that a look might have claimed now too;
    like ``takeback.ledger.claiming.lock_due``.
    """
    named = sorted((whose, str(id_)) for whose, id_ in wanted)
    return tx.rows(
        LOCK_WANTED, {"tools": json.dumps(dict(tools)), "tenant": tenant, **_named(named)}
    )


def _named(named: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    return {"tenants": [whose for whose, _ in named], "ids": [id_ for _, id_ in named]}


def lock_expired(tx: Tx, limit: int, *, tenant: str | None = None) -> list[Taken]:
    """At most ``limit`` intents of ``tenant`` (None: of all) whose owner let its lease run out."""
    return [taken_of(row) for row in tx.rows(LOCK_EXPIRED, {"limit": limit, "tenant": tenant})]


def lock_overdue(
    tx: Tx, *, tenant: str | None, tool: str | None, run: str | None, limit: int
) -> list[Taken]:
    """At most ``limit`` intents that have fallen due while their scope is frozen (None: every)."""
    parameters = {"tenant": tenant, "tool": tool, "run": run, "limit": limit}
    return [taken_of(row) for row in tx.rows(LOCK_OVERDUE, parameters)]


def lock_lapsed(tx: Tx, limit: int, *, tenant: str | None = None) -> list[Taken]:
    """At most ``limit`` intents of ``tenant`` (None: of all) that nobody has approved in time."""
    return [taken_of(row) for row in tx.rows(LOCK_LAPSED, {"limit": limit, "tenant": tenant})]


def taken_of(row: Row) -> Taken:
    """The intent in a row that was selected with ``TAKEN``, and perhaps more."""
    return Taken(
        intent=intent_of(row),
        now=instant(row[WIDTH]),
        positions=tuple(row[WIDTH + 1]),
        is_frozen=len(row) > WIDTH + 2 and row[WIDTH + 2],
    )
