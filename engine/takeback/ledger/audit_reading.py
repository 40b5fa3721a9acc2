"""Reading the whole ledger in order, in stretches that fit into memory, to prove it.

Three streams in the order of (tenant, id): intents, events, bodies. A stretch ends with an intent,
and all three are read up to there in one snapshot, so that writers raise no false alarm. Whatever
stands in a row comes out: instants that Python can't hold, states that nobody knows, rows without
an intent. Bodies stay where they are: the database answers with their digests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.database import Database
from takeback.ledger.projection import COLUMNS, WIDTH, intent_of
from takeback.ledger.reading import Stored, stored_of
from takeback.ledger.sqlstate import translated
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx, adopt
from takeback.model.intent import Intent

PAGE_MAX = 2000
"""Events or bodies fetched at a time."""

FIRST = ("", UUID(int=0))
"""Before every intent: no tenant has an empty name."""

NO_INSTANT = -(2**63)
"""What an infinite instant is read as; takeback.micros can't say it."""

_MICROS = r"takeback\.micros\((\w+\.\w+)\)"
_FINITE = r"""CASE WHEN isfinite(\1) THEN takeback.micros(\1)
     WHEN \1 IS NOT NULL THEN CAST(:no_instant AS bigint) END"""
ANY_COLUMNS = re.sub(_MICROS, _FINITE, COLUMNS) + ", i.version, i.head_hash"
"""The columns of a row of intents that may hold anything, as ``projected_of`` wants them."""

COUNT_INTENTS = Statement(
    name="count_intents",
    sentence="Counts the intents, for a progress bar.",
    index=None,
    lock="none",
    text=text("SELECT count(*) FROM takeback.intents"),
)

WALK_INTENTS = Statement(
    name="walk_intents",
    sentence="Reads a batch of intents in the order of their ids, behind one of them.",
    index="intents_pkey",
    lock="none",
    text=text(f"""
SELECT {ANY_COLUMNS}
FROM takeback.intents AS i
WHERE (i.tenant, i.id) > (CAST(:tenant AS text), CAST(:id AS uuid))
ORDER BY i.tenant, i.id LIMIT CAST(:limit AS int)
"""),
)

WALK_EVENTS = Statement(
    name="walk_events",
    sentence="Reads a page of events in the order of their intents, between two of them.",
    index="events_pkey",
    lock="none",
    text=text("""
SELECT e.tenant, CAST(e.intent_id AS text), e.version, e.position, e.kind, e.schema,
       CASE WHEN isfinite(e.recorded_at) THEN takeback.micros(e.recorded_at)
            ELSE CAST(:no_instant AS bigint) END,
       e.payload, e.hash
FROM takeback.events AS e
WHERE (e.tenant, e.intent_id, e.version)
      > (CAST(:tenant AS text), CAST(:id AS uuid), CAST(:version AS int))
  AND (CAST(:last_id AS uuid) IS NULL
       OR (e.tenant, e.intent_id) <= (CAST(:last_tenant AS text), CAST(:last_id AS uuid)))
ORDER BY e.tenant, e.intent_id, e.version LIMIT CAST(:limit AS int)
"""),
)

WALK_BODIES = Statement(
    name="walk_bodies",
    sentence="Reads the digests of a page of bodies in the order of their intents, between two.",
    index="bodies_pkey",
    lock="none",
    text=text("""
SELECT b.tenant, CAST(b.intent_id AS text), b.version, b.name,
       encode(sha256(b.salt || convert_to(b.body, 'UTF8')), 'hex')
FROM takeback.bodies AS b
WHERE (b.tenant, b.intent_id, b.version, b.name)
      > (CAST(:tenant AS text), CAST(:id AS uuid), CAST(:version AS int), CAST(:name AS text))
  AND (CAST(:last_id AS uuid) IS NULL
       OR (b.tenant, b.intent_id) <= (CAST(:last_tenant AS text), CAST(:last_id AS uuid)))
ORDER BY b.tenant, b.intent_id, b.version, b.name LIMIT CAST(:limit AS int)
"""),
)

Identity = tuple[str, UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """A row of intents; ``intent`` is None where the row holds what no intent can be.

    ``version`` and ``head_hash`` say which event the row knows as the last.
    """

    tenant: str
    id: UUID
    ref: str
    version: int
    head_hash: bytes
    intent: Intent | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A body by its digest: SHA-256 over the stored salt and the stored text, in hex."""

    tenant: str
    intent_id: UUID
    version: int
    name: str
    digest: str


@contextmanager
def snapshot(database: Database) -> Iterator[Tx]:
    """A read-only transaction in which every statement sees the same moment."""
    with translated(), database.engine.connect() as connection:
        adopted = connection.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        with adopted.begin():
            tx = adopt(adopted)
            tx.owned = True
            yield tx


def count_intents(tx: Tx) -> int:
    """How many intents there are at this moment."""
    (count,) = tx.row(COUNT_INTENTS, {})
    return int(count)


def walk_intents(tx: Tx, after: Identity, limit: int) -> list[Projected]:
    """The next ``limit`` rows behind ``after``, in order."""
    tenant, id_ = after
    parameters = {"tenant": tenant, "id": str(id_), "limit": limit, "no_instant": NO_INSTANT}
    return [projected_of(row) for row in tx.rows(WALK_INTENTS, parameters)]


def walk_events(tx: Tx, after: Identity, last: Identity | None) -> Iterator[Stored]:
    """The events of the intents behind ``after`` up to ``last`` (None: to the end), in order."""
    tenant, id_, version = *after, 2**31 - 1
    while True:
        parameters = _bounds(tenant, id_, last) | {"version": version, "no_instant": NO_INSTANT}
        page = [stored_of(row) for row in tx.rows(WALK_EVENTS, parameters)]
        yield from page
        if len(page) < PAGE_MAX:
            return
        tenant, id_, version = page[-1].tenant, page[-1].intent_id, page[-1].version


def walk_bodies(tx: Tx, after: Identity, last: Identity | None) -> Iterator[Sealed]:
    """The bodies of the intents behind ``after`` up to ``last`` (None: to the end), in order."""
    tenant, id_, version, name = *after, 2**31 - 1, ""
    while True:
        parameters = _bounds(tenant, id_, last) | {"version": version, "name": name}
        page = [_sealed(row) for row in tx.rows(WALK_BODIES, parameters)]
        yield from page
        if len(page) < PAGE_MAX:
            return
        end = page[-1]
        tenant, id_, version, name = end.tenant, end.intent_id, end.version, end.name


def projected_of(row: Row) -> Projected:
    """The row of intents in a row of ``ANY_COLUMNS``."""
    intent: Intent | None
    try:
        intent = intent_of(row)
    except (ValueError, OverflowError, TypeError):
        intent = None
    return Projected(
        tenant=row[0],
        id=UUID(row[1]),
        ref=row[2],
        version=row[WIDTH],
        head_hash=bytes(row[WIDTH + 1]),
        intent=intent,
    )


def _bounds(tenant: str, id_: UUID, last: Identity | None) -> dict[str, object]:
    return {
        "tenant": tenant,
        "id": str(id_),
        "last_tenant": last[0] if last else None,
        "last_id": str(last[1]) if last else None,
        "limit": PAGE_MAX,
    }


def _sealed(row: Row) -> Sealed:
    tenant, id_, version, name, digest = row
    return Sealed(tenant=tenant, intent_id=UUID(id_), version=version, name=name, digest=digest)
