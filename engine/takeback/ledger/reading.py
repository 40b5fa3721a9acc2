"""Reading intents, their bodies and their events. Takes no lock."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.hindering import HINDRANCE, hindrance_of
from takeback.ledger.projection import COLUMNS, WIDTH, intent_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.approval import as_of
from takeback.model.event import decode
from takeback.model.hindrance import UNHINDERED, Hindrance
from takeback.model.intent import Fact, Intent, instant

_BODIES = """(SELECT json_object_agg(b.name, b.body ORDER BY b.version) FROM takeback.bodies AS b
     WHERE b.tenant = i.tenant AND b.intent_id = i.id)::text"""

_NARROWED = """(CAST(:state AS text) IS NULL OR i.state = CAST(:state AS text)
       OR (CAST(:state AS text) = 'in_doubt' AND i.state = 'failed' AND i.contradicted))
  AND (CAST(:tool AS text) IS NULL OR i.tool = CAST(:tool AS text))
  AND (CAST(:age_us AS bigint) IS NULL
       OR i.recorded_at >= takeback.now() - CAST(:age_us AS bigint) * interval '1 microsecond')"""

READ = Statement(
    name="read",
    sentence="Reads one intent by its id, with its bodies.",
    index="intents_pkey",
    lock="none",
    text=text(f"""
SELECT {COLUMNS}, takeback.micros(takeback.now()), {_BODIES}, {HINDRANCE}
FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text) AND i.id = CAST(:id AS uuid)
"""),
)

READ_BY_REF = Statement(
    name="read_by_ref",
    sentence="Reads one intent by its ref, with its bodies.",
    index="intents_ref_is_unique",
    lock="none",
    text=text(f"""
SELECT {COLUMNS}, takeback.micros(takeback.now()), {_BODIES}, {HINDRANCE}
FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text) AND i.ref = CAST(:ref AS text)
"""),
)

READ_BY_KEY = Statement(
    name="read_by_key",
    sentence="Reads the latest intent of a key, with its bodies.",
    index="intents_key_is_recorded_once",
    lock="none",
    text=text(f"""
SELECT {COLUMNS}, takeback.micros(takeback.now()), {_BODIES}, {HINDRANCE}
FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text) AND i.key = CAST(:key AS text)
ORDER BY i.generation DESC LIMIT 1
"""),
)

READ_TWIN = Statement(
    name="read_twin",
    sentence="Reads the intent that a recording of these keys would find, with its bodies.",
    index="intents_key_is_recorded_once",
    lock="none",
    text=text(f"""
SELECT {COLUMNS}, takeback.micros(takeback.now()), {_BODIES}, {HINDRANCE}
FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text) AND i.id = coalesce(
    (SELECT k.id FROM takeback.intents AS k
     WHERE k.tenant = CAST(:tenant AS text) AND k.key = CAST(:key AS text)
     ORDER BY k.generation DESC LIMIT 1),
    (SELECT f.intent_id FROM takeback.former_keys AS f
     WHERE f.tenant = CAST(:tenant AS text) AND f.key = CAST(:key AS text)
     ORDER BY f.generation DESC LIMIT 1),
    (SELECT k.id FROM unnest(CAST(:former_keys AS text[])) WITH ORDINALITY AS f (key, place)
     JOIN takeback.intents AS k ON k.tenant = CAST(:tenant AS text) AND k.key = f.key
     ORDER BY f.place, k.generation DESC LIMIT 1))
"""),
)

READ_MANY = Statement(
    name="read_many",
    sentence="Reads a batch of intents by their ids, with their bodies.",
    index="intents_pkey",
    lock="none",
    text=text(f"""
SELECT {COLUMNS}, takeback.micros(takeback.now()), {_BODIES}, {HINDRANCE}
FROM takeback.intents AS i
JOIN unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
  ON i.tenant = w.tenant AND i.id = w.id
"""),
)

LIST = Statement(
    name="list",
    sentence="Lists the newest intents of a tenant, narrowed by state, tool and age.",
    index="intents_pkey",
    lock="none",
    text=text(f"""
SELECT {COLUMNS}, takeback.micros(takeback.now()), {_BODIES}, {HINDRANCE}
FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text)
  AND {_NARROWED}
ORDER BY i.id DESC LIMIT CAST(:limit AS int)
"""),
)

LIST_RUN = Statement(
    name="list_run",
    sentence="Lists the newest intents of a run, narrowed by state, tool and age.",
    index="intents_run",
    lock="none",
    text=text(f"""
SELECT {COLUMNS}, takeback.micros(takeback.now()), {_BODIES}, {HINDRANCE}
FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text) AND i.run = CAST(:run AS text)
  AND {_NARROWED}
ORDER BY i.id DESC LIMIT CAST(:limit AS int)
"""),
)

REFS_LIKE = Statement(
    name="refs_like",
    sentence="Finds refs of a tool that share a beginning or an end, to name look-alikes.",
    index="intents_ref_is_unique",
    lock="none",
    text=text("""
SELECT i.ref FROM takeback.intents AS i
WHERE i.tenant = CAST(:tenant AS text)
  AND i.ref >= CAST(:low AS text) AND i.ref < CAST(:high AS text)
ORDER BY i.ref LIMIT CAST(:limit AS int)
"""),
)

REFS_OF = Statement(
    name="refs_of",
    sentence="Finds the refs of a batch of intents by their ids.",
    index="intents_pkey",
    lock="none",
    text=text("""
