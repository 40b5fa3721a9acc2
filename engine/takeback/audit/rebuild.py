"""Computing every row of intents anew from the log, and putting right what differs.

Only rows are written, never events; no handler is called and nothing is sent, whatever state an
intent goes back to. A row is overwritten only where the log proves itself: its chain holds, and the
row, if there is one, knows the log's last event. Anything else is refused and named: a damaged or
cut log would only spread to its projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg import IntegrityError

from takeback.audit.proof import Problem, Proof
from takeback.audit.walk import Progress, prove_one, walk
from takeback.ledger.database import Database
from takeback.ledger.repairing import lock_row, write_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A row that was not what the log says, in these columns, and is now."""

    ref: str
    intent_id: UUID
    tenant: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.ref}: {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What was computed anew: which rows differed and were put right, and which were refused."""

    intents: int
    differing: tuple[Difference, ...]
    refused: tuple[Problem, ...]


def rebuild(database: Database, *, progress: Progress | None = None) -> Rebuilt:
    """Folds the log of every intent and writes the rows that differ, each under its lock.

    Writers may go on meanwhile. ``progress`` hears how many rows are done, of how many. Raises
    DatabaseUnavailable.
    """
    intents = 0
    differences: list[Difference] = []
    refused: list[Problem] = []
    for proof in walk(database, progress):
        intents += 1
        if not proof.is_chained:
            refused += proof.problems
        elif proof.differing:
            try:
                again = _put_right(database, proof)
            except IntegrityError:
                refused += [*proof.problems, _occupied(proof)]
                continue
            if again.is_chained and again.differing:
                differences.append(_difference(again))
            elif not again.is_chained:
                refused += again.problems
    return Rebuilt(intents=intents, differing=tuple(differences), refused=tuple(refused))


def _put_right(database: Database, proof: Proof) -> Proof:
    """The proof as it stands under the row's lock, whose fold is then the row."""
    with database.transaction() as tx:
        again = prove_one(tx, proof.identity, lock_row(tx, proof.identity))
        if again.is_chained and again.differing and again.folded is not None:
            write_row(tx, again.folded)
    return again


def _difference(proof: Proof) -> Difference:
    assert proof.folded is not None
    return Difference(
        ref=proof.folded.ref,
        intent_id=proof.intent_id,
        tenant=proof.tenant,
        columns=proof.differing,
    )


def _occupied(proof: Proof) -> Problem:
    intent = proof.folded
    assert intent is not None
    return Problem(
        ref=intent.ref,
        intent_id=proof.intent_id,
        tenant=proof.tenant,
        version=intent.version,
        what="its row can't be written: its ref or its key stands in another row",
    )
