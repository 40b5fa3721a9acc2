"""Amending: a held call is taken back and recorded anew with other arguments, in one transaction.

    taken back    by a restore, as ever: the first one never happens
    recorded      the call with the changed arguments over the first ones, checked whole, as a
                  repeat that is meant, with a fresh window; approval, limits and policy decide anew

Both or neither: where the new call is refused, the first stands as it was. The same amendment again
is a replay; another one of an intent that was amended is told which one stands now. Where the key's
arguments change, the new call has claimed their own key too, so that an equal call finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from takeback.catalog.registry import Bound
from takeback.client.amendment import amended_by, successor, tell, with_amendment
from takeback.client.calling import call_in
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.faulting import as_it_is, guarded
from takeback.client.looking import find
from takeback.client.owning import in_transaction
from takeback.client.permission import require_granted
from takeback.client.refusing import refuse, refuse_arguments
from takeback.client.request import Request, Terms, prepare
from takeback.client.restorable import too_late
from takeback.client.restore_tool import RESTORE
from takeback.client.restoring import (
    TRIES,
    Ask,
    Moved,
    begin_restore,
    finish_restore,
    lock_original,
)
from takeback.client.wish import Wish, wish_for
from takeback.declare import Remote
from takeback.ledger.appending import Change, append
from takeback.ledger.reading import Entry
from takeback.ledger.transaction import Tx
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.arguments import revive, validate
from takeback.model.decide import decide
from takeback.model.envelope import Envelope, Replay, affected_rows, answer, refusal
from takeback.model.handler import Affected, Performed
from takeback.model.intent import Intent, is_cancellable
from takeback.model.key import derive_key
from takeback.model.ref import ENTROPY_BYTES, make_ref

VERB = "amend"


class _Refused(Exception):
    """The call can't be recorded anew: what was taken back for it is put back."""

    def __init__(self, told: Envelope) -> None:
        super().__init__(told.code)
        self.told = told


def amend(
    context: Context,
    given: object,
    ref: str,
    arguments: Mapping[str, Any],
    *,
    run: str | None,
    principal: str,
) -> Envelope:
    """Says the held call of ``ref`` otherwise, in the transaction ``given`` or in one of its own.

    Answers with the call that stands in its place, refusals and faults included. Raises
    RetryTransaction and TransactionAborted.
    """
    trace_id = context.draw_trace_id()
    return guarded(
        context,
        Course(tool=VERB, run=run, principal=principal),
        lambda inside: _amended_for(
            inside, given, ref, arguments, trace_id, run=run, principal=principal
        ),
        as_it_is,
    )


def _amended_for(
    context: Context,
    given: object,
    ref: str,
    arguments: Mapping[str, Any],
    trace_id: str,
    *,
    run: str | None,
    principal: str,
) -> Envelope:
    try:
        wish = wish_for(ref, run=run, principal=principal, force=False, trace_id=trace_id)
        return in_transaction(context, given, lambda tx: amend_in(context, tx, wish, arguments))
    except errors.InvalidArguments as problem:
        return refuse_arguments(VERB, None, problem.violations, trace_id)
    except errors.TakebackError as problem:
        return refuse(problem, trace_id)


def amend_in(context: Context, tx: Tx, wish: Wish, changes: Mapping[str, Any]) -> Envelope:
    """The amendment inside an open transaction."""
    for _ in range(TRIES):
        original = find(context, tx, wish.ref)
        require_granted(context, original.intent, run=wish.run, principal=wish.principal)
        bound = _bound(context, original)
        merged = _merged(bound, original, changes)
        later = amended_by(tx, original.intent)
        if later is not None:
            ask = Ask(wish=wish, original=original, bound=bound)
            return _again(context, tx, ask, find(context, tx, later), merged)
        if not is_cancellable(original.intent):
            raise too_late(original, bound.tool)
        if merged == _stored(bound, original):
            return answer(
                original.intent,
                bound.tool,
                original.bodies,
                replay=Replay(),
                hindrance=original.hindrance,
            )
        wish.refs.append(make_ref(RESTORE.name, context.entropy(ENTROPY_BYTES)))
        try:
            with tx.savepoint():
                return _amend(context, tx, Ask(wish=wish, original=original, bound=bound), merged)
        except Moved:
            continue
        except _Refused as refused:
            return refused.told
    raise errors.InProgress("others work on it at this moment; ask again")


