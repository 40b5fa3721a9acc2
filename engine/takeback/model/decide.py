"""The lifecycle as a function: what a command makes of an intent in its present state.

Pure: ``now`` is the database's clock, handed in. A command that the state does not allow raises
InvalidTransition and changes nothing. Three rules reach beyond the state:

    an effect that may be in the world is never called cancelled: see ``is_cancellable``
    the provider's key changes (the epoch grows) only when no attempt under it left a trace
    a late answer is always written down, settles only what is open, and never flips a verdict
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, assert_never

from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.allowing import (
    name_of,
    refusal,
    released,
    require,
    require_untouched,
    span_us,
)
from takeback.model.errors import InvalidTransition
from takeback.model.intent import (
    FINAL,
    Intent,
    State,
    is_cancellable,
    is_denied,
    is_tried_again,
    left_no_trace,
    micros,
    why_not_begin,
)
from takeback.model.permission import decide_permission

Events = Sequence[events.Event]


def decide(intent: Intent | None, command: commands.Command, now: datetime) -> Events:
    """The events that ``command`` causes at ``now``.

    Raises InvalidTransition when the intent's state does not allow it.
    """
    if isinstance(command, commands.Record):
        if intent is not None:
            raise refusal(intent, command)
        return [record(command)]
    if intent is None:
        raise InvalidTransition("absent", name_of(command))
    match command:
        case (
            commands.AskApproval()
            | commands.Approve()
            | commands.Deny()
            | commands.ExpireApproval()
            | commands.Refuse()
        ):
            return decide_permission(intent, command, now)
        case (
            commands.MoveWindow()
            | commands.Awake()
            | commands.StopWaiting()
            | commands.Postpone()
            | commands.Release()
            | commands.Cancel()
        ):
            return _decide_before_begin(intent, command, now)
        case commands.Claim() | commands.HandBack() | commands.Begin() | commands.ExpireLease():
            return _decide_dispatch(intent, command, now)
        case (
            commands.Succeed()
            | commands.Fail()
            | commands.Defer()
            | commands.LoseTrack()
            | commands.Park()
            | commands.Requeue()
            | commands.AnswerLate()
        ):
            return _decide_outcome(intent, command, now)
        case (
            commands.BeginRestore()
            | commands.FinishRestore()
            | commands.FailRestore()
            | commands.DoubtRestore()
            | commands.Purge()
        ):
            return _decide_after(intent, command)
        case _:
            assert_never(command)


def record(command: commands.Record) -> events.Recorded:
    """The first event of an intent; its instant and its id are the database's.

    >>> command = commands.Record(
    ...     ref="send_customer_email-7F3K9QDM",
    ...     tool="send_customer_email",
    ...     tool_version=1,
    ...     effect="remote",
    ...     key="k1:9f86d081",
    ...     generation=0,
    ...     run=None,
    ...     principal="agent:support",
    ...     arguments="fd61a03a",
    ...     window=timedelta(seconds=60),
    ... )
    >>> record(command).becomes, record(command).window_us
    ('held', 60000000)
    """
    return events.Recorded(
        ref=command.ref,
        tool=command.tool,
        tool_version=command.tool_version,
        effect=command.effect,
        key=command.key,
        generation=command.generation,
        run=command.run,
        principal=command.principal,
        becomes=_first_state(command),
        window_us=command.window // timedelta(microseconds=1),
        not_before_us=micros(command.not_before) if command.not_before is not None else None,
        arguments=command.arguments,
        restores=command.restores,
        repeat_of=command.repeat_of,
        after=command.after,
        on_behalf_of=command.on_behalf_of,
        approval_cause=command.approval_cause if command.needs_approval else None,
        approval_us=span_us(command.approval_for) if command.needs_approval else None,
        affected=command.affected if command.needs_approval else None,
        lane=command.lane,
        priority=command.priority,
        ordering=command.ordering,
    )


def _first_state(command: commands.Record) -> events.FirstState:
    if command.needs_approval:
        return "awaiting_approval"
    if command.after and not command.is_ready:
        return "waiting"
    if command.window or command.not_before is not None:
        return "held"
    return "recorded" if command.effect == "local" else "due"


def _decide_before_begin(
    intent: Intent,
    command: commands.MoveWindow
    | commands.Awake
    | commands.StopWaiting
    | commands.Postpone
    | commands.Release
    | commands.Cancel,
    now: datetime,
) -> Events:
    match command:
        case commands.MoveWindow(committed_at=committed_at):
            require(intent, command, State.HELD)
            until = committed_at + intent.window
            if intent.due_at is not None:
                until = max(until, intent.due_at)
            return [events.WindowMoved(until_us=micros(until))]
        case commands.Awake():
            require(intent, command, State.WAITING)
            return [events.Awoken(becomes=released(intent))]
        case commands.StopWaiting(cause=cause, waited_for=waited_for):
            require(intent, command, State.WAITING)
            require_untouched(intent, command)
            return [events.WaitFailed(cause=cause, waited_for=waited_for)]
        case commands.Postpone(until=until, cause=cause):
            require(intent, command, State.HELD, State.DUE)
            if intent.due_at is not None and until <= intent.due_at:
                return []
            return [events.Postponed(cause=cause, until_us=micros(until))]
        case commands.Release():
            require(intent, command, State.HELD)
            _require_due(intent, command, now)
            return [events.Due()]
        case commands.Cancel(by=by, via=via):
            if not is_cancellable(intent):
                raise refusal(intent, command)
            return [events.Cancelled(by=by, via=via)]
        case _:
            assert_never(command)


def _decide_dispatch(
    intent: Intent,
    command: commands.Claim | commands.HandBack | commands.Begin | commands.ExpireLease,
    now: datetime,
) -> Events:
    match command:
        case commands.Claim(worker=worker, lease=lease):
            require(intent, command, State.HELD, State.DUE)
            _require_due(intent, command, now)
            claimed = events.Claimed(worker=worker, lease_until_us=micros(now + lease))
            return [claimed] if intent.state is State.DUE else [events.Due(), claimed]
        case commands.HandBack():
            require(intent, command, State.CLAIMED)
            return [events.HandedBack(cause="given_up")]
        case commands.Begin(lease=lease):
            require(intent, command, State.CLAIMED)
            if why_not_begin(intent, now) is not None:
                raise refusal(intent, command)
            return [
                events.AttemptBegan(
                    attempt=intent.attempt + 1,
                    epoch=intent.epoch,
                    lease_until_us=micros(now + lease),
                )
            ]
        case commands.ExpireLease():
            require(intent, command, State.CLAIMED, State.EXECUTING)
            if intent.lease_until is not None and now < intent.lease_until:
                raise refusal(intent, command)
            if intent.state is State.CLAIMED:
                return [events.HandedBack(cause="lease_over")]
            return [events.InDoubt(attempt=intent.attempt, cause="lease_over")]
        case _:
            assert_never(command)


def _decide_outcome(
    intent: Intent,
    command: commands.Succeed
    | commands.Fail
    | commands.Defer
    | commands.LoseTrack
    | commands.Park
    | commands.Requeue
    | commands.AnswerLate,
    now: datetime,
) -> Events:
    match command:
        case commands.Succeed():
            _require_verdict(intent, command)
            return [
                events.Succeeded(
                    attempt=intent.attempt,
                    source=command.source,
                    result=command.result,
                    affected_count=command.affected_count,
                    by=command.by,
                )
            ]
        case commands.Fail():
            _require_verdict(intent, command)
            return [
                events.Failed(
                    attempt=intent.attempt,
                    source=command.source,
                    code=command.code,
                    error=command.error,
                    by=command.by,
                )
            ]
        case commands.Defer(wait=wait, cause=cause):
            require(intent, command, State.EXECUTING)
            until_us = micros(now + wait)
            return [events.Deferred(attempt=intent.attempt, cause=cause, until_us=until_us)]
        case commands.LoseTrack(cause=cause):
            require(intent, command, State.EXECUTING)
            return [events.InDoubt(attempt=intent.attempt, cause=cause)]
        case commands.Park():
            return _park(intent, command, now)
        case commands.Requeue():
            return _requeue(intent, command, now)
        case commands.AnswerLate():
            return _answer_late(intent, command)
        case _:
            assert_never(command)


def _park(intent: Intent, command: commands.Park, now: datetime) -> Events:
    _require_own_doubt(intent, command)
    if command.cause == "person" and is_tried_again(intent):
        return [events.Parked(attempt=intent.attempt, cause=command.cause, by=command.by)]
    require(intent, command, State.IN_DOUBT, State.CLAIMED)
    true_of_claimed = ("no_upgrade", "unreadable", "altered", why_not_begin(intent, now))
    if intent.state is State.CLAIMED and command.cause not in true_of_claimed:
        raise refusal(intent, command)
    return [events.Parked(attempt=intent.attempt, cause=command.cause, by=command.by)]


_MAY_REQUEUE: Mapping[events.RequeueCause, tuple[State, ...]] = {
    "absent": (State.IN_DOUBT,),
    "provider_key": (State.IN_DOUBT,),
    "person": (State.PARKED, State.FAILED),
}


def _requeue(intent: Intent, command: commands.Requeue, now: datetime) -> Events:
    require(intent, command, *_MAY_REQUEUE.get(command.cause, ()))
    _require_own_doubt(intent, command)
    if is_denied(intent):
        raise refusal(intent, command)
    keyed = command.cause == "provider_key"
    before = command.begin_before if keyed else None
    if before is not None and now >= before:
        raise refusal(intent, command)
    if command.new_epoch and not _left_no_trace(intent, command):
        raise refusal(intent, command)
    return [
        events.Requeued(
            cause=command.cause,
            epoch=intent.epoch + 1 if command.new_epoch else intent.epoch,
            until_us=micros(now + command.wait),
            begin_before_us=micros(before) if before is not None else None,
            by=command.by,
        )
    ]


def _left_no_trace(intent: Intent, command: commands.Requeue) -> bool:
    """Find speaks of all that was sent under the key; a failure only of its own attempt."""
    if command.cause == "absent":
        return not intent.contradicted
    return left_no_trace(intent)


def _answer_late(intent: Intent, command: commands.AnswerLate) -> Events:
    if not 1 <= command.attempt <= intent.attempt:
        raise refusal(intent, command)
    late = events.AnsweredLate(
        attempt=command.attempt,
        outcome=command.outcome,
        body=command.body if intent.state is not State.PURGED else None,
    )
    if _is_open(intent, command):
        return [late, _verdict(intent, command)]
    decided = _contradicted(intent, command)
    if decided is None:
        return [late]
    contradiction = events.Contradicted(
        attempt=command.attempt, decided=decided, answered=command.outcome
    )
    return [late, contradiction]


def _is_open(intent: Intent, command: commands.AnswerLate) -> bool:
    """Whether the intent stands in doubt, or parked, for want of this answer, of its last attempt.

    That this one did nothing says nothing of others that nobody knows of.
    """
    attempt = command.attempt
    if attempt != intent.attempt:
        return False
    if command.outcome == "failed" and {*intent.attempts_unknown} - {attempt}:
        return False
    if intent.state is State.PARKED:
        return attempt in intent.attempts_unknown
    return intent.state is State.IN_DOUBT and intent.restored_via is None


def _contradicted(
    intent: Intent, command: commands.AnswerLate
) -> Literal["succeeded", "failed", "no_trace"] | None:
    """What had been decided, where the answer says otherwise.

    "It happened" contradicts a failed intent, and the proof that this attempt did nothing. "It did
    not" contradicts only the success of this very attempt.
    """
    verdict = _effect_verdict(intent)
    last = command.attempt == intent.attempt
    if command.outcome == "failed":
        return "succeeded" if last and verdict == "succeeded" else None
    if verdict == "failed":
        return "failed"
    expected = last and (verdict == "succeeded" or intent.state is State.EXECUTING)
    return None if expected or command.attempt in intent.attempts_unknown else "no_trace"


def _effect_verdict(intent: Intent) -> events.Outcome | None:
    """Whether the effect came into the world, taken back or not; None where that is not decided."""
    match intent.last_word or intent.state:
        case State.SUCCEEDED | State.RESTORING | State.RESTORED | State.RESTORE_FAILED:
            return "succeeded"
        case State.IN_DOUBT if intent.restored_via is not None:
            return "succeeded"
        case State.FAILED:
            return "failed"
        case _:
            return None


def _verdict(intent: Intent, command: commands.AnswerLate) -> events.Event:
    if command.outcome == "succeeded":
        return events.Succeeded(
            attempt=intent.attempt,
            source="late",
            result=command.body,
            affected_count=command.affected_count,
        )
    return events.Failed(
        attempt=intent.attempt, source="late", code=command.code, error=command.body
    )


def _decide_after(
    intent: Intent,
    command: commands.BeginRestore
    | commands.FinishRestore
    | commands.FailRestore
    | commands.DoubtRestore
    | commands.Purge,
) -> Events:
    match command:
        case commands.BeginRestore(by=by, via=via):
            require(intent, command, State.SUCCEEDED, State.RESTORE_FAILED)
            return [events.RestoreBegan(by=by, via=via)]
        case commands.FinishRestore(via=via):
            _require_restoring(intent, command, via)
            return [events.Restored(via=via)]
        case commands.FailRestore(via=via):
            _require_restoring(intent, command, via)
            return [events.RestoreFailed(via=via)]
        case commands.DoubtRestore(via=via):
            require(intent, command, State.RESTORING)
            _require_restoring(intent, command, via)
            return [events.RestoreInDoubt(via=via)]
        case commands.Purge():
            require(intent, command, *FINAL)
            return [events.Purged()]
        case _:
            assert_never(command)


def _require_due(intent: Intent, command: commands.Command, now: datetime) -> None:
    if intent.due_at is None or now < intent.due_at:
        raise refusal(intent, command)


_MAY_SAY: Mapping[commands.Source, tuple[State, ...]] = {
    "handler": (State.RECORDED, State.EXECUTING),
    "find": (State.IN_DOUBT,),
    "person": (State.IN_DOUBT, State.PARKED, State.FAILED),
}


def _require_verdict(intent: Intent, command: commands.Succeed | commands.Fail) -> None:
    """A handler speaks while it runs, find while in doubt, a person also about what is parked, or
    has failed and is denied to have.
    """
    require(intent, command, *_MAY_SAY.get(command.source, ()))
    if intent.state is State.FAILED and not is_denied(intent):
        raise refusal(intent, command)
    _require_own_doubt(intent, command)


def _require_own_doubt(intent: Intent, command: commands.Command) -> None:
    """In doubt about its restore is not in doubt about itself."""
    if intent.state is State.IN_DOUBT and intent.restored_via is not None:
        raise refusal(intent, command)


def _require_restoring(intent: Intent, command: commands.Command, via: str) -> None:
    require(intent, command, State.RESTORING, State.IN_DOUBT)
    if intent.restored_via != via:
        raise refusal(intent, command)
