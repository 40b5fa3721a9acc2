"""A call: checked, keyed, recorded in a transaction, and answered.

    validate -> key -> record -> (Local: perform in the same transaction) -> answer
                          └ found: compare arguments, then replay, conflict, or a new generation

In the caller's transaction everything happens there and nothing is committed. With none given the
call opens its own, and repeats itself when that is lost: the key makes the repeat harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from takeback.client import local
from takeback.client.context import Context
from takeback.client.face import call_face, matches_of
from takeback.client.looking import find
from takeback.client.owning import in_own_transaction
from takeback.client.refusing import (
    refuse,
    refuse_arguments,
    refuse_conflict,
    refuse_handler,
    refuse_read,
)
from takeback.client.request import Request, prepare
from takeback.declare import DIFFERS, WHILE_STANDING, Local, OnDifference, Read, Tool
from takeback.declare.tool import ScopeKind
from takeback.ledger import reading
from takeback.ledger.recording import Minted, Recording, record
from takeback.ledger.transaction import Tx, adopt
from takeback.model import errors
from takeback.model.arguments import Difference, differences, revive
from takeback.model.envelope import Envelope, Replay, answer, found
from takeback.model.event import Recorded
from takeback.model.evolve import evolve
from takeback.model.handler import Face, Found
from takeback.model.intent import Fact, Intent, State
from takeback.model.key import derive_key
from takeback.model.ref import ENTROPY_BYTES, make_ref
from takeback.model.violation import Repair, Violation

BUSY_PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.4)
"""Seconds between looks at an uncommitted twin: about one second in all, then ``in_progress``."""

RECORDINGS_MAX = 8
"""A ref is taken by chance about once in 34 thousand million times; a twin is shadowed once."""


def call(
    context: Context,
    given: object,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    run: str | None,
    principal: str,
    repeat_of: str | None,
    expect: str | None,
    not_before: datetime | None,
    savepoint: bool | None,
) -> Envelope:
    """One tool call, in the transaction ``given`` or, when that is None, in one of its own.

    Answers with an envelope, refusals included. Raises RetryTransaction when the caller's
    transaction is lost, and HandlerError when a Local handler refused without a savepoint.
    """
    trace_id = context.entropy(8).hex()
    try:
        request = prepare(
            context,
            tool,
            arguments,
            run=run,
            principal=principal,
            repeat_of=repeat_of,
            expect=expect,
            not_before=not_before,
            trace_id=trace_id,
        )
        if given is None:
            return in_own_transaction(
                context, lambda tx: call_in(context, tx, request, savepoint=savepoint)
            )
        return call_in(context, adopt(given), request, savepoint=savepoint)
    except errors.InvalidArguments as problem:
        return refuse_arguments(tool, arguments, problem.violations, trace_id)
    except (
        errors.CallerError,
        errors.Conflict,
        errors.DatabaseUnavailable,
        errors.InProgress,
    ) as problem:
        return refuse(problem, trace_id)


def call_in(
    context: Context,
    tx: Tx,
    request: Request,
    *,
    savepoint: bool | None = None,
    meant: bool = False,
    pauses: Iterator[float] | None = None,
) -> Envelope:
    """The call inside an open transaction.

    ``meant``: its ``repeat_of`` is known to be there. ``pauses`` are what is left of the patience
    with uncommitted twins, when that is shared by many calls.
    """
    bound = request.bound
    if isinstance(bound.tool.effect, Read):
        return _look(tx, request)
    if request.repeat_of is not None and not meant:
        _require_first(context, tx, request)
    if savepoint is None:
        savepoint = isinstance(bound.tool.effect, Local)
    pauses = iter(BUSY_PAUSES) if pauses is None else pauses
    if not savepoint:
        return _record(context, tx, request, pauses)
    try:
        with tx.savepoint():
            return _record(context, tx, request, pauses)
    except errors.Rejected as problem:
        # The effect is rolled back; the refusal is recorded, so that a repeat touches nothing.
        return _record(context, tx, request, pauses, rejected=problem)
    except errors.HandlerError as problem:
        return refuse_handler(request.bound.name, problem, request.trace_id)


def _look(tx: Tx, request: Request) -> Envelope:
    """A read changes nothing and is not recorded; what it breaks stays inside its savepoint."""
    bound = request.bound
    try:
        with nullcontext() if tx.owned else tx.savepoint():
            done = local.run_face(
                tx, bound.name, partial(_matches, bound.handler.perform), request.arguments.model
            )
            return found(done.result, request.trace_id)
    except errors.HandlerError as problem:
        return refuse_read(bound.name, problem, request.trace_id)


def _matches(face: Face, *arguments: Any) -> Found:
    return matches_of(call_face(face, *arguments))


def _record(
    context: Context,
    tx: Tx,
    request: Request,
    pauses: Iterator[float],
    *,
    rejected: errors.Rejected | None = None,
) -> Envelope:
    """Records the call and performs it when it is Local, or answers from its twin.

    With ``rejected`` it was performed already, and that is what came of it.
    """
    for _ in range(len(BUSY_PAUSES) + RECORDINGS_MAX):
        recording = record(
            tx,
            context.tenant,
            request.event,
            arguments=request.body,
            salt=request.salt,
        )
        match recording:
            case Recording(answer="recorded", minted=Minted() as minted):
                return _carry_on(context, tx, request, minted, rejected)
            case Recording(answer="busy"):
                pause = next(pauses, None)
                if pause is None:
                    raise errors.InProgress(
                        f"an equal {request.bound.name} is being recorded by somebody else "
                        "at this moment; call again and you get its answer"
                    )
                context.pause(pause)
            case _:
                twin = _twin(context, tx, request, recording)
                if twin is None:
                    ref = make_ref(request.bound.name, context.entropy(ENTROPY_BYTES))
                    request = replace(request, event=replace(request.event, ref=ref))
                    continue
                settled = _answer_twin(tx, request, twin)
                if settled is not None:
                    return settled
                generation = twin.intent.generation + 1
                request = replace(request, event=replace(request.event, generation=generation))
    raise errors.InProgress("others record equal calls faster than this one can; call again")


def _twin(context: Context, tx: Tx, request: Request, recording: Recording) -> reading.Entry | None:
    if recording.twin is not None:
        return reading.read(tx, context.tenant, recording.twin)
    twin = reading.read_by_key(tx, context.tenant, request.event.key)
    if twin is not None and twin.intent.generation < request.event.generation:
        return None
    return twin


def _carry_on(
    context: Context,
    tx: Tx,
    request: Request,
    minted: Minted,
    rejected: errors.Rejected | None,
) -> Envelope:
    intent = begun(context.tenant, request.event, minted)
    bodies: dict[str, Any] = {"arguments": request.arguments.canonical}
    if rejected is not None:
        intent, bodies["error"] = local.remember_refusal(context, tx, intent, rejected)
    elif intent.state is State.RECORDED:
        intent, bodies = local.perform(context, tx, request, intent)
    return answer(intent, request.bound.tool, bodies, trace_id=request.trace_id)


def begun(tenant: str, event: Recorded, minted: Minted) -> Intent:
    """The intent that the recording statement has just stored."""
    return evolve(
        None,
        Fact(
            tenant=tenant,
            intent_id=minted.id,
            version=1,
            position=0,
            at=minted.recorded_at,
            event=event,
            hash=minted.head_hash,
        ),
    )


def _answer_twin(tx: Tx, request: Request, twin: reading.Entry) -> Envelope | None:
    """The answer to a repeat; None when the row says that it is a new generation."""
    tool = request.bound.tool
    first = twin.intent
    if _is_over(tool, twin):
        return None
    stands = True
    if isinstance(tool.effect, Local) and tool.effect.repeats is WHILE_STANDING:
        stands = local.stands(tx, request.bound, twin)
        if not stands and not _is_quiet(tool.effect, request, twin):
            return None
    differs = _differences(tool, twin, request)
    hard = tuple(d for d in differs if on_difference(tool, d.field) is not DIFFERS)
    if hard:
        return refuse_conflict(tool, first, hard, request.trace_id)
    own = first.ref == request.event.ref
    replay = None if own else Replay(differs=differs, stands=stands)
    return answer(first, tool, twin.bodies, trace_id=request.trace_id, replay=replay)


def _differences(tool: Tool, twin: reading.Entry, request: Request) -> tuple[Difference, ...]:
    """Where the first call's arguments, as this release understands them, are others."""
    stored = twin.bodies.get("arguments")
    if stored is None:
        return ()
    now = request.arguments.canonical
    if twin.intent.tool_version != tool.version or stored.keys() != now.keys():
        stored = _as_now(tool, twin.intent.tool_version, stored)
        now = {name: value for name, value in now.items() if name in stored}
    return differences(stored, now)


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


