"""Reading the log in order without ever skipping an event that commits late.

A sequence hands out positions before their transactions commit, so "position > checkpoint" passes
by what commits later. Every appender therefore holds a shared advisory lock, (31418, 1), from
before it draws a position until its transaction ends, and a reader says four statements, each with
its own snapshot:

    1  S = the last position that was handed out
    2  H = the transactions that hold the lock now
    3  wait until none of H still holds it (bounded)
    4  read checkpoint < position <= S

Whatever position <= S exists was drawn under a lock that is in H or was already released, so after
step 3 it is committed or gone. New appenders draw positions > S and don't matter. When the wait
ends first, the answer is empty and says who holds it back: nothing is skipped, nobody is blocked.
The statements run outside of a transaction block, on the primary: a replica replays commits in
another order.

A transaction of H that is prepared meanwhile (two-phase commit) keeps its virtual id, and is waited
for. The checkpoint is never S itself, only the position of an event that was read: what was handed
out in vain may be handed out again after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import text

from takeback.ledger.reading import Stored, stored_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.errors import DatabaseUnavailable

SAFE = Statement(
    name="last_position",
    sentence="The last position handed out, and whether this server is a replica.",
    index=None,
    lock="none",
    text=text("""
SELECT CASE WHEN p.is_called THEN p.last_value ELSE 0 END, pg_is_in_recovery()
FROM takeback.events_position AS p
"""),
)

HOLDERS = Statement(
    name="barrier_holders",
    sentence="The transactions that hold the barrier, with the process and the age of each.",
    index=None,
    lock="none",
    text=text("""
SELECT l.virtualtransaction, l.pid,
       coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::float8
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.classid = 31418 AND l.objid = 1 AND l.objsubid = 2
  AND l.granted
  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
"""),
)

READ_LOG = Statement(
    name="read_log",
    sentence="Reads the log between two positions, in order.",
    index="events_position_order",
    lock="none",
    text=text("""
SELECT e.tenant, CAST(e.intent_id AS text), e.version, e.position, e.kind, e.schema,
       takeback.micros(e.recorded_at), e.payload, e.hash
FROM takeback.events AS e
WHERE e.position > CAST(:after AS bigint) AND e.position <= CAST(:safe AS bigint)
ORDER BY e.position LIMIT CAST(:limit AS int)
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A stretch of the log.

    ``safe_position`` is the checkpoint to go on from: that of the last event here, or the one that
    was asked with. ``held_back_by`` are the process ids of transactions that kept the reader from
    going further (0 for a prepared one), ``age_seconds`` how long the oldest of them has been open.
    """

    events: Sequence[Stored]
    safe_position: int
    held_back_by: tuple[int, ...] = ()
    age_seconds: float = 0.0


def read_log(tx: Tx, after: int, *, limit: int, patience: int, pause: Callable[[], None]) -> Page:
    """The events behind position ``after``, at most ``limit``, none skipped.

    ``tx`` is in autocommit, so that each statement has its own snapshot. While others hold the
    barrier it looks again at most ``patience`` times, calling ``pause`` in between. Raises
    DatabaseUnavailable on a replica.
    """
    safe, replica = tx.row(SAFE, {})
    if replica:
        raise DatabaseUnavailable(
            "this server is a replica; the log is read in order on the primary only: "
            "point the database URL at the primary"
        )
    waiting = _holders(tx)
    while waiting and patience > 0:
        pause()
        patience -= 1
        now = _holders(tx)
        waiting = {who: now[who] for who in waiting if who in now}
    if waiting:
        return Page(
            events=(),
            safe_position=after,
            held_back_by=tuple(sorted({pid for pid, _ in waiting.values()})),
            age_seconds=max(age for _, age in waiting.values()),
        )
    rows = tx.rows(READ_LOG, {"after": after, "safe": safe, "limit": limit})
    events = [stored_of(row) for row in rows]
    return Page(events=events, safe_position=events[-1].position if events else after)


def _holders(tx: Tx) -> dict[str, tuple[int, float]]:
    return {who: (pid or 0, age) for who, pid, age in tx.rows(HOLDERS, {})}
