"""The others that an intent waits for: how they stand, and that they stay so for a moment.

An intent that waits names others by their refs. Nobody who settles one of those knows of it:
whoever looks reads how they stand, from their rows, and writes down beside the waiting one when to
look again. So no wake-up can be lost, whoever dies and whichever release has settled the other.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from takeback.ledger.locking import OF_TENANT, RUNNABLE, TAKEN, Taken, taken_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.intent import Intent, State, instant, micros
from takeback.model.waiting import Fate, fate_of

Named = tuple[str, str]
"""A tenant, and a ref of it."""

LOCK_WAITING = Statement(
    name="lock_waiting",
    sentence="Takes a batch of the intents that wait for others and are to be looked at now.",
    index="intents_waiting",
    lock="the barrier (shared), then the rows that are free",
    text=text(f"""
WITH barrier AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(31418, 1)::text AS held)
SELECT {TAKEN}
FROM barrier CROSS JOIN takeback.intents AS i
WHERE i.state = 'waiting' AND i.look_at <= (SELECT takeback.now()) AND {OF_TENANT} AND {RUNNABLE}
ORDER BY i.look_at LIMIT CAST(:limit AS int) FOR UPDATE OF i SKIP LOCKED
"""),
)

OTHERS = Statement(
    name="others",
    sentence="Says how some intents stand that others wait for.",
    index="intents_ref_is_unique",
    lock="none",
    text=text("""
SELECT i.tenant, i.ref, coalesce(i.last_word, i.state), takeback.micros(i.due_at), i.restored_via,
       i.after, i.contradicted
FROM takeback.intents AS i
JOIN unnest(CAST(:tenants AS text[]), CAST(:refs AS text[])) AS w (tenant, ref)
  ON i.tenant = w.tenant AND i.ref = w.ref
"""),
)

HOLD_OTHERS = Statement(
    name="hold_others",
    sentence="Keeps those of some intents in the world that are there, and in nobody's hands.",
    index="intents_ref_is_unique",
    lock="the rows that are free, shared, by (tenant, id)",
    text=text("""
SELECT i.ref FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text) AND i.ref = ANY(CAST(:refs AS text[]))
  AND coalesce(i.last_word, i.state) IN ('succeeded', 'restore_failed')
ORDER BY i.tenant, i.id FOR SHARE OF i SKIP LOCKED
"""),
)

AMENDED = Statement(
    name="amended",
    sentence="Reads what came of some restores, to find what was recorded in the others' place.",
    index="intents_ref_is_unique",
    lock="none",
    text=text("""
SELECT i.tenant, i.ref,
       (SELECT b.body FROM takeback.bodies AS b
        WHERE b.tenant = i.tenant AND b.intent_id = i.id AND b.name = 'result' LIMIT 1)
FROM takeback.intents AS i
JOIN unnest(CAST(:tenants AS text[]), CAST(:refs AS text[])) AS w (tenant, ref)
  ON i.tenant = w.tenant AND i.ref = w.ref
"""),
)

SUCCESSORS = Statement(
    name="successors",
    sentence="Follows some intents that were taken back to what was recorded in their place since.",
    index="intents_ref_is_unique",
    lock="none",
    # A restore that was itself taken back: what did it anew is told by the one that did that. The
    # code point nought can stand in a body's text and nowhere in a value of Postgres.
    text=text(r"""
WITH RECURSIVE links AS (
    SELECT w.tenant, w.ref AS origin, w.ref, 0 AS number, false AS amended
    FROM unnest(CAST(:tenants AS text[]), CAST(:refs AS text[])) AS w (tenant, ref)
  UNION ALL
    SELECT l.tenant, l.origin, coalesce(s.amended, s.redone), l.number + 1, s.amended IS NOT NULL
    FROM links AS l
    CROSS JOIN LATERAL (
        SELECT b.told #>> '{amended,ref}' AS amended, b.told #>> '{redone,ref}' AS redone
        FROM takeback.intents AS i
        JOIN takeback.intents AS v ON v.tenant = i.tenant AND v.ref = i.restored_via
        JOIN takeback.intents AS t ON t.tenant = v.tenant AND t.ref =
            CASE coalesce(v.last_word, v.state) WHEN 'restored' THEN v.restored_via ELSE v.ref END
        CROSS JOIN LATERAL (
            SELECT CAST(replace(r.body, chr(92) || 'u0000', chr(92) || 'ufffd') AS json) AS told
            FROM takeback.bodies AS r
            WHERE r.tenant = t.tenant AND r.intent_id = t.id AND r.name = 'result' LIMIT 1) AS b
        WHERE i.tenant = l.tenant AND i.ref = l.ref
          AND coalesce(i.last_word, i.state) IN ('cancelled', 'restored')
        LIMIT 1) AS s
    WHERE l.number < CAST(:limit AS int) AND coalesce(s.amended, s.redone) IS NOT NULL
)
SELECT l.tenant, l.origin, l.ref, l.amended, n.fate_state, n.restored_via, n.contradicted
FROM links AS l
CROSS JOIN LATERAL (
    SELECT coalesce(i.last_word, i.state) AS fate_state, i.restored_via, i.contradicted
    FROM takeback.intents AS i WHERE i.tenant = l.tenant AND i.ref = l.ref LIMIT 1) AS n
WHERE l.number > 0 ORDER BY l.number
"""),
)

LOOK_LATER = Statement(
    name="look_later",
    sentence="Says when to look again at what some locked intents wait for.",
    index="intents_pkey",
    lock="none beyond the rows that are already locked",
    text=text("""
