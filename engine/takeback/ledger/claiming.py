"""Finding what may be claimed: lane by lane, and in each lane by priority.

What is due in one lane at one priority is a *queue*: a stretch of the index ``intents_lane``, or of
``intents_priority`` for who works for every tenant, the longest due first. So neither what waits
in a lane that is paused nor what another tenant has stands in anybody's way.

What has been claimed stays in the index as dead entries until a vacuum, and for as long as some old
snapshot may see them: a claim would walk them all. So each queue has a *low mark*, the instant
before which nothing is due that was visible when it was looked for. What commits with an older due
instant lies below it; whoever keeps marks must look everywhere again from time to time, which is
what ``agenda`` does of a queue that has none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.locking import (
    ARGUMENTS,
    IS_CLAIMABLE,
    IS_FROZEN,
    IS_RUNNING,
    OF_TENANT,
    RUNNABLE,
    STOPPED,
    TAKEN,
)
from takeback.ledger.ordering import IS_IN_TURN
from takeback.ledger.projection import PLACE_OF, STORED_COLUMNS
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx

EVER_US = -62_135_596_800_000_000
"""The year 1: before everything that is due."""

_OF_ONE = "i.tenant = CAST(:tenant AS text)"
_OF_ALL = "i.version > 0"
"""True of every row, and a condition of ``intents_priority``: who doesn't say it is not given that
index. Of one tenant the planner would else go through what all of them have."""

_IN_QUEUE = """i.lane = q.lane AND i.priority = q.priority
          AND i.due_at >= takeback.instant(q.low_us) AND i.state IN ('held', 'due')"""
"""One stretch of an index, by equality: where a row is compared with a row, the scan goes on to the
end of the lane, over all that is held for later."""

_ORDER = "i.due_at NULLS FIRST"
"""As the indexes of queues have it and ``intents_due`` has not: along the due instants of all lanes
together the planner would make its way through those of a paused one. None is null."""

_LANE = PLACE_OF["lane"]

_CLAIM = f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held),
{STOPPED},
taken AS MATERIALIZED (
    SELECT {STORED_COLUMNS}
    FROM barrier
    CROSS JOIN unnest(CAST(:lanes AS text[]), CAST(:priorities AS smallint[]),
                      CAST(:lows AS bigint[]), CAST(:rooms AS int[]))
        AS q (lane, priority, low_us, room)
    CROSS JOIN LATERAL (
        SELECT {STORED_COLUMNS} FROM takeback.intents AS i"""

_CLAIMED = f""" AND {IS_CLAIMABLE}
        ORDER BY {_ORDER} LIMIT q.room FOR UPDATE OF i SKIP LOCKED) AS i
    LIMIT CAST(:limit AS int))
SELECT {TAKEN}, {IS_FROZEN}, {ARGUMENTS} FROM taken AS i
"""

LOCK_DUE = Statement(
    name="lock_due",
    sentence="Takes a batch of what may be claimed now, queue by queue, the longest due first.",
    index="intents_lane",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""{_CLAIM}
        WHERE {_OF_ONE} AND {_IN_QUEUE}{_CLAIMED}"""),
)
"""The queues come in the order in which they are given: nothing sorts them anew."""

LOCK_DUE_OF_ALL = Statement(
    name="lock_due_of_all",
    sentence="The same of all tenants.",
    index="intents_priority",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""{_CLAIM}
        WHERE {_OF_ALL} AND {_IN_QUEUE}{_CLAIMED}"""),
)

