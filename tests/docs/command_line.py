"""What the command line makes of a line: which verb it is, and whether its options are there."""

import shlex
from typing import Any

import typer.main

from takeback.cli.main import parted, verbs

EVERYWHERE = {"--app", "--json", "--help", "--version"}


def parse(line: str) -> str:
    """The verb of a whole command, with all that it needs; raises typer's refusal otherwise.

    >>> parse("takeback list --state held --json  # what waits")
    'takeback list'
    """
    everywhere, rest = parted(shlex.split(line, comments=True)[1:])
    level: Any = typer.main.get_command(verbs)
    context = level.make_context("takeback", [*everywhere, *rest])
    while hasattr(level, "commands"):
        words = [*context._protected_args, *context.args]
        name, level, words = level.resolve_command(context, words)
        context = level.make_context(name, words, parent=context)
    return str(context.command_path)


def unknown(line: str) -> list[str]:
    """What a command in a sentence names that there is not: its verb, or options.

    >>> unknown("takeback show REF --full"), unknown("takeback shew"), unknown("takeback up --x")
    ([], ['shew'], ['--x'])
    """
    level: Any = typer.main.get_command(verbs)
    _, *words = line.split()
    while hasattr(level, "commands"):
        name = next((word for word in words if not word.startswith("-")), "")
        if name == "VERB":
            return []
        if name not in level.commands:
            return [name]
        words.remove(name)
        level = level.commands[name]
    known = EVERYWHERE.union(*(one.opts + one.secondary_opts for one in level.params))
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    return [option for option in options if option not in known]
