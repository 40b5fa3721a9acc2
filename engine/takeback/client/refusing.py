"""From our exceptions to the envelope of a refusal: one allow-list.

Nothing of an exception's own text is told unless its template is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from takeback.declare import Tool
from takeback.log import logger
from takeback.model import errors
from takeback.model.arguments import Difference, next_call
from takeback.model.envelope import Envelope, refusal
from takeback.model.intent import Intent
from takeback.model.violation import Repair, Violation

_SAID: Mapping[type[errors.TakebackError], tuple[str, str, bool]] = {
    errors.UnknownTool: ("unknown_tool", "invalid_request", False),
    errors.NoSuchRef: ("no_such_ref", "invalid_request", False),
    errors.NoTransaction: ("no_transaction", "invalid_request", True),
    errors.PersonRequired: ("no_access", "terminal", False),
    errors.NotRestorable: ("not_restorable", "terminal", False),
    errors.RestoreExpired: ("restore_expired", "terminal", False),
    errors.TooLate: ("too_late", "terminal", False),
    errors.RestoreConflict: ("restore_conflict", "terminal", False),
    errors.PreviewStale: ("preview_stale", "invalid_request", False),
    errors.InProgress: ("in_progress", "transient", True),
    errors.DatabaseUnavailable: ("database_unavailable", "transient", True),
    errors.EmbeddedUnavailable: ("database_unavailable", "transient", True),
    errors.CommitUnknown: ("database_unavailable", "transient", True),
}
"""code, class, and whether the same call, word for word, can succeed later. Anything else is no
refusal but a fault.
"""

RETRY_AFTER_SECONDS = 1


def refuse(problem: errors.TakebackError, trace_id: str, **extra: Any) -> Envelope:
    """The refusal for one of our exceptions; raises it again when it is not one to be told."""
    said = _SAID.get(type(problem))
    if said is None:
        raise problem
    code, class_, can_succeed = said
    details: dict[str, Any] = {}
    if class_ == "transient":
        details["retry_after_s"] = RETRY_AFTER_SECONDS
    if isinstance(problem, errors.NoSuchRef):
        details["alternatives"] = list(problem.nearest)
    if isinstance(problem, errors.RestoreConflict):
        details["violations"] = [dict(d) for d in problem.differences]
    if isinstance(problem, errors.UnknownTool):
        details["alternatives"] = list(problem.nearest)
    return refusal(
        code,
        class_,
        str(problem),
        trace_id=trace_id,
        status="in_progress" if isinstance(problem, errors.InProgress) else "refused",
        effect="unknown" if isinstance(problem, errors.CommitUnknown) else "none",
        repeat_can_succeed=can_succeed,
        extra=extra,
        **details,
    )


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
                "first": d.first,
                "received": d.now,
                "repair": "choice",
            }
            for d in differs
        ],
    )


def refuse_reference(tool: str, problem: errors.InvalidReference, trace_id: str) -> Envelope:
    """An argument names something that does not exist; nothing was recorded."""
    violation = Violation(
        field=problem.field,
        code="no_such_value",
        message=problem.message,
        received=problem.received,
        permitted=problem.permitted,
        permitted_count=len(problem.permitted) or None,
        repair=Repair.CHOICE if problem.permitted else Repair.ASK_USER,
    )
    return refuse_arguments(tool, None, (violation,), trace_id)


def refuse_broken(problem: errors.HandlerBroke, trace_id: str) -> Envelope:
    """The handler failed: the model learns a trace id, the operator's log has the exception."""
    logger.error("handler_broke", tool=problem.tool, trace_id=trace_id, exc_info=problem.__cause__)
    return refusal(
        "internal_error",
        "terminal",
        "the tool failed and changed nothing; an operator finds the cause under the trace id",
        trace_id=trace_id,
        repeat_can_succeed=False,
    )


def unavailable(problem: errors.HandlerBroke, trace_id: str) -> Envelope:
    """A read failed: down is never the same as empty."""
    logger.error("read_broke", tool=problem.tool, trace_id=trace_id, exc_info=problem.__cause__)
    return refusal(
        "provider_unavailable",
        "transient",
        "the search can't be made at this moment; that says nothing about what there is",
        trace_id=trace_id,
        status="unavailable",
        repeat_can_succeed=True,
        retry_after_s=RETRY_AFTER_SECONDS,
    )
