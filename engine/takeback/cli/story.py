"""``demo`` and ``bench``: the example and the project's own measurements, which live elsewhere."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from takeback.cli.door import door_of
from takeback.cli.failure import Usage


def demo(context: typer.Context) -> int:
    """Watch an agent call, repeat, err and take back.

    On a Postgres and a mail server of its own, with the tools of the example shop.
    """
    door = door_of(context)
    try:
        shop = import_module("takeback_shop.demo")
    except ModuleNotFoundError as problem:
        raise Usage(
            f"the demo needs {problem.name!r}, which is not installed; "
            'next: pip install "takeback[embedded]"'
        ) from problem
    told: int = shop.main(json_output=door.voice.json_wanted)
    return told


def bench(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the time, and less certain figures.")
    ] = False,
) -> int:
    """Measure what recording and carrying out cost here.

    The bare database is measured beside it, in the same run.
    """
    from takeback.bench.run import main

    return main(json_output=door_of(context).voice.json_wanted, quick=quick)
