"""The library of the release before, as far as a database notices it: its statements, word by word.

``statements_0002.json`` holds every statement that it says, by name, as the driver is given it, and
``accepted_0002.json`` every payload that it can read: of each kind and schema the fields, all of
which have to be there and no other, with the words that a closed one may hold.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from takeback.ledger.database import sqlalchemy_url
from takeback.ledger.projection import changed_columns, intent_of
from takeback.ledger.recording import key_lock
from takeback.model.chain import GENESIS, chain_hash
from takeback.model.event import Event, encode
from takeback.model.evolve import foresee
from takeback.model.intent import Intent, instant, micros
from tests.ledger.scribe import Entry

STATEMENTS: dict[str, str] = json.loads(
    (Path(__file__).parent / "statements_0002.json").read_text()
)
ACCEPTED: dict[str, dict[str, list[str] | None]] = json.loads(
    (Path(__file__).parent / "accepted_0002.json").read_text()
)
WIDTH = 34
TOOLS = json.dumps({"send_customer_email": 1})
LATER_FIELDS = frozenset({"lane", "priority", "ordering"})
SCHEMAS = {"intent.recorded": 2, "intent.approved": 2}


def migrate(url: str, *, to: str = "0002") -> None:
    """Brings the database to the schema of the release before, or another revision."""
    config = Config()
    config.set_main_option("script_location", "takeback_migrations:")
    engine = create_engine(sqlalchemy_url(url), poolclass=NullPool)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, to)


@contextmanager
def connected(url: str) -> Iterator["ReleaseBefore"]:
    """A process of the release before; its last transaction is committed at the end."""
    with psycopg.connect(url) as tx:
        yield ReleaseBefore(tx)


def is_read(kind: str, schema: int, payload: str) -> bool:
    """Whether that release can read an event that is stored so; else its log is corrupt."""
    accepted = ACCEPTED.get(f"{kind} {schema}")
    fields = json.loads(payload)
    if accepted is None or fields.keys() != accepted.keys():
        return False
    return all(words is None or fields[name] in words for name, words in accepted.items())


def payload_of(event: Event) -> str:
    """The payload as that release writes it."""
    fields = json.loads(encode(event))
    kept = {name: value for name, value in fields.items() if name not in LATER_FIELDS}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"))


class ReleaseBefore:
    """Says the statements of that release in one transaction."""

    def __init__(self, tx: psycopg.Connection[Any]) -> None:
        self.tx = tx

    def say(self, name: str, **parameters: Any) -> list[Any]:
        """The rows of a statement."""
        return self.tx.execute(STATEMENTS[name].encode(), parameters).fetchall()

    def record(self, entry: Entry) -> str:
        """What the recording statement answers."""
        event = entry.event
        ((said,),) = self.say(
            "record",
            **_columns(entry),
            generation=event.generation,
            after=list(event.after) or None,
            restores=event.restores,
            salt=entry.salt,
            tenant=entry.tenant,
            affected_salt=entry.affected[0] if entry.affected else None,
            affected=entry.affected[1] if entry.affected else None,
            former_keys=list(entry.former_keys) or None,
            former_locks=[key_lock(entry.tenant, key) for key in entry.former_keys] or None,
            schema=SCHEMAS["intent.recorded"],
        )
        return str(said)

    def recorded(self, entry: Entry) -> UUID:
        """Records, and there is no twin."""
        word, id_, *_ = self.record(entry).split(" ")
        assert word == "recorded"
        return UUID(id_)

    def record_many(self, *entries: Entry) -> int:
        """How many of a batch were recorded."""
        calls = [
            _columns(entry)
            | {"ordinal": n, "after": list(entry.event.after), "salt": entry.salt.hex()}
            for n, entry in enumerate(entries)
        ]
        tenant = entries[0].tenant
        rows = self.say(
            "record_many",
            tenant=tenant,
            genesis=GENESIS,
            calls=json.dumps(calls),
            schema=SCHEMAS["intent.recorded"],
        )
        return len(rows)

    def lock(self, id_: UUID) -> Any:
        """The row of an intent, locked, with the clock and its places in the log."""
        ((*row,),) = self.say("lock", tenant="default", ids=[str(id_)])
        return row

    def lock_due(self) -> list[Any]:
        """What may be claimed, locked."""
        return self.say("lock_due", tools=TOOLS, limit=10, tenant=None)

    def append(self, *changes: tuple[Any, list[Event]]) -> None:
        """Stores events and projections, without bodies."""
        laid_out = [_laid_out(row, following) for row, following in changes]
        rows = [row for row, _ in laid_out]
        events = json.dumps([event for _, stored in laid_out for event in stored])
        if len(rows) == 1:
            said = self.say("append", intents=json.dumps(rows[0]), events=events, bodies="[]")
        else:
            said = self.say(
                "append_many", intents=json.dumps(rows), events=events, bodies="[]", count=len(rows)
            )
        assert said == [(len(rows),)]


def intent_in(row: Any) -> Intent:
    """The intent as that release knows it: what came later it does not read."""
    return intent_of((*row[:WIDTH], "", 0, None))


def _columns(entry: Entry) -> dict[str, Any]:
    event = entry.event
    return {
        "key": event.key,
        "key_lock": key_lock(entry.tenant, event.key),
        "payload": payload_of(event),
        "ref": event.ref,
        "tool": event.tool,
        "tool_version": event.tool_version,
        "effect": event.effect,
        "run": event.run,
        "principal": event.principal,
        "state": event.becomes,
        "window_us": event.window_us,
        "not_before_us": event.not_before_us,
        "repeat_of": event.repeat_of,
        "arguments": entry.arguments,
        "on_behalf_of": event.on_behalf_of,
        "approval_us": event.approval_us,
    }


def _laid_out(row: Any, following: list[Event]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    before = intent_in(row)
    now, places = instant(row[WIDTH]), row[WIDTH + 1]
    link = before.head_hash
    stored: list[dict[str, Any]] = []
    for place, event in zip(places, following, strict=False):
        link = chain_hash(
            previous=link,
            tenant=before.tenant,
            intent_id=before.id,
            version=before.version + len(stored) + 1,
            position=place,
            kind=event.KIND,
            schema=SCHEMAS.get(event.KIND, 1),
            at_us=micros(now),
            payload=payload_of(event),
        )
        stored.append(
            {
                "tenant": before.tenant,
                "intent_id": str(before.id),
                "version": before.version + len(stored) + 1,
                "position": place,
                "kind": event.KIND,
                "schema": SCHEMAS.get(event.KIND, 1),
                "at_us": micros(now),
                "payload": payload_of(event),
                "hash": link.hex(),
            }
        )
    columns = changed_columns(foresee(before, following, now)) | {"head_hash": link.hex()}
    was = {"tenant": before.tenant, "id": str(before.id), "was": before.version}
    return was | columns, stored
