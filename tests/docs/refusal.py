"""One real call for each answer that docs/errors.md shows, made on the shop."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from takeback import Envelope, Settings, Takeback
from takeback.declare import PER_TENANT, REFUSE, Limit, days
from takeback.testing import Drop, MailServer, MailStage
from takeback_shop import handlers

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

    @contextmanager
    def without_column(self, table: str, column: str) -> Iterator[None]:
        """A schema that the shop's code does not expect, for the length of a block."""
        self.sql(f"ALTER TABLE {table} RENAME COLUMN {column} TO renamed")
        try:
            yield
        finally:
            self.sql(f"ALTER TABLE {table} RENAME COLUMN renamed TO {column}")

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


def invalid_argument(world: World) -> Envelope:
    return world.call("update_ticket", {"ticket_id": "T-7", "status": "OPEN"})


def no_such_value(world: World) -> Envelope:
    return world.call("update_ticket", {"ticket_id": "T-99", "status": "open"})


def approval_expired(world: World) -> Envelope:
    asked = world.call("refund_charge", LARGE)
    world.sql("UPDATE takeback.intents SET expires_at = takeback.now() - interval '1 second'")
    return world.app.status(asked.ref or "")


LARGE = {**REFUND, "charge_id": "ch_2", "amount": 90_000}


def approval_denied(world: World) -> Envelope:
    asked = world.call("refund_charge", LARGE)
    world.app.deny(None, asked.ref or "", principal="dana")
    return world.app.status(asked.ref or "")


def approval_mismatch(world: World) -> Envelope:
    asked = world.call("refund_charge", LARGE)
    world.app.approve(None, asked.ref or "", principal="dana")
    return world.call("refund_charge", {**LARGE, "reason": "fraudulent"})


def resolved_failed(world: World) -> Envelope:
    ref = in_doubt(world).ref or ""
    world.app.resolve(None, ref, "failed", principal="dana", note="asked the mail server")
    return world.app.status(ref)


def first_in_doubt(world: World) -> Envelope:
    ref = in_doubt(world).ref or ""
    return world.call("send_customer_email", MAIL, repeat_of=ref)


def waited_in_vain(world: World) -> Envelope:
    first = world.call("refund_charge", REFUND).ref or ""
    mail = world.call("send_customer_email", MAIL, after=[first])
    world.restore(first)
    world.carry_out()
    return world.app.status(mail.ref or "")


def wrong_state(world: World) -> Envelope:
    asked = world.call("send_customer_email", MAIL)
    return world.app.retry(None, asked.ref or "", principal="dana")


def needs_approval(world: World) -> Envelope:
    asked = world.call("refund_charge", LARGE)
    return world.app.resolve(None, asked.ref or "", "succeeded", principal="dana")


def limit_exceeded(world: World) -> Envelope:
    daily = Limit(per=days(1), count=1, scope=PER_TENANT, over=REFUSE)
    with closing(
        Takeback(
            world.app.catalog,
            handlers=handlers,
            settings=Settings(database_url=world.url),
            limits=[daily],
        )
    ) as app:
        app.call(None, "update_ticket", CLOSED)
        return app.call(None, "update_ticket", {"ticket_id": "T-1", "status": "open"})


def frozen(world: World) -> Envelope:
    world.app.freeze(tool="update_ticket", reason="an inquiry", principal="dana")
    return world.call("update_ticket", CLOSED)


def database_unavailable(world: World) -> Envelope:
    away = Settings(database_url="postgresql://nobody@127.0.0.1:1/shop")
    with closing(Takeback(world.app.catalog, handlers=handlers, settings=away)) as app:
        app.context = replace(app.context, pause=lambda _: None)
        return app.call(None, "update_ticket", CLOSED)


def internal_error(world: World) -> Envelope:
    with world.without_column("shop.tickets", "status"):
        return world.call("update_ticket", CLOSED)


def provider_unavailable(world: World) -> Envelope:
    with world.without_column("shop.tickets", "status"):
        return world.call("search_orders", {"query": "espresso"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One answer of the page: what led to it, in a sentence, and the call that makes it."""

    caption: str
    make: Callable[[World], Envelope]


ANSWERS: Mapping[str, Example] = {
    "invalid_argument": Example(
        caption="A status in capitals: only one reading is possible", make=invalid_argument
    ),
    "no_such_value": Example(caption="An argument that names nothing", make=no_such_value),
    "unknown_argument": Example(
        caption="A model that sends a key of its own",
        make=lambda w: w.call("update_ticket", {**CLOSED, "idempotency_key": "k-1"}),
    ),
    "unknown_tool": Example(
        caption="A tool that is called something else",
        make=lambda w: w.call("update_tickets", CLOSED),
    ),
    "key_conflict": Example(caption="The same refund for another reason", make=key_conflict),
    "first_in_doubt": Example(
        caption="Once more, although the first may have happened", make=first_in_doubt
    ),
    "preview_stale": Example(
        caption="An expectation that no preview gave",
        make=lambda w: w.call("update_ticket", CLOSED, expect="p-1"),
    ),
    "no_such_ref": Example(caption="A ref that was copied without its end", make=no_such_ref),
    "no_transaction": Example(caption="A connection in autocommit", make=no_transaction),
    "in_progress": Example(caption="A call whose twin is not committed yet", make=in_progress),
    "database_unavailable": Example(caption="A ledger that is away", make=database_unavailable),
    "provider_unavailable": Example(
        caption="A search that can't be made, which is not the same as one that finds nothing",
        make=provider_unavailable,
    ),
    "provider_rejected": Example(
        caption="A refund that the provider refused when its time had come", make=rejected
    ),
    "no_access": Example(caption="An agent that forces a restore", make=no_access),
    "needs_approval": Example(
        caption="A person says what became of a refund that has still to be approved",
        make=needs_approval,
    ),
    "approval_mismatch": Example(
        caption="Another reason than the one that a person has approved", make=approval_mismatch
    ),
    "approval_denied": Example(
        caption="A refund to which a person has said no", make=approval_denied
    ),
    "approval_expired": Example(
        caption="A refund that nobody has approved in time", make=approval_expired
    ),
    "wrong_state": Example(
        caption="A person has a mail tried again that has not left yet", make=wrong_state
    ),
    "resolved_failed": Example(
        caption="A mail of which a person has found out that it never left", make=resolved_failed
    ),
    "waited_in_vain": Example(
        caption="A mail that was to leave after a refund, which somebody has taken back",
        make=waited_in_vain,
    ),
    "limit_exceeded": Example(
        caption="The second ticket of a day that allows one", make=limit_exceeded
    ),
    "frozen": Example(caption="A tool that a person has stopped", make=frozen),
    "too_late": Example(caption="Taking back a mail that has left", make=too_late),
    "not_restorable": Example(
        caption="Taking back a refund that never happened",
        make=lambda w: w.restore(rejected(w).ref),
    ),
    "restore_expired": Example(
        caption="Taking back a deletion after a month", make=restore_expired
    ),
    "restore_conflict": Example(
        caption="Taking back what somebody else has changed since", make=restore_conflict
    ),
    "internal_error": Example(
        caption="A handler that broke: an operator sees how, with `takeback show` and the trace id",
        make=internal_error,
    ),
    "in_doubt": Example(
        caption="An attempt whose answer was lost, which is no error", make=in_doubt
    ),
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
