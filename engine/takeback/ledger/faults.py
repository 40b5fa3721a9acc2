"""What an internal_error was, or what ended an attempt, kept for the operator who asks for it.

Beside the log, not in it: nothing decides by a fault, and none is kept for longer than a month. Its
details are an exception's own words, so no model is ever shown one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from takeback.ledger.bound import bound
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.code import WireEffect
from takeback.model.intent import instant

KEPT_DAYS = 30
FORGOTTEN_MAX = 100
"""So many old ones are forgotten with each new one: more than ever come in, and never many."""

COUNTED_MAX = 10_000
"""Of a day's faults so many are counted."""

PATIENCE = timedelta(seconds=1)
"""A fault is worth no longer wait."""

KEEP = Statement(
    name="keep_fault",
    sentence="Keeps one fault.",
    index="faults_pkey",
    lock="its new row",
    text=text("""
INSERT INTO takeback.faults (tenant, trace_id, at, tool, run, principal, effect, kind, details)
VALUES (CAST(:tenant AS text), CAST(:trace_id AS text), takeback.now(), CAST(:tool AS text),
        CAST(:run AS text), CAST(:principal AS text), CAST(:effect AS text), CAST(:kind AS text),
        CAST(:details AS text))
ON CONFLICT (tenant, trace_id) DO NOTHING
"""),
)

FORGET = Statement(
    name="forget_faults",
    sentence="Forgets the oldest faults past their time, but for those being forgotten.",
    index="faults_age",
    lock="FOR UPDATE SKIP LOCKED on what it forgets",
    text=text("""
WITH moment AS MATERIALIZED (
    SELECT takeback.now() - CAST(:days AS int) * interval '1 day' AS ends),
old AS MATERIALIZED (
    SELECT f.ctid AS place FROM takeback.faults AS f
    WHERE f.at < (SELECT m.ends FROM moment AS m)
    ORDER BY f.at LIMIT CAST(:limit AS int) FOR UPDATE SKIP LOCKED)
DELETE FROM takeback.faults AS f WHERE f.ctid = ANY (ARRAY(SELECT o.place FROM old AS o))
"""),
)

READ = Statement(
    name="read_fault",
    sentence="Reads the fault of one trace id.",
    index="faults_pkey",
    lock="none",
    text=text("""
SELECT f.trace_id, takeback.micros(f.at), f.tool, f.run, f.principal, f.effect, f.kind, f.details
FROM takeback.faults AS f
WHERE f.tenant = CAST(:tenant AS text) AND f.trace_id = CAST(:trace_id AS text)
"""),
)

READ_SEVERAL = Statement(
    name="read_faults",
    sentence="Reads the faults of several trace ids.",
    index="faults_pkey",
    lock="none",
    text=text("""
SELECT f.trace_id, takeback.micros(f.at), f.tool, f.run, f.principal, f.effect, f.kind, f.details
FROM takeback.faults AS f
WHERE f.tenant = CAST(:tenant AS text) AND f.trace_id = ANY(CAST(:trace_ids AS text[]))
"""),
)

RECENT = Statement(
    name="count_faults",
    sentence="Counts the broken requests of the last day, of every tenant, up to a bound.",
    index="faults_age",
    lock="none",
    text=text("""
WITH moment AS MATERIALIZED (SELECT takeback.now() - interval '1 day' AS begins)
SELECT count(*) FROM (
    SELECT 1 FROM takeback.faults AS f
    WHERE f.at >= (SELECT m.begins FROM moment AS m) AND f.trace_id NOT LIKE '%-%'
    LIMIT CAST(:counted_max AS int)) AS recent
"""),
)


LATEST = Statement(
    name="latest_faults",
    sentence="Names the latest broken requests of the last day, of every tenant.",
    index="faults_age",
    lock="none",
    text=text("""
WITH moment AS MATERIALIZED (SELECT takeback.now() - interval '1 day' AS begins)
SELECT f.tenant, f.trace_id, takeback.micros(f.at), f.tool, f.kind
FROM takeback.faults AS f
WHERE f.at >= (SELECT m.begins FROM moment AS m) AND f.trace_id NOT LIKE '%-%'
ORDER BY f.at DESC LIMIT CAST(:limit AS int)
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultName:
    """Which request broke, and by what: ``kind`` names the exception's class."""

    tenant: str
    trace_id: str
    at: datetime
    tool: str | None
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """What broke, as it is known when it happens: ``kind`` names the exception's class."""

    trace_id: str
    tool: str | None
    run: str | None
    principal: str | None
    effect: WireEffect
    kind: str
    details: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, for an operator. ``details`` is the traceback, with every cause; that of an
    attempt, whose trace id ends in its number, begins with a line of the exception's own words.
    """

    trace_id: str
    at: datetime
    tool: str | None
    run: str | None
    principal: str | None
    effect: str
    kind: str
    details: str


def keep(tx: Tx, tenant: str, breakages: Sequence[Breakage]) -> None:
    """Keeps what broke, in a transaction of ours that may be lost, and forgets what is old."""
    bound(tx, PATIENCE)
    for one in breakages:
        tx.rows(
            KEEP,
            {
                "tenant": tenant,
                "trace_id": one.trace_id,
                "tool": one.tool,
                "run": one.run,
                "principal": one.principal,
                "effect": one.effect,
                "kind": one.kind,
                "details": one.details,
            },
        )
    tx.rows(FORGET, {"days": KEPT_DAYS, "limit": FORGOTTEN_MAX * len(breakages)})


def read_fault(tx: Tx, tenant: str, trace_id: str) -> Fault | None:
    """The fault of that trace id, or None."""
    rows = tx.rows(READ, {"tenant": tenant, "trace_id": trace_id})
    return _fault(rows[0]) if rows else None


def read_faults(tx: Tx, tenant: str, trace_ids: Sequence[str]) -> dict[str, Fault]:
    """Those of the faults that are kept, by their trace ids."""
    rows = tx.rows(READ_SEVERAL, {"tenant": tenant, "trace_ids": list(trace_ids)})
    return {row[0]: _fault(row) for row in rows}


def _fault(row: Row) -> Fault:
    (trace_id, at_us, tool, run, principal, effect, kind, details) = row
    return Fault(
        trace_id=trace_id,
        at=instant(at_us),
        tool=tool,
        run=run,
        principal=principal,
        effect=effect,
        kind=kind,
        details=details,
    )


def count_recent(tx: Tx) -> int:
    """How many faults the last day has brought, at most COUNTED_MAX."""
    return int(tx.row(RECENT, {"counted_max": COUNTED_MAX})[0])


def latest(tx: Tx, limit: int) -> tuple[FaultName, ...]:
    """The latest of these, at most ``limit``, the last first."""
    return tuple(
        FaultName(tenant=tenant, trace_id=trace_id, at=instant(at_us), tool=tool, kind=kind)
        for tenant, trace_id, at_us, tool, kind in tx.rows(LATEST, {"limit": limit})
    )
