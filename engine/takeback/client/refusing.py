"""From our exceptions to the envelope of a refusal: one allow-list.

Nothing of an exception's own text is told unless its template is ours. What a code means, and what
a caller may rely on, is in ``model.code`` alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any

from takeback.catalog.registry import RESERVED_PROPERTIES, Registry
from takeback.client.body import refusal_body, words
from takeback.client.context import Context
from takeback.client.faulting import note_breakage, refuse_internal
from takeback.declare import OMIT, Read, Tool
from takeback.log import logger
from takeback.model import errors
from takeback.model.arguments import Difference, next_call, valid_call
from takeback.model.envelope import Envelope, is_safe_to_repeat, refusal
from takeback.model.finding import found
from takeback.model.handler import Found
from takeback.model.intent import Intent
from takeback.model.likeness import alike
from takeback.model.violation import Repair, Violation, shown

TOLD: frozenset[type[errors.TakebackError]] = frozenset(
    {
        errors.UnknownTool,
        errors.NoSuchRef,
        errors.NoTransaction,
        errors.PersonRequired,
        errors.NeedsApproval,
        errors.NotGranted,
        errors.PolicyForbids,
        errors.LimitExceeded,
        errors.Frozen,
        errors.NotRestorable,
        errors.FirstInDoubt,
        errors.RestoreExpired,
        errors.TooLate,
        errors.WrongState,
        errors.RestoreConflict,
        errors.PreviewStale,
        errors.ApprovalMismatch,
        errors.InProgress,
        errors.DatabaseUnavailable,
        errors.EmbeddedUnavailable,
        errors.CommitUnknown,
        errors.LedgerClosed,
    }
)
"""What may be told under its own code and in its own words. Anything else is a fault."""

PERMITTED_MAX = 10
"""Of a large set only the nearest are told, and how many there are."""

RETRY_AFTER_SECONDS_MAX = 86_400.0
"""A handler's word on waiting is passed on up to a day."""

PERSON_SECONDS = 60
"""A person thaws, migrates or grants: asking again every second would only cost."""


def refuse(problem: errors.TakebackError, trace_id: str, **extra: Any) -> Envelope:
    """The refusal for one of our exceptions; raises it again when it is not one to be told."""
    if type(problem) not in TOLD:
        raise problem
    if isinstance(problem, errors.DatabaseUnavailable):
        logger.warning("refused", code=problem.code, trace_id=trace_id, exc_info=problem)
    details: dict[str, Any] = {}
    if isinstance(problem, errors.NoSuchRef):
        details["alternatives"] = list(problem.nearest)
    if isinstance(problem, errors.UnknownTool):
        details["alternatives"] = [*problem.nearest, *problem.others]
    if isinstance(problem, errors.Frozen | errors.LedgerClosed):
        details["retry_after_s"] = PERSON_SECONDS
    if isinstance(problem, errors.LimitExceeded):
        details["alternatives"] = [dict(one) for one in problem.left]
    if isinstance(problem, errors.Conflict):
        details["alternatives"] = list(problem.alternatives)
    if isinstance(problem, errors.TooLate | errors.InProgress):
        details["next_call"] = problem.next_call
    if isinstance(problem, errors.RestoreConflict | errors.PreviewStale | errors.ApprovalMismatch):
        details["violations"] = [_drifted(problem.code, one) for one in problem.differences]
    return refusal(
        problem.code,
        words(problem),
        trace_id=trace_id,
        status="in_progress" if isinstance(problem, errors.InProgress) else "refused",
        effect="unknown" if isinstance(problem, errors.CommitUnknown) else "none",
        extra=extra,
        **details,
    )


_CHANGED = {
    "restore_conflict": "was changed since by somebody else",
    "preview_stale": "is not as it was previewed",
    "approval_mismatch": "is not what is asked for",
}


def _drifted(code: str, difference: Any) -> dict[str, Any]:
    """One thing that has changed, as a handler's drift, or whoever compared, has put it."""
    told = dict(difference) if isinstance(difference, Mapping) else {"field": difference}
    document = {
        "field": words(told.pop("field", "")),
        "code": code,
        "message": _CHANGED[code],
        "repair": Repair.ASK_USER.value,
    }
    known = (str, int, float, bool, NoneType, list, dict)
    return document | {
        words(name): shown(value if isinstance(value, known) else str(value))
        for name, value in told.items()
    }


def refuse_arguments(
    tool: Tool | str, received: Any, violations: tuple[Violation, ...], trace_id: str
) -> Envelope:
    """Every violation at once, and the corrected call where only one is possible.

    A tool of which there is only a name gets no corrected call: nothing can say that it is valid.
    """
    fields = [str(shown(field))[:FIELD_LENGTH_MAX] for field in {v.field: None for v in violations}]
    more = f" and {len(fields) - FIELDS_MAX} more" if len(fields) > FIELDS_MAX else ""
    unknown = all(v.code == "unknown_argument" for v in violations)
    corrected = None
    if isinstance(tool, Tool) and isinstance(received, Mapping):
        corrected = next_call(tool, received, violations, beside=_beside(tool))
    return refusal(
        "unknown_argument" if unknown else "invalid_argument",
        f"{len(violations)} problem{'s' if len(violations) > 1 else ''} with: "
        f"{', '.join(fields[:FIELDS_MAX])}{more}",
        trace_id=trace_id,
        violations=[v.to_json() for v in violations],
        next_call=corrected,
    )