def _is_over(tool: Tool, twin: reading.Entry) -> bool:
    scope = tool.recipe.scope
    if scope.kind is not ScopeKind.WINDOW or scope.length is None:
        return False
    return twin.now - twin.intent.recorded_at > scope.length


def _is_quiet(effect: Local, request: Request, twin: reading.Entry) -> bool:
    """Within the quiet time the same run and principal still hear of what they did."""
    first = twin.intent
    same = first.run == request.event.run and first.principal == request.event.principal
    return same and twin.now - (first.settled_at or first.recorded_at) <= effect.quiet


def _require_first(context: Context, tx: Tx, request: Request) -> None:
    """What is to happen once more has to have been asked for before, by an equal call."""
    first = find(context, tx, request.repeat_of or "")
    if not _is_equal(context, request, first):
        raise errors.InvalidArguments([_not_a_repeat(request.bound.tool, first.intent)])


def _is_equal(context: Context, request: Request, first: reading.Entry) -> bool:
    """Whether the key's arguments are those of the first; its key tells once they are forgotten."""
    tool, intent = request.bound.tool, first.intent
    if intent.tool != tool.name:
        return False
    if "arguments" in first.bodies:
        differing = {d.field.split(".", 1)[0] for d in _differences(tool, first, request)}
        return differing.isdisjoint(tool.recipe.fields)
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
