"""What a repeat is told, and what makes it a call of its own.

the same call             its intent as it is now, replayed
other arguments outside   replayed with ``differs``, or a conflict, as the row says
repeat_of                 a call of its own, of an equal one that was made before
a new generation          the row's window is over, what it set no longer stands, or what a person
                          had approved would have affected something else and was undone

A new generation follows one that is over. Over is also what has failed, and a person may have that
tried again: so who opens one keeps the other's row until the end of its transaction (``keeps``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from takeback.client import local
from takeback.client.amendment import successor, tell
from takeback.client.context import Context
from takeback.client.looking import find
from takeback.client.refusing import refuse_conflict
from takeback.client.request import Request
from takeback.declare import DIFFERS, WHILE_STANDING, Local, OnDifference, Tool
from takeback.declare.tool import ScopeKind
from takeback.ledger.locking import lock_free
from takeback.ledger.reading import Entry, read_by_ref, read_twin
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.arguments import Difference, differences, revive
from takeback.model.envelope import Envelope, Replay, is_safe_to_repeat
from takeback.model.intent import Intent, is_unsettled, left_no_trace
from takeback.model.key import derive_key
from takeback.model.moment import iso
from takeback.model.ruling import steps_for
from takeback.model.violation import Repair, Violation


def after_twin(tx: Tx, request: Request, twin: Entry) -> Envelope | Request:
    """The answer to a repeat; or the request as it is to be recorded, where it is none.

    It is none in a new generation, and where only an earlier recipe takes it for one.
    """
    if twin.intent.key in request.former_keys and not is_same_call(request, twin):
        return replace(request, former_keys=())
    told = _answer_twin(tx, request, twin)
    if told is not None:
        return told
    return in_generation(request, twin.intent.generation + 1, after=twin.intent)


def in_generation(request: Request, generation: int, *, after: Intent | None) -> Request:
    """The request as that generation of its key, the one after ``after``."""
    event = replace(request.event, generation=generation)
    return replace(request, event=event, follows=after)


def keeps(tx: Tx, first: Intent) -> bool:
    """Whether ``first`` is still as it was read, and stays so until the transaction ends."""
    return any(taken.intent.version == first.version for taken in lock_free(tx, [first]))


def _answer_twin(tx: Tx, request: Request, twin: Entry) -> Envelope | None:
    tool = request.bound.tool
    first = twin.intent
    if _is_over(tool, twin) or _was_stale(twin):
        return None
    stands = True
    if isinstance(tool.effect, Local) and tool.effect.repeats is WHILE_STANDING:
        stands = local.stands(tx, request.bound, twin)
        if not stands and not _is_quiet(tool.effect, request, twin):
            return None
    differs = _differences(tool, twin, request)
    hard = _hard(tool, differs)
    last = _standing(tx, first) if differs else None
    if last is not None:
        differs_now = _differences(tool, last, request)
        hard_now = _hard(tool, differs_now)
        if hard and hard_now:
            return refuse_conflict(tool, last.intent, hard_now, request.trace_id)
        if hard or not differs_now:
            twin, first, differs, hard = last, last.intent, differs_now, ()
    if hard:
        return refuse_conflict(tool, first, hard, request.trace_id)
    differs += tuple(_term_differences(request, first))
    own = first.ref == request.event.ref
    replay = None if own else Replay(differs=differs, stands=stands)
    return tell(tx, twin, tool, replay=replay)


def _hard(tool: Tool, differs: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """Those that make a conflict."""
    return tuple(d for d in differs if on_difference(tool, d.field) is not DIFFERS)


def _standing(tx: Tx, first: Intent) -> Entry | None:
    """What stands in place of ``first``, which was amended or done anew; None where nothing is."""
    last = successor(tx, first)
    return read_by_ref(tx, first.tenant, last.ref) if last is not None and last.stands else None


def _differences(tool: Tool, twin: Entry, request: Request) -> tuple[Difference, ...]:
    """Where the first call's arguments, as this release understands them, are others."""
    stored = twin.bodies.get("arguments")
    if stored is None:
        return ()
    now = request.arguments.canonical
    if twin.intent.tool_version != tool.version or stored.keys() != now.keys():
        stored = _as_now(tool, twin.intent.tool_version, stored)
        now = {name: value for name, value in now.items() if name in stored}
    return differences(stored, now)


