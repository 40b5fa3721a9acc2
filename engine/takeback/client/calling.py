"""A call: checked, keyed, recorded in a transaction, and answered.

    validate -> key -> record -> (Local: perform in the same transaction) -> answer
                          └ found: compare arguments, then replay, conflict, or a new generation

In the caller's transaction everything happens there and nothing is committed. With none given the
call opens its own, and repeats itself when that is lost: the key makes the repeat harmless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from takeback.client import local
from takeback.client.context import Context
from takeback.client.face import Broke, matches_of, try_face
from takeback.client.owning import in_own_transaction
from takeback.client.refusing import (
    refuse,
    refuse_arguments,
    refuse_broken,
    refuse_conflict,
    refuse_reference,
    unavailable,
)
from takeback.client.request import Request, prepare
from takeback.declare import DIFFERS, WHILE_STANDING, Local, OnDifference, Read, Tool
from takeback.declare.tool import ScopeKind
from takeback.ledger import reading
from takeback.ledger.recording import Minted, Recording, record
from takeback.ledger.sqlstate import translate
from takeback.ledger.transaction import Tx, adopt
from takeback.model import errors
from takeback.model.arguments import Difference, differences
from takeback.model.envelope import Envelope, Replay, answer, found
from takeback.model.event import Recorded
from takeback.model.evolve import evolve
from takeback.model.intent import Fact, Intent, State
from takeback.model.ref import make_ref

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
) -> Envelope:
    """The call inside an open transaction. ``meant``: its ``repeat_of`` is known to be there."""
    bound = request.bound
    if isinstance(bound.tool.effect, Read):
        return _look(tx, request)
    if request.repeat_of is not None and not meant:
        _require_first(context, tx, request)
    if savepoint is None:
        savepoint = isinstance(bound.tool.effect, Local)
    if not savepoint:
        return _record(context, tx, request)
    try:
        with tx.savepoint():
            return _record(context, tx, request)
    except errors.InvalidReference as problem:
        return refuse_reference(request.bound.name, problem, request.trace_id)
    except errors.HandlerBroke as problem:
        return refuse_broken(problem, request.trace_id)
    except errors.Rejected as problem:
        return _remember(context, tx, request, problem)


def _look(tx: Tx, request: Request) -> Envelope:
    """A read changes nothing and is not recorded."""
    answer_ = try_face(request.bound.handler.perform, tx.session, request.arguments.model)
    if not isinstance(answer_, Broke):
        return found(matches_of(answer_), request.trace_id)
    known = translate(answer_.problem)
    if isinstance(known, errors.RetryTransaction | errors.NoTransaction):
        raise known from answer_.problem
    broke = errors.HandlerBroke(request.bound.name)
    broke.__cause__ = answer_.problem
    return unavailable(broke, request.trace_id)


def _remember(context: Context, tx: Tx, request: Request, problem: errors.Rejected) -> Envelope:
    """The effect is rolled back; the refusal is recorded, so that a repeat touches nothing."""
    recording = record(tx, context.tenant, request.event, arguments=request.body, salt=request.salt)
    if recording.minted is None:
        raise errors.InProgress("an equal call is being recorded by somebody else; call again")
    intent = begun(context.tenant, request.event, recording.minted)
    intent, error = local.remember_refusal(context, tx, intent, problem)
    bodies = {"arguments": request.arguments.canonical, "error": error}
    return answer(intent, request.bound.tool, bodies, trace_id=request.trace_id)


def _record(context: Context, tx: Tx, request: Request) -> Envelope:
    """Records the call and performs it when it is Local, or answers from its twin."""
    pauses = iter(BUSY_PAUSES)
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
                return _carry_on(context, tx, request, minted)
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
                    ref = make_ref(request.bound.name, context.entropy(5))
                    request = replace(request, event=replace(request.event, ref=ref))
                    continue
                settled = _answer_twin(context, tx, request, twin)
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


def _carry_on(context: Context, tx: Tx, request: Request, minted: Minted) -> Envelope:
    intent = begun(context.tenant, request.event, minted)
    bodies: dict[str, Any] = {"arguments": request.arguments.canonical}
    if intent.state is State.RECORDED:
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


def _answer_twin(
    context: Context, tx: Tx, request: Request, twin: reading.Entry
) -> Envelope | None:
    """The answer to a repeat; None when the row says that it is a new generation."""
    tool = request.bound.tool
    first = twin.intent
    if _is_over(tool, twin):
        return None
    differs: tuple[Difference, ...] = ()
    if "arguments" in twin.bodies:
        differs = differences(twin.bodies["arguments"], request.arguments.canonical)
        hard = tuple(d for d in differs if on_difference(tool, d.field) is not DIFFERS)
        if hard:
            return refuse_conflict(tool, first, hard, request.trace_id)
    stands = True
    if isinstance(tool.effect, Local) and tool.effect.repeats is WHILE_STANDING:
        stands = local.stands(tx, request.bound, twin)
        if not stands and not _is_quiet(tool.effect, request, twin):
            return None
    own = first.ref == request.event.ref
    replay = None if own else Replay(differs=differs, stands=stands)
    return answer(first, tool, twin.bodies, trace_id=request.trace_id, replay=replay)


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
    ref = request.repeat_of or ""
    first = reading.read_by_ref(tx, context.tenant, ref)
    if first is None or first.intent.tool != request.bound.name:
        raise errors.NoSuchRef(ref)