_QUEUES = f"""
WITH RECURSIVE lane (name) AS (
    (SELECT i.lane FROM takeback.intents AS i
     WHERE CAST(:everywhere AS boolean) AND i.state IN ('held', 'due') ORDER BY i.lane LIMIT 1)
    UNION ALL
    SELECT n.lane
    FROM lane AS l CROSS JOIN LATERAL (
        SELECT i.lane FROM takeback.intents AS i
        WHERE i.state IN ('held', 'due') AND i.lane > l.name ORDER BY i.lane LIMIT 1) AS n
), priority (rank) AS (
    (SELECT i.priority FROM takeback.intents AS i
     WHERE CAST(:everywhere AS boolean) AND i.version > 0
       AND i.state IN ('held', 'due') ORDER BY i.priority LIMIT 1)
    UNION ALL
    SELECT n.priority
    FROM priority AS p CROSS JOIN LATERAL (
        SELECT i.priority FROM takeback.intents AS i
        WHERE i.version > 0 AND i.state IN ('held', 'due') AND i.priority > p.rank
        ORDER BY i.priority LIMIT 1) AS n
), {STOPPED},
known AS MATERIALIZED (
    SELECT q.lane, q.priority, q.low_us, q.opens_us
    FROM unnest(CAST(:lanes AS text[]), CAST(:priorities AS smallint[]), CAST(:lows AS bigint[]),
                CAST(:opens AS bigint[])) AS q (lane, priority, low_us, opens_us)
), queue AS MATERIALIZED (
    SELECT k.lane, k.priority, k.low_us, k.opens_us, true AS is_known FROM known AS k
    UNION ALL
    SELECT f.lane, f.priority, CAST({EVER_US} AS bigint), coalesce(
        (SELECT max(k.opens_us) FROM known AS k WHERE k.lane = f.lane), CAST({EVER_US} AS bigint)),
        false
    FROM (SELECT lane, priority
          FROM unnest(ARRAY(SELECT l.name FROM lane AS l)) AS lane
          CROSS JOIN unnest(ARRAY(SELECT p.rank FROM priority AS p)) AS priority) AS f
    WHERE NOT EXISTS (SELECT FROM known AS k WHERE k.lane = f.lane AND k.priority = f.priority)
), first AS MATERIALIZED (
    SELECT q.lane, q.priority, q.opens_us, q.is_known, d.due_us
    FROM queue AS q LEFT JOIN LATERAL (
        SELECT takeback.micros(i.due_at) AS due_us FROM takeback.intents AS i"""

_WORK = f""" AND {RUNNABLE} AND {IS_RUNNING} AND {IS_IN_TURN}
        ORDER BY {_ORDER} LIMIT 1) AS d ON true
)
SELECT takeback.micros(takeback.now()),
       (SELECT min(greatest(f.due_us, f.opens_us)) FROM first AS f WHERE f.due_us IS NOT NULL),
       (SELECT takeback.micros(i.lease_until) FROM takeback.intents AS i
        WHERE i.state IN ('claimed', 'executing') AND {OF_TENANT}
        ORDER BY i.lease_until LIMIT 1),
       (SELECT takeback.micros(i.expires_at) FROM takeback.intents AS i
        WHERE i.state = 'awaiting_approval' AND i.expires_at IS NOT NULL AND {OF_TENANT}
        ORDER BY i.expires_at LIMIT 1),
       (SELECT takeback.micros(coalesce(i.ask_at, i.recorded_at)) FROM takeback.intents AS i
        WHERE i.state = 'in_doubt' AND i.restored_via IS NULL AND {OF_TENANT} AND {RUNNABLE}
        ORDER BY i.ask_at NULLS FIRST LIMIT 1),
       (SELECT takeback.micros(greatest(i.look_at, 'epoch')) FROM takeback.intents AS i
        WHERE i.state = 'waiting' AND {OF_TENANT} AND {RUNNABLE}
        ORDER BY i.look_at LIMIT 1),
       (SELECT json_agg(json_build_array(f.lane, f.priority, f.due_us)) FROM first AS f
        WHERE f.is_known OR f.due_us IS NOT NULL)
"""

AGENDA = Statement(
    name="agenda",
    sentence="Says how long until each kind of work: due, left behind, asked about, waited for.",
    index="intents_lane",
    lock="none",
    text=text(f"""{_QUEUES}
        WHERE {_OF_ONE} AND {_IN_QUEUE}{_WORK}"""),
)
"""``everywhere`` finds queues that nobody has named: by leaps the lanes and the priorities that
there are, and of each pair whether it is one. The arrays tell the planner that these are few: it
would take all of it for so dear that it is worth compiling, for a second and more."""

