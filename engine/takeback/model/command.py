"""What may be asked of an intent; ``decide`` answers with events or refuses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from takeback.model.event import Effect, Outcome, RequeueCause

Source = Literal["handler", "find", "person"]
"""Who knows what became of an attempt. What comes late has a command of its own: AnswerLate."""

ApprovalCause = Literal["row", "repeat", "rows", "limit", "policy", "other_failed"]
"""Why a person decides first: the row says so of such a call, or of one that is meant once more; it
would affect many rows; it is over a limit; the app's own policy wants it; or what it waited for has
come to nothing."""

WaitCause = Literal["other_failed", "other_taken_back"]
"""What became of what it waited for."""

DeferCause = Literal["not_dispatched", "outage", "interrupted"]
"""Why an attempt did nothing: the handler says so; so it does while nobody else is answered; or the
attempt was never made."""

PostponeCause = Literal["thawed"]
DoubtCause = Literal["exception", "outcome_unknown", "timed_out", "interrupted", "lease_over"]
"""How an attempt can end without an outcome, by its own worker's word: ``lease_over`` is a lease
that it could not renew. The end of a lease by the clock is ExpireLease."""

ParkCause = Literal[
    "outcome_unknown",
    "no_upgrade",
    "unreadable",
    "altered",
    "key_expired",
    "contradicted",
    "person",
]
"""Why a person has to look: nobody can say what became of it; its arguments are of a version that
no upgrade leads away from; they are erased, damaged or no call of the row any more; they are not
those that a person has approved; the provider
has forgotten the key under which it was to be repeated; a late answer says that an attempt did it
which was taken to have done nothing; a person has stopped it, without knowing what became of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A call becomes an intent. ``arguments`` is the digest of the stored body.

    ``restores`` is the id of the intent that it takes back; ``after`` and ``repeat_of`` are refs.
    Where it ``needs_approval``, ``approval_for`` is how long a person has (None: for ever), and
    ``affected`` the digest of what it was foreseen to affect. It goes through ``lane`` (empty: none
    of a connector), with ``priority``, and one at a time of equal ``ordering``. ``is_ready``: all
    that it comes after has succeeded already.
    """

    ref: str
    tool: str
    tool_version: int
    effect: Effect
    key: str
    generation: int
    run: str | None
    principal: str
    arguments: str
    window: timedelta = timedelta(0)
    not_before: datetime | None = None
    needs_approval: bool = False
    after: tuple[str, ...] = ()
    is_ready: bool = False
    restores: str | None = None
    repeat_of: str | None = None
    on_behalf_of: str | None = None
    approval_cause: ApprovalCause = "row"
    approval_for: timedelta | None = None
    affected: str | None = None
    lane: str = ""
    priority: int = 0
    ordering: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveWindow:
    """The commit came late: the window counts from ``committed_at``."""

    committed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AskApproval:
    """A person decides first, within ``approval_for`` (None: for ever).

    Claimed, it is over a limit; waiting, what it waited for has come to nothing.
    """

    cause: ApprovalCause
    approval_for: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """A person says yes. ``saw`` is the digest of what they said it to.

    ``goes_on``: without what it waits for, which is what the person was asked.
    """

    by: str
    saw: str | None = None
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """A person says no. ``reason`` is a digest."""

    by: str
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireApproval:
    """Nobody decided in time; a request that stands for ever never lapses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Claimed, and over a limit that is none for a person to lift. ``error`` is a digest."""

    code: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Awake:
    """What it waited for has succeeded, or its row says to go on without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWaiting:
    """What it waited for came to nothing: it never happens. ``waited_for`` is a digest."""

    cause: WaitCause
    waited_for: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postpone:
    """Nobody claims it before ``until``; an instant that is no later changes nothing."""

    until: datetime
    cause: PostponeCause = "thawed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The window is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker takes it for ``lease``."""

    worker: str
    lease: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class HandBack:
    """The worker gives up what it has not begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The attempt starts, for at most ``lease``; see ``why_not_begin``."""

    lease: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireLease:
    """The owner has not answered within its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeed:
    """It is in the world. ``result`` is a digest."""

    result: str | None
    affected_count: int = 0
    source: Source = "handler"
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """Nothing happened and nothing will. ``error`` is a digest.

    For a handler this is about its own attempt, for find and a person about all there were. While
    ``Intent.attempts_unknown`` names others, giving up on attempts that never got through is
    LoseTrack: what became of those is still open.
    """

    code: str
    error: str | None = None
    source: Source = "handler"
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Defer:
    """Nothing happened; try again after ``wait``."""

    wait: timedelta
    cause: DeferCause = "not_dispatched"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseTrack:
    """The attempt ended and nobody knows how."""

    cause: DoubtCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Nobody but a person can go on: in doubt for good, or claimed and not to be begun.

    A person (``by``) says so of what is in doubt, or on its way once more; see ``is_tried_again``.
    """

    cause: ParkCause = "outcome_unknown"
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Due again after ``wait``. ``new_epoch``, a new provider's key, only when no trace was left.

    ``begin_before``, for provider_key: until when the provider keeps the key, counted from the
    first attempt of this epoch, less a margin. No later attempt begins; None when it forgets none.
    """

    cause: RequeueCause
    new_epoch: bool = False
    by: str | None = None
    wait: timedelta = timedelta(0)
    begin_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLate:
    """Attempt ``attempt`` answered after others had decided about it; ``body`` is a digest.

    Of a purged intent the event holds no digest, so none is to be stored.
    """

    attempt: int
    outcome: Outcome
    body: str | None = None
    code: str = "provider_rejected"
    affected_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Take it back before it begins. ``via`` is the ref of the restore."""

    by: str
    via: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRestore:
    """Take back what is in the world, by the intent of ref ``via``."""

    by: str
    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRestore:
    """It has been taken back."""

    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailRestore:
    """It can't be taken back: the effect stands."""

    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtRestore:
    """Nobody knows whether it was taken back."""

    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """Forget the bodies, keep the stub."""


Command = (
    Record
    | MoveWindow
    | AskApproval
    | Approve
    | Deny
    | ExpireApproval
    | Refuse
    | Awake
    | StopWaiting
    | Postpone
    | Release
    | Claim
    | HandBack
    | Begin
    | ExpireLease
    | Succeed
    | Fail
    | Defer
    | LoseTrack
    | Park
    | Requeue
    | AnswerLate
    | Cancel
    | BeginRestore
    | FinishRestore
    | FailRestore
    | DoubtRestore
    | Purge
)
