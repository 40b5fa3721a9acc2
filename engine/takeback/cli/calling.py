"""``call``, ``restore`` and ``preview``: each in a transaction of its own; the last is undone."""

from __future__ import annotations

from typing import Annotated

import typer

from takeback.cli.door import door_of
from takeback.cli.failure import Usage
from takeback.cli.handing import say_answer
from takeback.cli.typed import arguments_of, instant_of
from takeback.model.door import Door as Exit

Principal = Annotated[
    str | None,
    typer.Option(help="Who acts: a name, user:NAME or agent:NAME; the system's user if not said."),
]
Run = Annotated[str | None, typer.Option(help="The run that it belongs to; none if not said.")]


def call(
    context: typer.Context,
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="The tool's name, as `catalog list` shows it.")
    ],
    *,
    args: Annotated[
        str, typer.Option(metavar="JSON", help="Its arguments; @FILE reads a file, - reads stdin.")
    ] = "{}",
    run: Run = None,
    principal: Principal = None,
    expect: Annotated[
        str | None, typer.Option(help="What a preview answered: refused if it has changed.")
    ] = None,
    repeat_of: Annotated[
        str | None,
        typer.Option(metavar="REF", help="Do once more, on purpose, what REF has done."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="REF", help="Wait until REF has succeeded; said once for each."),
    ] = None,
    not_before: Annotated[
        str | None,
        typer.Option(metavar="INSTANT", help="Not before, such as 2026-11-29T14:05:10Z."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also everything behind the answer; for people alone.")
    ] = False,
) -> int:
    """Call a tool, in a transaction of its own.

    Prints the answer: what became of it, what it affects, and how to take it back.
    """
    door = door_of(context)
    arguments = arguments_of(args)
    if full and (principal or "").strip().startswith("agent:"):
        raise Usage("--full is for people; expected no agent as --principal, or no --full")
    answer = door.app().call(
        None,
        tool,
        arguments,
        run=run,
        principal=door.principal(principal),
        expect=expect,
        repeat_of=repeat_of,
        after=after or (),
        not_before=None if not_before is None else instant_of(not_before),
    )
    return say_answer(door, answer, Exit.CLI_CALL, full=Exit.CLI_CALL_FULL if full else None)


def amend(
    context: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The ref of what has not begun yet.")],
    *,
    args: Annotated[
        str, typer.Option(metavar="JSON", help="The arguments that change; @FILE, or - for stdin.")
    ] = "{}",
    run: Run = None,
    principal: Principal = None,
) -> int:
    """Say a call otherwise that has not begun.

    It is taken back and recorded anew, with a fresh window: both or neither.
    """
    door = door_of(context)
    answer = door.app().amend(
        None, ref, arguments_of(args), run=run, principal=door.principal(principal)
    )
    return say_answer(door, answer, Exit.CLI_CALL)


def preview(
    context: typer.Context,
    tool: Annotated[
        str, typer.Argument(metavar="TOOL", help="The tool's name, as `catalog list` shows it.")
    ],
    *,
    args: Annotated[
        str, typer.Option(metavar="JSON", help="Its arguments; @FILE reads a file, - reads stdin.")
    ] = "{}",
    run: Run = None,
    principal: Principal = None,
) -> int:
    """Say what a call would affect, without making it.

    Prints what it would become, and what to hand to `call --expect`.
    """
    door = door_of(context)
    answer = door.app().preview(
        None, tool, arguments_of(args), run=run, principal=door.principal(principal)
    )
    return say_answer(door, answer, Exit.CLI_PREVIEW)


def restore(
    context: typer.Context,
    ref: Annotated[str, typer.Argument(metavar="REF", help="The ref of what is to be taken back.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also over what somebody else has changed since.")
    ] = False,
    run: Run = None,
    principal: Principal = None,
) -> int:
    """Take back what one call did, or will do.

    Asking twice is once.
    """
    door = door_of(context)
    answer = door.app().restore(
        None, ref, run=run, principal=door.principal(principal), force=force
    )
    return say_answer(door, answer, Exit.CLI_RESTORE)
