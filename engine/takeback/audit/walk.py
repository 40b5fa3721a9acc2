"""One pass over the whole ledger: a finished proof of each intent, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from takeback.audit.proof import Proof
from takeback.ledger.audit_reading import (
    FIRST,
    Identity,
    Projected,
    Sealed,
    count_intents,
    snapshot,
    walk_bodies,
    walk_events,
    walk_intents,
)
from takeback.ledger.database import Database
from takeback.ledger.reading import Stored
from takeback.ledger.transaction import Tx

BATCH_MAX = 500
"""Intents proved in one snapshot: a long one would keep the database from tidying up."""

Progress = Callable[[int, int], None]


def walk(database: Database, progress: Progress | None = None) -> Iterator[Proof]:
    """The proof of every intent that has a row, events or bodies, in the order of (tenant, id).

    ``progress`` hears how many rows are done, of how many. What is recorded meanwhile may be met
    or not; what is met is seen as one moment left it. Raises DatabaseUnavailable.
    """
    with snapshot(database) as tx:
        total = count_intents(tx)
    done, after = 0, FIRST
    is_last = False
    while not is_last:
        with snapshot(database) as tx:
            rows = walk_intents(tx, after, BATCH_MAX)
            is_last = len(rows) < BATCH_MAX
            last = None if is_last else _identity(rows[-1])
            yield from prove(tx, after, last, rows)
        done += len(rows)
        if progress is not None:
            progress(done, max(done, total))
        after = last or after


def prove_one(tx: Tx, identity: Identity, row: Projected | None) -> Proof:
    """The proof of one intent, with the events and bodies that ``tx`` sees."""
    tenant, id_ = identity
    before = (tenant, UUID(int=max(id_.int - 1, 0)))
    proofs = list(prove(tx, before, identity, [row] if row else []))
    return proofs[0] if proofs else Proof(identity)


def prove(
    tx: Tx, after: Identity, last: Identity | None, rows: Sequence[Projected]
) -> Iterator[Proof]:
    """The proofs of all that lies behind ``after`` up to ``last``; ``rows`` are the rows there."""
    stored: Iterator[tuple[Identity, int, Projected | Stored | Sealed]] = merge(
        ((_identity(row), 0, row) for row in rows),
        (((event.tenant, event.intent_id), 1, event) for event in walk_events(tx, after, last)),
        (((body.tenant, body.intent_id), 2, body) for body in walk_bodies(tx, after, last)),
        key=itemgetter(0, 1),
    )
    for identity, parts in groupby(stored, key=itemgetter(0)):
        proof = Proof(identity)
        for _, _, part in parts:
            proof.take(part)
        proof.finish()
        yield proof


def _identity(row: Projected) -> Identity:
    return row.tenant, row.id