UPDATE takeback.intents AS i SET look_at = takeback.instant(w.at_us)
FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[]), CAST(:instants AS bigint[]))
    AS w (tenant, id, at_us)
WHERE i.tenant = w.tenant AND i.id = w.id
"""),
)

LOOK_NOW = Statement(
    name="look_now",
    sentence="Has the intents that wait looked at now, whenever they were to be looked at.",
    index="intents_waiting",
    lock="the rows that are free",
    text=text("""
UPDATE takeback.intents AS i SET look_at = '-infinity'
FROM (SELECT w.tenant, w.id FROM takeback.intents AS w
      WHERE w.state = 'waiting'
        AND (CAST(:tenant AS text) IS NULL OR w.tenant = CAST(:tenant AS text))
      ORDER BY w.look_at LIMIT CAST(:limit AS int) FOR UPDATE OF w SKIP LOCKED) AS w
WHERE i.tenant = w.tenant AND i.id = w.id
RETURNING i.ref
"""),
)


LINKS_MAX = 100
"""So many times is what was taken back followed to what was recorded in its place. Who does it more
often is told the last of these, and by that one what came after it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The ``ref`` of what was recorded in place of an intent that was taken back: by an amendment
    (``is_amended``), or as it was.

    It ``stands`` unless it has come to nothing itself.
    """

    ref: str
    is_amended: bool
    stands: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """How an intent stands that others wait for; what is purged, as its last word has it.

    ``via`` is the ref of what took it back, ``after`` what it waits for itself. It is
    ``contradicted`` while a late answer denies what was decided.
    """

    ref: str
    state: State
    due_at: datetime | None
    via: str | None
    after: tuple[str, ...]
    contradicted: bool

    @property
    def fate(self) -> Fate:
        """What it means for those who wait for it; what is denied to have failed is open."""
        return _fate(self.state, self.via, contradicted=self.contradicted)


def lock_waiting(
    tx: Tx, tools: Mapping[str, int], limit: int, *, tenant: str | None
) -> list[Taken]:
    """At most ``limit`` intents of ``tenant`` (None: of all) whose others are to be looked at.

    ``tools`` are those that the worker has, with the versions of their rows.
    """
    parameters = {"tools": json.dumps(dict(tools)), "limit": limit, "tenant": tenant}
    return [taken_of(row) for row in tx.rows(LOCK_WAITING, parameters)]


def read_others(tx: Tx, wanted: Collection[Named]) -> Mapping[Named, Other]:
    """How each of ``wanted`` stands; those that are unknown are left out."""
    if not wanted:
        return {}
    return {(row[0], row[1]): _other(row) for row in tx.rows(OTHERS, _named(wanted))}


def read_amended(tx: Tx, wanted: Collection[Named]) -> Mapping[Named, str]:
    """For those of ``wanted`` that took something back to say it otherwise: the ref of that."""
    if not wanted:
        return {}
    found = {}
    for tenant, ref, body in tx.rows(AMENDED, _named(wanted)):
        amended = json.loads(body).get("amended") if body else None
        if amended is not None:
            found[tenant, ref] = amended["ref"]
    return found


def read_successors(tx: Tx, wanted: Collection[Named]) -> Mapping[Named, list[Link]]:
    """What was recorded in place of each of ``wanted``, one after the other, at most LINKS_MAX;
    those in whose place nothing was are left out.
    """
    if not wanted:
        return {}
    found: dict[Named, list[Link]] = {}
    for row in tx.rows(SUCCESSORS, {**_named(wanted), "limit": LINKS_MAX}):
        links = found.setdefault((row[0], row[1]), [])
        fate = _fate(State(row[4]), row[5], contradicted=row[6])
        stands = fate in ("open", "happened") or len(links) + 1 == LINKS_MAX
        links.append(Link(ref=row[2], is_amended=row[3], stands=stands))
    return found


def hold_others(tx: Tx, tenant: str, refs: Collection[str]) -> bool:
    """Whether all of ``refs`` have happened, and can't be taken back before the transaction ends.

    Waits for nobody: what others hold is not said to have happened.
    """
    held = tx.rows(HOLD_OTHERS, {"tenant": tenant, "refs": list(refs)}) if refs else []
    return {ref for (ref,) in held} >= set(refs)


def look_later(tx: Tx, looks: Sequence[tuple[Intent, datetime]]) -> None:
    """Has each of these intents, whose rows are locked, looked at again at its instant."""
    if looks:
        parameters = {
            "tenants": [intent.tenant for intent, _ in looks],
            "ids": [str(intent.id) for intent, _ in looks],
            "instants": [micros(at) for _, at in looks],
        }
        tx.rows(LOOK_LATER, parameters)


def look_now(tx: Tx, limit: int, *, tenant: str | None) -> int:
    """How many of ``tenant`` (None: of all) wait; at most ``limit``, which are looked at now."""
    return len(tx.rows(LOOK_NOW, {"limit": limit, "tenant": tenant}))


def _named(wanted: Collection[Named]) -> dict[str, list[str]]:
    return {"tenants": [one for one, _ in wanted], "refs": [ref for _, ref in wanted]}


def _fate(state: State, via: str | None, *, contradicted: bool) -> Fate:
    if contradicted and state is State.FAILED:
        return "open"
    return fate_of(state, via)


def _other(row: Row) -> Other:
    return Other(
        ref=row[1],
        state=State(row[2]),
        due_at=None if row[3] is None else instant(row[3]),
        via=row[4],
        after=tuple(row[5]),
        contradicted=row[6],
    )