SELECT CAST(i.id AS text), i.ref
FROM takeback.intents AS i
JOIN unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
  ON i.tenant = w.tenant AND i.id = w.id
"""),
)

HISTORY = Statement(
    name="history",
    sentence="Reads the events of one intent in order.",
    index="events_pkey",
    lock="none",
    text=text("""
SELECT e.tenant, CAST(e.intent_id AS text), e.version, e.position, e.kind, e.schema,
       takeback.micros(e.recorded_at), e.payload, e.hash
FROM takeback.events AS e
WHERE e.tenant = CAST(:tenant AS text) AND e.intent_id = CAST(:id AS uuid)
ORDER BY e.version
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An intent as it was read: its bodies by name (JSON decoded), the clock of the read, and what
    kept it from beginning then.

    A request for approval that has lapsed by then is shown as expired, swept or not.
    """

    intent: Intent
    now: datetime
    bodies: Mapping[str, Any]
    hindrance: Hindrance = UNHINDERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An event exactly as it is stored: what the hash covers, not yet decoded."""

    tenant: str
    intent_id: UUID
    version: int
    position: int
    kind: str
    schema: int
    at_us: int
    payload: str
    hash: bytes

    def fact(self) -> Fact:
        """The decoded event; raises LedgerCorrupt when the payload can't be read."""
        return Fact(
            tenant=self.tenant,
            intent_id=self.intent_id,
            version=self.version,
            position=self.position,
            at=instant(self.at_us),
            event=decode(self.kind, self.schema, self.payload),
            hash=self.hash,
        )


def read(tx: Tx, tenant: str, id_: UUID) -> Entry | None:
    """The intent of that id, or None."""
    return _one(tx.rows(READ, {"tenant": tenant, "id": str(id_)}))


def read_by_ref(tx: Tx, tenant: str, ref: str) -> Entry | None:
    """The intent of that ref, or None."""
    return _one(tx.rows(READ_BY_REF, {"tenant": tenant, "ref": ref}))


def read_by_key(tx: Tx, tenant: str, key: str) -> Entry | None:
    """The latest generation of that key, or None."""
    return _one(tx.rows(READ_BY_KEY, {"tenant": tenant, "key": key}))


def read_twin(tx: Tx, tenant: str, key: str, former_keys: Sequence[str]) -> Entry | None:
    """What recording ``key`` would find at this moment, also under its former keys, or None."""
    parameters = {"tenant": tenant, "key": key, "former_keys": list(former_keys)}
    return _one(tx.rows(READ_TWIN, parameters))


def read_many(tx: Tx, intents: Sequence[Intent]) -> list[Entry]:
    """These intents as they are now, with their bodies, in no particular order."""
    tenants = [i.tenant for i in intents]
    ids = [str(i.id) for i in intents]
    return [_entry(row) for row in tx.rows(READ_MANY, {"tenants": tenants, "ids": ids})]


def list_intents(
    tx: Tx,
    tenant: str,
    *,
    limit: int,
    state: str | None = None,
    tool: str | None = None,
    run: str | None = None,
    age_us: int | None = None,
) -> list[Entry]:
    """The newest ``limit`` intents that match; ``age_us`` is in microseconds."""
    parameters = {
        "tenant": tenant,
        "state": state,
        "tool": tool,
        "run": run,
        "age_us": age_us,
        "limit": limit,
    }
    return [_entry(row) for row in tx.rows(LIST if run is None else LIST_RUN, parameters)]


def refs_between(tx: Tx, tenant: str, low: str, high: str, limit: int) -> list[str]:
    """At most ``limit`` refs in [low, high)."""
    parameters = {"tenant": tenant, "low": low, "high": high, "limit": limit}
    return [ref for (ref,) in tx.rows(REFS_LIKE, parameters)]


def refs_of(tx: Tx, events: Sequence[Stored]) -> dict[UUID, str]:
    """The ref of each intent that ``events`` tell of."""
    about = sorted({(event.tenant, str(event.intent_id)) for event in events})
    parameters = {"tenants": [tenant for tenant, _ in about], "ids": [id_ for _, id_ in about]}
    return {UUID(id_): ref for id_, ref in tx.rows(REFS_OF, parameters)}


def history(tx: Tx, tenant: str, id_: UUID) -> list[Stored]:
    """Every event of one intent, oldest first."""
    return [stored_of(row) for row in tx.rows(HISTORY, {"tenant": tenant, "id": str(id_)})]


def stored_of(row: Row) -> Stored:
    """The event in a row of the columns that HISTORY names."""
    return Stored(
        tenant=row[0],
        intent_id=UUID(row[1]),
        version=row[2],
        position=row[3],
        kind=row[4],
        schema=row[5],
        at_us=row[6],
        payload=row[7],
        hash=bytes(row[8]),
    )


def _one(rows: list[Row]) -> Entry | None:
    return _entry(rows[0]) if rows else None


def _entry(row: Row) -> Entry:
    bodies = json.loads(row[WIDTH + 1]) if row[WIDTH + 1] else {}
    now = instant(row[WIDTH])
    intent = as_of(intent_of(row), now)
    return Entry(
        intent=intent,
        now=now,
        bodies={name: json.loads(body) for name, body in bodies.items()},
        hindrance=hindrance_of(row[WIDTH + 2], intent.lane),
    )
