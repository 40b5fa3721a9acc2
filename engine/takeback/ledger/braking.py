"""Freezes: who has stopped what, so that nothing of it begins until somebody lets it go on.

Whatever begins holds the barrier, (31418, 1), and looks at the freezes behind it, by a snapshot
that is taken then. So a freeze is committed first, and then whoever held the barrier at that
moment is waited for: those may have looked before it was there, all others see it. Nobody is kept
waiting, and no lock is exclusive.

A null tenant, tool or run means every one. Rows are never deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from takeback.ledger.barrier import HOLDERS
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.intent import instant

_SAME = """f.tenant IS NOT DISTINCT FROM CAST(:tenant AS text)
  AND f.tool IS NOT DISTINCT FROM CAST(:tool AS text)
  AND f.run IS NOT DISTINCT FROM CAST(:run AS text)"""

_COLUMNS = """f.number, f.tenant, f.tool, f.run, f.reason, f.frozen_by,
       takeback.micros(f.frozen_at)"""

FREEZE = Statement(
    name="freeze",
    sentence="Writes down that somebody has stopped something.",
    index=None,
    lock="the new row",
    text=text("""
INSERT INTO takeback.freezes AS f (tenant, tool, run, reason, frozen_by, frozen_at)
VALUES (CAST(:tenant AS text), CAST(:tool AS text), CAST(:run AS text), CAST(:reason AS text),
        CAST(:by AS text), takeback.now())
RETURNING f.number, f.tenant, f.tool, f.run, f.reason, f.frozen_by, takeback.micros(f.frozen_at)
"""),
)

SAME_FREEZE = Statement(
    name="same_freeze",
    sentence="Reads the freeze in force that says exactly the same, if there is one.",
    index="freezes_in_force",
    lock="none",
    text=text(f"""
SELECT {_COLUMNS} FROM takeback.freezes AS f
WHERE f.thawed_at IS NULL AND {_SAME}
  AND f.reason = CAST(:reason AS text) AND f.frozen_by = CAST(:by AS text)
ORDER BY f.number LIMIT 1
"""),
)

FREEZE_TURN = Statement(
    name="freeze_turn",
    sentence="Waits for whoever else is writing a freeze down.",
    index=None,
    lock="the turn of freezes, (31418, 3)",
    text=text("SELECT pg_advisory_xact_lock(31418, 3)::text"),
)

THAW = Statement(
    name="thaw",
    sentence="Ends every freeze of exactly this scope.",
    index="freezes_in_force",
    lock="the freezes of the scope",
    text=text(f"""
UPDATE takeback.freezes AS f
SET thawed_by = CAST(:by AS text), thawed_at = takeback.now(),
    thaw_reason = CAST(:reason AS text)
WHERE f.thawed_at IS NULL AND {_SAME}
RETURNING {_COLUMNS}
"""),
)

IN_FORCE = Statement(
    name="freezes_in_force",
    sentence="Reads the freezes that are in force, the oldest first.",
    index="freezes_in_force",
    lock="none",
    text=text(f"""
SELECT {_COLUMNS}
FROM takeback.freezes AS f WHERE f.thawed_at IS NULL
ORDER BY f.number LIMIT CAST(:limit AS int)
"""),
)

FROZEN = Statement(
    name="frozen",
    sentence="Says whether a call is stopped, and whether this transaction could see that.",
    index=None,
    lock="none",
    text=text("""
SELECT takeback.frozen(CAST(:tenant AS text), CAST(:tool AS text), CAST(:run AS text)),
       current_setting('transaction_isolation')
"""),
)

BEGUN = Statement(
    name="begun",
    sentence="Names what is executing in a scope.",
    index="intents_lease",
    lock="none",
    text=text("""
SELECT i.ref FROM takeback.intents AS i
WHERE i.state = 'executing' AND i.lease_until IS NOT NULL
  AND (CAST(:tenant AS text) IS NULL OR i.tenant = CAST(:tenant AS text))
  AND (CAST(:tool AS text) IS NULL OR i.tool = CAST(:tool AS text))
  AND (CAST(:run AS text) IS NULL OR i.run = CAST(:run AS text))
ORDER BY i.lease_until LIMIT CAST(:limit AS int)
"""),
)

OVERDUE = Statement(
    name="overdue",
    sentence="Counts what is overdue in a scope, up to a bound.",
    index="intents_due",
    lock="none",
    text=text("""
