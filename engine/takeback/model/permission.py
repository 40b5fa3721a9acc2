"""What people and limits decide about an intent: whether it may happen. A part of ``decide``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.allowing import refusal, released, require, require_untouched, span_us
from takeback.model.intent import Intent, State


def decide_permission(
    intent: Intent,
    command: commands.AskApproval
    | commands.Approve
    | commands.Deny
    | commands.ExpireApproval
    | commands.Refuse,
    now: datetime,
) -> Sequence[events.Event]:
    """Approve, deny, expire and cancel are one race on one row: only the first finds it waiting.

    >>> from datetime import timedelta
    >>> from uuid import UUID
    >>> noon = datetime(2026, 1, 1, 12)
    >>> asked = Intent(
    ...     tenant="default",
    ...     id=UUID(int=1),
    ...     ref="pay-7F3K9QDM",
    ...     tool="pay",
    ...     tool_version=1,
    ...     effect="remote",
    ...     key="k1:9f86d081",
    ...     generation=0,
    ...     run=None,
    ...     principal="agent:support",
    ...     state=State.AWAITING_APPROVAL,
    ...     version=1,
    ...     recorded_at=noon,
    ...     window=timedelta(0),
    ... )
    >>> decide_permission(asked, commands.Approve(by="dana", saw="ef2d127d"), noon)
    [Approved(by='dana', becomes='due', saw='ef2d127d')]
    """
    is_over = intent.expires_at is not None and now >= intent.expires_at
    match command:
        case commands.AskApproval(cause=cause, approval_for=span):
            waits = (State.WAITING,) if cause == "other_failed" else ()
            require(intent, command, State.CLAIMED, *waits)
            require_untouched(intent, command)
            return [events.ApprovalAsked(cause=cause, approval_us=span_us(span))]
        case commands.Refuse(code=code, error=error):
            require(intent, command, State.CLAIMED)
            require_untouched(intent, command)
            return [events.Failed(attempt=intent.attempt, source="policy", code=code, error=error)]
        case commands.Approve(by=by, saw=saw, goes_on=goes_on):
            require(intent, command, State.AWAITING_APPROVAL)
            if is_over:
                raise refusal(intent, command)
            becomes = "waiting" if intent.after and not goes_on else released(intent)
            return [events.Approved(by=by, becomes=becomes, saw=saw)]
        case commands.Deny(by=by, reason=reason):
            require(intent, command, State.AWAITING_APPROVAL)
            return [events.Denied(by=by, reason=reason)]
        case commands.ExpireApproval():
            require(intent, command, State.AWAITING_APPROVAL)
            if not is_over:
                raise refusal(intent, command)
            return [events.ApprovalExpired()]
        case _:
            assert_never(command)
