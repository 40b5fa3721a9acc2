"""One real call for each answer that docs/errors.md shows, made on the shop."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from takeback import Envelope, Takeback
from takeback.testing import Drop, MailServer, MailStage

REF = re.compile(r"\b([a-z][a-z0-9_]*)-([0-9A-Z]{7,8})\b")
INSTANT = re.compile(r"(?:\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\dZ")

MAIL = {"to": "dana@example.com", "template": "apology", "order_id": "O-1"}
REFUND = {"charge_id": "ch_1", "amount": 12900, "currency": "EUR", "reason": "duplicate"}
CLOSED = {"ticket_id": "T-7", "status": "closed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The shop, its database and its mail server."""

    app: Takeback
    url: str
    mail: MailServer

    def call(self, tool: str, arguments: Mapping[str, Any], **said: Any) -> Envelope:
        """A call in a transaction of its own."""
        return self.app.call(None, tool, arguments, **said)

    def restore(self, ref: str | None, **said: Any) -> Envelope:
        """A restore in a transaction of its own."""
        return self.app.restore(None, ref or "", **said)

    def sql(self, statement: str) -> None:
        """What somebody else does in the database."""
        with psycopg.connect(self.url) as tx:
            tx.execute(statement.encode())

    def carry_out(self) -> None:
        """Lets every undo window be over, and a worker do what is due."""
        self.sql("UPDATE takeback.intents SET due_at = takeback.now() WHERE state = 'held'")
        worker = self.app.worker(name="w", sleep=time.sleep, stopping=lambda: False)
        worker.run(drain=True)


def rejected(world: World) -> Envelope:
    """A refund of more than there is, carried out."""
    asked = world.call("refund_charge", {**REFUND, "amount": 20_000})
    world.carry_out()
    return world.app.status(asked.ref or "")


def in_doubt(world: World) -> Envelope:
    world.mail.inject(Drop(at=MailStage.ACCEPTED))
    asked = world.call("send_customer_email", MAIL)
    world.carry_out()
    return world.app.status(asked.ref or "")


def in_progress(world: World) -> Envelope:
    with psycopg.connect(world.url) as somebody:
        world.app.call(somebody, "send_customer_email", MAIL)
        return world.call("send_customer_email", MAIL)


def no_transaction(world: World) -> Envelope:
    with psycopg.connect(world.url, autocommit=True) as db:
        return world.app.call(db, "update_ticket", CLOSED)


def key_conflict(world: World) -> Envelope:
    world.call("refund_charge", REFUND)
    return world.call("refund_charge", {**REFUND, "reason": "fraudulent"})


def no_such_ref(world: World) -> Envelope:
    ref = world.call("send_customer_email", MAIL).ref or ""
    return world.restore(ref[:-1])


def no_access(world: World) -> Envelope:
    ref = world.call("update_ticket", CLOSED).ref
    return world.restore(ref, force=True, principal="agent:support")


def too_late(world: World) -> Envelope:
    ref = world.call("send_customer_email", MAIL).ref
    world.carry_out()
    return world.restore(ref)


def restore_conflict(world: World) -> Envelope:
    ref = world.call("update_ticket", CLOSED).ref
    world.sql("UPDATE shop.tickets SET status = 'open' WHERE id = 'T-7'")
    return world.restore(ref)


def restore_expired(world: World) -> Envelope:
    ref = world.call("delete_customer", {"customer_id": "C-1"}).ref
    world.sql("UPDATE takeback.intents SET settled_at = settled_at - interval '31 days'")
    return world.restore(ref)


ANSWERS: Mapping[str, Callable[[World], Envelope]] = {
    "invalid_argument": lambda w: w.call("update_ticket", {"ticket_id": "T-7", "status": "OPEN"}),
    "no_such_value": lambda w: w.call("update_ticket", {"ticket_id": "T-99", "status": "open"}),
    "unknown_argument": lambda w: w.call("update_ticket", {**CLOSED, "idempotency_key": "k-1"}),
    "unknown_tool": lambda w: w.call("update_tickets", CLOSED),
    "key_conflict": key_conflict,
    "preview_stale": lambda w: w.call("update_ticket", CLOSED, expect="p-1"),
    "no_such_ref": no_such_ref,
    "no_transaction": no_transaction,
    "in_progress": in_progress,
    "no_access": no_access,
    "too_late": too_late,
    "not_restorable": lambda w: w.restore(rejected(w).ref),
    "restore_conflict": restore_conflict,
    "restore_expired": restore_expired,
    "provider_rejected": rejected,
    "in_doubt": in_doubt,
}


def steady(value: Any) -> Any:
    """The same answer with one ref, one instant and one trace id in the place of all.

    A ref that was copied without its end stays without it.

    >>> steady({"ref": "a-1234ABCD", "trace_id": "f00d", "at": "at 12:00:00Z"})
    {'ref': 'a-7F3K9QDM', 'trace_id': '5d2d3aa4dd82c1b8', 'at': 'at 2026-11-29T14:05:10Z'}
    """
    if isinstance(value, Mapping):
        return {
            name: "5d2d3aa4dd82c1b8" if name == "trace_id" else steady(one)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [steady(one) for one in value]
    if isinstance(value, str):
        named = REF.sub(lambda ref: f"{ref[1]}-{'7F3K9QDM'[: len(ref[2])]}", value)
        return INSTANT.sub("2026-11-29T14:05:10Z", named)
    return value
