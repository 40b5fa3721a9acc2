"""What counts towards limits: an entry for each intent and each scope that counts it.

A scope is ``tool:NAME``, ``run:NAME`` or ``tenant``. An entry stands at the instant at which its
intent happens, as far as that is known: when it falls due, then when it was released. Entries hold
what is summed up, so that nothing is missing when bodies are purged; the intent's row, which stays,
says whether it counts, and how many rows it has changed in the end. What counts is in the world, or
may be, or is still to come; what was taken back after it had happened still counts.

A scope has an advisory lock of its own, (31418, a negative hash), so that sums are looked at and
added to by one transaction at a time. Whoever takes several takes them in ascending order.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.limit import Tally

_WANTED = """wanted AS MATERIALIZED (
    SELECT w.number, w.tenant, w.scope, w.currency,
           CASE WHEN w.per_us IS NULL THEN '-infinity'
                ELSE takeback.now() - w.per_us * interval '1 microsecond' END AS since
    FROM json_to_recordset(CAST(:wanted AS json)) AS w (
        number int, tenant text, scope text, per_us bigint, currency text))"""

_WITHIN = """(
        SELECT e.tenant, e.intent_id, e.released, e.money, e.currency, e.rows
        FROM takeback.limit_entries AS e
        WHERE e.tenant = w.tenant AND e.scope = w.scope AND e.at > w.since
        ORDER BY e.at OFFSET 0)"""
"""In order, so that the planner takes the index that leads there, before it knows the table."""

_INTENT = """(
        SELECT i.affected_count FROM takeback.intents AS i
        WHERE i.tenant = e.tenant AND i.id = e.intent_id
          AND (coalesce(i.last_word, i.state)
                   NOT IN ('cancelled', 'denied', 'expired', 'failed')
               OR i.contradicted OR i.attempts_unknown <> '{}')
        LIMIT 1)"""

USAGE = Statement(
    name="limit_usage",
    sentence="Sums up what counts in some scopes, each within its own time.",
    index="limit_entries_time",
    lock="none",
    text=text(f"""
WITH {_WANTED}
SELECT w.number, stands.count, CAST(stands.money AS text), CAST(stands.rows AS text)
FROM wanted AS w CROSS JOIN LATERAL (
    SELECT count(*) AS count,
           coalesce(sum(e.money) FILTER (WHERE e.currency = w.currency), 0) AS money,
           coalesce(sum(greatest(e.rows, i.affected_count)), 0) AS rows
    FROM {_WITHIN} AS e CROSS JOIN LATERAL {_INTENT} AS i
    WHERE (e.released OR NOT CAST(:released_only AS boolean))
      AND e.intent_id <> ALL (CAST(:without AS uuid[]))) AS stands
"""),
)

STANDING = Statement(
    name="limit_standing",
    sentence="Lists what counts in some scopes, each within its own time, entry by entry.",
    index="limit_entries_time",
    lock="none",
    text=text(f"""
WITH {_WANTED}
SELECT w.number, CAST(e.intent_id AS text),
       CASE WHEN e.currency = w.currency THEN e.money ELSE 0 END,
       greatest(e.rows, i.affected_count)
FROM wanted AS w CROSS JOIN LATERAL {_WITHIN} AS e CROSS JOIN LATERAL {_INTENT} AS i
"""),
)

ENTER = Statement(
    name="enter_limits",
    sentence="Writes entries, or says of those that are there when and whether they are released.",
    index="limit_entries_pkey",
    lock="the new rows, or those that are there",
    text=text("""
INSERT INTO takeback.limit_entries
    (tenant, scope, intent_id, at, released, money, currency, rows)
SELECT n.tenant, n.scope, n.intent_id,
       greatest(takeback.instant(n.at_us), takeback.now()), n.released, n.money, n.currency,
       n.rows
FROM json_to_recordset(CAST(:entries AS json)) AS n (
    tenant text, scope text, intent_id uuid, at_us bigint, released boolean, money bigint,
    currency text, rows bigint)
ORDER BY n.tenant, n.intent_id, n.scope
ON CONFLICT (tenant, intent_id, scope) DO UPDATE
    SET at = excluded.at, released = excluded.released,
        rows = greatest(limit_entries.rows, excluded.rows)
"""),
)

FORESEEN = Statement(
    name="limit_rows_foreseen",
    sentence="Says how many rows each of some intents was foreseen to affect.",
    index="limit_entries_pkey",
    lock="none",
    text=text("""
SELECT CAST(e.intent_id AS text), max(e.rows)
FROM takeback.limit_entries AS e
JOIN unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
  ON e.tenant = w.tenant AND e.intent_id = w.id
GROUP BY e.tenant, e.intent_id
"""),
)

LOCK_SCOPES = Statement(
    name="lock_scopes",
    sentence="Takes the locks of some scopes until the transaction ends, waiting for each.",
    index=None,
    lock="the scopes' advisory locks, ascending",
    text=text("""
