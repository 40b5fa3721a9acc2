"""Recording a call: one statement that inserts an intent or finds its twin.

The statement looks for a committed twin first. Only when there is none does it *try* the key's
advisory lock, which whoever records the same key holds until the end of its transaction: so two
callers never wait for each other's row, and a caller's transaction is never aborted by a twin under
READ COMMITTED. Five answers follow:

    recorded      the intent, its first event and the body of its arguments are in this transaction
    found         a twin that this transaction sees
    former        one that it sees under a key of an earlier recipe of the row; the gates of all of
                  these keys are held, unless somebody else holds one of them
    busy          a twin is uncommitted elsewhere: nothing was written
    shadowed      the twin committed between the look and the lock: a second statement sees it
                  (READ COMMITTED), or the ref was taken and another one is needed

Under REPEATABLE READ and SERIALIZABLE a shadowed twin is a serialization failure instead, and so is
one behind the snapshot that only an earlier recipe, or only a later one, takes for a twin.

What happens inside is in the function ``takeback.record``, made by the migrations: the
database plans it once a session, which sent as text it would do at every call where no statements
are prepared. The casts choose among the functions of that name that releases need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal
from uuid import UUID

from sqlalchemy import text

from takeback.ledger.hindering import hindrance_of
from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx
from takeback.model.errors import LedgerCorrupt
from takeback.model.event import Recorded, encode
from takeback.model.hindrance import UNHINDERED, Hindrance
from takeback.model.intent import instant

RECORD = Statement(
    name="record",
    sentence="Inserts an intent, its first event and its bodies, or finds the twin of its key.",
    index="intents_key_is_recorded_once",
    lock="the key's advisory lock (tried), the barrier (shared), the new rows",
    text=text("""
SELECT takeback.record(
    CAST(:tenant AS text), CAST(:key AS text), CAST(:generation AS int),
    CAST(:key_lock AS bigint), CAST(:ref AS text), CAST(:tool AS text),
    CAST(:tool_version AS int), CAST(:effect AS text), CAST(:run AS text),
    CAST(:principal AS text), CAST(:state AS text), CAST(:window_us AS bigint),
    CAST(:not_before_us AS bigint), CAST(:after AS text[]), CAST(:restores AS uuid),
    CAST(:repeat_of AS text), CAST(:payload AS text), CAST(:salt AS bytea),
    CAST(:arguments AS text), CAST(:on_behalf_of AS text), CAST(:approval_us AS bigint),
    CAST(:affected_salt AS bytea), CAST(:affected AS text), CAST(:former_keys AS text[]),
    CAST(:former_locks AS bigint[]), CAST(:schema AS int),
    CAST(:lane AS text), CAST(:priority AS smallint), CAST(:ordering AS text)),
    takeback.hindered(CAST(:tenant AS text), CAST(:tool AS text), CAST(:run AS text),
                      CAST(:lane AS text), CAST(:restores AS uuid))
"""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minted:
    """What the database gave a fresh intent, and what keeps it from beginning."""

    id: UUID
    recorded_at: datetime
    head_hash: bytes
    hindrance: Hindrance = UNHINDERED


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The answer of the recording statement."""

    answer: Literal["recorded", "found", "former", "busy", "shadowed"]
    minted: Minted | None = None
    twin: UUID | None = None


def record(
    tx: Tx,
    tenant: str,
    event: Recorded,
    *,
    arguments: str,
    salt: bytes,
    affected: tuple[bytes, str] | None = None,
    former_keys: Sequence[str] = (),
) -> Recording:
    """Records the intent that ``event`` begins, or says what stands in its place.

    ``arguments`` is the stored body whose salted digest the event holds; so is ``affected``, a salt
    and a body. ``former_keys`` are those that earlier recipes of the row give this call: tried like
    its own, and claimed with it, so that processes of an earlier catalog find it.
    """
    assert (affected is None) == (event.affected is None), "a body and its digest go together"
    said, hindrances = tx.row(
        RECORD,
        {
            "tenant": tenant,
            "key": event.key,
            "key_lock": key_lock(tenant, event.key),
            "generation": event.generation,
            "payload": encode(event),
            "ref": event.ref,
            "tool": event.tool,
            "tool_version": event.tool_version,
            "effect": event.effect,
            "run": event.run,
            "principal": event.principal,
            "state": event.becomes,
            "window_us": event.window_us,
            "not_before_us": event.not_before_us,
            "restores": event.restores,
            "repeat_of": event.repeat_of,
            "after": list(event.after) or None,
            "salt": salt,
            "arguments": arguments,
            "on_behalf_of": event.on_behalf_of,
            "approval_us": event.approval_us,
            "affected_salt": affected[0] if affected else None,
            "affected": affected[1] if affected else None,
            "former_keys": list(former_keys) or None,
            "former_locks": [key_lock(tenant, key) for key in former_keys] or None,
            "schema": event.schema,
            "lane": event.lane,
            "priority": event.priority,
            "ordering": event.ordering,
        },
    )
    return _understood(said, hindrance_of(hindrances, event.lane))


def _understood(said: str, hindrance: Hindrance) -> Recording:
    match said.split(" "):
        case ["recorded", id_, recorded_us, head]:
            minted = Minted(
                id=UUID(id_),
                recorded_at=instant(int(recorded_us)),
                head_hash=bytes.fromhex(head),
                hindrance=hindrance,
            )
            return Recording(answer="recorded", minted=minted)
        case ["found", twin]:
            return Recording(answer="found", twin=UUID(twin))
        case ["former", twin]:
            return Recording(answer="former", twin=UUID(twin))
        case ["busy"]:
            return Recording(answer="busy")
        case ["shadowed"]:
            return Recording(answer="shadowed")
    raise LedgerCorrupt(f"expected an answer of takeback.record, found {said!r}")


def key_lock(tenant: str, key: str) -> int:
    """The 64-bit advisory lock of a key; a collision makes two keys wait for each other, no more.

    >>> key_lock("t", "k") == key_lock("t", "k") != key_lock("u", "k")
    True
    """
    digest = sha256(f"{len(tenant)}:{tenant}{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
