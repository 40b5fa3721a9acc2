"""The facts of the log: closed payload types, stable names, versions and upcasters.

A stored name ("intent.held") and a stored field never change their meaning. A payload that has to
change gets the next ``schema`` number and an upcaster from the one before, so that every event ever
written stays readable. Payloads hold identifiers, numbers, digests and words of closed sets; what
must be forgettable lies in bodies beside the log, and an event holds only its digest.

The words that ``evolve`` acts upon are Literals here, and a payload with another one can't be read.
``cause`` and ``code`` are for people: whoever writes them is held to a closed set (see
``model.command``), whoever reads them is not, so that a release reads the words of the next.

Instants are microseconds since 1970 in UTC, and their fields end in ``_us``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, get_type_hints

from takeback.model.errors import LedgerCorrupt
from takeback.model.fitting import fits
from takeback.model.upcasting import BY_NOBODY, IN_NO_LANE, UPCASTERS, Upcaster, upcast

Effect = Literal["local", "remote"]
FirstState = Literal["recorded", "awaiting_approval", "waiting", "held", "due"]
ApprovedState = Literal["waiting", "held", "due"]
AwokenState = Literal["held", "due"]
RequeueCause = Literal["absent", "provider_key", "person"]
Judge = Literal["handler", "find", "late", "person", "policy"]
Outcome = Literal["succeeded", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A payload; subclasses are the closed set of kinds."""

    KIND: ClassVar[str]
    SCHEMA: ClassVar[int] = 1

    @property
    def schema(self) -> int:
        """The schema that it is written in."""
        return self.SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(Event):
    """A call became an intent. ``becomes`` is the state that it starts in.

    ``restores`` is the id of the intent that this one takes back, ``after`` holds refs. Where a
    person has to decide first, ``approval_cause`` says why, ``approval_us`` is how long they have
    (None: for ever), and ``affected`` is the digest of what it was foreseen to affect. ``lane`` is
    the connector that it goes through (empty: none), ``priority`` is higher for what goes first,
    and of equal ``ordering`` one is carried out at a time.
    """

    KIND = "intent.recorded"
    SCHEMA = 3

    ref: str
    tool: str
    tool_version: int
    effect: Effect
    key: str
    generation: int
    run: str | None
    principal: str
    becomes: FirstState
    window_us: int
    not_before_us: int | None
    arguments: str
    restores: str | None
    repeat_of: str | None
    after: tuple[str, ...] = ()
    on_behalf_of: str | None = None
    approval_cause: str | None = None
    approval_us: int | None = None
    affected: str | None = None
    lane: str = ""
    priority: int = 0
    ordering: str | None = None

    @property
    def schema(self) -> int:
        """The lowest that holds all of it, so that the release before reads what it can do."""
        is_plain = not self.lane and not self.priority and self.ordering is None
        return 2 if is_plain else self.SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowMoved(Event):
    """The commit came late, so the undo window counts from it."""

    KIND = "intent.window_moved"

    until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAsked(Event):
    """It is over a limit, or what it waited for has failed: a person decides first, within
    ``approval_us``.
    """

    KIND = "intent.approval_asked"

    cause: str
    approval_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved(Event):
    """A person said yes: the window starts now, or when what it waits for has succeeded.

    ``saw`` is the digest of what the yes is bound to: the arguments, and what they affect.
    """

    KIND = "intent.approved"
    SCHEMA = 2

    by: str
    becomes: ApprovedState
    saw: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied(Event):
    """A person said no."""

    KIND = "intent.denied"

    by: str
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalExpired(Event):
    """Nobody decided in time, which means no."""

    KIND = "intent.approval_expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Awoken(Event):
    """The intents that it waited for have succeeded, or its row says to go on without them."""

    KIND = "intent.awoken"

    becomes: AwokenState


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFailed(Event):
    """What it waited for came to nothing, so it never happens.

    ``waited_for`` is the digest of a body that names the other.
    """

    KIND = "intent.wait_failed"

    cause: str
    waited_for: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed(Event):
    """Not yet claimed, and put off: after a freeze, say, so that there is no burst."""

    KIND = "intent.postponed"

    cause: str
    until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Due(Event):
    """The undo window is over."""

    KIND = "intent.due"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(Event):
    """A worker took it under a lease."""

    KIND = "intent.claimed"

    worker: str
    lease_until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack(Event):
    """Claimed, not begun, and given up again."""

    KIND = "intent.handed_back"

    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBegan(Event):
    """From here on the effect may have happened."""

    KIND = "intent.attempt_began"

    attempt: int
    epoch: int
    lease_until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded(Event):
    """It is in the world. ``source`` says who knows: handler, find, late or person."""

    KIND = "intent.succeeded"

    attempt: int
    source: Literal["handler", "find", "late", "person"]
    result: str | None
    affected_count: int
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """Proved: nothing happened, and trying again unchanged would not help.

    With ``source`` policy it was never begun: a limit refused it.
    """

    KIND = "intent.failed"

    attempt: int
    source: Judge
    code: str
    error: str | None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred(Event):
    """Proved: nothing happened, and it may work later."""

    KIND = "intent.deferred"

    attempt: int
    cause: str
    until_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InDoubt(Event):
    """The attempt began and nobody knows what became of it."""

    KIND = "intent.in_doubt"

    attempt: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked(Event):
    """A person has to look; ``cause`` says why, and ``by`` which person wanted it so."""

    KIND = "intent.parked"
    SCHEMA = 2

    attempt: int
    cause: str
    by: str | None = None

    @property
    def schema(self) -> int:
        """The lowest that holds all of it, so that the release before reads what it can do."""
        return 1 if self.by is None else self.SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued(Event):
    """Due again: the provider never saw it, or keeps its key, or a person asked for it.

    ``begin_before_us`` is when the provider forgets its key; None when that is no reason to stop.
    """

    KIND = "intent.requeued"

    cause: RequeueCause
    epoch: int
    until_us: int
    begin_before_us: int | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredLate(Event):
    """The answer of attempt ``attempt`` arrived after others had decided about it."""

    KIND = "intent.answered_late"

    attempt: int
    outcome: Outcome
    body: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradicted(Event):
    """A late answer says another thing than what was decided: a person has to look.

    ``decided`` is the verdict on the intent, or no_trace where that attempt was taken to have done
    nothing.
    """

    KIND = "intent.contradicted"

    attempt: int
    decided: Literal["succeeded", "failed", "no_trace"]
    answered: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled(Event):
    """Taken back before it began. ``via`` is the ref of the restore that did it."""

    KIND = "intent.cancelled"

    by: str
    via: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBegan(Event):
    """It is being taken back, by the intent of ref ``via``."""

    KIND = "intent.restore_began"

    by: str
    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(Event):
    """It was taken back."""

    KIND = "intent.restored"

    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFailed(Event):
    """Taking it back was refused for good: the effect stands."""

    KIND = "intent.restore_failed"

    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreInDoubt(Event):
    """Nobody knows yet whether it was taken back."""

    KIND = "intent.restore_in_doubt"

    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged(Event):
    """The bodies are gone; key and final state stay."""

    KIND = "intent.purged"


