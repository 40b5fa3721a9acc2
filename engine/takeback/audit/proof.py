"""What the stored rows of one intent prove, and what they contradict.

Pure: fed with an intent's row, its events in the order of their versions, then its bodies.

    chain         each event's hash is of its own bytes and of the one before; the last is the row's
    versions      1, 2, 3 … without a gap, at positions that grow
    fold          the events, one after another, give the row in every column but one
    bodies        each is the one whose salted digest an event names

``lease_until`` is left out of the fold, since a lease is renewed without an event; whether there is
one is compared. A body that is gone is erased, which is no fault, except where the intent can't be
carried out without it. The other way round, nothing may be left of what is purged.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import assert_never
from uuid import UUID

from takeback.ledger.audit_reading import Identity, Projected, Sealed
from takeback.ledger.reading import Stored
from takeback.model import event as events
from takeback.model.chain import GENESIS, HASH_BYTES, chain_hash
from takeback.model.errors import LedgerCorrupt
from takeback.model.event import Event
from takeback.model.evolve import evolve
from takeback.model.intent import Intent, State

NEEDS_ARGUMENTS = frozenset(
    {
        State.AWAITING_APPROVAL,
        State.WAITING,
        State.HELD,
        State.DUE,
        State.CLAIMED,
        State.EXECUTING,
    }
)
"""Still to be carried out, from the stored arguments."""

COMPARED = tuple(field.name for field in fields(Intent) if field.name != "lease_until")

MISSING_MAX = 10
"""Events named in one gap; a longer one is as broken."""

LINKS_MAX = 3
"""Hashes that the next event may follow from, after some that were changed in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something stored that does not prove.

    ``ref`` is empty where no row and no event tells it. ``version`` is that of the event it is
    about; for a row, that of the last event.
    """

    ref: str
    intent_id: UUID
    tenant: str
    version: int | None
    what: str

    def __str__(self) -> str:
        where = self.ref or str(self.intent_id)
        event = "" if self.version is None else f" event {self.version}"
        return f"{where}{event}: {self.what}"


class Proof:
    """The proof of one intent, built up while its rows stream by."""

    def __init__(self, identity: Identity) -> None:
        self.tenant, self.intent_id = identity
        self.row: Projected | None = None
        self.folded: Intent | None = None
        self.is_chained = True
        self.differing: tuple[str, ...] = ()
        self.events = 0
        self._refs: list[str] = []
        self._found: list[tuple[int | None, str]] = []
        self._digests: dict[tuple[int, str], str] = {}
        self._seen: set[tuple[int, str]] = set()
        self._version = 0
        self._position = 0
        self._hash = GENESIS
        self._links: tuple[bytes, ...] = (GENESIS,)

    @property
    def identity(self) -> Identity:
        """Which intent it is about."""
        return self.tenant, self.intent_id

    @property
    def problems(self) -> list[Problem]:
        """What was found so far."""
        ref = self._refs[0] if self._refs else ""
        return [
            Problem(
                ref=ref,
                intent_id=self.intent_id,
                tenant=self.tenant,
                version=version,
                what=what,
            )
            for version, what in self._found
        ]

    def take(self, part: Projected | Stored | Sealed) -> None:
        """The next part: first the row, then the events by version, then the bodies."""
        match part:
            case Projected():
                self.row = part
                self._refs.append(part.ref)
            case Stored():
                self._take_event(part)
            case Sealed():
                self._take_body(part)
            case _:
                assert_never(part)

    def finish(self) -> None:
        """Compares what was taken with the row, as far as the log itself is whole."""
        if self.events == 0:
            self.is_chained = False
            if self.row is not None:
                self._found.append((None, "the intent has no events"))
        elif self.row is None:
            self._found.append((self._version, "the intent has no row"))
            self.differing = COMPARED
        else:
            self._check_end(self.row)
            if self.is_chained:
                self._compare(self.row.intent)

    def _take_event(self, stored: Stored) -> None:
        self.events += 1
        self._check_version(stored.version)
        if stored.position <= self._position:
            self._break(stored.version, "its position is not behind that of the event before")
        self._position = max(self._position, stored.position)
        self._check_link(stored)
        self._fold(stored)

    def _take_body(self, body: Sealed) -> None:
        self._seen.add((body.version, body.name))
        digest = self._digests.get((body.version, body.name))
        if digest is None and self.is_chained:
            self._found.append((body.version, f"no event names the body {body.name!r}"))
        elif digest is not None and digest != body.digest:
            self._found.append((body.version, f"the body {body.name!r} is not the one recorded"))

    def _check_version(self, version: int) -> None:
        if version < 1:
            self._break(version, "versions count from 1")
        elif version > self._version + 1:
            self._miss(version - 1)
            # What comes behind a gap has lost its predecessor: its own bytes can't be proved.
            self._links = ()
        self._version = version

    def _check_link(self, stored: Stored) -> None:
        links = [_hash_of(stored, link) for link in self._links if len(link) == HASH_BYTES]
        self._hash = stored.hash
        if not self._links or stored.hash in links:
            self._links = (stored.hash,)
            return
        self._break(stored.version, "the event is not the one that its hash was taken over")
        # Where a hash itself was changed, the next event still follows from the true one.
        self._links = (stored.hash, *links)[:LINKS_MAX]

    def _check_end(self, row: Projected) -> None:
        """The row's hash is a witness of the log's end that lies outside of the log."""
        if row.head_hash == self._hash:
            return
        if row.version > self._version:
            self._miss(row.version)
        elif self.is_chained:
            self._break(self._version, "the row knows another event as the last")

    def _fold(self, stored: Stored) -> None:
        try:
            fact = stored.fact()
            if self.is_chained:
                self.folded = evolve(self.folded, fact)
        except (LedgerCorrupt, OverflowError) as problem:
            if self.is_chained:
                self._break(stored.version, f"the event can't be read, or can't follow: {problem}")
            return
        if isinstance(fact.event, events.Recorded):
            # A proven event is believed before the row.
            self._refs.insert(0 if self.is_chained else len(self._refs), fact.event.ref)
        for name, digest in named_bodies(fact.event).items():
            self._digests[fact.version, name] = digest

    def _compare(self, row: Intent | None) -> None:
        folded = self.folded
        if row is None or folded is None:
            self._found.append((self._version, "the row holds what no intent can be"))
            self.differing = COMPARED
            return
        self.differing = differing(folded, row)
        if self.differing:
            names = ", ".join(self.differing)
            self._found.append((self._version, f"the row differs from the log in: {names}"))
        if folded.state in NEEDS_ARGUMENTS and (1, "arguments") not in self._seen:
            self._found.append((1, "the arguments of what is still to be done are gone"))
        if folded.state is State.PURGED and self._seen:
            self._found.append((self._version, "it is purged, and bodies of it are left"))

    def _miss(self, last: int) -> None:
        for version in range(self._version + 1, min(last, self._version + MISSING_MAX) + 1):
            self._break(version, "the event is missing")

    def _break(self, version: int | None, what: str) -> None:
        self.is_chained = False
        self._found.append((version, what))


def _hash_of(stored: Stored, previous: bytes) -> bytes:
    return chain_hash(
        previous=previous,
        tenant=stored.tenant,
        intent_id=stored.intent_id,
        version=stored.version,
        position=stored.position,
        kind=stored.kind,
        schema=stored.schema,
        at_us=stored.at_us,
        payload=stored.payload,
    )


def differing(folded: Intent, row: Intent) -> tuple[str, ...]:
    """The columns in which a row is not what the log says.

    The lease may have been renewed since its event, so only its presence is compared.
    """
    names = [name for name in COMPARED if getattr(folded, name) != getattr(row, name)]
    if (folded.lease_until is None) != (row.lease_until is None):
        names.append("lease_until")
    return tuple(names)


def named_bodies(event: Event) -> dict[str, str]:
    """The bodies that lie beside an event: name -> the digest that the event holds."""
    match event:
        case events.Recorded(arguments=digest, affected=affected):
            named: dict[str, str | None] = {"arguments": digest, "affected": affected}
        case events.Denied(reason=digest):
            named = {"reason": digest}
        case events.WaitFailed(waited_for=digest):
            named = {"waited_for": digest}
        case events.Succeeded(result=digest, source=source):
            # A late answer brought the body: it lies beside that event, one before.
            named = {} if source == "late" else {"result": digest}
        case events.Failed(error=digest, source=source):
            named = {} if source == "late" else {"error": digest}
        case events.AnsweredLate(outcome=outcome, body=digest):
            named = {"result" if outcome == "succeeded" else "error": digest}
        case _:
            named = {}
    return {name: digest for name, digest in named.items() if digest is not None}