AGENDA_OF_ALL = Statement(
    name="agenda_of_all",
    sentence="The same of all tenants.",
    index="intents_priority",
    lock="none",
    text=text(f"""{_QUEUES}
        WHERE {_OF_ALL} AND {_IN_QUEUE}{_WORK}"""),
)

_LISTED = f"""
WITH {STOPPED},
queue AS MATERIALIZED (
    SELECT q.lane, q.priority, q.low_us, q.room, q.opens_us,
           CASE WHEN q.room > 0 THEN takeback.micros(takeback.now()) + 1 ELSE q.low_us END
               AS later_us
    FROM unnest(CAST(:lanes AS text[]), CAST(:priorities AS smallint[]), CAST(:lows AS bigint[]),
                CAST(:rooms AS int[]), CAST(:opens AS bigint[]))
        AS q (lane, priority, low_us, room, opens_us)
), due AS MATERIALIZED (
    SELECT i.tenant, i.id, i.version, i.priority
    FROM queue AS q CROSS JOIN LATERAL (
        SELECT i.tenant, i.id, i.version, i.priority FROM takeback.intents AS i"""

_LATER = f""" AND {IS_CLAIMABLE}
        ORDER BY {_ORDER} LIMIT q.room) AS i
), later AS MATERIALIZED (
    SELECT min(greatest(d.due_us, q.opens_us)) AS due_us
    FROM (SELECT o.lane, o.priority, o.opens_us, o.later_us AS low_us FROM queue AS o) AS q
    CROSS JOIN LATERAL (
        SELECT takeback.micros(i.due_at) AS due_us FROM takeback.intents AS i"""

_TOLD = f""" AND {RUNNABLE} AND {IS_RUNNING} AND {IS_IN_TURN}
        ORDER BY {_ORDER} LIMIT 1) AS d
)
SELECT d.tenant, CAST(d.id AS text), d.version, d.priority, CAST(NULL AS bigint) FROM due AS d
UNION ALL
SELECT NULL, NULL, NULL, NULL, l.due_us - takeback.micros(takeback.now()) FROM later AS l
WHERE l.due_us IS NOT NULL
"""

WAITING = Statement(
    name="waiting",
    sentence="Lists what may be claimed now, queue by queue, and how long until more falls due.",
    index="intents_lane",
    lock="none",
    text=text(f"""{_LISTED}
        WHERE {_OF_ONE} AND {_IN_QUEUE}{_LATER}
        WHERE {_OF_ONE} AND {_IN_QUEUE}{_TOLD}"""),
)
"""Of a queue that is closed nothing is listed, and what waits in it falls due when it opens."""

