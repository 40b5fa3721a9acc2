"""``call`` and ``restore``: what changes the world, each in a transaction of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from takeback.cli.door import Door, door_of
from takeback.cli.failure import DONE, NO_SUCH_REF, SEE_LIST, UNAVAILABLE, exit_of
from takeback.cli.sheet import answer_block
from takeback.cli.typed import arguments_of
from takeback.cli.voice import plain

if TYPE_CHECKING:
    from takeback.model.envelope import Envelope

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
) -> int:
    """Call a tool, in a transaction of its own.

    Prints the answer: what became of it, what it affects, and how to take it back.
    """
    door = door_of(context)
    arguments = arguments_of(args)
    answer = door.app().call(
        None,
        tool,
        arguments,
        run=run,
        principal=door.principal(principal),
        expect=expect,
        repeat_of=repeat_of,
    )
    return _answered(door, answer)


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
    return _answered(door, answer)


def _answered(door: Door, answer: Envelope) -> int:
    error = answer.get("error")
    code = exit_of(error["code"] if error else None)
    if door.voice.json_wanted:
        door.voice.document(answer.to_dict())
        return code
    lines = answer_block(door.voice, answer, door.app_option)
    if code == DONE:
        door.voice.lines(lines)
        return code
    for line in lines:
        door.voice.note(line)
    hints = door.whereabouts() if code == UNAVAILABLE else []
    for line in [*hints, *([SEE_LIST] if code == NO_SUCH_REF else [])]:
        door.voice.note(f"  {plain(line)}")
    return code