def _term_differences(request: Request, first: Intent) -> Iterator[Difference]:
    """What was said of when it may happen, where the first call said otherwise.

    That of the first holds. It makes no conflict: who retries may have computed it anew.
    """
    now = request.command
    if now.not_before != first.not_before:
        yield Difference(
            field="not_before", first=_told(first.not_before), now=_told(now.not_before)
        )
    if now.after != first.after:
        yield Difference(field="after", first=list(first.after), now=list(now.after))


def _told(at: datetime | None) -> str | None:
    return None if at is None else iso(at)


def _as_now(tool: Tool, version: int, stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Stored arguments in this release's form; of a form it can't read, what has its names."""
    try:
        return revive(tool, version, stored).canonical
    except (errors.InvalidCatalog, errors.InvalidArguments):
        known = tool.arguments.model_fields
        return {name: value for name, value in stored.items() if name in known}


def on_difference(tool: Tool, path: str) -> OnDifference | None:
    """What the row says of a difference at ``path``; None is a conflict too."""
    said = tool.on_difference
    if isinstance(said, Mapping):
        return said.get(path.split(".", 1)[0])
    return said


def is_same_call(request: Request, former: Entry) -> bool:
    """Whether what an earlier recipe takes for this call is one by the recipe of today, too.

    Of what is forgotten nothing can be compared: then it is, since doing it again would be worse.
    """
    if "arguments" not in former.bodies:
        return True
    differing = {
        d.field.split(".", 1)[0] for d in _differences(request.bound.tool, former, request)
    }
    return differing.isdisjoint(request.bound.tool.recipe.fields)


def _is_over(tool: Tool, twin: Entry) -> bool:
    scope = tool.recipe.scope
    if scope.kind is not ScopeKind.WINDOW or scope.length is None:
        return False
    return not is_unsettled(twin.intent) and twin.now - twin.intent.recorded_at > scope.length


def _was_stale(twin: Entry) -> bool:
    """Whether it was undone because the world had changed since a person approved it.

    That says nothing of the world of today: it is called, and asked about, anew.
    """
    stored = twin.bodies.get("error") or {}
    return left_no_trace(twin.intent) and stored.get("code") == errors.PreviewStale.code


def _is_quiet(effect: Local, request: Request, twin: Entry) -> bool:
    """Within the quiet time the same run and principal still hear of what they did."""
    first = twin.intent
    same = first.run == request.event.run and first.principal == request.event.principal
    return same and twin.now - (first.settled_at or first.recorded_at) <= effect.quiet


def require_first(context: Context, tx: Tx, request: Request) -> None:
    """What is to happen once more has to have been asked for before, by an equal call.

    Raises FirstInDoubt where nobody knows whether that has happened, unless this repeat of it was
    recorded before: then it is a retry, and does nothing more.
    """
    first = find(context, tx, request.repeat_of or "")
    if not _is_equal(context, request, first):
        raise errors.InvalidArguments([_not_a_repeat(request.bound.tool, first.intent)])
    if is_safe_to_repeat(first.intent):
        return
    if read_twin(tx, context.tenant, request.event.key, request.former_keys) is None:
        raise errors.FirstInDoubt(
            f"{first.intent.ref} may have happened already, and nobody knows yet: once more could "
            "be twice; a person says what became of it first",
            alternatives=steps_for(first.intent),
        )


def _is_equal(context: Context, request: Request, first: Entry) -> bool:
    """Whether the key's arguments are those of the first; its key tells once they are forgotten."""
    tool, intent = request.bound.tool, first.intent
    if intent.tool != tool.name:
        return False
    if "arguments" in first.bodies:
        return is_same_call(request, first)
    return intent.key == derive_key(
        tenant=context.tenant,
        tool=tool.name,
        recipe=tool.recipe,
        arguments=request.arguments.canonical,
        run=intent.run or request.event.run,
        repeat_of=intent.repeat_of,
        secret=context.key_secret,
    )


def _not_a_repeat(tool: Tool, first: Intent) -> Violation:
    fields = ", ".join(tool.recipe.fields)
    return Violation(
        field="repeat_of",
        code="no_such_value",
        message=f"must be the ref of an equal {tool.name}: one with the same {fields}",
        received=first.ref,
        repair=Repair.CHOICE,
    )