SELECT count(*) FROM (
    SELECT FROM takeback.intents AS i
    WHERE i.state IN ('held', 'due') AND i.due_at <= (SELECT takeback.now())
      AND i.restores IS NULL
      AND (CAST(:tenant AS text) IS NULL OR i.tenant = CAST(:tenant AS text))
      AND (CAST(:tool AS text) IS NULL OR i.tool = CAST(:tool AS text))
      AND (CAST(:run AS text) IS NULL OR i.run = CAST(:run AS text))
    ORDER BY i.due_at LIMIT CAST(:limit AS int)) AS late
"""),
)

IN_FORCE_MAX = 1000
BEGUN_MAX = 1000
OVERDUE_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeScope:
    """What a freeze stops; None is every one."""

    tenant: str | None = None
    tool: str | None = None
    run: str | None = None

    def covers(self, tenant: str, tool: str, run: str | None) -> bool:
        """Whether it stops a call of this tenant and tool, in this run or in none.

        >>> run = FreezeScope(run="r")
        >>> run.covers("a", "pay", "r"), run.covers("a", "pay", None)
        (True, False)
        """
        pairs = ((self.tenant, tenant), (self.tool, tool), (self.run, run))
        return all(mine is None or mine == its for mine, its in pairs)

    def overlaps(self, other: FreezeScope) -> bool:
        """Whether something can be in both.

        >>> FreezeScope(tenant="a", tool="pay").overlaps(FreezeScope(tenant="a", run="r"))
        True
        >>> FreezeScope(tenant="a", tool="pay").overlaps(FreezeScope(tenant="a", tool="ship"))
        False
        """
        pairs = ((self.tenant, other.tenant), (self.tool, other.tool), (self.run, other.run))
        return all(None in pair or pair[0] == pair[1] for pair in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A freeze as it stands in the ledger."""

    number: int
    scope: FreezeScope
    reason: str
    frozen_by: str
    frozen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A transaction that may have begun something: its process (0: prepared) and its age."""

    pid: int
    age_seconds: float


def freeze(tx: Tx, scope: FreezeScope, *, reason: str, by: str) -> Freeze:
    """Stops ``scope``, from the commit on. Said twice by one person with one reason it is one
    freeze: a repeat, whose answer was lost, answers with the first.
    """
    said = _scoped(scope) | {"reason": reason, "by": by}
    tx.rows(FREEZE_TURN, {})
    rows = tx.rows(SAME_FREEZE, said)
    return _freeze(rows[0] if rows else tx.row(FREEZE, said))


def thaw(tx: Tx, scope: FreezeScope, *, reason: str, by: str) -> list[Freeze]:
    """Ends the freezes of exactly ``scope``; those of others, larger or smaller, stay."""
    rows = tx.rows(THAW, _scoped(scope) | {"reason": reason, "by": by})
    return [_freeze(row) for row in rows]


def in_force(tx: Tx) -> list[Freeze]:
    """The freezes that stop something now, the oldest first; a thousand at most."""
    return [_freeze(row) for row in tx.rows(IN_FORCE, {"limit": IN_FORCE_MAX})]


def frozen(tx: Tx, scope: FreezeScope) -> tuple[bool, bool]:
    """Whether a call of this tenant, tool and run is stopped, and whether that is the last word.

    It is not in a transaction that sees the world as it was when it began.
    """
    is_frozen, isolation = tx.row(FROZEN, _scoped(scope))
    return is_frozen, isolation in ("read committed", "read uncommitted")


def begun(tx: Tx, scope: FreezeScope) -> list[str]:
    """The refs of what is executing in ``scope``; a thousand at most."""
    return [ref for (ref,) in tx.rows(BEGUN, _scoped(scope) | {"limit": BEGUN_MAX})]


def overdue(tx: Tx, scope: FreezeScope) -> int:
    """How many intents of ``scope`` have fallen due; a million at most."""
    (count,) = tx.row(OVERDUE, _scoped(scope) | {"limit": OVERDUE_MAX})
    return int(count)


def holders(tx: Tx) -> Mapping[str, Holding]:
    """Who holds the barrier at this moment, by transaction."""
    return {who: Holding(pid=pid or 0, age_seconds=age) for who, pid, age in tx.rows(HOLDERS, {})}


def _scoped(scope: FreezeScope) -> dict[str, str | int | None]:
    return {"tenant": scope.tenant, "tool": scope.tool, "run": scope.run}


def _freeze(row: Row) -> Freeze:
    return Freeze(
        number=row[0],
        scope=FreezeScope(tenant=row[1], tool=row[2], run=row[3]),
        reason=row[4],
        frozen_by=row[5],
        frozen_at=instant(row[6]),
    )
