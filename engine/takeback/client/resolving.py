"""A person's word on what nobody else can end: tried again, or said to have happened or not.

    retry      parked, failed      due again, as the next attempt of the same intent
    resolve    in doubt, parked    succeeded, or failed; parked where nobody knows

What is on its way once more although an earlier attempt may be in the world is in doubt like these:
to resolve it stops it. So is what has failed and is denied by a late answer, which is resolved
before it is retried.

What a person says twice is once. They may be wrong, as nobody else may: their word stands in the
log under their name, and a late answer against it is told. What is said of a restore is true of
what it takes back in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from takeback.client.amendment import tell
from takeback.client.body import outcome_body, refusal_body
from takeback.client.calling import BUSY_PAUSES
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.faulting import as_it_is, guarded
from takeback.client.local import sealed_body
from takeback.client.looking import find, row_of
from takeback.client.original import follow
from takeback.client.owning import in_transaction
from takeback.client.refusing import refuse, refuse_arguments
from takeback.client.ruling import lock_patiently, require_person, ruling_violations
from takeback.ledger.appending import Body, Change, append
from takeback.ledger.locking import Taken
from takeback.ledger.reading import Entry, history, read_by_key
from takeback.ledger.transaction import Tx
from takeback.model import command as commands
from takeback.model import errors
from takeback.model import event as events
from takeback.model.chain import body_digest
from takeback.model.decide import decide
from takeback.model.envelope import Envelope, Replay, affected_rows
from takeback.model.evolve import foresee
from takeback.model.handler import Affected, Performed
from takeback.model.intent import (
    Fact,
    Intent,
    State,
    is_denied,
    is_tried_again,
    left_no_trace,
)
from takeback.model.moment import clock, iso
from takeback.model.ruling import AS, Word, is_open, steps_for, what_it_is
from takeback.model.violation import Violation, shown

_DIFFERS: dict[Word, str] = {
    "retried": "had it tried again",
    "succeeded": "said that it has happened",
    "failed": "said that it did not happen",
    "unknown": "said that nobody knows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """What a person has said last about an intent, as it stands in the log."""

    how: Word
    by: str | None
    at: datetime
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ruling:
    """Who says what. ``written`` are the versions that this very ruling has written: they tell it
    from an earlier one, also when the answer to its commit was lost.
    """

    ref: str
    word: Word
    principal: str
    note: str | None
    trace_id: str
    pauses: Iterator[float]
    written: list[int] = field(default_factory=list)


def retry(context: Context, given: object, ref: str, *, principal: str) -> Envelope:
    """Has the intent of ``ref`` tried again, in the transaction ``given`` or in one of its own.

    Answers with the intent as it is then, refusals and faults included. Raises RetryTransaction and
    TransactionAborted.
    """
    return _guarded(context, given, ref, "retry", "retried", principal=principal, note=None)


def resolve(
    context: Context, given: object, ref: str, as_: object, *, principal: str, note: str | None
) -> Envelope:
    """Ends the doubt about the intent of ``ref``, as ``retry`` does."""
    said = str.__str__(as_) if isinstance(as_, str) else as_
    return _guarded(context, given, ref, "resolve", said, principal=principal, note=note)


def _guarded(
    context: Context,
    given: object,
    ref: str,
    verb: str,
    word: Any,
    *,
    principal: str,
    note: str | None,
) -> Envelope:
    return guarded(
        context,
        Course(tool=verb, principal=principal),
        lambda inside: _ruled(inside, given, ref, verb, word, principal=principal, note=note),
        as_it_is,
    )


def _ruled(
    context: Context,
    given: object,
    ref: str,
    verb: str,
    word: Any,
    *,
    principal: str,
    note: str | None,
) -> Envelope:
    trace_id = context.draw_trace_id()
    violations = (*_word_violations(verb, word), *ruling_violations(principal, note=note))
    if violations:
        return refuse_arguments(verb, None, violations, trace_id)
    ruling = _Ruling(
        ref=ref,
        word=word,
        principal=principal,
        note=note,
        trace_id=trace_id,
        pauses=iter(BUSY_PAUSES),
    )
    try:
        require_person(principal, verb)
        return in_transaction(context, given, lambda tx: _rule_in(context, tx, ruling))
    except errors.TakebackError as problem:
        return refuse(problem, trace_id)


def _word_violations(verb: str, word: object) -> Iterator[Violation]:
    if verb == "resolve" and word not in AS:
        yield Violation(
            field="as",
            code="not_permitted",
            message=f"must be one of: {', '.join(AS)}",
            received=shown(word if isinstance(word, str) else type(word).__name__),
            permitted=AS,
            permitted_count=len(AS),
        )


def _rule_in(context: Context, tx: Tx, ruling: _Ruling) -> Envelope:
    """The ruling inside an open transaction. What is refused holds no lock any more."""
    entry = find(context, tx, ruling.ref)
    told = _told_before(context, tx, ruling, entry)
    if told is not None:
        return told
    with tx.savepoint():
        rows = lock_patiently(context, tx, _concerned(entry.intent), ruling.pauses)
        if rows[0].intent.version == entry.intent.version:
            return _write(context, tx, ruling, entry, rows)
    return _rule_in(context, tx, ruling)


def _concerned(intent: Intent) -> list[Intent]:
    """The intent, and what it takes back."""
    if intent.restores is None:
        return [intent]
    return [intent, replace(intent, id=intent.restores)]


def _write(
    context: Context, tx: Tx, ruling: _Ruling, entry: Entry, rows: Sequence[Taken]
) -> Envelope:
    taken, originals = rows[0], rows[1:]
    _require_state(ruling, taken.intent)
    _require_latest(tx, ruling, taken.intent)
    command, bodies = _command(context, ruling, entry, taken)
    stopped = _stopped(ruling, taken)
    decided = [
        *stopped,
        *decide(foresee(taken.intent, stopped, taken.now), command, taken.now),
    ]
    changes = [Change(taken=taken, events=decided, bodies=bodies)]
    for original in originals:
        changes += _followed(ruling, taken.intent, decided, original)
    intent, *_ = append(tx, changes)
    ruling.written.append(intent.version)
    after = find(context, tx, ruling.ref)
    ruled = Ruled(how=ruling.word, by=ruling.principal, at=taken.now, version=intent.version)
    return _tell(context, tx, ruling, after, ruled, replay=None)


def _stopped(ruling: _Ruling, taken: Taken) -> Sequence[events.Event]:
    """What is on its way once more is parked before it is said what became of it."""
    if not is_tried_again(taken.intent) or ruling.word == "unknown":
        return ()
    stop = commands.Park(cause="person", by=ruling.principal)
    return decide(taken.intent, stop, taken.now)


def _followed(
    ruling: _Ruling, restore: Intent, decided: Sequence[events.Event], original: Taken
) -> list[Change]:
    """What becomes of the original when its restore is ruled about, also once more."""
    if ruling.word != "retried" and not is_denied(restore):
        return follow(restore, decided, original)
    now = original.intent
    if now.restored_via != restore.ref:
        raise errors.WrongState(
            f"{restore.ref} takes back {now.ref}, which is being taken back by "
            f"{now.restored_via} since; nothing was changed"
        )
    if now.state is not State.RESTORE_FAILED:
        return []
    if ruling.word == "failed":
        return []
    began = commands.BeginRestore(by=ruling.principal, via=restore.ref)
    following = [*decide(now, began, original.now)]
    if ruling.word == "succeeded":
        finish = commands.FinishRestore(via=restore.ref)
        following += decide(foresee(now, following, original.now), finish, original.now)
    return [Change(taken=original, events=following)]


def _command(
    context: Context, ruling: _Ruling, entry: Entry, taken: Taken
) -> tuple[commands.Command, tuple[Body, ...]]:
    """A note is a body, so that it can be forgotten; the event holds its digest."""
    by, note = ruling.principal, {"by": ruling.principal, "note": ruling.note}
    match ruling.word:
        case "retried":
            anew = left_no_trace(taken.intent)
            return commands.Requeue(cause="person", new_epoch=anew, by=by), ()
        case "succeeded":
            rows = affected_rows(row_of(context, entry), entry.bodies)
            affected = [Affected(kind=r["kind"], id=r["id"], label=r["label"]) for r in rows]
            count = max(len(affected), taken.intent.affected_count)
            done = Performed(affected=affected, affected_count=count)
            body = sealed_body(context, "result", outcome_body(done, note))
            digest = body_digest(body.salt, body.text)
            return (
                commands.Succeed(result=digest, affected_count=count, source="person", by=by),
                (body,),
            )
        case "failed":
            code = "resolved_failed"
            message = f"{by} has found out that it did not happen"
            body = sealed_body(context, "error", refusal_body(code, message, [], note))
            digest = body_digest(body.salt, body.text)
            return commands.Fail(code=code, error=digest, source="person", by=by), (body,)
        case "unknown":
            return commands.Park(cause="person", by=by), ()


def _told_before(context: Context, tx: Tx, ruling: _Ruling, entry: Entry) -> Envelope | None:
    """The answer where the same has been said already; None where there is something to say."""
    facts = [stored.fact() for stored in history(tx, context.tenant, entry.intent.id)]
    ruled = ruled_last(facts)
    if ruled is None:
        return None
    if ruled.version in ruling.written:
        return _tell(context, tx, ruling, entry, ruled, replay=None)
    if is_open(ruling.word, entry.intent):
        return None
    if ruled.how == ruling.word:
        return _tell(context, tx, ruling, entry, ruled, replay=Replay())
    said = f"{ruled.by} {_DIFFERS[ruled.how]} at {clock(ruled.at, entry.now)}"
    raise errors.WrongState(
        f"{said}; {what_it_is(entry.intent)}", alternatives=steps_for(entry.intent)
    )


def ruled_last(facts: Sequence[Fact]) -> Ruled | None:
    """What a person has said last about whether it happened; None where none has.

    >>> ruled_last([]) is None
    True
    """
    found: Ruled | None = None
    for fact in facts:
        how: Word
        match fact.event:
            case events.Requeued(cause="person", by=by):
                how = "retried"
            case events.Succeeded(source="person", by=by):
                how = "succeeded"
            case events.Failed(source="person", by=by):
                how = "failed"
            case events.Parked(cause="person", by=by):
                how = "unknown"
            case _:
                continue
        found = Ruled(how=how, by=by, at=fact.at, version=fact.version)
    return found


def _require_state(ruling: _Ruling, intent: Intent) -> None:
    if intent.state is State.AWAITING_APPROVAL and not is_open(ruling.word, intent):
        raise errors.NeedsApproval(
            f"{intent.ref} still waits for a person's approval: approve or deny it first"
        )
    if not is_open(ruling.word, intent):
        raise errors.WrongState(what_it_is(intent), alternatives=steps_for(intent))


def _require_latest(tx: Tx, ruling: _Ruling, intent: Intent) -> None:
    """What an equal call was made after is not tried again: both would happen.

    Asked once the row is locked: who makes that call holds it (``takeback.client.repeating``).
    """
    if ruling.word != "retried":
        return
    latest = read_by_key(tx, intent.tenant, intent.key)
    if latest is not None and latest.intent.generation > intent.generation:
        raise errors.WrongState(
            f"{intent.ref} is over, and the same call was made again since: see {latest.intent.ref}"
        )


def _tell(
    context: Context, tx: Tx, ruling: _Ruling, entry: Entry, ruled: Ruled, *, replay: Replay | None
) -> Envelope:
    told = tell(tx, entry, row_of(context, entry), trace_id=ruling.trace_id, replay=replay)
    return told.amended({"decided": {"how": ruled.how, "by": ruled.by, "at": iso(ruled.at)}})