EVENTS: tuple[type[Event], ...] = (
    Recorded,
    WindowMoved,
    ApprovalAsked,
    Approved,
    Denied,
    ApprovalExpired,
    Awoken,
    WaitFailed,
    Postponed,
    Due,
    Claimed,
    HandedBack,
    AttemptBegan,
    Succeeded,
    Failed,
    Deferred,
    InDoubt,
    Parked,
    Requeued,
    AnsweredLate,
    Contradicted,
    Cancelled,
    RestoreBegan,
    Restored,
    RestoreFailed,
    RestoreInDoubt,
    Purged,
)

_BY_KIND = {kind.KIND: kind for kind in EVENTS}
_FIELDS = {kind: tuple(f.name for f in dataclasses.fields(kind)) for kind in EVENTS}

_LEFT_OUT = {
    ("intent.recorded", 2): IN_NO_LANE.keys(),
    ("intent.parked", 1): BY_NOBODY.keys(),
}
"""What isn't written where the schema is a former one: upcasters give it back."""


def encode(event: Event) -> str:
    r"""The text that is stored and hashed: ASCII JSON with sorted keys and no white space.

    >>> encode(Denied(by="zoë", reason=None))
    '{"by":"zo\\u00eb","reason":null}'
    """
    left_out = _LEFT_OUT.get((event.KIND, event.schema), ())
    names = [name for name in _FIELDS[type(event)] if name not in left_out]
    payload = {name: getattr(event, name) for name in names}
    return json.dumps(payload, sort_keys=True, separators=(",", ":"))


def decode(
    kind: str,
    schema: int,
    payload: str,
    upcasters: Mapping[tuple[str, int], Upcaster] | None = None,
) -> Event:
    """The event behind a stored payload, brought up to today's schema.

    >>> decode("intent.denied", 1, '{"by":"dana","reason":null}')
    Denied(by='dana', reason=None)

    Raises LedgerCorrupt when kind or schema is unknown, or the payload is not what they say.
    """
    target = _BY_KIND.get(kind)
    if target is None or not 1 <= schema <= target.SCHEMA:
        raise LedgerCorrupt(f"expected an event of this release, found {kind!r} schema {schema}")
    steps = UPCASTERS if upcasters is None else upcasters
    try:
        fields = json.loads(payload, object_pairs_hook=_unique)
        return _build(target, upcast(fields, (kind, schema), target.SCHEMA, steps))
    except (ValueError, RecursionError) as problem:
        raise LedgerCorrupt(f"the payload of {kind!r} schema {schema} can't be read") from problem


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field is given twice")
    return fields


def _build(target: type[Event], fields: Any) -> Event:
    hints = _hints(target.KIND)
    if not isinstance(fields, dict) or fields.keys() != hints.keys():
        raise ValueError(f"expected exactly the fields {', '.join(hints)}")
    for name, hint in hints.items():
        if not fits(fields[name], hint):
            raise ValueError(f"field {name!r} is no {hint}")
    return target(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


@cache
def _hints(kind: str) -> Mapping[str, Any]:
    target = _BY_KIND[kind]
    hints = get_type_hints(target)
    return {name: hints[name] for name in _FIELDS[target]}
