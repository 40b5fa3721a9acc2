"""An intent: what is known of it, its states, and which of them may follow which."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from takeback.model import event as events
from takeback.model.command import ParkCause


class State(StrEnum):
    """Where an intent stands."""

    RECORDED = "recorded"
    AWAITING_APPROVAL = "awaiting_approval"
    WAITING = "waiting"
    HELD = "held"
    DUE = "due"
    CLAIMED = "claimed"
    EXECUTING = "executing"
    IN_DOUBT = "in_doubt"
    PARKED = "parked"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DENIED = "denied"
    EXPIRED = "expired"
    RESTORING = "restoring"
    RESTORED = "restored"
    RESTORE_FAILED = "restore_failed"
    PURGED = "purged"


CANCELLABLE = frozenset(
    {State.AWAITING_APPROVAL, State.WAITING, State.HELD, State.DUE, State.CLAIMED}
)
"""No attempt is running: taking it back means that it never happens; see ``is_cancellable``."""

FINAL = frozenset(
    {
        State.SUCCEEDED,
        State.FAILED,
        State.CANCELLED,
        State.DENIED,
        State.EXPIRED,
        State.RESTORED,
        State.RESTORE_FAILED,
    }
)
"""Nobody is working on it, and nothing is open about it."""

MAY_BECOME: dict[State | None, frozenset[State]] = {
    None: frozenset(
        {State.RECORDED, State.AWAITING_APPROVAL, State.WAITING, State.HELD, State.DUE}
    ),
    State.RECORDED: frozenset({State.SUCCEEDED, State.FAILED}),
    State.AWAITING_APPROVAL: frozenset(
        {
            State.WAITING,
            State.HELD,
            State.DUE,
            State.CANCELLED,
            State.DENIED,
            State.EXPIRED,
            State.PARKED,
        }
    ),
    State.WAITING: frozenset(
        {State.HELD, State.DUE, State.CANCELLED, State.AWAITING_APPROVAL, State.PARKED}
    ),
    State.HELD: frozenset({State.DUE, State.CANCELLED, State.PARKED}),
    State.DUE: frozenset({State.CLAIMED, State.CANCELLED, State.PARKED}),
    State.CLAIMED: frozenset(
        {
            State.EXECUTING,
            State.DUE,
            State.PARKED,
            State.CANCELLED,
            State.AWAITING_APPROVAL,
            State.FAILED,
        }
    ),
    State.EXECUTING: frozenset({State.SUCCEEDED, State.FAILED, State.DUE, State.IN_DOUBT}),
    State.IN_DOUBT: frozenset(
        {
            State.SUCCEEDED,
            State.FAILED,
            State.DUE,
            State.PARKED,
            State.RESTORED,
            State.RESTORE_FAILED,
        }
    ),
    State.PARKED: frozenset({State.SUCCEEDED, State.FAILED, State.DUE}),
    State.FAILED: frozenset({State.DUE, State.SUCCEEDED, State.PURGED}),
    State.SUCCEEDED: frozenset({State.RESTORING, State.PURGED}),
    State.RESTORING: frozenset({State.RESTORED, State.RESTORE_FAILED, State.IN_DOUBT}),
    State.RESTORE_FAILED: frozenset({State.RESTORING, State.PURGED}),
    State.RESTORED: frozenset({State.PURGED}),
    State.CANCELLED: frozenset({State.PURGED}),
    State.DENIED: frozenset({State.PURGED}),
    State.EXPIRED: frozenset({State.PURGED}),
    State.PURGED: frozenset(),
}
"""The lifecycle, one event at a time: a held intent passes through due as it is claimed. What has
failed succeeds by a person's word alone, and only while a late answer denies that it has failed.
What has not begun is parked by a person alone, and only while an earlier attempt is unknown.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is known of an intent; each field but ``lease_until`` follows from its events.

    ``version`` is the number of its last event and fences every write. ``due_at`` is when it may
    be claimed, None where no such instant is known. ``settled_at`` is when it was last decided
    whether the effect is in the world. ``restored_via`` is the ref of its last restore, also of one
    that failed; ``taken_back_by`` is None then. ``last_word`` is the final state of what is purged.

    ``attempts_unknown`` are the attempts, ascending, that may have done it although the engine went
    on: parked or tried again in doubt, or contradicted. While there are any, the effect may be in
    the world, whatever the state. ``begin_before`` is when the provider forgets the key that makes
    a repeat safe. ``contradicted`` means that a late answer denies what was decided, and that no
    person has decided since. ``expires_at`` is when a request for approval lapses, None where no
    person is asked or the request stands for ever; ``approved_by`` is who said yes to what was
    asked last. ``lane`` is the connector that it goes through, empty where it is none of one; of
    equal ``ordering`` one is carried out at a time, in the order of their ids.
    """

    tenant: str
    id: UUID
    ref: str
    tool: str
    tool_version: int
    effect: str
    key: str
    generation: int
    run: str | None
    principal: str
    state: State
    version: int
    recorded_at: datetime
    window: timedelta
    not_before: datetime | None = None
    after: tuple[str, ...] = ()
    due_at: datetime | None = None
    attempt: int = 0
    epoch: int = 0
    attempts_unknown: tuple[int, ...] = ()
    begin_before: datetime | None = None
    lease_until: datetime | None = None
    affected_count: int = 0
    restores: UUID | None = None
    repeat_of: str | None = None
    restored_via: str | None = None
    taken_back_by: str | None = None
    settled_at: datetime | None = None
    last_word: State | None = None
    contradicted: bool = False
    head_hash: bytes = b""
    on_behalf_of: str | None = None
    expires_at: datetime | None = None
    approved_by: str | None = None
    lane: str = ""
    priority: int = 0
    ordering: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """An event as it stands in the log."""

    tenant: str
    intent_id: UUID
    version: int
    position: int
    at: datetime
    event: events.Event
    hash: bytes = b""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(micros: int) -> datetime:
    """The instant that many microseconds after 1970 in UTC.

    >>> instant(1_000_000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    return _EPOCH + timedelta(microseconds=micros)


def micros(at: datetime) -> int:
    """Microseconds since 1970 in UTC; exact, where a float would not be.

    >>> micros(instant(1_764_000_000_123_457))
    1764000000123457
    """
    return (at - _EPOCH) // timedelta(microseconds=1)


def may_have_happened(intent: Intent) -> bool:
    """Whether an attempt that is over may be in the world although the engine went on."""
    return bool(intent.attempts_unknown) or intent.contradicted


def is_cancellable(intent: Intent) -> bool:
    """Whether cancelling proves that the effect never happens."""
    return intent.state in CANCELLABLE and not may_have_happened(intent)


def is_tried_again(intent: Intent) -> bool:
    """Whether it is on its way once more although an earlier attempt may be in the world: no undo
    can promise that it never happens, and a person stops it by saying what is known of it.
    """
    return intent.state in CANCELLABLE and may_have_happened(intent)


def is_held_back(intent: Intent) -> bool:
    """Whether it is parked although no attempt of it can be in the world: it could not be begun."""
    return intent.state is State.PARKED and not may_have_happened(intent)


def is_denied(intent: Intent) -> bool:
    """Whether it was decided to have failed, and a late answer says that it has happened: nobody
    knows then, until a person says it anew.
    """
    return (intent.last_word or intent.state) is State.FAILED and intent.contradicted


def waited_in_vain(intent: Intent) -> bool:
    """Whether it never happens since what it was to come after has come to nothing: nobody has
    taken it back.
    """
    is_cancelled = (intent.last_word or intent.state) is State.CANCELLED
    return is_cancelled and intent.taken_back_by is None


def is_unsettled(intent: Intent) -> bool:
    """Whether it may still come about, or may have: an equal call is a repeat of it then, however
    long ago it was made.
    """
    state = intent.last_word or intent.state
    has_happened = state in (State.SUCCEEDED, State.RESTORED, State.RESTORE_FAILED)
    return state not in FINAL or (not has_happened and may_have_happened(intent))


def left_no_trace(intent: Intent) -> bool:
    """Whether it has failed, and no attempt of it may have done anything."""
    untouched = not intent.attempts_unknown and not intent.contradicted
    return intent.state is State.FAILED and untouched


def why_not_begin(intent: Intent, now: datetime) -> ParkCause | None:
    """Why a claimed intent has to be parked instead of begun, as far as it can tell itself."""
    if intent.contradicted:
        return "contradicted"
    if intent.begin_before is not None and now >= intent.begin_before:
        return "key_expired"
    return None
