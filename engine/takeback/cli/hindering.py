"""What keeps an intent from beginning, as an operator is told it: who has stopped it, and which
command lets it go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from takeback.cli.freeze import freeze_document, freeze_line, thaw_command
from takeback.cli.lane import lane_document, pause_line, resume_command
from takeback.cli.sheet import field

if TYPE_CHECKING:
    from takeback.app import Takeback
    from takeback.client.looking import Shown


def hindrances_of(app: Takeback, shown: Shown) -> dict[str, Any]:
    """The field ``hindered_by`` of an intent with what an operator knows; nothing without any."""
    told = shown.envelope.get("hindered_by")
    if told is None:
        return {}
    return {"hindered_by": [more for one in told for more in _of_operator(app, shown, one)]}


def _of_operator(app: Takeback, shown: Shown, one: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    intent = shown.entry.intent
    if one["kind"] == "freeze":
        for freeze in app.freezes():
            if freeze.scope.covers(intent.tenant, intent.tool, intent.run):
                line, command = freeze_line(freeze), thaw_command(freeze)
                yield {**one, **freeze_document(freeze), "line": line, "command": command}
        return
    health = app.health()
    for lane in health.lanes:
        if lane.lane.name == one["connector"]:
            found = lane_document(lane, app.registry.connectors, health.now)
            yield {
                **one,
                "paused_since": found["paused_since"],
                "paused_until": found["paused_until"],
                "line": pause_line(found),
                "command": resume_command(found),
            }


def hindrance_lines(document: Mapping[str, Any], app_option: str) -> Iterable[str]:
    """Why it does not begin, and the command that ends that, for people."""
    for one in document.get("hindered_by", ()):
        yield field("frozen" if one["kind"] == "freeze" else "paused", one["line"])
        yield field("to go on", f"takeback {app_option}{one['command']}")