WAITING_OF_ALL = Statement(
    name="waiting_of_all",
    sentence="The same of all tenants.",
    index="intents_priority",
    lock="none",
    text=text(f"""{_LISTED}
        WHERE {_OF_ALL} AND {_IN_QUEUE}{_LATER}
        WHERE {_OF_ALL} AND {_IN_QUEUE}{_TOLD}"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What is due in ``lane`` at ``priority``.

    Nothing before ``low_us`` is looked at, at most ``room`` are claimed, and before ``opens_us``
    nothing of it counts as due. Instants are the database's, in microseconds.
    """

    lane: str
    priority: int
    low_us: int = EVER_US
    room: int = 0
    opens_us: int = EVER_US


@dataclass(frozen=True, slots=True, kw_only=True)
class Agenda:
    """How long until a worker has something to do; None when nothing is planned.

    ``queues`` are those that were looked at or found, each with the first due instant in it as its
    low mark; ``now_us`` is when, by the database's clock.
    """

    due_in: timedelta | None
    lease_over_in: timedelta | None
    request_over_in: timedelta | None
    ask_in: timedelta | None = None
    look_in: timedelta | None = None
    queues: Sequence[Queue] = ()
    now_us: int = EVER_US

    @property
    def sweep_in(self) -> timedelta | None:
        """How long until there is something to sweep: what nobody does in time, or holds on to, or
        what waits for others that may be over by then.
        """
        spans = (self.lease_over_in, self.request_over_in, self.ask_in, self.look_in)
        return min((one for one in spans if one is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """An intent that may be claimed now, as far as a look can tell, at the version it has."""

    tenant: str
    id: UUID
    version: int
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits to be claimed, queue by queue, and how long until more joins it."""

    due: Sequence[Due]
    next_in: timedelta | None


def lock_due(
    tx: Tx, tools: Mapping[str, int], queues: Sequence[Queue], limit: int, *, tenant: str | None
) -> list[Row]:
    """The rows of at most ``limit`` claimable intents of ``tenant`` (None: of all), queue by queue.

    ``tools`` are those that the worker has, with the versions of their rows. All queues of a lane
    have the same room, and share it. What was frozen a moment ago may be among them, and says so.
    ``takeback.ledger.locking.taken_of`` makes intents of them; whether one is frozen, and its
    arguments, stand at ``FROZEN`` and ``CALLED_WITH``.
    """
    open_ = [queue for queue in queues if queue.room > 0]
    if not open_:
        return []
    parameters = {
        "tools": json.dumps(dict(tools)),
        "lanes": [queue.lane for queue in open_],
        "priorities": [queue.priority for queue in open_],
        "lows": [queue.low_us for queue in open_],
        "rooms": [min(queue.room, limit) for queue in open_],
        "limit": limit,
        "tenant": tenant,
    }
    left = {queue.lane: queue.room for queue in open_}
    kept = []
    for row in tx.rows(LOCK_DUE if tenant else LOCK_DUE_OF_ALL, parameters):
        left[row[_LANE]] -= 1
        if left[row[_LANE]] >= 0:
            kept.append(row)
    return kept


def agenda(
    tx: Tx,
    tools: Mapping[str, int],
    queues: Sequence[Queue] = (),
    *,
    everywhere: bool = True,
    tenant: str | None = None,
) -> Agenda:
    """When a worker of ``tenant`` (None: of all) that has ``tools`` has something to do next.

    ``queues`` are looked at above their low marks; ``everywhere`` looks for others too.
    """
    parameters = {
        "tools": json.dumps(dict(tools)),
        "tenant": tenant,
        "everywhere": everywhere,
        "lanes": [queue.lane for queue in queues],
        "priorities": [queue.priority for queue in queues],
        "lows": [queue.low_us for queue in queues],
        "opens": [queue.opens_us for queue in queues],
    }
    now_us, due_us, lease_us, request_us, ask_us, look_us, firsts = tx.row(
        AGENDA if tenant else AGENDA_OF_ALL, parameters
    )
    given = {(queue.lane, queue.priority): queue for queue in queues}
    return Agenda(
        due_in=_until(now_us, due_us),
        lease_over_in=_until(now_us, lease_us),
        request_over_in=_until(now_us, request_us),
        ask_in=_until(now_us, ask_us),
        look_in=_until(now_us, look_us),
        queues=[
            replace(
                given.get((lane, priority)) or Queue(lane=lane, priority=priority),
                low_us=EVER_US if first_us is None else first_us,
            )
            for lane, priority, first_us in firsts or ()
        ],
        now_us=now_us,
    )


def waiting(
    tx: Tx, tools: Mapping[str, int], queues: Sequence[Queue], *, tenant: str | None
) -> Waiting:
    """What ``lock_due`` would take now of ``queues``, as much as each has room for.

    Nothing is locked.
    """
    parameters = {
        "tools": json.dumps(dict(tools)),
        "tenant": tenant,
        "lanes": [queue.lane for queue in queues],
        "priorities": [queue.priority for queue in queues],
        "lows": [queue.low_us for queue in queues],
        "rooms": [queue.room for queue in queues],
        "opens": [queue.opens_us for queue in queues],
    }
    rows = tx.rows(WAITING if tenant else WAITING_OF_ALL, parameters)
    due = [
        Due(tenant=row[0], id=UUID(row[1]), version=row[2], priority=row[3])
        for row in rows
        if row[0] is not None
    ]
    spans = [timedelta(microseconds=row[4]) for row in rows if row[0] is None]
    return Waiting(due=due, next_in=min(spans, default=None))


def _until(now_us: int, then_us: int | None) -> timedelta | None:
    return None if then_us is None else timedelta(microseconds=then_us - now_us)
