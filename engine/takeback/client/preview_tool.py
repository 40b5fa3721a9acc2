"""The tool that every app has: ``preview``. A call is made in a rehearsal, and undone.

    prepare -> rehearse the call -> refused · a repeat · what it would affect -> keep that -> answer

What it would become is therefore what it becomes now: policies, limits and freezes were asked.
A Local handler that has a preview of its own is asked for that instead of being performed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, Field

from takeback.catalog.registry import Bound
from takeback.catalog.rule import RESERVED_TOOLS
from takeback.client.calling import call_in
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.faulting import as_it_is, guarded
from takeback.client.owning import in_transaction
from takeback.client.previewing import (
    TOKEN_WORD,
    Foreseen,
    affected_text,
    foresee_remote,
    foreseen_before,
    foreseen_of,
    patiently,
    with_local_gaps,
)
from takeback.client.refusing import refuse, refuse_arguments, refuse_handler, refuse_tool
from takeback.client.request import Request, Terms, prepare, with_beside
from takeback.declare import READ_ONLY, SILENT, Local, Read, Text, Tool
from takeback.ledger.previewing import Kept, checked_later, keep_preview, rehearsal
from takeback.ledger.reading import read_by_ref
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.arguments import validate
from takeback.model.envelope import Envelope
from takeback.model.foretelling import foretold, foretold_read, foretold_repeat, unrecorded
from takeback.model.handler import Affected, Performed
from takeback.model.ref import ENTROPY_BYTES, make_ref
from takeback.model.violation import Repair, Violation, shown

TOKENS_DRAWN_MAX = 8
"""A token is taken by chance about once in 34 thousand million times."""


class Preview(BaseModel):
    """Which call is looked at before it is made."""

    tool: Text = Field(description="the tool that would be called")
    arguments: dict[str, Any] = Field(description="the arguments that it would be called with")


PREVIEW = Tool(
    TOKEN_WORD,
    Preview,
    effect=Read(),
    description="Says what a call would affect, without making it.",
    tier=SILENT,
    inline=True,
    exposure=READ_ONLY,
    triggers=("what would happen", "dry run", "which rows", "before I do it"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """What a call would answer, and what it would affect; None where that is asked elsewhere."""

    would: Envelope
    seen: Foreseen | None


def call_preview(
    context: Context,
    given: object,
    arguments: Any,
    beside: Mapping[str, Any],
    terms: Terms,
) -> Envelope:
    """``preview`` as a tool that is called; what is said ``beside`` its arguments is refused."""
    received = with_beside(arguments, beside)
    try:
        asked = validate(PREVIEW, received).canonical
    except errors.InvalidArguments as problem:
        trace_id = context.draw_trace_id()
        return refuse_arguments(PREVIEW, received, problem.violations, trace_id)
    return preview(context, given, asked["tool"], received["arguments"], terms)


def preview(
    context: Context,
    given: object,
    tool: str,
    arguments: Mapping[str, Any],
    terms: Terms,
) -> Envelope:
    """What a call would become now and what it would affect, in the transaction ``given`` or, when
    that is None, in ones of its own.

    Answers with an envelope, refusals and faults included: those that the call itself would get.
    Raises RetryTransaction when the caller's transaction is lost, and TransactionAborted.
    """
    return guarded(
        context,
        Course(tool=tool, run=terms.run, principal=terms.principal),
        lambda inside: _preview(inside, given, str(tool), arguments, terms),
        as_it_is,
    )


def _preview(
    context: Context,
    given: object,
    tool: str,
    arguments: Mapping[str, Any],
    terms: Terms,
) -> Envelope:
    trace_id = context.draw_trace_id()
    try:
        request = _prepared(context, tool, arguments, terms, trace_id=trace_id)
        if isinstance(request.bound.effect, Read):
            return foretold_read(request.bound.name, trace_id)
        return _looked_at(context, given, request)
    except errors.UnknownTool as problem:
        return unrecorded(refuse_tool(context.registry, problem, arguments, trace_id), trace_id)
    except errors.InvalidArguments as problem:
        row = PREVIEW if tool in RESERVED_TOOLS else context.registry.tool(tool).tool
        refused = refuse_arguments(row, arguments, problem.violations, trace_id)
        return unrecorded(refused, trace_id)
    except errors.HandlerError as problem:
        return unrecorded(refuse_handler(context, tool, problem, trace_id), trace_id)
    except errors.TakebackError as problem:
        return refuse(problem, trace_id)


def _prepared(
    context: Context, tool: str, arguments: Any, terms: Terms, *, trace_id: str
) -> Request:
    """The call as it would be recorded; ``repeat_of`` may be among its arguments."""
    if tool in RESERVED_TOOLS:
        raise errors.InvalidArguments([_violation("tool", tool, "must be a tool of the catalog")])
    request = prepare(context, tool, arguments, terms, trace_id=trace_id)
    if request.expect is not None:
        said = "is what a preview answers: leave it out here, and send it with the call"
        raise errors.InvalidArguments([_violation("expect", request.expect, said)])
    return request


def _violation(field: str, received: Any, message: str) -> Violation:
    return Violation(
        field=field,
        code="not_permitted",
        message=message,
        received=shown(received),
        repair=Repair.CHOICE,
    )


def _looked_at(context: Context, given: object, request: Request) -> Envelope:
    """No transaction of ours is open while a provider is asked."""
    bound = request.bound
    rehearsed = in_transaction(context, given, lambda tx: _rehearse(context, tx, request))
    would = rehearsed.would
    if would.replayed:
        return foretold_repeat(bound.name, would, request.trace_id)
    if would.error is not None:
        return unrecorded(would, request.trace_id)
    seen = rehearsed.seen or foresee_remote(bound, request.arguments)
    token = in_transaction(context, given, lambda tx: _keep(context, tx, request, seen))
    return foretold(
        bound.name,
        would,
        seen.affected,
        seen.affected_count,
        expect=token,
        not_covered=seen.not_covered,
        trace_id=request.trace_id,
    )


def _rehearse(context: Context, tx: Tx, request: Request) -> Rehearsed:
    """Makes the call in a rehearsal, with all that is asked and looked at before one is made."""
    bound, handler = request.bound, request.bound.handler
    is_local = isinstance(bound.effect, Local)
    if is_local and handler.preview is not None:
        asked_instead = replace(handler, perform=handler.preview)
        request = replace(request, bound=replace(bound, handler=asked_instead))
    with patiently(), rehearsal(tx) as inner:
        before = checked_later(inner)
        # Whoever waits for a row of a savepoint that was released waits for the whole transaction.
        would = call_in(context, inner, request, savepoint=False)
        if would.error is not None or would.replayed or would.ref is None:
            return Rehearsed(would=would, seen=None)
        entry = read_by_ref(inner, context.tenant, would.ref)
        seen = _seen(bound, entry.bodies) if entry is not None else None
        if seen is not None and is_local:
            seen = with_local_gaps(inner, seen, before)
        return Rehearsed(would=would, seen=seen)


def _seen(bound: Bound, bodies: Mapping[str, Any]) -> Foreseen | None:
    """What the rehearsed call has affected, or was foreseen to; None where neither was said."""
    outcome = bodies.get("result")
    if outcome is not None:
        done = Performed(
            affected=[Affected(**one) for one in outcome["affected"]],
            affected_count=outcome["affected_count"],
            summary=outcome["summary"],
            leaves=outcome["leaves"],
        )
        return foreseen_of(done, bound)
    return foreseen_before(bodies["affected"]) if "affected" in bodies else None


def _keep(context: Context, tx: Tx, request: Request, seen: Foreseen) -> str:
    """Keeps what was foreseen, and answers with the token that a call can expect it by."""
    kept = Kept(tool=request.bound.name, arguments=request.body, affected=affected_text(seen))
    for _ in range(TOKENS_DRAWN_MAX):
        token = make_ref(TOKEN_WORD, context.entropy(ENTROPY_BYTES))
        count = seen.affected_count
        if keep_preview(tx, context.tenant, token, kept, affected_count=count):
            return token
    raise errors.InProgress("others preview faster than this one can be kept; ask again")
