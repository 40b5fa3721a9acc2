"""From our exceptions to the envelope of a refusal: one allow-list.

Nothing of an exception's own text is told unless its template is ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import NoneType
from typing import Any

from takeback.client.body import refusal_body, words
from takeback.declare import Tool
from takeback.log import logger
from takeback.model import errors
from takeback.model.arguments import Difference, next_call
from takeback.model.envelope import Envelope, refusal
from takeback.model.intent import Intent
from takeback.model.violation import Repair, Violation, shown

_SAID: Mapping[type[errors.TakebackError], tuple[str, str, bool]] = {
    errors.UnknownTool: ("unknown_tool", "invalid_request", False),
    errors.NoSuchRef: ("no_such_ref", "invalid_request", False),
    errors.NoTransaction: ("no_transaction", "invalid_request", True),
    errors.PersonRequired: ("no_access", "terminal", False),
    errors.NotRestorable: ("not_restorable", "terminal", False),
    errors.RestoreExpired: ("restore_expired", "terminal", False),
    errors.TooLate: ("too_late", "terminal", False),
    errors.RestoreConflict: ("restore_conflict", "terminal", False),
    errors.CommitRefused: ("internal_error", "terminal", False),
    errors.PreviewStale: ("preview_stale", "invalid_request", False),
    errors.InProgress: ("in_progress", "transient", True),
    errors.DatabaseUnavailable: ("database_unavailable", "transient", True),
    errors.EmbeddedUnavailable: ("database_unavailable", "transient", True),
    errors.CommitUnknown: ("database_unavailable", "transient", True),
    errors.LedgerClosed: ("database_unavailable", "transient", True),
}
"""code, class, and whether the same call, word for word, can succeed later. Anything else is no
refusal but a fault.
"""

RETRY_AFTER_SECONDS = 1

PERMITTED_MAX = 10
"""Of a large set only the nearest are told, and how many there are."""


def refuse(problem: errors.TakebackError, trace_id: str, **extra: Any) -> Envelope:
    """The refusal for one of our exceptions; raises it again when it is not one to be told."""
    said = _SAID.get(type(problem))
    if said is None:
        raise problem
    code, class_, can_succeed = said
    if isinstance(problem, errors.DatabaseUnavailable | errors.CommitRefused):
        logger.warning("refused", code=code, trace_id=trace_id, exc_info=problem)
    details: dict[str, Any] = {}
    if class_ == "transient":
        details["retry_after_s"] = RETRY_AFTER_SECONDS
    if isinstance(problem, errors.NoSuchRef | errors.UnknownTool):
        details["alternatives"] = list(problem.nearest)
    if isinstance(problem, errors.RestoreConflict):
        details["violations"] = [_drifted(one) for one in problem.differences]
    return refusal(
        code,
        class_,
        words(problem),
        trace_id=trace_id,
        status="in_progress" if isinstance(problem, errors.InProgress) else "refused",
        effect="unknown" if isinstance(problem, errors.CommitUnknown) else "none",
        repeat_can_succeed=can_succeed,
        extra=extra,
        **details,
    )


def _drifted(difference: Any) -> dict[str, Any]:
    """One thing that somebody else has changed, as a handler's drift has put it."""
    told = dict(difference) if isinstance(difference, Mapping) else {"field": difference}
    document = {
        "field": words(told.pop("field", "")),
        "code": "restore_conflict",
        "message": "was changed since by somebody else",
        "repair": Repair.ASK_USER.value,
    }
    known = (str, int, float, bool, NoneType, list, dict)
    return document | {
        words(name): shown(value if isinstance(value, known) else str(value))
        for name, value in told.items()
    }


def refuse_arguments(
    tool: str, received: Any, violations: tuple[Violation, ...], trace_id: str
) -> Envelope:
    """Every violation at once, and the corrected call where only one is possible."""
    fields = ", ".join(dict.fromkeys(v.field for v in violations))
    unknown = all(v.code == "unknown_argument" for v in violations)
    return refusal(
        "unknown_argument" if unknown else "invalid_argument",
        "invalid_request",
        f"{len(violations)} problem{'s' if len(violations) > 1 else ''} with: {fields}",
        trace_id=trace_id,
        repeat_can_succeed=False,
        violations=[v.to_json() for v in violations],
        next_call=next_call(tool, received, violations) if isinstance(received, Mapping) else None,
    )


def refuse_conflict(
    tool: Tool, first: Intent, differs: tuple[Difference, ...], trace_id: str
) -> Envelope:
    """Same key, other arguments: each differing field with both values, and how to mean it anew."""
    fields = ", ".join(d.field for d in differs)
    return refusal(
        "key_conflict",
        "invalid_request",
        f"{first.ref} is the same {tool.name} with another {fields}. If this is a repeat of it, "
        f"send the first values; to do it once more on purpose, add repeat_of.",
        trace_id=trace_id,
        repeat_can_succeed=False,
        extra={"ref": first.ref, "again": {"repeat_of": first.ref}},
        violations=[
            {
                "field": d.field,
                "code": "key_conflict",
                "message": "differs from the first call",
                "first": shown(d.first),
                "received": shown(d.now),
                "repair": "choice",
            }
            for d in differs
        ],
    )


def refuse_handler(tool: str, problem: errors.HandlerError, trace_id: str) -> Envelope:
    """The refusal for what a handler raised; its changes are undone and nothing is recorded."""
    match problem:
        case errors.InvalidReference():
            return _refuse_reference(tool, problem, trace_id)
        case errors.NotDispatched():
            return _refuse_for_now(tool, problem, trace_id)
        case errors.Rejected():
            return _refuse_for_good(problem, trace_id)
        case _:
            return refuse_broken(tool, problem, trace_id)


def refuse_read(tool: str, problem: errors.HandlerError, trace_id: str) -> Envelope:
    """A read failed: down is never the same as empty."""
    if isinstance(problem, errors.InvalidReference | errors.Rejected):
        return refuse_handler(tool, problem, trace_id)
    logger.error("read_broke", tool=tool, trace_id=trace_id, exc_info=problem.__cause__ or problem)
    return refusal(
        "provider_unavailable",
        "transient",
        "the search can't be made at this moment; that says nothing about what there is",
        trace_id=trace_id,
        status="unavailable",
        repeat_can_succeed=True,
        retry_after_s=RETRY_AFTER_SECONDS,
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
        "provider_unavailable",
        "transient",
        "the tool can't do it at this moment and has changed nothing; call again later",
        trace_id=trace_id,
        repeat_can_succeed=True,
        retry_after_s=problem.retry_after_s or RETRY_AFTER_SECONDS,
    )


def _refuse_for_good(problem: errors.Rejected, trace_id: str) -> Envelope:
    error = json.loads(refusal_body(problem.code, problem.message, problem.alternatives))
    return refusal(
        problem.code,
        "terminal",
        error["message"],
        trace_id=trace_id,
        repeat_can_succeed=False,
        alternatives=error["alternatives"],
    )


def refuse_broken(tool: str, problem: errors.HandlerError, trace_id: str) -> Envelope:
    """The handler failed: the model learns a trace id, the operator's log has the exception."""
    cause = problem.__cause__ or problem
    logger.error("handler_broke", tool=tool, trace_id=trace_id, exc_info=cause)
    return refusal(
        "internal_error",
        "terminal",
        "the tool failed and changed nothing; an operator finds the cause under the trace id",
        trace_id=trace_id,
        repeat_can_succeed=False,
    )
