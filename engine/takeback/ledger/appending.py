"""Appending events to locked intents, with their bodies and their projection, in one statement.

Every write is fenced: a projection changes only when its version is still the one the events were
decided on. Rows come from ``takeback.ledger.locking``, so a lost fence is a fault of ours or a
rolled-back lock, and raises LeaseLost before anything is stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import text

from takeback.ledger.locking import Taken
from takeback.ledger.projection import changed_columns
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.chain import body_digest, chain_hash
from takeback.model.errors import LeaseLost
from takeback.model.event import Event, encode
from takeback.model.evolve import evolve
from takeback.model.intent import Fact, Intent, micros

_SET = """
    SET state = n.state, version = n.version, due_at = takeback.instant(n.due_us),
        attempt = n.attempt, epoch = n.epoch, attempts_unknown = n.attempts_unknown,
        begin_before = takeback.instant(n.begin_before_us),
        lease_until = takeback.instant(n.lease_us), affected_count = n.affected_count,
        restored_via = n.restored_via, taken_back_by = n.taken_back_by,
        settled_at = takeback.instant(n.settled_us), last_word = n.last_word,
        contradicted = n.contradicted, head_hash = decode(n.head_hash, 'hex'),
        expires_at = takeback.instant(n.expires_us), approved_by = n.approved_by"""

_AS_N = """AS n (
        tenant text, id uuid, was int, state text, version int, due_us bigint, attempt int,
        epoch int, attempts_unknown int[], begin_before_us bigint, lease_us bigint,
        affected_count bigint, restored_via text, taken_back_by text, settled_us bigint,
        last_word text, contradicted boolean, head_hash text, expires_us bigint,
        approved_by text)"""

_BESIDE = """), event AS (
    INSERT INTO takeback.events
        (tenant, intent_id, version, position, kind, schema, recorded_at, payload, hash)
    SELECT e.tenant, e.intent_id, e.version, e.position, e.kind, e.schema,
           takeback.instant(e.at_us), e.payload, decode(e.hash, 'hex')
    FROM json_to_recordset(CAST(:events AS json)) AS e (
        tenant text, intent_id uuid, version int, position bigint, kind text, schema int,
        at_us bigint, payload text, hash text)
    JOIN fenced ON fenced.tenant = e.tenant AND fenced.id = e.intent_id
), body AS (
    INSERT INTO takeback.bodies (tenant, intent_id, version, name, salt, body)
    SELECT b.tenant, b.intent_id, b.version, b.name, decode(b.salt, 'hex'), b.body
    FROM json_to_recordset(CAST(:bodies AS json)) AS b (
        tenant text, intent_id uuid, version int, name text, salt text, body text)
    JOIN fenced ON fenced.tenant = b.tenant AND fenced.id = b.intent_id
)
SELECT count(*) FROM fenced"""

APPEND = Statement(
    name="append",
    sentence="Stores events, bodies and the changed projection of one intent that is locked.",
    index="intents_pkey",
    lock="none beyond the row that is already locked",
    text=text(f"""
