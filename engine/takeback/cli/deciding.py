"""``approve`` and ``deny``: what a person decides about a call that waits for them."""

from __future__ import annotations

from typing import Annotated

import typer

from takeback.cli.calling import Principal
from takeback.cli.door import door_of
from takeback.cli.handing import say_answer
from takeback.model.door import Door as Exit


def approve(
    context: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The ref of the call that waits.")],
    expect: Annotated[
        str | None,
        typer.Option(metavar="X", help="What `show` said to expect: refused if it has changed."),
    ] = None,
    principal: Principal = None,
) -> int:
    """Approve a call that waits for a person; its window starts now.

    Who has made the call can't approve it, and no agent can.
    """
    door = door_of(context)
    answer = door.app().approve(None, ref, principal=door.principal(principal), expect=expect)
    return say_answer(door, answer, Exit.CLI_DECIDE, wanted="approved")


def deny(
    context: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The ref of the call that waits.")],
    reason: Annotated[
        str | None, typer.Option(metavar="R", help="Why; told to persons, and can be forgotten.")
    ] = None,
    principal: Principal = None,
) -> int:
    """Deny a call that waits for a person: it never happens."""
    door = door_of(context)
    answer = door.app().deny(None, ref, principal=door.principal(principal), reason=reason)
    return say_answer(door, answer, Exit.CLI_DECIDE, wanted="denied")