SELECT pg_advisory_xact_lock(31418, l.id)::text FROM unnest(CAST(:locks AS int[])) AS l (id)
"""),
)

TRY_SCOPES = Statement(
    name="try_scopes",
    sentence="Takes those of some scopes' locks that nobody else holds.",
    index=None,
    lock="the scopes' advisory locks (tried), ascending",
    text=text("""
SELECT l.id, pg_try_advisory_xact_lock(31418, l.id) FROM unnest(CAST(:locks AS int[])) AS l (id)
"""),
)

ISOLATION = Statement(
    name="isolation",
    sentence="Says whether each statement of this transaction has a snapshot of its own.",
    index=None,
    lock="none",
    text=text("SELECT current_setting('transaction_isolation')"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which entries are summed up: those of ``scope`` within ``per_us`` microseconds (None: all).

    Only money in ``currency`` is; it is empty where the amounts have none.
    """

    tenant: str
    scope: str
    per_us: int | None
    currency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEntry:
    """What one intent counts in one scope. ``at_us`` None, or in the past, is now."""

    tenant: str
    scope: str
    intent_id: UUID
    at_us: int | None
    released: bool
    money: int
    currency: str
    rows: int


def usage(
    tx: Tx, wanted: Sequence[Wanted], *, released_only: bool = False, without: Collection[UUID] = ()
) -> list[Tally]:
    """What stands for each of ``wanted``, the intents ``without`` left out."""
    parameters = {
        "wanted": _wanted(wanted),
        "released_only": released_only,
        "without": [str(id_) for id_ in without],
    }
    sums = [Tally()] * len(wanted)
    for number, count, money, rows in tx.rows(USAGE, parameters):
        # What is added up has no bound: as a bigint it would end every call that looks at it.
        sums[number] = Tally(count=count, money=int(money), rows=int(rows))
    return sums


def standing(tx: Tx, wanted: Sequence[Wanted]) -> list[dict[UUID, Tally]]:
    """What stands for each of ``wanted``, intent by intent: for whoever has to add up two views."""
    found: list[dict[UUID, Tally]] = [{} for _ in wanted]
    for number, id_, money, rows in tx.rows(STANDING, {"wanted": _wanted(wanted)}):
        found[number][UUID(id_)] = Tally(count=1, money=money, rows=rows)
    return found


def enter(tx: Tx, entries: Sequence[LimitEntry]) -> None:
    """Writes ``entries``; one that is there is released, or not, from now on."""
    document = [
        {
            "tenant": one.tenant,
            "scope": one.scope,
            "intent_id": str(one.intent_id),
            "at_us": one.at_us,
            "released": one.released,
            "money": one.money,
            "currency": one.currency,
            "rows": one.rows,
        }
        for one in entries
    ]
    tx.rows(ENTER, {"entries": json.dumps(document)})


def rows_foreseen(tx: Tx, intents: Sequence[tuple[str, UUID]]) -> Mapping[UUID, int]:
    """How many rows each of ``intents`` (tenant, id) was recorded with; without an entry: none."""
    parameters = {"tenants": [t for t, _ in intents], "ids": [str(id_) for _, id_ in intents]}
    return {UUID(id_): rows for id_, rows in tx.rows(FORESEEN, parameters)}


def lock_scopes(tx: Tx, scopes: Collection[tuple[str, str]]) -> None:
    """Waits for the locks of ``scopes`` (tenant, scope), and holds them to the end."""
    tx.rows(LOCK_SCOPES, {"locks": sorted({scope_lock(*one) for one in scopes})})


def try_scopes(tx: Tx, scopes: Collection[tuple[str, str]]) -> set[int]:
    """The locks of ``scopes`` that somebody else holds; the others are held to the end."""
    locks = sorted({scope_lock(*one) for one in scopes})
    return {lock for lock, taken in tx.rows(TRY_SCOPES, {"locks": locks}) if not taken}


def sees_past_its_start(tx: Tx) -> bool:
    """Whether the transaction is READ COMMITTED: what commits meanwhile is seen."""
    (level,) = tx.row(ISOLATION, {})
    return level in ("read committed", "read uncommitted")


def scope_lock(tenant: str, scope: str) -> int:
    """The lock of a scope: a negative number, since 1 and 2 of its class are others' locks.

    >>> scope_lock("t", "tenant") == scope_lock("t", "tenant") < 0
    True
    """
    digest = sha256(f"{len(tenant)}:{tenant}{scope}".encode()).digest()
    return -1 - (int.from_bytes(digest[:4], "big") >> 1)


def _wanted(wanted: Sequence[Wanted]) -> str:
    return json.dumps(
        [
            {
                "number": number,
                "tenant": one.tenant,
                "scope": one.scope,
                "per_us": one.per_us,
                "currency": one.currency,
            }
            for number, one in enumerate(wanted)
        ]
    )
