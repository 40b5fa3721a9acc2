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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from takeback.catalog.registry import Bound
from takeback.client import local
from takeback.client.amendment import named_of, successor
from takeback.client.calling import begun, call_in
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.faulting import as_it_is, guarded, note_breakage
from takeback.client.looking import find, row_of
from takeback.client.owning import in_transaction
from takeback.client.permission import require_granted
from takeback.client.refusing import refuse, refuse_arguments, refuse_handler
from takeback.client.request import Terms, prepare
from takeback.client.restorable import require_no_drift, require_restorable
from takeback.client.restore_tool import RESTORE, restore_arguments
from takeback.client.wish import Wish, ref_of, wish_for
from takeback.declare import HIGH, Local
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import Taken, lock_free
from takeback.ledger.reading import Entry, read
from takeback.ledger.recording import record
from takeback.ledger.transaction import Tx
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.arguments import revive
from takeback.model.chain import SALT_BYTES, body_digest
from takeback.model.decide import decide
from takeback.model.decide import record as decide_recording
from takeback.model.envelope import Envelope, Replay, affected_rows, answer
from takeback.model.event import Effect
from takeback.model.evolve import foresee
from takeback.model.handler import Affected, Handler, Performed
from takeback.model.hindrance import Hindrance
from takeback.model.intent import Intent, State, is_cancellable
from takeback.model.key import derive_key
from takeback.model.ref import ENTROPY_BYTES, make_ref

_UNREADABLE = (
    "it was recorded in a form that this release can't read; an operator finds the cause under "
    "the trace id"
)

TRIES = 3
"""How often the original may change state between our look at it and its lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A wish, with what it is about and the row behind that."""

    wish: Wish
    original: Entry
    bound: Bound


class Moved(Exception):
    """The original changed state before its row was locked: look again."""


def restore(
    context: Context, given: object, ref: str, *, run: str | None, principal: str, force: bool
) -> Envelope:
    """Takes back the intent of ``ref``, in the transaction ``given`` or in one of its own.

    Answers with the restore's own envelope, refusals and faults included. ``force`` (persons only)
    restores over what somebody else changed since. Raises RetryTransaction and TransactionAborted.
    """
    trace_id = context.draw_trace_id()
    return guarded(
        context,
        Course(tool=RESTORE.name, run=run, principal=principal),
        lambda inside: _restored_for(
            inside, given, ref, trace_id, run=run, principal=principal, force=force
        ),
        as_it_is,
    )


def call_restore(
    context: Context,
    given: object,
    arguments: Mapping[str, Any],
    beside: Mapping[str, Any],
    *,
    run: str | None,
    principal: str,
) -> Envelope:
    """``restore`` for whoever runs the call that an envelope has handed back, as it came.

    What else was said ``beside`` the arguments is refused: a restore takes its ref alone.
    """
    trace_id = context.draw_trace_id()

    def work(inside: Context) -> Envelope:
        try:
            ref = ref_of(arguments, beside)
        except errors.InvalidArguments as problem:
            return refuse_arguments(RESTORE, arguments, problem.violations, trace_id)
        return _restored_for(
            inside, given, ref, trace_id, run=run, principal=principal, force=False
        )

    course = Course(tool=RESTORE.name, run=run, principal=principal)
    return guarded(context, course, work, as_it_is)


def answer_wish(context: Context, tx: Tx, wish: Wish) -> Envelope:
    """The restore among other calls of one transaction; a refused one does not stop them.

    Raises RetryTransaction and DatabaseUnavailable.
    """
    try:
        return restore_in(context, tx, wish)
    except errors.DatabaseUnavailable:
        raise
    except errors.TakebackError as problem:
        return _refuse(context, problem, wish)


