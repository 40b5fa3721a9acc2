"""What a person is asked, what their yes is bound to, and who decided: read off the events.

A request for approval is an event: the recording itself, or a later ApprovalAsked. The yes is bound
to the intent, to that very request, to the arguments, and to what the call was foreseen to affect:
``seal`` is one digest over all of these, and what was said yes to one is no yes to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal
from uuid import UUID

from takeback.model import event as events
from takeback.model.intent import Fact, Intent, State

EXPECT_LENGTH = 16
"""Of a digest so many characters are typed by a person; by chance they never fit."""

_DOMAIN = b"takeback.approval.1\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a decision, as it stands in the log.

    ``arguments`` and ``affected`` are digests of stored bodies; ``affected`` is None where nothing
    was foreseen. ``expires_at`` is None where the request stands for ever.
    """

    cause: str
    at: datetime
    expires_at: datetime | None
    arguments: str
    affected: str | None
    seal: str

    @property
    def expect(self) -> str:
        """What a person repeats, so that their yes is to what they have seen."""
        return self.seal[:EXPECT_LENGTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Who decided about a request, and when; ``by`` is None where time did."""

    how: Literal["approved", "denied", "expired", "cancelled"]
    by: str | None
    at: datetime
    seal: str | None = None


def asked(facts: Sequence[Fact]) -> Asked | None:
    """The latest request in an intent's history; None where nobody was ever asked.

    >>> asked([]) is None
    True
    """
    found = None
    for fact in facts:
        match fact.event:
            case events.Recorded(becomes="awaiting_approval", approval_cause=cause) as recorded:
                found = _asked(facts, fact, cause or "row", recorded.approval_us)
            case events.ApprovalAsked(cause=cause, approval_us=approval_us):
                found = _asked(facts, fact, cause, approval_us)
            case _:
                pass
    return found


def _asked(
    facts: Sequence[Fact], request: Fact, cause: str, approval_us: int | None
) -> Asked | None:
    recorded = facts[0].event
    if not isinstance(recorded, events.Recorded):
        return None
    span = None if approval_us is None else timedelta(microseconds=approval_us)
    return Asked(
        cause=cause,
        at=request.at,
        expires_at=None if span is None else request.at + span,
        arguments=recorded.arguments,
        affected=recorded.affected,
        seal=seal_of(request.intent_id, request.version, recorded.arguments, recorded.affected),
    )


def decided(facts: Sequence[Fact]) -> Decided | None:
    """The latest decision in an intent's history; None while nobody has decided.

    >>> decided([]) is None
    True
    """
    for fact in reversed(facts):
        match fact.event:
            case events.Approved(by=by, saw=saw):
                return Decided(how="approved", by=by, at=fact.at, seal=saw)
            case events.Denied(by=by):
                return Decided(how="denied", by=by, at=fact.at)
            case events.ApprovalExpired():
                return Decided(how="expired", by=None, at=fact.at)
            case events.Cancelled(by=by):
                return Decided(how="cancelled", by=by, at=fact.at)
            case events.ApprovalAsked():
                return None
            case _:
                pass
    return None


def seal_of(intent_id: UUID, version: int, arguments: str, affected: str | None) -> str:
    """What a yes is bound to; ``version`` is that of the event which asks.

    >>> id_ = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
    >>> seal_of(id_, 1, "ab", None)[:16], seal_of(id_, 1, "ab", "cd")[:16]
    ('266191f5f279a488', '80edf417ccac1b52')
    """
    told = f"{intent_id}:{version}:{arguments}:{affected or ''}"
    return sha256(_DOMAIN + told.encode()).hexdigest()


def is_lapsed(intent: Intent, now: datetime) -> bool:
    """Whether nobody decided in time, also when nobody has written that down yet."""
    waits = intent.state is State.AWAITING_APPROVAL
    return waits and intent.expires_at is not None and now >= intent.expires_at


def as_of(intent: Intent, now: datetime) -> Intent:
    """The intent as it stands at ``now``: a request that has lapsed is one that has expired."""
    if not is_lapsed(intent, now):
        return intent
    return replace(intent, state=State.EXPIRED, settled_at=intent.expires_at, expires_at=None)
