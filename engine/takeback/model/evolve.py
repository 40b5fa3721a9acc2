"""How an event changes an intent: the only way in which one does, in memory and in a fold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, assert_never
from uuid import UUID

from takeback.model import event as events
from takeback.model.errors import LedgerCorrupt
from takeback.model.intent import MAY_BECOME, Fact, Intent, State, instant

_KEEPS_STATE = (events.WindowMoved, events.Postponed, events.AnsweredLate, events.Contradicted)

_VERDICTS = (events.Succeeded, events.Failed)


def evolve(intent: Intent | None, fact: Fact) -> Intent:
    """The intent after one more event.

    Raises LedgerCorrupt when the event can't follow: it is another intent's, a version is missing,
    the first event is no recording, or the lifecycle has no such step.
    """
    event = fact.event
    _require_next(intent, fact)
    try:
        if isinstance(event, events.Recorded):
            after = _recorded(fact, event)
        else:
            assert intent is not None
            after = _advance(intent, fact)
    except (ValueError, OverflowError) as problem:
        raise LedgerCorrupt(
            f"{event.KIND!r} of intent {fact.intent_id} makes no sense"
        ) from problem
    _require_step(intent, after, event)
    return after


def _require_next(intent: Intent | None, fact: Fact) -> None:
    if (intent is None) != isinstance(fact.event, events.Recorded):
        raise LedgerCorrupt(f"intent {fact.intent_id} begins with its recording, and only once")
    if intent is not None and (intent.tenant, intent.id) != (fact.tenant, fact.intent_id):
        raise LedgerCorrupt(f"intent {intent.ref} is given an event of {fact.intent_id}")
    before = 0 if intent is None else intent.version
    if fact.version != before + 1:
        raise LedgerCorrupt(f"intent {fact.intent_id} goes from version {before} to {fact.version}")


def _require_step(before: Intent | None, after: Intent, event: events.Event) -> None:
    state = before.state if before is not None else None
    if isinstance(event, events.WindowMoved):
        possible = state is State.HELD
    elif isinstance(event, events.Postponed):
        possible = state in (State.HELD, State.DUE)
    elif isinstance(event, events.WaitFailed):
        possible = state is State.WAITING
    elif isinstance(event, _KEEPS_STATE):
        possible = True
    elif before is not None and state is State.FAILED and isinstance(event, _VERDICTS):
        possible = before.contradicted and event.source == "person"
    elif isinstance(event, events.Failed) and state is not None:
        only_policy = state is State.CLAIMED
        possible = State.FAILED in MAY_BECOME[state] and only_policy == (event.source == "policy")
    else:
        possible = after.state in MAY_BECOME[state]
    if not possible:
        raise LedgerCorrupt(f"{event.KIND!r} can't follow in state {state and state.value!r}")


def fold(facts: Iterable[Fact]) -> Intent | None:
    """The intent that a whole history describes; None for an empty one.

    >>> fold([]) is None
    True
    """
    intent = None
    for fact in facts:
        intent = evolve(intent, fact)
    return intent


def foresee(intent: Intent, following: Iterable[events.Event], at: datetime) -> Intent:
    """The intent as it will be once ``following`` are stored, so that more can be decided on it."""
    for event in following:
        fact = Fact(
            tenant=intent.tenant,
            intent_id=intent.id,
            version=intent.version + 1,
            position=0,
            at=at,
            event=event,
        )
        intent = evolve(intent, fact)
    return intent


def _recorded(fact: Fact, event: events.Recorded) -> Intent:
    state = State(event.becomes)
    window = timedelta(microseconds=event.window_us)
    not_before = instant(event.not_before_us) if event.not_before_us is not None else None
    return Intent(
        tenant=fact.tenant,
        id=fact.intent_id,
        ref=event.ref,
        tool=event.tool,
        tool_version=event.tool_version,
        effect=event.effect,
        key=event.key,
        generation=event.generation,
        run=event.run,
        principal=event.principal,
        state=state,
        version=fact.version,
        recorded_at=fact.at,
        window=window,
        not_before=not_before,
        due_at=_due_at(state, fact.at, window, not_before),
        after=event.after,
        restores=UUID(event.restores) if event.restores else None,
        repeat_of=event.repeat_of,
        head_hash=fact.hash,
        on_behalf_of=event.on_behalf_of,
        expires_at=_expires_at(state, fact.at, event.approval_us),
        lane=event.lane,
        priority=event.priority,
        ordering=event.ordering,
    )


def _expires_at(state: State, at: datetime, approval_us: int | None) -> datetime | None:
    """When a request for approval lapses; None where it never does, or nobody is asked."""
    if state is not State.AWAITING_APPROVAL or approval_us is None:
        return None
    return at + timedelta(microseconds=approval_us)


def _due_at(
    state: State, at: datetime, window: timedelta, not_before: datetime | None
) -> datetime | None:
    """Entering held or due starts the window; in no other state is there an instant to claim at."""
    if state not in (State.HELD, State.DUE):
        return None
    due_at = at + window
    return due_at if not_before is None else max(due_at, not_before)


def _scheduled(intent: Intent, fact: Fact, becomes: str, **changes: Any) -> Intent:
    state = State(becomes)
    due_at = _due_at(state, fact.at, intent.window, intent.not_before)
    return _next(intent, fact, state=state, due_at=due_at, **changes)


_SLOTS = tuple(
    (getattr(Intent, field.name).__get__, getattr(Intent, field.name).__set__)
    for field in fields(Intent)
)
_SETTERS = {field.name: getattr(Intent, field.name).__set__ for field in fields(Intent)}


def _next(intent: Intent, fact: Fact, **changes: Any) -> Intent:
    """The next version with ``changes``: ``dataclasses.replace`` at half its time, since every
    event of every intent comes through here.
    """
    after: Intent = object.__new__(Intent)
    for get, put in _SLOTS:
        put(after, get(intent))
    _SETTERS["version"](after, fact.version)
    _SETTERS["head_hash"](after, fact.hash)
    for name, value in changes.items():
        _SETTERS[name](after, value)
    return after


def _advance(intent: Intent, fact: Fact) -> Intent:
    event = fact.event
    match event:
        case (
            events.AttemptBegan()
            | events.Claimed()
            | events.HandedBack()
            | events.Deferred()
            | events.Requeued()
        ):
            return _dispatched(intent, fact, event)
        case (
            events.InDoubt()
            | events.Parked()
            | events.Succeeded()
            | events.Failed()
            | events.AnsweredLate()
            | events.Contradicted()
        ):
            return _answered(intent, fact, event)
        case (
            events.Cancelled()
            | events.WaitFailed()
            | events.RestoreBegan()
            | events.Restored()
            | events.RestoreFailed()
            | events.RestoreInDoubt()
        ):
            return _taken_back(intent, fact, event)
        case _:
            return _passed(intent, fact, event)


def _passed(intent: Intent, fact: Fact, event: events.Event) -> Intent:
    """Time went by, or somebody decided whether it may happen, or it was forgotten."""
    match event:
        case events.WindowMoved(until_us=until_us) | events.Postponed(until_us=until_us):
            return _next(intent, fact, due_at=instant(until_us))
        case events.ApprovalAsked(approval_us=approval_us):
            asked = State.AWAITING_APPROVAL
            return _next(
                intent,
                fact,
                state=asked,
                due_at=None,
                lease_until=None,
                expires_at=_expires_at(asked, fact.at, approval_us),
                approved_by=None,
            )
        case events.Approved(by=by, becomes=becomes):
            return _scheduled(intent, fact, becomes, expires_at=None, approved_by=by)
        case events.Awoken(becomes=becomes):
            return _scheduled(intent, fact, becomes)
        case events.Denied():
            return _next(intent, fact, state=State.DENIED, expires_at=None, settled_at=fact.at)
        case events.ApprovalExpired():
            return _next(intent, fact, state=State.EXPIRED, expires_at=None, settled_at=fact.at)
        case events.Due():
            return _next(intent, fact, state=State.DUE)
        case events.Purged():
            return _next(intent, fact, state=State.PURGED, last_word=intent.state)
        case _:
            raise LedgerCorrupt(f"event {event.KIND!r} changes no intent")


def _dispatched(
    intent: Intent,
    fact: Fact,
    event: events.AttemptBegan
    | events.Claimed
    | events.HandedBack
    | events.Deferred
    | events.Requeued,
) -> Intent:
    match event:
        case events.Claimed(lease_until_us=lease):
            return _next(intent, fact, state=State.CLAIMED, lease_until=instant(lease))
        case events.HandedBack():
            return _next(intent, fact, state=State.DUE, lease_until=None)
        case events.AttemptBegan(attempt=attempt, epoch=epoch, lease_until_us=lease):
            return _next(
                intent,
                fact,
                state=State.EXECUTING,
                attempt=attempt,
                epoch=epoch,
                due_at=None,
                lease_until=instant(lease),
            )
        case events.Deferred(until_us=until_us):
            return _next(intent, fact, state=State.DUE, due_at=instant(until_us), lease_until=None)
        case events.Requeued(
            cause=cause, epoch=epoch, until_us=until_us, begin_before_us=before_us
        ):
            return _next(
                intent,
                fact,
                state=State.DUE,
                epoch=epoch,
                due_at=instant(until_us),
                attempts_unknown=() if cause == "absent" else _with_doubt(intent),
                begin_before=instant(before_us) if before_us is not None else None,
                contradicted=intent.contradicted and cause != "person",
                settled_at=None,
            )
        case _:
            assert_never(event)


def _answered(
    intent: Intent,
    fact: Fact,
    event: events.InDoubt
    | events.Parked
    | events.Succeeded
    | events.Failed
    | events.AnsweredLate
    | events.Contradicted,
) -> Intent:
    match event:
        case events.InDoubt():
            return _next(intent, fact, state=State.IN_DOUBT, lease_until=None)
        case events.Parked():
            return _next(
                intent,
                fact,
                state=State.PARKED,
                due_at=None,
                expires_at=None,
                attempts_unknown=_with_doubt(intent),
                lease_until=None,
            )
        case events.Succeeded(attempt=attempt, source=source, affected_count=count):
            return _next(
                intent,
                fact,
                state=State.SUCCEEDED,
                affected_count=count,
                attempts_unknown=_without(intent, attempt),
                lease_until=None,
                settled_at=fact.at,
                contradicted=intent.contradicted and source != "person",
            )
        case events.Failed(attempt=attempt, source=source):
            about_all = source in ("find", "person")
            return _next(
                intent,
                fact,
                state=State.FAILED,
                due_at=None if source == "policy" else intent.due_at,
                attempts_unknown=() if about_all else _without(intent, attempt),
                lease_until=None,
                settled_at=fact.at,
                contradicted=intent.contradicted and source != "person",
            )
        case events.AnsweredLate(attempt=attempt, outcome=outcome):
            if outcome == "succeeded":
                return _next(intent, fact)
            return _next(intent, fact, attempts_unknown=_without(intent, attempt))
        case events.Contradicted(attempt=attempt, answered=answered):
            known = intent.attempts_unknown
            unknown = _with(intent, attempt) if answered == "succeeded" else known
            return _next(intent, fact, attempts_unknown=unknown, contradicted=True)
        case _:
            assert_never(event)


def _with_doubt(intent: Intent) -> tuple[int, ...]:
    """The engine goes on: what is in doubt now will be among the attempts that nobody knows of."""
    in_doubt = intent.state is State.IN_DOUBT
    return _with(intent, intent.attempt) if in_doubt else intent.attempts_unknown


def _with(intent: Intent, attempt: int) -> tuple[int, ...]:
    return tuple(sorted({*intent.attempts_unknown, attempt}))


def _without(intent: Intent, attempt: int) -> tuple[int, ...]:
    return tuple(number for number in intent.attempts_unknown if number != attempt)


def _taken_back(
    intent: Intent,
    fact: Fact,
    event: events.Cancelled
    | events.WaitFailed
    | events.RestoreBegan
    | events.Restored
    | events.RestoreFailed
    | events.RestoreInDoubt,
) -> Intent:
    match event:
        case events.Cancelled(by=by, via=via):
            # expires_at stays: the release before cancels too, and doesn't know the column.
            return _next(
                intent,
                fact,
                state=State.CANCELLED,
                due_at=None,
                lease_until=None,
                taken_back_by=by,
                restored_via=via,
                settled_at=fact.at,
            )
        case events.WaitFailed():
            return _next(intent, fact, state=State.CANCELLED, settled_at=fact.at)
        case events.RestoreBegan(by=by, via=via):
            return _next(intent, fact, state=State.RESTORING, taken_back_by=by, restored_via=via)
        case events.Restored():
            return _next(intent, fact, state=State.RESTORED, settled_at=fact.at)
        case events.RestoreFailed():
            return _next(intent, fact, state=State.RESTORE_FAILED, taken_back_by=None)
        case events.RestoreInDoubt():
            return _next(intent, fact, state=State.IN_DOUBT)
        case _:
            assert_never(event)