def _restored_for(
    context: Context,
    given: object,
    ref: str,
    trace_id: str,
    *,
    run: str | None,
    principal: str,
    force: bool,
) -> Envelope:
    try:
        wish = wish_for(ref, run=run, principal=principal, force=force, trace_id=trace_id)
    except errors.InvalidArguments as problem:
        return refuse_arguments(RESTORE.name, None, problem.violations, trace_id)
    except errors.PolicyRefusal as problem:
        return refuse(problem, trace_id)
    try:
        return in_transaction(context, given, lambda tx: restore_in(context, tx, wish))
    except errors.TakebackError as problem:
        return _refuse(context, problem, wish)


def _refuse(context: Context, problem: errors.TakebackError, wish: Wish) -> Envelope:
    """What the restore was refused for; it was undone and left no trace."""
    match problem:
        case errors.Rejected() | errors.InvalidReference():
            return refuse(errors.NotRestorable(problem.message), wish.trace_id)
        case errors.HandlerError():
            return refuse_handler(context, RESTORE.name, problem, wish.trace_id)
        case errors.InvalidCatalog() | errors.InvalidArguments():
            note_breakage(context, wish.trace_id, problem, event="original_not_readable")
            return refuse(errors.NotRestorable(_UNREADABLE), wish.trace_id)
        case _:
            return refuse(problem, wish.trace_id)


def restore_in(context: Context, tx: Tx, wish: Wish) -> Envelope:
    """The restore inside an open transaction."""
    for _ in range(TRIES):
        named = find(context, tx, wish.ref)
        require_granted(context, named.intent, run=wish.run, principal=wish.principal)
        original = _target(context, tx, named)
        done = _already(context, tx, original, wish)
        if done is not None:
            return done
        ask = Ask(wish=wish, original=original, bound=_bound(context, tx, original))
        require_restorable(original, ask.bound.tool)
        wish.refs.append(make_ref(RESTORE.name, context.entropy(ENTROPY_BYTES)))
        try:
            with tx.savepoint():
                return _restore(context, tx, ask)
        except Moved:
            continue
    raise errors.InProgress("others work on it at this moment; ask again")


def _target(context: Context, tx: Tx, entry: Entry) -> Entry:
    """A restore that did something anew is taken back by taking back what it did."""
    outcome = entry.bodies.get("result") or {}
    redone = outcome.get("redone") or outcome.get("amended")
    return find(context, tx, redone["ref"]) if redone else entry


def _bound(context: Context, tx: Tx, entry: Entry) -> Bound:
    """The row behind an intent; behind a restore, that of what it took back."""
    if entry.intent.tool != RESTORE.name:
        return _row(context, entry)
    return _bound(context, tx, _first(context, tx, entry.intent))


def _row(context: Context, entry: Entry) -> Bound:
    """The row of the tool; what has not begun can be cancelled although the row is gone."""
    try:
        return context.registry.tool(entry.intent.tool)
    except errors.UnknownTool as problem:
        if is_cancellable(entry.intent):
            return Bound(tool=row_of(context, entry), handler=_GONE)
        raise errors.NotRestorable(
            f"the tool {entry.intent.tool!r} is no longer there to take {entry.intent.ref} back"
        ) from problem


_GONE = Handler(perform=lambda *_: None)


def _first(context: Context, tx: Tx, restoring: Intent) -> Entry:
    """What a restore took back."""
    if restoring.restores is None:
        raise errors.LedgerCorrupt(f"{restoring.ref} is a restore of nothing")
    first = read(tx, context.tenant, restoring.restores)
    if first is None:
        raise errors.LedgerCorrupt(f"what {restoring.ref} took back is not in the ledger")
    return first


def _already(context: Context, tx: Tx, original: Entry, wish: Wish) -> Envelope | None:
    """The answer when it was taken back before: the same restore again, or who redid it since."""
    via = original.intent.restored_via
    if via is None or original.intent.state is State.RESTORE_FAILED:
        return None
    earlier = find(context, tx, via)
    if earlier.intent.tool != RESTORE.name:
        return None
    own = earlier.intent.ref in wish.refs
    replay = answer(
        earlier.intent,
        RESTORE,
        earlier.bodies,
        replay=None if own else Replay(),
        hindrance=earlier.hindrance,
    )
    return _led_on(tx, original, earlier, replay)


