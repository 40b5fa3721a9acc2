"""A call: checked, keyed, recorded in a transaction, and answered.

    validate -> key -> (look ahead) -> record -> (Local: perform it right there) -> answer
                                         └ found: compare, then replay, conflict, or anew

In the caller's transaction everything happens there and nothing is committed. With none given the
call opens its own, and repeats itself when that is lost: the key makes the repeat harmless.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from takeback.client import limiting, local
from takeback.client.amendment import with_amendment
from takeback.client.braking import require_running
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.face import call_face, matches_of
from takeback.client.faulting import as_it_is, guarded
from takeback.client.foresight import AskFirst, judge, look_ahead
from takeback.client.owning import in_transaction
from takeback.client.permitted_tool import PERMITTED, answer_permitted
from takeback.client.refusing import (
    refuse,
    refuse_arguments,
    refuse_handler,
    refuse_read,
    refuse_tool,
)
from takeback.client.repeating import after_twin, in_generation, keeps, require_first
from takeback.client.request import Request, Terms, prepare
from takeback.client.waiting import look_at_others, require_no_cycle
from takeback.declare import Local, Read
from takeback.ledger import reading
from takeback.ledger.recording import Minted, Recording, record
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.envelope import Envelope, answer
from takeback.model.event import Recorded
from takeback.model.evolve import evolve
from takeback.model.finding import found
from takeback.model.handler import Face, Found
from takeback.model.intent import Fact, Intent, State
from takeback.model.ref import ENTROPY_BYTES, make_ref

BUSY_PAUSES = (0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.4)
"""Seconds between looks at an uncommitted twin: about one second in all, then ``in_progress``."""

RECORDINGS_MAX = 8
"""A ref is taken by chance about once in 34 thousand million times; a twin is shadowed once."""


def call(
    context: Context,
    given: object,
    tool: str,
    arguments: Mapping[str, Any],
    terms: Terms,
    *,
    savepoint: bool | None,
) -> Envelope:
    """One tool call, in the transaction ``given`` or, when that is None, in one of its own.

    Answers with an envelope, refusals and faults included. Raises RetryTransaction when the
    caller's transaction is lost, TransactionAborted when a failure has aborted it, and HandlerError
    when a Local handler refused without a savepoint.
    """
    return guarded(
        context,
        Course(tool=tool, run=terms.run, principal=terms.principal),
        lambda inside: _call(inside, given, tool, arguments, terms, savepoint=savepoint),
        as_it_is,
    )


def _call(
    context: Context,
    given: object,
    tool: str,
    arguments: Mapping[str, Any],
    terms: Terms,
    *,
    savepoint: bool | None,
) -> Envelope:
    trace_id = context.draw_trace_id()
    if tool == PERMITTED.name:
        return answer_permitted(context, arguments, trace_id)
    try:
        request = prepare(context, tool, arguments, terms, trace_id=trace_id)
        return in_transaction(
            context, given, lambda tx: call_in(context, tx, request, savepoint=savepoint)
        )
    except errors.UnknownTool as problem:
        return refuse_tool(context.registry, problem, arguments, trace_id)
    except errors.InvalidArguments as problem:
        row = context.registry.tool(tool).tool
        return refuse_arguments(row, arguments, problem.violations, trace_id)
    except errors.TakebackError as problem:
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
        return _look(context, tx, request, is_alone=pauses is None)
    if request.repeat_of is not None and not meant:
        require_first(context, tx, request)
    pauses = iter(BUSY_PAUSES) if pauses is None else pauses
    try:
        told = _looked_ahead(context, tx, request) if request.looks_ahead else request
        if isinstance(told, Envelope):
            return told
        return _recorded(context, tx, told, pauses, savepoint=savepoint)
    except errors.HandlerError as problem:
        if savepoint is False:
            raise
        return refuse_handler(context, request.bound.name, problem, request.trace_id)


def _looked_ahead(context: Context, tx: Tx, request: Request) -> Envelope | Request:
    """The answer to a repeat; or the request, with what there is to know before it is recorded."""
    twin = reading.read_twin(tx, context.tenant, request.event.key, request.former_keys)
    if twin is not None:
        require_no_cycle(context, tx, request, twin)
    told = request if twin is None else after_twin(tx, request, twin)
    if isinstance(told, Envelope):
        return told
    return look_ahead(context, tx, look_at_others(context, tx, told))


def _recorded(
    context: Context, tx: Tx, request: Request, pauses: Iterator[float], *, savepoint: bool | None
) -> Envelope:
    """What may have to be undone, or is said to be, is done inside a savepoint."""
    is_local = isinstance(request.bound.tool.effect, Local)
    if savepoint is None:
        savepoint = is_local
    if not savepoint and not (is_local and request.looks_ahead):
        return _record(context, tx, request, pauses)
    try:
        with tx.savepoint():
            return _record(context, tx, request, pauses)
    except AskFirst as first:
        return _record(context, tx, first.request, pauses)
    except errors.Rejected as problem:
        if not savepoint:
            raise
        # The effect is rolled back; the refusal is recorded, so that a repeat touches nothing.
        return _record(context, tx, request, pauses, rejected=problem)


def _look(context: Context, tx: Tx, request: Request, *, is_alone: bool) -> Envelope:
    """A read changes nothing and is not recorded; what it breaks stays inside its savepoint.

    Only a transaction of our own with nothing else in it may be broken.
    """
    bound = request.bound
    try:
        with nullcontext() if tx.owned and is_alone else tx.savepoint():
            done = local.run_face(
                tx, bound.name, partial(_matches, bound.handler.perform), request.arguments.model
            )
            return found(done.result, request.trace_id, tool=bound.name)
    except errors.HandlerError as problem:
        return refuse_read(context, bound.tool, problem, request.trace_id)


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
        if request.follows is not None and not keeps(tx, request.follows):
            _pause(context, request, pauses)
            request = in_generation(request, request.follows.generation, after=None)
        recording = record(
            tx,
            context.tenant,
            request.event,
            arguments=request.body,
            salt=request.salt,
            affected=request.affected,
            former_keys=request.former_keys,
        )
        match recording:
            case Recording(answer="recorded", minted=Minted() as minted):
                return _carry_on(context, tx, request, minted, rejected)
            case Recording(answer="busy"):
                _pause(context, request, pauses)
            case _:
                twin = _twin(context, tx, request, recording)
                if twin is None:
                    ref = make_ref(request.bound.name, context.entropy(ENTROPY_BYTES))
                    request = replace(request, event=replace(request.event, ref=ref))
                    continue
                told = after_twin(tx, request, twin)
                if isinstance(told, Envelope):
                    return told
                request = told
    raise errors.InProgress("others record equal calls faster than this one can; call again")


def _pause(context: Context, request: Request, pauses: Iterator[float]) -> None:
    pause = next(pauses, None)
    if pause is None:
        raise errors.InProgress(
            f"an equal {request.bound.name} is being recorded by somebody else at this moment; "
            "call again and you get its answer"
        )
    context.pause(pause)


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
        intent, bodies = _perform(context, tx, request, intent)
    elif request.affected is not None:
        bodies["affected"] = json.loads(request.affected[1])
    if request.is_limited:
        rows = intent.affected_count if intent.state is State.SUCCEEDED else request.rows
        limiting.enter(context, tx, request.bound, intent, bodies["arguments"], rows=rows)
    told = answer(intent, request.bound.tool, bodies, hindrance=minted.hindrance)
    return with_amendment(tx, intent, told) if intent.state is State.WAITING else told


def _perform(
    context: Context, tx: Tx, request: Request, intent: Intent
) -> tuple[Intent, dict[str, Any]]:
    """Performs a recorded Local call and settles it; answers with the intent and its bodies.

    Raises Frozen, what the handler raised to refuse (HandlerError), HandlerBroke for anything else,
    RetryTransaction when the transaction is lost, and what ``judge`` raises.
    """
    require_running(context, tx, intent.tool, intent.run)
    face, arguments = request.bound.handler.perform, request.arguments
    done = local.face_in(tx, intent, intent.tool, face, arguments.model)
    if request.looks_ahead:
        judge(context, tx, request, done)
    settled, outcome = local.settle(context, tx, intent, done)
    return settled, {"arguments": arguments.canonical, "result": outcome}


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