WITH fenced AS (
    UPDATE takeback.intents AS i {_SET}
    FROM json_to_record(CAST(:intents AS json)) {_AS_N}
    WHERE i.tenant = n.tenant AND i.id = n.id AND i.version = n.was
    RETURNING i.tenant, i.id
{_BESIDE}
"""),
)

APPEND_MANY = Statement(
    name="append_many",
    sentence="Stores events, bodies and the changed projections of intents that are locked.",
    index="intents_pkey",
    lock="none beyond the rows that are already locked",
    text=text(f"""
WITH fenced AS (
    UPDATE takeback.intents AS i {_SET}
    FROM (SELECT n.tenant, n.id, n.was, n.state, n.version, n.due_us, n.attempt, n.epoch,
                 n.attempts_unknown, n.begin_before_us, n.lease_us, n.affected_count,
                 n.restored_via, n.taken_back_by, n.settled_us, n.last_word, n.contradicted,
                 n.head_hash, n.expires_us, n.approved_by
          FROM json_to_recordset(CAST(:intents AS json)) {_AS_N}
          LIMIT CAST(:count AS int)) AS n
    WHERE i.tenant = n.tenant AND i.id = n.id AND i.version = n.was
    RETURNING i.tenant, i.id
{_BESIDE}
"""),
)
"""The limit cuts nothing off: it tells the planner how many rows there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Forgettable text beside an event: its name, the salt and what the digest covers."""

    name: str
    salt: bytes
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to one locked intent: the events decided, and the bodies they point at."""

    taken: Taken
    events: Sequence[Event]
    bodies: Sequence[Body] = ()


def append(tx: Tx, changes: Iterable[Change]) -> list[Intent]:
    """Stores ``changes`` and answers with the intents as they are now, in the same order.

    A body lies beside the first event of its change that holds its digest; one that no event names
    is not kept. Raises LeaseLost when an intent is no longer at the version that was locked:
    nothing of that one is stored then.
    """
    rows = _Rows()
    intents = [rows.lay_out(change) for change in changes]
    if not intents:
        return []
    stored = rows.store(tx)
    if stored != len(intents):
        raise LeaseLost(f"{len(intents) - stored} of {len(intents)} intents were changed by others")
    return intents


class _Rows:
    """What a statement will store, table by table."""

    def __init__(self) -> None:
        self.intents: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.bodies: list[dict[str, Any]] = []

    def lay_out(self, change: Change) -> Intent:
        """Adds the rows of one change; answers with the intent after it."""
        before = intent = change.taken.intent
        places = change.taken.positions
        assert len(change.events) <= len(places), f"{len(change.events)} events, {places} drawn"
        first = len(self.events)
        for position, event in zip(places, change.events, strict=False):
            intent = self._lay_out_event(intent, position, change.taken.now, event)
        for body in change.bodies:
            self._lay_out_body(body, self.events[first:])
        was = {"tenant": before.tenant, "id": str(before.id), "was": before.version}
        self.intents.append(was | changed_columns(intent))
        return intent

    def store(self, tx: Tx) -> int:
        """Says the statement; answers with how many of the intents were as they had been locked."""
        one = len(self.intents) == 1
        parameters = {
            "intents": json.dumps(self.intents[0] if one else self.intents),
            "events": json.dumps(self.events),
            "bodies": json.dumps(self.bodies),
            "count": len(self.intents),
        }
        (stored,) = tx.row(APPEND if one else APPEND_MANY, parameters)
        return int(stored)

    def _lay_out_event(self, intent: Intent, position: int, now: datetime, event: Event) -> Intent:
        version, at_us, payload = intent.version + 1, micros(now), encode(event)
        link = chain_hash(
            previous=intent.head_hash,
            tenant=intent.tenant,
            intent_id=intent.id,
            version=version,
            position=position,
            kind=event.KIND,
            schema=event.schema,
            at_us=at_us,
            payload=payload,
        )
        self.events.append(
            {
                "tenant": intent.tenant,
                "intent_id": str(intent.id),
                "version": version,
                "position": position,
                "kind": event.KIND,
                "schema": event.schema,
                "at_us": at_us,
                "payload": payload,
                "hash": link.hex(),
            }
        )
        fact = Fact(
            tenant=intent.tenant,
            intent_id=intent.id,
            version=version,
            position=position,
            at=now,
            event=event,
            hash=link,
        )
        return evolve(intent, fact)

    def _lay_out_body(self, body: Body, events: Sequence[dict[str, Any]]) -> None:
        digest = body_digest(body.salt, body.text)
        named_by = next((event for event in events if f'"{digest}"' in event["payload"]), None)
        if named_by is not None:
            self.bodies.append(
                {
                    "tenant": named_by["tenant"],
                    "intent_id": named_by["intent_id"],
                    "version": named_by["version"],
                    "name": body.name,
                    "salt": body.salt.hex(),
                    "body": body.text,
                }
            )