def refuse_tool(
    registry: Registry, problem: errors.UnknownTool, received: Any, trace_id: str
) -> Envelope:
    """No tool has this name; the call of the one whose name it is but for its spelling."""
    told = refuse(problem, trace_id)
    same = [bound.tool for bound in registry if alike(bound.name, str(problem.name)[:NAME_READ])]
    if len(same) != 1 or not isinstance(received, Mapping):
        return told
    corrected = valid_call(same[0], received, beside=_beside(same[0]))
    return refusal(
        problem.code,
        words(problem),
        trace_id=trace_id,
        alternatives=(told.error or {})["alternatives"],
        next_call=corrected,
    )


def _beside(tool: Tool) -> Collection[str]:
    """The arguments of every writing tool that are the engine's own."""
    return () if isinstance(tool.effect, Read) else RESERVED_PROPERTIES


NAME_READ = 200
FIELDS_MAX = 10
FIELD_LENGTH_MAX = 100
"""The message names so many fields, so long; ``violations`` has them all."""


def refuse_conflict(
    tool: Tool, first: Intent, differs: tuple[Difference, ...], trace_id: str
) -> Envelope:
    """Same key, other arguments: each differing field with both values, and how to mean it anew.

    What a person has approved is what was recorded, and nothing else.
    """
    fields = ", ".join(d.field for d in differs)
    is_approved = first.approved_by is not None
    code = "approval_mismatch" if is_approved else "key_conflict"
    person = " A person has approved the first one, as it was recorded." if is_approved else ""
    is_safe = is_safe_to_repeat(first)
    anew = "; to do it once more on purpose, add repeat_of." if is_safe else "."
    unknown = "" if is_safe else " Nobody knows yet whether the first one has happened."
    return refusal(
        code,
        f"{first.ref} is the same {tool.name} with another {fields}.{person}{unknown} If this is a "
        f"repeat of it, send the first values{anew}",
        trace_id=trace_id,
        extra={"ref": first.ref, **({"again": {"repeat_of": first.ref}} if is_safe else {})},
        violations=[
            {
                "field": d.field,
                "code": code,
                "message": "differs from the first call",
                "first": shown(d.first),
                "received": shown(d.now),
                "repair": "choice",
            }
            for d in differs
        ],
    )


def refuse_handler(
    context: Context, tool: str, problem: errors.HandlerError, trace_id: str
) -> Envelope:
    """The refusal for what a handler raised; its changes are undone and nothing is recorded."""
    match problem:
        case errors.InvalidReference():
            return _refuse_reference(tool, problem, trace_id)
        case errors.NotDispatched():
            return _refuse_for_now(tool, problem, trace_id)
        case errors.Rejected():
            return _refuse_for_good(problem, trace_id)
        case errors.NoAccess():
            return refusal(problem.code, words(problem.message), trace_id=trace_id)
        case _:
            return _refuse_broken(context, tool, problem, trace_id)


def refuse_read(
    context: Context, row: Tool, problem: errors.HandlerError, trace_id: str
) -> Envelope:
    """A read failed: down is never the same as empty, and what is left out is not mentioned."""
    match problem:
        case errors.NoAccess() if isinstance(row.effect, Read) and row.effect.on_forbidden is OMIT:
            return found(Found(matches=()), trace_id)
        case errors.InvalidReference() | errors.Rejected() | errors.NoAccess():
            return refuse_handler(context, row.name, problem, trace_id)
        case errors.NotDispatched():
            logger.warning("read_not_made", tool=row.name, trace_id=trace_id, exc_info=problem)
        case _:
            cause = problem.__cause__ or problem
            note_breakage(context, trace_id, cause, event="read_broke", tool=row.name)
    return refusal(
        "provider_unavailable",
        "the search can't be made at this moment; that says nothing about what there is",
        trace_id=trace_id,
        status="unavailable",
        retry_after_s=_wait(problem),
    )


def _refuse_reference(tool: str, problem: errors.InvalidReference, trace_id: str) -> Envelope:
    """An argument names something that does not exist; nothing was recorded."""
    violation = Violation(
        field=words(problem.field),
        code="no_such_value",
        message=words(problem.message),
        received=shown(problem.received),
        permitted=[shown(one) for one in problem.permitted[:PERMITTED_MAX]],
        permitted_count=len(problem.permitted) or None,
        repair=Repair.CHOICE if problem.permitted else Repair.ASK_USER,
    )
    return refuse_arguments(tool, None, (violation,), trace_id)


def _refuse_for_now(tool: str, problem: errors.NotDispatched, trace_id: str) -> Envelope:
    logger.warning("not_dispatched", tool=tool, trace_id=trace_id, exc_info=problem)
    return refusal(
        errors.NotDispatched.code,
        "the tool can't do it at this moment and has changed nothing; call again later",
        trace_id=trace_id,
        retry_after_s=_wait(problem),
    )


def _wait(problem: errors.HandlerError) -> float | None:
    """What a handler says of waiting, where that is a number of seconds that one can wait."""
    asked: Any = problem.retry_after_s if isinstance(problem, errors.NotDispatched) else None
    if isinstance(asked, bool) or not isinstance(asked, int | float) or math.isnan(asked):
        return None
    return min(asked, RETRY_AFTER_SECONDS_MAX) if asked > 0 else None


def _refuse_for_good(problem: errors.Rejected, trace_id: str) -> Envelope:
    code = errors.Rejected.code
    error = json.loads(refusal_body(code, problem.message, problem.alternatives))
    return refusal(code, error["message"], trace_id=trace_id, alternatives=error["alternatives"])


def _refuse_broken(
    context: Context, tool: str, problem: errors.HandlerError, trace_id: str
) -> Envelope:
    """The handler failed: the model learns a trace id, the operator finds the exception."""
    cause = problem.__cause__ or problem
    note_breakage(context, trace_id, cause, event="handler_broke", tool=tool)
    return refuse_internal("the tool failed and changed nothing", trace_id)