def _led_on(tx: Tx, original: Entry, earlier: Entry, replay: Envelope) -> Envelope:
    """What ``earlier``, which took ``original`` back, says, and the call that takes back what
    stands in its place by now.
    """
    last = successor(tx, original.intent)
    own = earlier.bodies.get("result") or {}
    if last is None:
        is_undone = earlier.intent.state is State.RESTORED
        via = earlier.intent.restored_via
        return replay.amended({"redone_by": {"ref": via}}) if is_undone and via else replay
    if last.stands and own.get("redone", own.get("amended")) == {"ref": last.ref}:
        return replay
    told: dict[str, Any] = {"amended_by" if "amended" in own else "redone_by": named_of(last)}
    if last.stands:
        return replay.amended(told | {"restore": _restore_of(last.ref)}, without=["no_restore"])
    reason = f"{last.ref}, which was called anew, does not stand either"
    return replay.amended(told | {"restore": None, "no_restore": reason})


def _restore_of(ref: str) -> dict[str, Any]:
    return {
        "tool": RESTORE.name,
        "arguments": {"ref": ref},
        "until": None,
        "does": "takes back what was done anew",
        "leaves": [],
    }


def _restore(context: Context, tx: Tx, ask: Ask) -> Envelope:
    taken = lock_original(context, tx, ask)
    intent = taken.intent
    if intent.tool == RESTORE.name:
        return _redo(context, tx, ask, taken)
    if is_cancellable(intent):
        return _cancel(context, tx, ask, taken)
    if isinstance(ask.bound.tool.effect, Local):
        return _restore_local(context, tx, ask, taken)
    return _compensate(context, tx, ask, taken)


def lock_original(context: Context, tx: Tx, ask: Ask) -> Taken:
    """The original, locked as it was seen. Whoever holds its row is waited for, but not for ever.

    Others may sit in a transaction with a restore of it: so no two of them can deadlock.
    """
    original = ask.original.intent
    while True:
        for taken in lock_free(tx, [original]):
            if taken.intent.version != original.version:
                raise Moved
            return taken
        pause = next(ask.wish.pauses, None)
        if pause is None:
            raise errors.InProgress(
                f"somebody else works on {original.ref} at this moment; ask again"
            )
        context.pause(pause)


def _is_placed(original: Intent) -> bool:
    """Whether its row says more of where it stands than the release before can read."""
    return bool(original.lane or original.priority) or original.ordering is not None


def begin_restore(context: Context, tx: Tx, ask: Ask, *, effect: Effect) -> Intent:
    """Records the restore itself; a twin means that somebody else has just taken it back."""
    original = ask.original.intent
    arguments = restore_arguments(original.ref)
    salt = context.entropy(SALT_BYTES)
    command = commands.Record(
        ref=ask.wish.refs[-1],
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
        run=ask.wish.run,
        principal=ask.wish.principal,
        arguments=body_digest(salt, arguments.body),
        restores=str(original.id),
        lane=original.lane if effect == "remote" else "",
        priority=int(HIGH) if effect == "remote" and _is_placed(original) else 0,
        ordering=original.ordering if effect == "remote" else None,
    )
    event = decide_recording(command)
    recording = record(tx, context.tenant, event, arguments=arguments.body, salt=salt)
    if recording.minted is None:
        raise Moved
    return begun(context.tenant, event, recording.minted)


def _generation(context: Context, tx: Tx, original: Intent) -> int:
    """A restore that failed for good may be tried again, as the next one of its key."""
    if original.state is not State.RESTORE_FAILED or original.restored_via is None:
        return 0
    failed = find(context, tx, original.restored_via)
    return failed.intent.generation + 1


def finish_restore(
    context: Context,
    tx: Tx,
    ask: Ask,
    own: Intent,
    done: Performed,
    *,
    extra: dict[str, Any] | None = None,
) -> Envelope:
    """Settles the restore, which has done ``done``; ``extra`` stands beside that."""
    settled, outcome = local.settle(context, tx, own, done, extra)
    bodies = {"arguments": {"ref": ask.original.intent.ref}, "result": outcome}
    return answer(settled, RESTORE, bodies)