def _bound(context: Context, original: Entry) -> Bound:
    ref, name = original.intent.ref, original.intent.tool
    if name == RESTORE.name:
        raise errors.NotRestorable(f"{ref} takes something back; it can't be amended")
    try:
        bound = context.registry.tool(name)
    except errors.UnknownTool as problem:
        raise errors.NotRestorable(f"the tool {name!r} is no longer there") from problem
    if not isinstance(bound.effect, Remote):
        raise errors.NotRestorable(f"{ref} has happened already; take it back and call again")
    return bound


def _stored(bound: Bound, entry: Entry) -> Mapping[str, Any]:
    stored = entry.bodies.get("arguments")
    if stored is None:
        raise errors.NotRestorable(f"what {entry.intent.ref} was called with is forgotten")
    return revive(bound.tool, entry.intent.tool_version, stored).canonical


def _merged(bound: Bound, original: Entry, changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first arguments with ``changes`` over them. Raises InvalidArguments."""
    given: Any = changes
    if not isinstance(given, Mapping):
        return validate(bound.tool, given).canonical
    return validate(bound.tool, {**_stored(bound, original), **given}).canonical


def _again(context: Context, tx: Tx, ask: Ask, later: Entry, merged: Mapping[str, Any]) -> Envelope:
    """The same amendment is told what came of it; another one, which intent stands now."""
    first, bound = ask.original.intent, ask.bound
    if merged != _stored(bound, later):
        ref = _standing(context, tx, later).intent.ref
        raise errors.TooLate(
            f"{first.ref} was amended already, and {ref} stands in its place: amend that one",
            alternatives=[{"amend": ref}],
        )
    own = first.restored_via in ask.wish.refs
    return tell(tx, later, bound.tool, replay=None if own else Replay())


def _standing(context: Context, tx: Tx, entry: Entry) -> Entry:
    """The last that was recorded in its place."""
    last = successor(tx, entry.intent)
    return entry if last is None else find(context, tx, last.ref)


def _amend(context: Context, tx: Tx, ask: Ask, merged: Mapping[str, Any]) -> Envelope:
    taken = lock_original(context, tx, ask)
    first, tool = taken.intent, ask.bound.tool
    own = begin_restore(context, tx, ask, effect="local")
    cancel = commands.Cancel(by=ask.wish.principal, via=own.ref)
    append(tx, [Change(taken=taken, events=decide(first, cancel, taken.now))])
    anew = call_in(context, tx, _request(context, ask, first, merged), savepoint=False, meant=True)
    if anew.status == "refused" or anew.ref is None:
        raise _Refused(anew)
    if anew.replayed:
        raise _Refused(_stands_already(anew, tool.name, ask.wish.trace_id))
    rows = affected_rows(tool, ask.original.bodies)
    done = Performed(
        affected=[Affected(kind=a["kind"], id=a["id"], label=a["label"]) for a in rows],
        summary=f"{first.ref} never happens as it was said: it stands anew as {anew.ref}.",
    )
    finish_restore(context, tx, ask, own, done, extra={"amended": {"ref": anew.ref}})
    return with_amendment(tx, find(context, tx, anew.ref).intent, anew)


def _request(context: Context, ask: Ask, first: Intent, merged: Mapping[str, Any]) -> Request:
    """The call as it is to be recorded anew; it claims the plain key of changed arguments too."""
    terms = Terms(
        run=first.run,
        principal=ask.wish.principal,
        on_behalf_of=first.on_behalf_of,
        repeat_of=first.ref,
        not_before=first.not_before,
        after=first.after,
    )
    tool = ask.bound.tool
    request = prepare(context, tool.name, merged, terms, trace_id=ask.wish.trace_id)
    plain, before = (
        derive_key(
            tenant=context.tenant,
            tool=tool.name,
            recipe=tool.recipe,
            arguments=arguments,
            run=first.run,
            repeat_of=None,
            secret=context.key_secret,
        )
        for arguments in (merged, _stored(ask.bound, ask.original))
    )
    if plain == before:
        return request
    return replace(request, former_keys=(*request.former_keys, plain))


def _stands_already(anew: Envelope, tool: str, trace_id: str) -> Envelope:
    """It would say what another call has said: both are as they were."""
    return refusal(
        "key_conflict",
        f"{anew.ref} is the same {tool} already, so nothing was changed. Take the one that you "
        "amend back; if it is meant once more, add repeat_of to a call of its own.",
        trace_id=trace_id,
        extra={"ref": anew.ref, "again": {"repeat_of": anew.ref}},
    )
