"""The look-up that every app answers: which values a large closed set has that are like a word.

A refusal names the nearest eight of them and hands over this call, so that 249 values are never
dumped. It reads the declarations alone, and no database.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from takeback.catalog.registry import Registry
from takeback.client.context import Context
from takeback.client.refusing import refuse_arguments
from takeback.client.restore_tool import RESTORE
from takeback.declare import READ_ONLY, SILENT, Read, Text, Tool
from takeback.model import errors
from takeback.model.arguments import validate
from takeback.model.closed_set import PERMITTED_VALUES, Member, best_members, closed_set
from takeback.model.envelope import Envelope
from takeback.model.finding import found
from takeback.model.handler import Found
from takeback.model.likeness import nearest_first
from takeback.model.reading import Path
from takeback.model.violation import Repair, Violation, shown

MATCHES_MAX = 8
"""As many as an answer tells; a better word finds what is not among them."""

_NEAREST_MAX = 8


class PermittedValues(BaseModel):
    """Which values of an argument are like a word."""

    argument: Text = Field(
        max_length=500, description="tool.argument, such as ship_order.country, from a refusal"
    )
    query: Text = Field(
        default="", max_length=500, description="what is wanted, in the user's words"
    )


PERMITTED = Tool(
    PERMITTED_VALUES,
    PermittedValues,
    effect=Read(),
    description="Finds the permitted values of an argument that are like a word, by value or name.",
    tier=SILENT,
    inline=True,
    exposure=READ_ONLY,
    triggers=("which values", "what is permitted", "allowed values"),
)


def answer_permitted(context: Context, arguments: Any, trace_id: str) -> Envelope:
    """The best matches of the query in the closed set of the argument, and how many are in it."""
    try:
        asked = validate(PERMITTED, arguments).canonical
    except errors.InvalidArguments as problem:
        return refuse_arguments(PERMITTED, arguments, problem.violations, trace_id)
    argument, query = asked["argument"].strip(), asked["query"]
    members = _members(context.registry, argument)
    if not members:
        wrong = _no_closed_set(context.registry, argument)
        return refuse_arguments(PERMITTED, arguments, (wrong,), trace_id)
    best = best_members(query, members)[:MATCHES_MAX]
    said = f", the best matches of {shown(query[:40])!r} first" if query.strip() else ""
    return found(
        Found(
            matches=[_match(member) for member in best],
            matches_count=len(members),
            summary=f"{len(members)} values are permitted{said}.",
        ),
        trace_id,
        tool=PERMITTED.name,
    )


def _match(member: Member) -> dict[str, Any]:
    named = {} if member.name is None else {"name": member.name}
    return {"value": member.value, **named}


def _members(registry: Registry, argument: str) -> tuple[Member, ...]:
    tool, _, field = argument.partition(".")
    row = RESTORE if tool == RESTORE.name else None
    if tool in registry:
        row = registry.tool(tool).tool
    if row is None or not field:
        return ()
    path: Path = tuple(
        int(part) if part.isascii() and part.isdigit() else part for part in field.split(".")
    )
    return closed_set(row.arguments, path)


def _no_closed_set(registry: Registry, argument: str) -> Violation:
    """No such argument, or one that takes any value; those that are like it and do not."""
    known = [
        f"{bound.name}.{name}"
        for bound in registry
        for name in bound.tool.arguments.model_fields
        if closed_set(bound.tool.arguments, (name,))
    ]
    return Violation(
        field="argument",
        code="no_such_value",
        message="must be tool.argument of an argument that has a closed set",
        received=shown(argument),
        permitted=nearest_first(argument, known)[:_NEAREST_MAX],
        permitted_count=len(known),
        repair=Repair.CHOICE,
    )
