"""What is said of a freeze: what it stops, since when, by whom and why, and the end of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from takeback.cli.voice import plain

if TYPE_CHECKING:
    from takeback.ledger.braking import Freeze


def freeze_document(freeze: Freeze) -> dict[str, Any]:
    """A freeze in JSON; a null tenant, tool or run is every one."""
    from takeback.model.moment import iso

    return {
        "number": freeze.number,
        "tenant": freeze.scope.tenant,
        "tool": freeze.scope.tool,
        "run": freeze.scope.run,
        "reason": freeze.reason,
        "frozen_by": freeze.frozen_by,
        "frozen_at": iso(freeze.frozen_at),
    }


def freeze_line(freeze: Freeze) -> str:
    """A freeze in one line: what is stopped, since when, by whom and why."""
    document = freeze_document(freeze)
    named = [f"{name} {document[name]}" for name in ("tool", "run", "tenant") if document[name]]
    what = ", ".join(named) or "everything"
    return plain(f"{what}: since {document['frozen_at']} by {freeze.frozen_by}, {freeze.reason!r}")


def thaw_command(freeze: Freeze) -> str:
    """What ends it, behind ``takeback`` and with a reason to be filled in."""
    document = freeze_document(freeze)
    named = [name for name in ("tool", "run", "tenant") if document[name]]
    said = [f"--{name} {shlex.quote(document[name])}" for name in named]
    return f"thaw {said[0] if said else '--all'} --reason '...'"
