"""A claimed intent with all that its face needs, or the reason why it can't be run here.

Arguments are read before anything begins: what can't be read as the row of today understands it is
parked for a person, and never run with arguments that mean something else by now. What a person
has approved is run with the very text that the approval is bound to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from takeback.catalog.registry import Bound, Registry
from takeback.client import local
from takeback.client.context import Context
from takeback.client.face import Broke, try_face
from takeback.client.restore_tool import RESTORE
from takeback.declare import Keyed, Local, Read, Remote
from takeback.dispatch.pace import GRACE_SECONDS
from takeback.ledger.reading import Entry, read_many
from takeback.ledger.snapshot import Snapshot, read_snapshots
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.model import errors
from takeback.model.arguments import Arguments, revive
from takeback.model.command import ParkCause
from takeback.model.handler import Attempt, Face
from takeback.model.intent import Intent, State
from takeback.model.shape import parsed

Identity = tuple[str, UUID]
"""The tenant and the id: what tells intents apart."""


def identity(intent: Intent) -> Identity:
    """What tells ``intent`` from every other."""
    return intent.tenant, intent.id


def writing_tools(registry: Registry) -> Mapping[str, int]:
    """The tools that a worker of this app has, with the versions of their rows.

    A Local call is due once a person has approved it; else it is performed where it is made.
    """
    writing = {b.name: b.tool.version for b in registry if not isinstance(b.effect, Read)}
    return {**writing, RESTORE.name: RESTORE.version}


def is_held_still(own: Intent, now: Intent) -> bool:
    """Whether ``now`` is still in the hands that ``own`` was read in: the fence of every write.

    A claim is told apart by its lease, an attempt by its number. Not by the version: late answers
    about earlier attempts are written down at any time.
    """
    if now.state is not own.state:
        return False
    if own.state is State.EXECUTING:
        return now.attempt == own.attempt
    return now.lease_until == own.lease_until


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """An intent on its way through one attempt.

    ``face`` is called with ``given``: the arguments, or for a restore the Original. ``original`` is
    the intent that a restore takes back, as it was read; ``canonical`` are the arguments as they
    are stored and compared, empty for a restore. ``foreseen`` is what a person was told that it
    would affect, None where they were told nothing. It ``is_probe`` when it is to find out whether
    the provider of a paused connector answers again.
    """

    intent: Intent
    bound: Bound
    face: Face
    given: Any
    original: Intent | None = None
    canonical: Mapping[str, Any] = field(default_factory=dict)
    foreseen: Mapping[str, Any] | None = None
    is_probe: bool = False

    @property
    def is_local(self) -> bool:
        """Whether its effect lies in the ledger's own database, and is settled with it."""
        return self.original is None and isinstance(self.bound.effect, Local)

    @property
    def is_keyed(self) -> bool:
        """Whether the provider keeps our key, so that a repeat of a call is harmless."""
        return self.original is None and is_keyed(self.bound)

    @property
    def seconds_max(self) -> float:
        """How long its attempt may take before it is given up."""
        effect = self.bound.effect
        return (effect.attempt_seconds_max if isinstance(effect, Remote) else 0.0) + GRACE_SECONDS

    @property
    def renews_lease(self) -> bool:
        """Whether its row lets an attempt outlast a lease, which is renewed meanwhile."""
        effect = self.bound.effect
        return isinstance(effect, Remote) and effect.renew_lease

    def with_intent(self, intent: Intent) -> Work:
        """The same work, one step of the lifecycle further."""
        return replace(self, intent=intent)

    def attempt(self) -> Attempt:
        """The attempt as its handler sees it."""
        intent = self.intent
        return Attempt(
            intent_id=str(intent.id),
            ref=intent.ref,
            tenant=intent.tenant,
            run=intent.run,
            principal=intent.principal,
            number=intent.attempt,
            provider_key=f"{intent.id}-{intent.epoch}",
            seconds_max=self.seconds_max - GRACE_SECONDS,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """A claimed intent that must not be begun, and why a person has to look."""

    cause: ParkCause


def is_keyed(bound: Bound) -> bool:
    """Whether the provider of the tool keeps our key."""
    return isinstance(bound.effect, Remote) and isinstance(bound.effect.upstream, Keyed)


def read_given(bound: Bound, stored: str | None) -> Arguments | None:
    """Stored arguments of the row's own version; None where ``load`` has to say what is wrong."""
    given = try_face(_read_given, bound, stored)
    return given if isinstance(given, Arguments) else None


def _read_given(bound: Bound, stored: str) -> Arguments:
    """What is stored is canonical: it was brought into that form when it was recorded."""
    canonical = json.loads(stored)
    return Arguments(model=parsed(bound.tool.arguments, canonical), canonical=canonical)


def load(context: Context, tx: Tx, intents: Sequence[Intent]) -> Mapping[Identity, Work | Unfit]:
    """What each of ``intents`` needs, read in three statements however many they are."""
    entries = _entries(tx, intents)
    originals = _entries(tx, [replace(i, id=i.restores) for i in intents if i.restores is not None])
    approved = _approved(tx, [i for i in intents if i.approved_by is not None])
    works: dict[Identity, Work | Unfit] = {}
    for intent in intents:
        bodies = approved.get(identity(intent), {})
        if isinstance(bodies, Unfit):
            works[identity(intent)] = bodies
        else:
            works[identity(intent)] = _work(context, intent, entries, originals, bodies)
    return works


def _entries(tx: Tx, intents: Sequence[Intent]) -> dict[Identity, Entry]:
    """Those that can be read; one whose bodies are damaged doesn't keep the others away."""
    if not intents:
        return {}
    try:
        entries = read_many(tx, intents)
    except (ValueError, RecursionError):
        entries = [entry for intent in intents for entry in _alone(tx, intent)]
    return {identity(entry.intent): entry for entry in entries}


def _alone(tx: Tx, intent: Intent) -> Sequence[Entry]:
    try:
        return read_many(tx, [intent])
    except (ValueError, RecursionError):
        return ()


def _approved(tx: Tx, intents: Sequence[Intent]) -> Mapping[Identity, Mapping[str, Any] | Unfit]:
    """The bodies that persons have approved, or why an intent must not be run with those it has."""
    if not intents:
        return {}
    try:
        snapshots = read_snapshots(tx, intents)
    except errors.LedgerCorrupt as problem:
        if len(intents) == 1:
            return {identity(intents[0]): _unfit(intents[0], "altered", problem)}
        return {who: what for one in intents for who, what in _approved(tx, [one]).items()}
    return {identity(i): _proven(i, snapshots.get(identity(i))) for i in intents}


def _proven(intent: Intent, snapshot: Snapshot | None) -> Mapping[str, Any] | Unfit:
    if snapshot is None:
        return _unfit(intent, "altered", None)
    try:
        return snapshot.approved()
    except errors.ApprovalMismatch as problem:
        return _unfit(intent, "altered", problem)


def _work(
    context: Context,
    intent: Intent,
    entries: Mapping[Identity, Entry],
    originals: Mapping[Identity, Entry],
    approved: Mapping[str, Any],
) -> Work | Unfit:
    """``approved`` are bodies to be used in place of those that were read."""
    entry = entries.get(identity(intent))
    if entry is not None and approved:
        entry = replace(entry, bodies={**entry.bodies, **approved})
    if intent.restores is not None:
        entry = originals.get((intent.tenant, intent.restores))
    if entry is None or not isinstance(entry.bodies.get("arguments"), Mapping):
        return _unfit(intent, "unreadable", None)
    bound = context.registry.tool(entry.intent.tool)
    given = try_face(_given, intent, bound, entry)
    if isinstance(given, Broke):
        is_older = entry.intent.tool_version != bound.tool.version
        return _unfit(intent, "no_upgrade" if is_older else "unreadable", given.problem)
    if intent.tool != RESTORE.name:
        return Work(
            intent=intent,
            bound=bound,
            face=bound.handler.perform,
            given=given.model,
            canonical=given.canonical,
            foreseen=approved.get("affected"),
        )
    face = bound.handler.restore or _not_restorable
    return Work(intent=intent, bound=bound, face=face, given=given, original=entry.intent)


def _given(intent: Intent, bound: Bound, entry: Entry) -> Any:
    if intent.tool == RESTORE.name:
        return local.original_of(bound, entry)
    return revive(bound.tool, entry.intent.tool_version, entry.bodies["arguments"])


def _unfit(intent: Intent, cause: ParkCause, problem: Exception | None) -> Unfit:
    logger.error("arguments_not_usable", ref=intent.ref, cause=cause, exc_info=problem)
    return Unfit(cause=cause)


def _not_restorable(given: object, attempt: Attempt) -> None:
    raise errors.Rejected("it can't be taken back any more")
