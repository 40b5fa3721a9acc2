"""The entry point: which verb, what it is handed, and with which exit code the process ends.

--json and --app are of every verb, and may stand before or after it: they are moved to the front
before anything is parsed. Nothing but this module ends the process, and no traceback reaches a
person: what nobody foresaw is said in one line, and its details lie in a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Annotated, NoReturn

import typer
import typer.main
from typer.core import TyperGroup

from takeback.cli import (
    braking,
    calling,
    connecting,
    deciding,
    declaring,
    doctor,
    failure,
    looking,
    proving,
    story,
    working,
)
from takeback.cli.door import Door, door_of
from takeback.cli.failure import Usage
from takeback.cli.voice import OutputLost, ReaderGone, Voice, forget_stdout, use_streams
from takeback.model.errors import BrokerUnavailable, TakebackError

EVERYWHERE = "Before or after the verb: --app MODULE:ATTRIBUTE, --json."


verbs = typer.Typer(
    subcommand_metavar="VERB [ARGS]...",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, 1 refused or failed check, 2 usage, 3 no such ref, "
    "4 database or broker unavailable.",
)
catalog = typer.Typer(rich_markup_mode=None, subcommand_metavar="VERB [ARGS]...")
connectors = typer.Typer(rich_markup_mode=None, subcommand_metavar="VERB [ARGS]...")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"takeback {version('takeback')}")
        raise typer.Exit


@verbs.callback()
def root(
    context: typer.Context,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ATTRIBUTE",
            help="The app; else TAKEBACK_APP, else [tool.takeback] in pyproject.toml.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, failures included.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """What agents do to the world: recorded once, undoable for a while, never silently repeated."""
    if app is not None:
        door_of(context).name_app(app)


def _example(*lines: str) -> str:
    """The end of a verb's help; the mark keeps the lines as they are."""
    return "\n".join(["\b", "Example:", *(f"  {line}" for line in lines), "", EVERYWHERE])


verbs.command("demo", epilog=_example("takeback demo"))(story.demo)
verbs.command("up", epilog=_example("takeback --app shop.app:app up"))(working.up)
verbs.command("migrate", epilog=_example("takeback migrate"))(proving.migrate)
verbs.command("doctor", epilog=_example("takeback doctor", "takeback --json doctor"))(doctor.doctor)
verbs.command(
    "call",
    epilog=_example(
        'takeback call update_ticket --args \'{"ticket_id": "T-7", "status": "closed"}\'',
        "takeback call refund_charge --args @refund.json --run run-42",
    ),
)(calling.call)
verbs.command(
    "amend",
    epilog=_example(
        'takeback amend send_customer_email-7F3K9QDM --args \'{"note": "See you on Monday."}\''
    ),
)(calling.amend)
verbs.command(
    "preview",
    epilog=_example('takeback preview delete_customer --args \'{"customer_id": "C-1"}\''),
)(calling.preview)
verbs.command("restore", epilog=_example("takeback restore update_ticket-7F3K9QDM"))(
    calling.restore
)
verbs.command("list", epilog=_example("takeback list --state held --since 2h"))(
    looking.list_intents
)
verbs.command("show", epilog=_example("takeback show update_ticket-7F3K9QDM --full"))(looking.show)
verbs.command(
    "approve", epilog=_example("takeback approve refund_charge-7F3K9QDM --expect 1f0c2e9a41b7d655")
)(deciding.approve)
verbs.command(
    "deny", epilog=_example("takeback deny refund_charge-7F3K9QDM --reason 'paid back already'")
)(deciding.deny)
verbs.command("retry", epilog=_example("takeback retry refund_charge-7F3K9QDM"))(deciding.retry)
verbs.command(
    "resolve",
    epilog=_example("takeback resolve refund_charge-7F3K9QDM --as succeeded --note 'seen'"),
)(deciding.resolve)
verbs.command("worker", epilog=_example("takeback worker", "takeback worker --drain"))(
    working.worker
)
verbs.command("ticker", epilog=_example("takeback ticker", "takeback ticker --stand-in"))(
    working.ticker
)
verbs.command(
    "freeze",
    epilog=_example(
        "takeback freeze --tool refund_charge --reason 'refunds twice'",
        "takeback freeze --all --reason 'we look at it first'",
    ),
)(braking.freeze)
verbs.command("thaw", epilog=_example("takeback thaw --tool refund_charge --reason mended"))(
    braking.thaw
)
verbs.add_typer(
    connectors,
    name="connectors",
    help="See what goes through each connector, or end a pause.",
    epilog=_example("takeback connectors list"),
)
connectors.command("list", epilog=_example("takeback connectors list"))(connecting.list_lanes)
connectors.command("resume", epilog=_example("takeback connectors resume stripe"))(
    connecting.resume
)
verbs.command("verify", epilog=_example("takeback verify"))(proving.verify)
verbs.command("rebuild", epilog=_example("takeback rebuild"))(proving.rebuild)
verbs.command(
    "events", epilog=_example("takeback events --after 1200", "takeback events --follow")
)(looking.events)
verbs.add_typer(
    catalog,
    name="catalog",
    help="Check a declaration file, or see an app's tools.",
    epilog=_example("takeback catalog check shop/catalog.py"),
)
catalog.command("check", epilog=_example("takeback catalog check shop/catalog.py"))(declaring.check)
catalog.command("list", epilog=_example("takeback catalog list"))(declaring.list_rows)
catalog.command("show", epilog=_example("takeback catalog show update_ticket"))(declaring.show_row)
verbs.command("bench", epilog=_example("takeback bench --quick"))(story.bench)


def parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of every verb, and the rest; nothing behind ``--`` is an option.

    >>> parted(["list", "--json", "--app", "shop:app", "--state", "held"])
    (['--json', '--app', 'shop:app'], ['list', '--state', 'held'])
    """
    everywhere: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        one = waiting.pop(0)
        if one == "--":
            return everywhere, [*rest, one, *waiting]
        if one == "--json" or one.startswith("--app="):
            everywhere.append(one)
        elif one == "--app":
            everywhere += [one, *waiting[:1]]
            waiting = waiting[1:]
        else:
            rest.append(one)
    return everywhere, rest


def run(arguments: Sequence[str]) -> int:
    """Runs one command and says what comes of it; answers with the exit code.

    Raises what nobody foresaw.
    """
    everywhere, rest = parted(arguments)
    voice = Voice(json_wanted="--json" in everywhere)
    door = Door(voice=voice, environ=os.environ, directory=Path.cwd())
    try:
        code = _run(door, everywhere, rest)
        voice.flush()
    except ReaderGone:
        forget_stdout()
        return failure.READER_GONE
    except OutputLost as lost:
        forget_stdout()
        voice.note(f"takeback: {lost}")
        return failure.REFUSED
    if door.threads_abandoned:
        from takeback.process import leave

        leave(code)
    return code


def _run(door: Door, everywhere: list[str], rest: list[str]) -> int:
    try:
        code = _verb(door, everywhere, rest)
        if code == failure.INTERRUPTED:
            return failure.of_interruption().say(door.voice)
        return code
    except typer.TyperException as problem:
        return failure.of_usage(problem, _path(rest)).say(door.voice)
    except TakebackError as problem:
        told = failure.of_error(problem)
        if isinstance(problem, BrokerUnavailable):
            hints = door.broker_whereabouts(problem)
            message = f"{told.message}: {'; '.join(hints[:-1])}"
            told = replace(told, message=message if door.voice.json_wanted else told.message)
            return replace(told, hints=hints).say(door.voice)
        if told.exit == failure.UNAVAILABLE and not door.voice.json_wanted:
            told = replace(told, hints=door.whereabouts())
        return told.say(door.voice)
    finally:
        door.close()


def _verb(door: Door, everywhere: list[str], rest: list[str]) -> int:
    """Parses, and runs the verb. Raises what the verb raises, and TyperException."""
    command = typer.main.get_command(verbs)
    for number, one in enumerate([*everywhere, *rest], 1):
        if not one.isascii():
            _require_text(number, one)
    if not rest and not everywhere:
        command.main(args=["--help"], prog_name="takeback", standalone_mode=False, obj=door)
        return failure.USAGE
    _require_verb(command, rest)
    answered = command.main(
        args=[*everywhere, *rest], prog_name="takeback", standalone_mode=False, obj=door
    )
    return answered if isinstance(answered, int) else failure.DONE


def _require_text(number: int, argument: str) -> None:
    try:
        argument.encode()
    except UnicodeEncodeError:
        shown = argument[: failure.SHOWN_MAX]
        raise Usage(f"argument {number} is no UTF-8: {shown!r}; expected text") from None


def _path(rest: Sequence[str]) -> str:
    """What was meant, as far as it is there: ``takeback catalog check``."""
    path, level = ["takeback"], typer.main.get_command(verbs)
    for word in rest:
        if not isinstance(level, TyperGroup) or word not in level.commands:
            break
        path.append(word)
        level = level.commands[word]
    return " ".join(path)


def _require_verb(level: object, rest: Sequence[str]) -> None:
    """A verb that is not there, or not said, is answered with those that are."""
    for word in rest:
        if not isinstance(level, TyperGroup) or word.startswith("-"):
            return
        if word not in level.commands:
            raise Usage(
                f"there is no verb {word[: failure.SHOWN_MAX]!r}; "
                f"expected one of: {', '.join(level.commands)}"
            )
        level = level.commands[word]
    if isinstance(level, TyperGroup):
        raise Usage(f"no verb was said; expected one of: {', '.join(level.commands)}")


def main() -> NoReturn:
    """Runs the command line of this process, and ends it."""
    use_streams()
    sys.excepthook = _unforeseen
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = failure.INTERRUPTED
    except SystemExit as problem:
        # Typer's, when nobody reads its help; else an app's, which must not be taken for our word.
        if isinstance(problem.__context__, OSError):
            raise
        _unforeseen(SystemExit, problem, problem.__traceback__)
        code = failure.REFUSED
    sys.exit(code)


def _unforeseen(
    kind: type[BaseException], problem: BaseException, trace: TracebackType | None
) -> None:
    """Says in one line what nobody foresaw; the interpreter ends with 1."""
    told = failure.of_fault(problem, failure.keep_report(kind, problem, trace))
    everywhere, _ = parted(sys.argv[1:])
    told.say(Voice(json_wanted="--json" in everywhere))


if __name__ == "__main__":
    main()
