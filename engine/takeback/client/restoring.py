"""Taking back: an intent of its own, keyed by the ref of what it takes back, for ever.

What happens depends on where the original stands, decided under its row's lock:

    not begun           cancelled: it never happens
    Local, succeeded    the handler's restore, in this transaction
    Remote, succeeded   recorded as a compensation that a worker carries out
    a restore           the original call is recorded anew (``redone``), with a fresh window
    anything else       refused with the reason; nothing is recorded

The restore is recorded inside a savepoint, so a refusal leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from takeback.catalog.registry import Bound
from takeback.client import local
from takeback.client.calling import begun, call_in
from takeback.client.context import Context
from takeback.client.looking import find
from takeback.client.owning import in_own_transaction
from takeback.client.refusing import refuse, refuse_broken
from takeback.client.request import SALT_BYTES, prepare
from takeback.client.restore_tool import RESTORE, restore_arguments
from takeback.declare import CANCEL_ONLY, Local, Remote
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import Taken, lock
from takeback.ledger.reading import Entry, read
from takeback.ledger.recording import record
from takeback.ledger.transaction import Tx, adopt
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.chain import body_digest
from takeback.model.decide import decide
from takeback.model.decide import record as decide_recording
from takeback.model.envelope import Envelope, Replay, answer, clock
from takeback.model.event import Effect
from takeback.model.evolve import foresee
from takeback.model.handler import Affected, Performed
from takeback.model.intent import Intent, State, is_cancellable
from takeback.model.key import derive_key
from takeback.model.ref import make_ref

TRIES = 3
"""How often the original may change state between our look at it and its lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Who wants what taken back."""

    original: Entry
    bound: Bound
    principal: str
    run: str | None
    force: bool
    trace_id: str


class _Moved(Exception):
    """The original changed state before its row was locked: look again."""


def restore(
    context: Context, given: object, ref: str, *, run: str | None, principal: str, force: bool
) -> Envelope:
    """Takes back the intent of ``ref``, in the transaction ``given`` or in one of its own.

    Answers with the restore's own envelope, refusals included. ``force`` (persons only) restores
    over what somebody else changed since. Raises RetryTransaction.
    """
    trace_id = context.entropy(8).hex()
    try:
        if force and principal.startswith("agent:"):
            raise errors.PersonRequired("only a person may force a restore")

        def work(tx: Tx) -> Envelope:
            return restore_in(
                context, tx, ref, run=run, principal=principal, force=force, trace_id=trace_id
            )

        return in_own_transaction(context, work) if given is None else work(adopt(given))
    except errors.HandlerBroke as problem:
        return refuse_broken(problem, trace_id)
    except (
        errors.CallerError,
        errors.PolicyRefusal,
        errors.Conflict,
        errors.DatabaseUnavailable,
        errors.InProgress,
    ) as problem:
        return refuse(problem, trace_id)


def restore_in(
    context: Context,
    tx: Tx,
    ref: str,
    *,
    run: str | None,
    principal: str,
    force: bool,
    trace_id: str,
) -> Envelope:
    """The restore inside an open transaction."""
    for _ in range(TRIES):
        original = _target(context, tx, find(context, tx, ref))
        done = _already(context, tx, original, trace_id)
        if done is not None:
            return done
        ask = Ask(
            original=original,
            bound=_bound(context, tx, original),
            principal=principal,
            run=run,
            force=force,
            trace_id=trace_id,
        )
        _require_restorable(ask)
        try:
            with tx.savepoint():
                return _restore(context, tx, ask)
        except _Moved:
            continue
        except errors.Rejected as problem:
            raise errors.NotRestorable(problem.message) from problem
    raise errors.InProgress(f"{ref} is being worked on at this moment; ask again")


def _target(context: Context, tx: Tx, entry: Entry) -> Entry:
    """A restore that did something anew is taken back by taking back what it did."""
    redone = (entry.bodies.get("result") or {}).get("redone")
    return find(context, tx, redone["ref"]) if redone else entry


def _bound(context: Context, tx: Tx, entry: Entry) -> Bound:
    """The row behind an intent; behind a restore, that of what it took back."""
    if entry.intent.tool != RESTORE.name:
        return context.registry.tool(entry.intent.tool)
    if entry.intent.restores is None:
        raise errors.LedgerCorrupt(f"{entry.intent.ref} is a restore of nothing")
    first = read(tx, context.tenant, entry.intent.restores)
    if first is None:
        raise errors.LedgerCorrupt(f"what {entry.intent.ref} took back is not in the ledger")
    return _bound(context, tx, first)


def _already(context: Context, tx: Tx, original: Entry, trace_id: str) -> Envelope | None:
    """The answer when it was taken back before: the same restore again, or who redid it since."""
    via = original.intent.restored_via
    if via is None or original.intent.state is State.RESTORE_FAILED:
        return None
    earlier = find(context, tx, via)
    if earlier.intent.tool != RESTORE.name:
        return None
    replay = answer(earlier.intent, RESTORE, earlier.bodies, trace_id=trace_id, replay=Replay())
    if earlier.intent.state is not State.RESTORED or earlier.intent.restored_via is None:
        return replay
    redo = find(context, tx, earlier.intent.restored_via)
    redone = (redo.bodies.get("result") or {}).get("redone")
    return Envelope(
        replay.to_dict()
        | {"redone_by": redone or {"ref": redo.intent.ref}, "restore": _restore_of(redone)}
    )


def _restore_of(redone: dict[str, Any] | None) -> dict[str, Any] | None:
    if redone is None:
        return None
    return {
        "tool": RESTORE.name,
        "arguments": {"ref": redone["ref"]},
        "until": None,
        "does": "takes back what was done anew",
        "leaves": [],
    }


def _require_restorable(ask: Ask) -> None:
    """What can be seen without a lock; the state is looked at again under one."""
    intent, effect = ask.original.intent, ask.bound.tool.effect
    if intent.tool == RESTORE.name:
        if intent.state is State.SUCCEEDED:
            return
        raise errors.NotRestorable(f"{intent.ref} has taken nothing back yet: {_stands(intent)}")
    if is_cancellable(intent):
        return
    if intent.state is State.EXECUTING:
        raise errors.TooLate(f"{intent.ref} has begun at this moment; ask for its status")
    if intent.state not in (State.SUCCEEDED, State.RESTORE_FAILED):
        raise errors.NotRestorable(f"there is nothing to take back: {_stands(intent)}")
    if isinstance(effect, Remote) and effect.reversal is CANCEL_ONLY:
        raise errors.TooLate(
            f"{intent.ref} happened at {_settled(ask.original)} and can't be taken back"
        )
    if isinstance(effect, Local) and effect.retention is not None:
        settled_at = intent.settled_at or intent.recorded_at
        if ask.original.now > settled_at + effect.retention:
            raise errors.RestoreExpired(
                f"what {intent.ref} changed was kept until "
                f"{clock(settled_at + effect.retention, ask.original.now)}"
            )


def _restore(context: Context, tx: Tx, ask: Ask) -> Envelope:
    taken = _lock_original(context, tx, ask)
    intent = taken.intent
    if intent.tool == RESTORE.name:
        return _redo(context, tx, ask, taken)
    if is_cancellable(intent):
        return _cancel(context, tx, ask, taken)
    if isinstance(ask.bound.tool.effect, Local):
        return _restore_local(context, tx, ask, taken)
    return _compensate(context, tx, ask, taken)


def _lock_original(context: Context, tx: Tx, ask: Ask) -> Taken:
    taken = lock(tx, context.tenant, [ask.original.intent.id])[0]
    if taken.intent.version != ask.original.intent.version:
        raise _Moved
    return taken


def _begin(context: Context, tx: Tx, ask: Ask, *, effect: Effect) -> Intent:
    """Records the restore itself; a twin means that somebody else has just taken it back."""
    original = ask.original.intent
    arguments = restore_arguments(original.ref)
    salt = context.entropy(SALT_BYTES)
    command = commands.Record(
        ref=make_ref(RESTORE.name, context.entropy(5)),
        tool=RESTORE.name,
        tool_version=RESTORE.version,
        effect=effect,
        key=derive_key(
            tenant=context.tenant,
            tool=RESTORE.name,
            recipe=RESTORE.recipe,
            arguments=arguments.canonical,
            run=None,
            repeat_of=None,
            secret=context.key_secret,
        ),
        generation=_generation(context, tx, original),
        run=ask.run,
        principal=ask.principal,
        arguments=body_digest(salt, arguments.body),
        restores=str(original.id),
    )
    event = decide_recording(command)
    recording = record(tx, context.tenant, event, arguments=arguments.body, salt=salt)
    if recording.minted is None:
        raise _Moved
    return begun(context.tenant, event, recording.minted)


def _generation(context: Context, tx: Tx, original: Intent) -> int:
    """A restore that failed for good may be tried again, as the next one of its key."""
    if original.state is not State.RESTORE_FAILED or original.restored_via is None:
        return 0
    failed = find(context, tx, original.restored_via)
    return failed.intent.generation + 1


def _finish(
    context: Context,
    tx: Tx,
    ask: Ask,
    own: Intent,
    done: Performed,
    *,
    extra: dict[str, Any] | None = None,
) -> Envelope:
    settled, outcome = local.settle(context, tx, own, done, extra)
    bodies = {"arguments": {"ref": ask.original.intent.ref}, "result": outcome}
    return answer(settled, RESTORE, bodies, trace_id=ask.trace_id)


def _cancel(context: Context, tx: Tx, ask: Ask, taken: Taken) -> Envelope:
    own = _begin(context, tx, ask, effect="local")
    command = commands.Cancel(by=ask.principal, via=own.ref)
    append(tx, [Change(taken=taken, events=decide(taken.intent, command, taken.now))])
    before = answer(taken.intent, ask.bound.tool, ask.original.bodies, trace_id=ask.trace_id)
    done = Performed(
        affected=[Affected(kind=a["kind"], id=a["id"], label=a["label"]) for a in before.affected],
        affected_count=before["affected_count"],
        summary=f"{taken.intent.ref} was taken back before it began: it never happens.",
    )
    return _finish(context, tx, ask, own, done)


def _restore_local(context: Context, tx: Tx, ask: Ask, taken: Taken) -> Envelope:
    handler = ask.bound.handler
    if handler.restore is None:
        raise errors.NotRestorable(f"{ask.bound.name!r} has no restore")
    original = local.original_of(ask.bound, ask.original)
    own = _begin(context, tx, ask, effect="local")
    if handler.drift is not None and not ask.force:
        _require_no_drift(tx, own, handler.drift, original, taken.intent.ref)
    done = local.face_in(tx, own, handler.restore, original)
    append(tx, [_restored(taken, ask, own)])
    return _finish(context, tx, ask, own, done)


def _require_no_drift(tx: Tx, own: Intent, drift: Any, original: Any, ref: str) -> None:
    found = local.face_in(tx, own, drift, original).result
    if found:
        fields = ", ".join(str(one.get("field")) for one in found)
        raise errors.RestoreConflict(
            f"somebody else has changed it since {ref}: {fields}; a person may force the restore",
            found,
        )


def _compensate(context: Context, tx: Tx, ask: Ask, taken: Taken) -> Envelope:
    own = _begin(context, tx, ask, effect="remote")
    command = commands.BeginRestore(by=ask.principal, via=own.ref)
    append(tx, [Change(taken=taken, events=decide(taken.intent, command, taken.now))])
    bodies = {"arguments": {"ref": taken.intent.ref}}
    return answer(own, RESTORE, bodies, trace_id=ask.trace_id)


def _redo(context: Context, tx: Tx, ask: Ask, taken: Taken) -> Envelope:
    """Takes a restore back: the original call is recorded anew, as a repeat that is meant."""
    restored = taken.intent
    if restored.restores is None:
        raise errors.LedgerCorrupt(f"{restored.ref} is a restore of nothing")
    first = read(tx, context.tenant, restored.restores)
    if first is None:
        raise errors.LedgerCorrupt(f"what {restored.ref} took back is not in the ledger")
    own = _begin(context, tx, ask, effect="local")
    original = local.original_of(ask.bound, first)
    request = prepare(
        context,
        ask.bound.name,
        original.arguments.model_dump(),
        run=first.intent.run,
        principal=ask.principal,
        repeat_of=restored.ref,
        expect=None,
        not_before=None,
        trace_id=ask.trace_id,
    )
    anew = call_in(context, tx, request, savepoint=False, meant=True)
    append(tx, [_restored(taken, ask, own)])
    done = Performed(
        affected=[Affected(kind=a["kind"], id=a["id"], label=a["label"]) for a in anew.affected],
        affected_count=anew["affected_count"],
        summary=f"Done anew as {anew.ref}: {anew.summary}",
    )
    return _finish(context, tx, ask, own, done, extra={"redone": {"ref": anew.ref}})


def _restored(taken: Taken, ask: Ask, own: Intent) -> Change:
    """The original passes through restoring to restored, in one write."""
    begin = commands.BeginRestore(by=ask.principal, via=own.ref)
    events = [*decide(taken.intent, begin, taken.now)]
    halfway = foresee(taken.intent, events, taken.now)
    events += decide(halfway, commands.FinishRestore(via=own.ref), taken.now)
    return Change(taken=taken, events=events)


def _settled(entry: Entry) -> str:
    return clock(entry.intent.settled_at or entry.intent.recorded_at, entry.now)


def _stands(intent: Intent) -> str:
    return {
        State.FAILED: "it never happened",
        State.DENIED: "it was denied and never happened",
        State.EXPIRED: "it expired and never happened",
        State.IN_DOUBT: "nobody knows yet whether it happened; an operator resolves it first",
        State.PARKED: "nobody knows yet whether it happened; an operator resolves it first",
        State.RESTORING: "it is being taken back at this moment",
    }.get(intent.state, f"it is {intent.state.value}")
