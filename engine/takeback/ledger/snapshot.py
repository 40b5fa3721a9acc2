"""What an approval is about, as it is stored: the history of an intent, and its recorded bodies.

A body is read with its salt, as text: whoever acts on it first proves that it is the one whose
digest the log holds, and then acts on that very text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.reading import stored_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Row, Tx
from takeback.model.approval import Asked, Decided, asked, decided
from takeback.model.chain import body_digest
from takeback.model.errors import ApprovalMismatch
from takeback.model.intent import Fact, Intent

SNAPSHOTS = Statement(
    name="snapshots",
    sentence="Reads the events of a batch of intents, and the bodies of their recordings.",
    index="events_pkey",
    lock="none",
    text=text("""
SELECT e.tenant, CAST(e.intent_id AS text), e.version, e.position, e.kind, e.schema,
       takeback.micros(e.recorded_at), e.payload, e.hash,
       CASE WHEN e.version = 1 THEN (
           SELECT CAST(json_object_agg(b.name, json_build_array(encode(b.salt, 'hex'), b.body))
                       AS text)
           FROM takeback.bodies AS b
           WHERE b.tenant = e.tenant AND b.intent_id = e.intent_id AND b.version = 1) END
FROM unnest(CAST(:tenants AS text[]), CAST(:ids AS uuid[])) AS w (tenant, id)
CROSS JOIN LATERAL (
    SELECT e.tenant, e.intent_id, e.version, e.position, e.kind, e.schema, e.recorded_at,
           e.payload, e.hash
    FROM takeback.events AS e WHERE e.tenant = w.tenant AND e.intent_id = w.id
    ORDER BY e.version OFFSET 0) AS e
"""),
)
"""The log of each by itself: to have all of them in order without sorting, the planner would go
through the whole log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """An intent's facts in order, and the bodies beside the first: name -> salt and text."""

    facts: Sequence[Fact]
    bodies: Mapping[str, tuple[bytes, str]]

    @property
    def asked(self) -> Asked | None:
        """The latest request for a decision."""
        return asked(self.facts)

    @property
    def decided(self) -> Decided | None:
        """The latest decision."""
        return decided(self.facts)

    def approved(self) -> dict[str, Any]:
        """The bodies that a person has said yes to, decoded. Raises ApprovalMismatch."""
        request, decision = self.asked, self.decided
        if request is None or decision is None or decision.how != "approved":
            raise ApprovalMismatch("nobody has approved it")
        if decision.seal is not None and decision.seal != request.seal:
            raise ApprovalMismatch("what was approved is not what was asked for")
        return self.proven(request)

    def proven(self, asked: Asked) -> dict[str, Any]:
        """The bodies that the request is about, decoded: ``arguments``, and ``affected`` if any.

        Raises ApprovalMismatch, naming those that are gone or are not the ones recorded.
        """
        wanted = {"arguments": asked.arguments, "affected": asked.affected}
        digests = {name: digest for name, digest in wanted.items() if digest is not None}
        altered = [name for name, digest in digests.items() if not self._is(name, digest)]
        if altered:
            raise ApprovalMismatch(
                f"{' and '.join(altered)}: not as recorded; they were changed or erased since",
                [{"field": name} for name in altered],
            )
        return {name: json.loads(self.bodies[name][1]) for name in digests}

    def _is(self, name: str, digest: str) -> bool:
        if name not in self.bodies:
            return False
        salt, body = self.bodies[name]
        return body_digest(salt, body) == digest


def read_snapshots(tx: Tx, intents: Sequence[Intent]) -> dict[tuple[str, UUID], Snapshot]:
    """The snapshots of ``intents``, by tenant and id. Raises LedgerCorrupt."""
    rows = tx.rows(
        SNAPSHOTS,
        {"tenants": [i.tenant for i in intents], "ids": [str(i.id) for i in intents]},
    )
    found: dict[tuple[str, UUID], Snapshot] = {}
    for row in rows:
        fact = stored_of(row).fact()
        key = (fact.tenant, fact.intent_id)
        before = found.get(key, Snapshot(facts=(), bodies=_bodies(row)))
        found[key] = Snapshot(facts=(*before.facts, fact), bodies=before.bodies)
    return found


def _bodies(row: Row) -> dict[str, tuple[bytes, str]]:
    stored = json.loads(row[9]) if row[9] else {}
    return {name: (bytes.fromhex(salt), body) for name, (salt, body) in stored.items()}