def _cancel(context: Context, tx: Tx, ask: Ask, taken: Taken) -> Envelope:
    own = begin_restore(context, tx, ask, effect="local")
    command = commands.Cancel(by=ask.wish.principal, via=own.ref)
    append(tx, [Change(taken=taken, events=decide(taken.intent, command, taken.now))])
    rows = affected_rows(ask.bound.tool, ask.original.bodies)
    done = Performed(
        affected=[Affected(kind=a["kind"], id=a["id"], label=a["label"]) for a in rows],
        summary=f"{taken.intent.ref} was taken back before it began: it never happens.",
    )
    return finish_restore(context, tx, ask, own, done)


def _restore_local(context: Context, tx: Tx, ask: Ask, taken: Taken) -> Envelope:
    handler, tool = ask.bound.handler, ask.bound.name
    if handler.restore is None:
        raise errors.NotRestorable(f"{tool!r} has no restore")
    original = local.original_of(ask.bound, ask.original)
    own = begin_restore(context, tx, ask, effect="local")
    if handler.drift is not None and not ask.wish.force:
        drifted = local.face_in(tx, own, tool, handler.drift, original).result
        require_no_drift(drifted, taken.intent.ref)
    done = local.face_in(tx, own, tool, handler.restore, original)
    append(tx, [_restored(taken, ask, own)])
    return finish_restore(context, tx, ask, own, done)


def _compensate(context: Context, tx: Tx, ask: Ask, taken: Taken) -> Envelope:
    own = begin_restore(context, tx, ask, effect="remote")
    command = commands.BeginRestore(by=ask.wish.principal, via=own.ref)
    append(tx, [Change(taken=taken, events=decide(taken.intent, command, taken.now))])
    bodies = {"arguments": {"ref": taken.intent.ref}}
    # It goes through the same connector; what takes back is never frozen.
    hindrance = Hindrance(paused=ask.original.hindrance.paused)
    return answer(own, RESTORE, bodies, hindrance=hindrance)


def _redo(context: Context, tx: Tx, ask: Ask, taken: Taken) -> Envelope:
    """Takes a restore back: the original call is recorded anew, as a repeat that is meant."""
    restored = taken.intent
    first = _first(context, tx, restored)
    own = begin_restore(context, tx, ask, effect="local")
    stored = first.bodies.get("arguments") or {}
    arguments = revive(ask.bound.tool, first.intent.tool_version, stored).canonical
    terms = Terms(
        run=first.intent.run,
        principal=ask.wish.principal,
        on_behalf_of=first.intent.on_behalf_of,
        repeat_of=restored.ref,
        not_before=first.intent.not_before,
        after=first.intent.after,
    )
    request = prepare(context, ask.bound.name, arguments, terms, trace_id=ask.wish.trace_id)
    anew = call_in(context, tx, request, savepoint=False, meant=True)
    append(tx, [_restored(taken, ask, own)])
    done = Performed(
        affected=[Affected(kind=a["kind"], id=a["id"], label=a["label"]) for a in anew.affected],
        affected_count=anew["affected_count"],
        summary=f"{_VERB.get(anew.status, 'Called anew')} as {anew.ref}: {anew.summary}",
    )
    return finish_restore(context, tx, ask, own, done, extra={"redone": {"ref": anew.ref}})


_VERB = {"done": "Done anew", "scheduled": "Scheduled anew", "needs_approval": "Asked for anew"}
"""What has come of a call that was recorded anew, which is not always that it is done."""


def _restored(taken: Taken, ask: Ask, own: Intent) -> Change:
    """The original passes through restoring to restored, in one write."""
    begin = commands.BeginRestore(by=ask.wish.principal, via=own.ref)
    events = [*decide(taken.intent, begin, taken.now)]
    halfway = foresee(taken.intent, events, taken.now)
    events += decide(halfway, commands.FinishRestore(via=own.ref), taken.now)
    return Change(taken=taken, events=events)
