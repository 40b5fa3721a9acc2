"""Whatever happens inside a request becomes an answer: the one place for what nobody foresaw.

The model learns a trace id and what became of the effect. The operator finds the rest under that
id, in the log and, for a month, in the ledger. What the tool's author has to see is raised instead.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from takeback.client.body import words
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.face import Broke, try_face
from takeback.ledger import faults
from takeback.ledger.faults import Breakage
from takeback.log import logger
from takeback.model import errors
from takeback.model.code import WireEffect
from takeback.model.envelope import Envelope, refusal
from takeback.model.violation import SHOWN_LENGTH_MAX

Answer = TypeVar("Answer")

DETAILS_LENGTH_MAX = 20_000
"""Of a longer traceback the beginning and the end are kept: where it was, and what it says."""

UNWRITABLE = "it can't be written down"

KEPT_MAX = 10
"""Of one request, so many are kept; all of them are logged."""

FOR_THE_AUTHOR = (
    errors.UnsupportedConnection,
    errors.InvalidSettings,
    errors.TransactionAborted,
)
"""Raised: no other call would help, and no model can do anything about them."""

_BECAME = {
    "none": "it failed and changed nothing",
    "committed": "it was recorded, and then something failed",
    "unknown": "it failed, and nobody can say yet whether it was recorded",
}


def guarded(
    context: Context,
    course: Course,
    work: Callable[[Context], Answer],
    told: Callable[[Envelope], Answer],
) -> Answer:
    """What ``work`` answers, or what ``told`` makes of the refusal when it breaks.

    Raises RetryTransaction, what is for the author, and HandlerError, which gets here only where
    the author wants it raised.
    """
    inside = replace(context, course=course)
    try:
        answer = _tried(inside, work)
        if isinstance(answer, Broke):
            answer = told(_refuse_fault(inside, answer.problem))
    finally:
        _keep(context, course)
    return answer


def as_it_is(envelope: Envelope) -> Envelope:
    """The one answer, where a request has one."""
    return envelope


def _tried(context: Context, work: Callable[[Context], Answer]) -> Answer | Broke:
    try:
        answer: Answer | Broke = try_face(work, context)
    except errors.Conflict as problem:
        answer = Broke(problem)
    if isinstance(answer, Broke) and isinstance(answer.problem, FOR_THE_AUTHOR):
        raise answer.problem
    return answer


def _refuse_fault(context: Context, problem: Exception) -> Envelope:
    trace_id = context.draw_trace_id()
    effect: WireEffect = context.course.effect if context.course else "none"
    if isinstance(problem, errors.TransactionEnded):
        effect = "unknown"
    note_breakage(context, trace_id, problem, event="fault", effect=effect)
    return refuse_internal(_BECAME[effect], trace_id, effect)


def refuse_internal(became: str, trace_id: str, effect: WireEffect = "none") -> Envelope:
    """The refusal for what nobody foresaw."""
    return refusal(
        "internal_error",
        f"{became}; an operator finds the cause under the trace id",
        trace_id=trace_id,
        effect=effect,
    )


def note_breakage(
    context: Context,
    trace_id: str,
    problem: BaseException,
    *,
    event: str,
    effect: WireEffect = "none",
    tool: str | None = None,
) -> None:
    """Logs what broke, and has it kept once the request is over."""
    logger.error(event, tool=tool, trace_id=trace_id, exc_info=problem)
    course = context.course
    if course is None:
        return
    course.breakages.append(
        Breakage(
            trace_id=trace_id,
            tool=tool or _short(course.tool),
            run=_short(course.run),
            principal=_short(course.principal),
            effect=effect,
            kind=kind_of(problem),
            details=details_of(problem),
        )
    )


def kind_of(problem: BaseException) -> str:
    """The class of an exception, with its module."""
    return f"{type(problem).__module__}.{type(problem).__qualname__}"


def details_of(problem: BaseException) -> str:
    """Its traceback with every cause, as it can be shown and stored, and not too long."""
    details = try_face(_details, problem)
    return UNWRITABLE if isinstance(details, Broke) else str(details)


def _details(problem: BaseException) -> str:
    text = words("".join(traceback.format_exception(problem)))
    if len(text) <= DETAILS_LENGTH_MAX:
        return text
    half = DETAILS_LENGTH_MAX // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _short(value: object) -> str | None:
    """Who and what was named, as far as it was a name at all."""
    return words(value)[:SHOWN_LENGTH_MAX] if isinstance(value, str) else None


def _keep(context: Context, course: Course) -> None:
    """Keeps them as well as can be: what hinders it is logged, and changes no answer."""
    if not course.breakages:
        return
    try:
        kept = try_face(_kept, context, course)
    except (errors.Conflict, errors.RetryTransaction) as problem:
        kept = Broke(problem)
    if isinstance(kept, Broke):
        ids = [one.trace_id for one in course.breakages]
        logger.warning("fault_not_kept", trace_ids=ids, exc_info=kept.problem)


def _kept(context: Context, course: Course) -> None:
    with context.database.transaction() as tx:
        faults.keep(tx, context.tenant, course.breakages[:KEPT_MAX])
