"""A ledger with lives of every kind in it, and what a superuser's hand can do to it."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from takeback.audit.proof import Problem
from takeback.audit.verify import Verdict, verify
from takeback.audit.walk import prove
from takeback.ledger.appending import append
from takeback.ledger.audit_reading import FIRST, walk_intents
from takeback.ledger.database import Database
from takeback.ledger.transaction import adopt
from takeback.model import command as commands
from takeback.model.chain import body_digest
from tests.ledger.scribe import Entry, Scribe, apply, recorded, take

LEASE = timedelta(seconds=30)
CLAIM = commands.Claim(worker="w", lease=LEASE)
BEGIN = commands.Begin(lease=LEASE)
FAR_OFF = datetime(2999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """An intent of the ledger: who it is, and how many events it has."""

    id: UUID
    ref: str
    events: int


def fill(url: str, rng: random.Random) -> dict[str, Life]:
    """Commits one intent of each kind of life."""
    scribe = Scribe(rng)
    lives: dict[str, Life] = {}
    with psycopg.connect(url) as tx:

        def live(name: str, entry: Any, *steps: Any) -> None:
            minted = recorded(tx, entry)
            version = 1
            for step in steps:
                version = apply(tx, scribe, minted.id, *step).version
            lives[name] = Life(id=minted.id, ref=entry.event.ref, events=version)

        live("held", scribe.entry())
        live("due", scribe.due(not_before_us=1))
        live("waiting", scribe.entry(becomes="waiting", after=("a-1",)))
        live("claimed", scribe.due(), [CLAIM])
        live("executing", scribe.due(), [CLAIM, BEGIN])
        live(
            "cancelled",
            scribe.entry(),
            [commands.Cancel(by="dana", via="restore-00000000")],
        )
        doubt = [
            [CLAIM, BEGIN],
            [commands.LoseTrack(cause="exception")],
            [commands.Park(cause="outcome_unknown")],
        ]
        live("parked", scribe.due(repeat_of="a-0", run=None), *doubt)
        lives["succeeded"] = _succeed(tx, scribe)
        live("asked", scribe.asking())
        live("asked for ever", scribe.asking(approval_us=None))
        approve = commands.Approve(by="dana", saw="ef2d127d")
        live("approved", scribe.asking(), [approve])
        live("expired", scribe.asking(approval_us=0), [commands.ExpireApproval()])
        over = commands.AskApproval(cause="limit", approval_for=LEASE)
        live("asked at release", scribe.due(), [CLAIM], [over])
        live("approved at release", scribe.due(), [CLAIM, over], [approve])
        live("put off", scribe.entry(), [commands.Postpone(until=FAR_OFF)])
        live("put off, due", scribe.due(), [commands.Postpone(until=FAR_OFF)])
        deny = commands.Deny(by="mo", reason=None)
        refuse = commands.Refuse(code="limit_exceeded")
        lives["denied"] = _decide(tx, scribe, scribe.asking(), deny, "reason")
        lives["over a limit"] = _decide(tx, scribe, scribe.due(), refuse, "error", CLAIM)
        tx.execute("SET CONSTRAINTS ALL IMMEDIATE")
    return lives


def _succeed(tx: psycopg.Connection[Any], scribe: Scribe) -> Life:
    entry = scribe.due()
    minted = recorded(tx, entry)
    apply(tx, scribe, minted.id, CLAIM, BEGIN)
    body = scribe.body("result", '{"id":"m-1"}')
    (taken,) = take(tx, minted.id)
    succeed = commands.Succeed(result=body_digest(body.salt, body.text), affected_count=3)
    (after,) = append(adopt(tx), [scribe.change(taken, succeed, bodies=[body])])
    return Life(id=minted.id, ref=entry.event.ref, events=after.version)


def _decide(
    tx: psycopg.Connection[Any],
    scribe: Scribe,
    entry: Entry,
    command: commands.Command,
    name: str,
    *before: commands.Command,
) -> Life:
    """A life that ends in a decision with a body of that name beside it."""
    minted = recorded(tx, entry)
    if before:
        apply(tx, scribe, minted.id, *before)
    body = scribe.body(name, '"too much"')
    digest: dict[str, Any] = {name: body_digest(body.salt, body.text)}
    (taken,) = take(tx, minted.id)
    change = scribe.change(taken, replace(command, **digest), bodies=[body])
    (after,) = append(adopt(tx), [change])
    return Life(id=minted.id, ref=entry.event.ref, events=after.version)


def take_guards_down(tx: psycopg.Connection[Any]) -> None:
    """Lets a superuser change the log, until the transaction is rolled back."""
    tx.execute("ALTER TABLE takeback.events DISABLE TRIGGER events_are_append_only")


def problems_in(tx: psycopg.Connection[Any]) -> list[Problem]:
    """What does not prove of the ledger as an open transaction sees it."""
    adopted = adopt(tx)
    rows = walk_intents(adopted, FIRST, 10_000)
    return [one for proof in prove(adopted, FIRST, None, rows) for one in proof.problems]


def named(problems: Iterable[Problem]) -> set[tuple[str, int | None]]:
    """Who is named: the refs, with the versions."""
    return {(problem.ref, problem.version) for problem in problems}


def proved(url: str) -> Verdict:
    """The verdict about a database."""
    database = Database(url)
    try:
        return verify(database)
    finally:
        database.close()
