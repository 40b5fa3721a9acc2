"""Writes intents into a ledger as the library does, one layer below its client."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg

from takeback.ledger import batch, reading, recording
from takeback.ledger.appending import Body, Change, append
from takeback.ledger.batch import Recordable
from takeback.ledger.locking import Taken, lock
from takeback.ledger.reading import Stored
from takeback.ledger.recording import Minted, Recording
from takeback.ledger.transaction import adopt
from takeback.model import command as commands
from takeback.model.chain import body_digest
from takeback.model.decide import decide
from takeback.model.event import Event, Recorded
from takeback.model.evolve import evolve
from takeback.model.intent import Fact, Intent
from takeback.model.ref import make_ref

TENANT = "default"
PATIENCE_SECONDS = 20.0  # far beyond what anything here takes; a test that needs it has failed
MINUTE_US = 60_000_000
ARGUMENTS = '{"to":"dana@example.com"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A call on its way into the ledger."""

    event: Recorded
    arguments: str
    salt: bytes
    tenant: str = TENANT
    former_keys: tuple[str, ...] = ()
    affected: tuple[bytes, str] | None = None

    def with_(self, **fields: Any) -> "Entry":
        """The same call, recorded differently."""
        return replace(self, event=replace(self.event, **fields))


class Scribe:
    """Makes calls with dice, and records them on the connections that it is given."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def entry(self, arguments: str = ARGUMENTS, **fields: Any) -> Entry:
        """A remote call with a window of a minute, unless ``fields`` say otherwise."""
        salt = self.rng.randbytes(32)
        plain: dict[str, Any] = {
            "ref": make_ref("send_customer_email", self.rng.randbytes(5)),
            "tool": "send_customer_email",
            "tool_version": 1,
            "effect": "remote",
            "key": f"k1:{self.rng.randbytes(32).hex()}",
            "generation": 0,
            "run": "run-42",
            "principal": "agent:support",
            "becomes": "held",
            "window_us": MINUTE_US,
            "not_before_us": None,
            "arguments": body_digest(salt, arguments),
            "restores": None,
            "repeat_of": None,
        }
        return Entry(event=Recorded(**(plain | fields)), arguments=arguments, salt=salt)

    def due(self, **fields: Any) -> Entry:
        """A call that may be carried out at once."""
        plain: dict[str, Any] = {"becomes": "due", "window_us": 0}
        return self.entry(**(plain | fields))

    def local(self, **fields: Any) -> Entry:
        """A call whose effect lies in the same database."""
        plain: dict[str, Any] = {"becomes": "recorded", "effect": "local", "window_us": 0}
        return self.entry(**(plain | fields))

    def asking(self, approval_us: int | None = 3_600_000_000, **fields: Any) -> Entry:
        """A call that a person decides about first, with what it was foreseen to affect."""
        affected = (self.rng.randbytes(32), '[{"kind":"order","id":"O-1"}]')
        plain: dict[str, Any] = {
            "becomes": "awaiting_approval",
            "approval_cause": "row",
            "approval_us": approval_us,
            "affected": body_digest(*affected),
            "on_behalf_of": "dana",
        }
        return replace(self.entry(**(plain | fields)), affected=affected)

    def two_recipes(self, **fields: Any) -> tuple[Entry, Entry]:
        """One call as a catalog of the former recipe has it, and as today's has it."""
        former = self.entry(**fields)
        today = self.entry(**fields)
        return former, replace(today, former_keys=(former.event.key,))

    def change(self, taken: Taken, *given: commands.Command, bodies: Sequence[Body] = ()) -> Change:
        """What the commands make of a locked intent, one after the other."""
        intent = taken.intent
        events: list[Event] = []
        for command in given:
            following = decide(intent, command, taken.now)
            events += following
            for event in following:
                intent = evolve(intent, _fact(intent, taken, event))
        return Change(taken=taken, events=events, bodies=bodies)

    def body(self, name: str, text: str) -> Body:
        """A body with a salt of its own."""
        return Body(name=name, salt=self.rng.randbytes(32), text=text)


def record(connection: psycopg.Connection[Any], entry: Entry) -> Recording:
    """Records in the transaction that the connection is in."""
    return recording.record(
        adopt(connection),
        entry.tenant,
        entry.event,
        arguments=entry.arguments,
        salt=entry.salt,
        affected=entry.affected,
        former_keys=entry.former_keys,
    )


def recorded(connection: psycopg.Connection[Any], entry: Entry) -> Minted:
    """Records, and there is no twin."""
    answer = record(connection, entry)
    assert answer.answer == "recorded", answer
    assert answer.minted is not None
    return answer.minted


def record_many(connection: psycopg.Connection[Any], entries: Sequence[Entry]) -> dict[int, Minted]:
    """Records a batch in the transaction that the connection is in."""
    calls = [Recordable(event=e.event, arguments=e.arguments, salt=e.salt) for e in entries]
    return batch.record_many(adopt(connection), TENANT, calls)


def take(connection: psycopg.Connection[Any], *ids: UUID) -> list[Taken]:
    """The intents, locked."""
    return lock(adopt(connection), TENANT, ids)


def apply(
    connection: psycopg.Connection[Any], scribe: Scribe, id_: UUID, *given: commands.Command
) -> Intent:
    """Does the commands to one intent and leaves the transaction open."""
    (taken,) = take(connection, id_)
    (intent,) = append(adopt(connection), [scribe.change(taken, *given)])
    return intent


def events_of(connection: psycopg.Connection[Any], id_: UUID) -> list[Stored]:
    """The stored events of an intent."""
    return reading.history(adopt(connection), TENANT, id_)


def intent_of(connection: psycopg.Connection[Any], id_: UUID) -> Intent:
    """The row of an intent."""
    entry = reading.read(adopt(connection), TENANT, id_)
    assert entry is not None
    return entry.intent


def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits for what has to come; the pause is no part of what is tested."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        threading.Event().wait(0.005)
    return answer


def is_waiting(url: str, pid: int) -> bool:
    """Whether a backend waits for somebody's lock."""
    with closing(psycopg.connect(url, autocommit=True)) as eye:
        row = eye.execute(
            "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", [pid]
        ).fetchone()
    return bool(row and row[0])


def _fact(intent: Intent, taken: Taken, event: Any) -> Fact:
    return Fact(
        tenant=intent.tenant,
        intent_id=intent.id,
        version=intent.version + 1,
        position=0,
        at=taken.now,
        event=event,
    )
