"""What a person decides: about a call that waits for them, and about one that is in doubt."""

from __future__ import annotations

from typing import Annotated

import typer

from takeback.cli.calling import Principal
from takeback.cli.door import door_of
from takeback.cli.handing import RETRIED, say_answer
from takeback.cli.typed import one_of
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


def retry(
    context: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The ref of what to try again.")],
    principal: Principal = None,
) -> int:
    """Have what is parked, or has failed, tried again.

    It is the next attempt of the same intent. What is parked may have happened already, and may
    then happen twice.
    """
    door = door_of(context)
    answer = door.app().retry(None, ref, principal=door.principal(principal))
    return say_answer(door, answer, Exit.CLI_DECIDE, wanted=RETRIED)


def resolve(
    context: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The ref of what is in doubt.")],
    as_: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="succeeded|failed|unknown",
            parser=one_of("--as", ("succeeded", "failed", "unknown")),
            help="What became of it.",
        ),
    ],
    note: Annotated[
        str | None,
        typer.Option(metavar="N", help="How you know; told to persons, and can be forgotten."),
    ] = None,
    principal: Principal = None,
) -> int:
    """Say what became of what is in doubt, or parked.

    Once you have found out. Nobody is asked about it any more.
    """
    door = door_of(context)
    app = door.app()
    answer = app.resolve(None, ref, as_, principal=door.principal(principal), note=note)
    return say_answer(door, answer, Exit.CLI_DECIDE, wanted=as_)
