"""Many calls in one transaction: recorded together where that is the same as one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from takeback.client.calling import BUSY_PAUSES, begun, call_in
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.faulting import as_it_is, guarded
from takeback.client.owning import in_transaction
from takeback.client.permitted_tool import PERMITTED, answer_permitted
from takeback.client.preview_tool import PREVIEW, call_preview
from takeback.client.refusing import refuse, refuse_arguments, refuse_tool
from takeback.client.request import Request, Terms, prepare
from takeback.client.restore_tool import RESTORE
from takeback.client.restoring import answer_wish
from takeback.client.wish import Wish, ref_of, wish_for
from takeback.declare import Remote
from takeback.ledger.batch import Recordable, record_many
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.envelope import Envelope, answer
from takeback.model.violation import Violation, shown

BATCH_MAX = 1000
"""Calls a statement: more gains nothing and makes the statement's text large."""

BATCH_CHARACTERS_MAX = 4_000_000
"""Of arguments in one statement: it is held in memory several times over, at both ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a batch; it may come after intents that are recorded already, by their refs."""

    tool: str
    arguments: Mapping[str, Any]
    repeat_of: str | None = None
    after: Sequence[str] = ()
    not_before: datetime | None = None


def call_many(
    context: Context,
    given: object,
    calls: Sequence[Call],
    *,
    run: str | None,
    principal: str,
    on_behalf_of: str | None,
) -> list[Envelope]:
    """An envelope for each of ``calls``, in their order; a refused one does not stop the others.

    Raises RetryTransaction when the caller's transaction is lost.
    """
    terms = Terms(run=run, principal=principal, on_behalf_of=on_behalf_of)
    checked = [_checked(context, given, call, terms) for call in calls]
    return guarded(
        context,
        Course(tool=None, run=run, principal=principal),
        lambda inside: _call_many(inside, given, checked),
        lambda broken: [one if isinstance(one, Envelope) else broken for one in checked],
    )


def _call_many(
    context: Context, given: object, checked: Sequence[Request | Wish | Envelope]
) -> list[Envelope]:
    try:
        return in_transaction(context, given, lambda tx: _answers(context, tx, checked))
    except errors.TakebackError as problem:
        return [
            one if isinstance(one, Envelope) else refuse(problem, one.trace_id) for one in checked
        ]


def _checked(
    context: Context, given: object, call: Call, terms: Terms
) -> Request | Wish | Envelope:
    trace_id = context.draw_trace_id()
    said: Any = call
    if not isinstance(said, Call):
        message = "must be a takeback.Call"
        wrong = Violation(
            field="calls", code="wrong_type", message=message, received=shown(type(said).__name__)
        )
        return refuse_arguments("call_many", None, (wrong,), trace_id)
    if call.tool == PREVIEW.name:
        # Looked at before anything of the batch is recorded: a provider may be asked.
        return call_preview(context, given, call.arguments, _beside(call), terms)
    return guarded(
        context,
        Course(tool=call.tool, run=terms.run, principal=terms.principal),
        lambda inside: _prepared(inside, call, terms, trace_id),
        as_it_is,
    )


def _prepared(
    context: Context, call: Call, terms: Terms, trace_id: str
) -> Request | Wish | Envelope:
    if call.tool == PERMITTED.name:
        return answer_permitted(context, call.arguments, trace_id)
    try:
        if call.tool == RESTORE.name:
            ref = ref_of(call.arguments, _beside(call))
            return wish_for(
                ref, run=terms.run, principal=terms.principal, force=False, trace_id=trace_id
            )
        own = replace(terms, repeat_of=call.repeat_of, after=call.after, not_before=call.not_before)
        return prepare(context, call.tool, call.arguments, own, trace_id=trace_id)
    except errors.InvalidArguments as problem:
        row = RESTORE if call.tool == RESTORE.name else context.registry.tool(call.tool).tool
        return refuse_arguments(row, call.arguments, problem.violations, trace_id)
    except errors.UnknownTool as problem:
        return refuse_tool(context.registry, problem, call.arguments, trace_id)
    except errors.TakebackError as problem:
        return refuse(problem, trace_id)


def _beside(call: Call) -> dict[str, Any]:
    return {
        "repeat_of": call.repeat_of,
        "after": call.after or None,
        "not_before": call.not_before,
    }


def _answers(
    context: Context, tx: Tx, checked: Sequence[Request | Wish | Envelope]
) -> list[Envelope]:
    answers = _recorded(context, tx, checked)
    pauses = iter(BUSY_PAUSES)
    for place, one in enumerate(checked):
        if place in answers:
            continue
        answers[place] = one if isinstance(one, Envelope) else _single(context, tx, one, pauses)
    return [answers[place] for place in range(len(checked))]


def _recorded(
    context: Context, tx: Tx, checked: Sequence[Request | Wish | Envelope]
) -> dict[int, Envelope]:
    """Answers for the calls that could be recorded together: remote ones, the first of each key."""
    first: dict[str, tuple[int, Request]] = {}
    for place, one in enumerate(checked):
        if isinstance(one, Request) and isinstance(one.bound.tool.effect, Remote) and one.is_plain:
            first.setdefault(one.event.key, (place, one))
    answers: dict[int, Envelope] = {}
    for batch in _statements(first.values()):
        minted = record_many(
            tx,
            context.tenant,
            [Recordable(event=r.event, arguments=r.body, salt=r.salt) for _, r in batch],
        )
        for ordinal, mint in minted.items():
            place, request = batch[ordinal]
            intent = begun(context.tenant, request.event, mint)
            bodies = {"arguments": request.arguments.canonical}
            answers[place] = answer(intent, request.bound.tool, bodies, hindrance=mint.hindrance)
    return answers


def _statements(
    chosen: Iterable[tuple[int, Request]],
) -> Iterator[list[tuple[int, Request]]]:
    """As many calls as go into one statement, in their order."""
    batch: list[tuple[int, Request]] = []
    size = 0
    for one in chosen:
        batch.append(one)
        size += len(one[1].body)
        if len(batch) == BATCH_MAX or size >= BATCH_CHARACTERS_MAX:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _single(context: Context, tx: Tx, one: Request | Wish, pauses: Iterator[float]) -> Envelope:
    if isinstance(one, Wish):
        return answer_wish(context, tx, one)
    try:
        return call_in(context, tx, one, pauses=pauses)
    except errors.InvalidArguments as problem:
        received = one.arguments.canonical
        return refuse_arguments(one.bound.tool, received, problem.violations, one.trace_id)
    except errors.DatabaseUnavailable:
        raise
    except errors.TakebackError as problem:
        return refuse(problem, one.trace_id)
