"""``catalog``: the declaration file as text, and the rows of an app."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeback.cli.door import door_of
from takeback.cli.failure import DONE, REFUSED, Failure, Usage
from takeback.cli.sheet import columns, field
from takeback.cli.voice import plain

if TYPE_CHECKING:
    from takeback.declare import Approval, Breaker, Connector, Limit


def check(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The declaration file; it is read, never run.")
    ],
) -> int:
    """Check a declaration file as text.

    What it imports, and what it would do when it is loaded: expected are declarations only.
    """
    from takeback.catalog.check import check_file

    door = door_of(context)
    _require_readable(file)
    found = check_file(file)
    listed = [{"line": one.line, "message": one.message} for one in found]
    if not found:
        if door.voice.json_wanted:
            door.voice.document({"status": "done", "file": file, "findings": []})
        else:
            door.voice.line(f"{plain(file)}: declares, and does nothing else")
        return DONE
    failure = Failure(
        exit=REFUSED,
        code="failed_check",
        class_="invalid_request",
        message=f"{file}: {len(found)} {'line' if len(found) == 1 else 'lines'} to correct",
        status="refused",
        beside={"file": file, "findings": listed},
    )
    if not door.voice.json_wanted:
        door.voice.lines([f"{plain(file)}:{one.line}: {plain(one.message)}" for one in found])
    return failure.say(door.voice)


def _require_readable(file: str) -> None:
    """A file that is not there was typed wrongly, and is no declaration that errs."""
    try:
        with Path(file).open("rb"):
            return
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "is no path"
        raise Usage(f"{file!r} can't be read: {reason}; expected a declaration file") from None


def list_rows(context: typer.Context) -> int:
    """List the tools of the app, in the order of its catalog."""
    door = door_of(context)
    registry = door.app().registry
    rows = [_row(bound, registry.connectors) for bound in registry]
    if door.voice.json_wanted:
        door.voice.document(rows)
        return DONE
    cells = [
        (row["tool"], row["effect"], row["tier"], row["exposure"], row["description"])
        for row in rows
    ]
    headings = ("tool", "effect", "tier", "exposure", "does")
    door.voice.lines(columns(door.voice, headings, cells))
    return DONE


def show_row(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool's name.")],
) -> int:
    """Show one tool, and its arguments as a model sees them."""
    from takeback.catalog.registry import schema

    door = door_of(context)
    registry = door.app().registry
    bound = registry.tool(tool)
    document = _row(bound, registry.connectors) | {"schema": schema(bound)}
    if door.voice.json_wanted:
        door.voice.document(document)
        return DONE
    shown = [
        field(name, ", ".join(value) if isinstance(value, list) else value)
        for name, value in document.items()
        if name not in ("schema", "tool") and value not in (None, [])
    ]
    printed = json.dumps(document["schema"], indent=2, ensure_ascii=False).splitlines()
    door.voice.lines([tool, *shown, "", *printed])
    return DONE


def _row(bound: Any, connectors: Mapping[str, Connector]) -> dict[str, Any]:
    from takeback.declare import Local, Remote

    tool, effect = bound.tool, bound.effect
    row: dict[str, Any] = {
        "tool": tool.name,
        "description": tool.description,
        "effect": type(effect).__name__.lower(),
        "version": tool.version,
        "tier": tool.tier.value,
        "inline": tool.inline,
        "exposure": tool.exposure.value,
        "triggers": list(tool.triggers),
        "key": list(tool.recipe.fields),
        "key_scope": tool.recipe.scope.kind.value,
    }
    if isinstance(effect, Remote):
        row["window_seconds"] = effect.window.total_seconds()
        row["upstream"] = type(effect.upstream).__name__.lower()
        row["reversal"] = effect.reversal.value
        row["priority"] = effect.priority.name.lower()
        row["order_by"] = effect.order_by
        row["connector"] = effect.connector
        row["connector_bounds"] = _bounds(connectors.get(effect.connector or ""))
    if isinstance(effect, Local) and effect.retention is not None:
        row["retention_days"] = effect.retention.total_seconds() / 86_400
    if tool.approval is not None:
        row["approval"] = _conditions(tool.approval)
    if tool.limits:
        row["limits"] = [_conditions(one) for one in tool.limits]
    return row


def _bounds(connector: Connector | None) -> str | None:
    """What the row of a connector says.

    >>> from takeback.declare import Connector
    >>> _bounds(Connector("stripe", concurrency=4))
    'concurrency 4, breaker (failures 5, pause 10 s, pause_max 300 s)'
    """
    if connector is None:
        return None
    said = _conditions(replace(connector, breaker=None)).partition(", ")[2]
    breaker = connector.breaker and f"breaker ({_conditions(connector.breaker)})"
    return ", ".join(part for part in (said, breaker) if part) or "none"


def _conditions(declared: Approval | Breaker | Connector | Limit) -> str:
    """What a row says of an approval, a limit or the like, as far as it says something.

    >>> from takeback.declare import Limit, days
    >>> _conditions(Limit(count=3, per=days(1)))
    'per 86400 s, count 3, scope tool, over approve'
    """
    said = {one.name: getattr(declared, one.name) for one in fields(declared)}
    if said.get("money") is None and "money" in said:
        del said["argument"]
    return ", ".join(
        f"{name} {value.total_seconds():g} s" if isinstance(value, timedelta) else f"{name} {value}"
        for name, value in said.items()
        if value is not None and value is not False
    )
