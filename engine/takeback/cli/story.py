"""``demo`` and ``bench``: the example and the project's own measurements, which live elsewhere."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
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
    *,
    what: Annotated[
        str | None,
        typer.Argument(metavar="[recovery]", help="What becomes of malformed calls, instead."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the time, and less certain figures.")
    ] = False,
    broker: Annotated[
        list[str] | None,
        typer.Option(
            "--broker", metavar="URL", help="Through this one too, in place of the setting's."
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", min=1, help="recovery: so many calls, not all."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="FILE", help="recovery: keep the figures in this file."),
    ] = None,
) -> int:
    """Measure what recording and carrying out cost here.

    The bare database is measured beside it, in the same run. With recovery: how a caller that
    reads only our answers gets on from malformed calls.
    """
    json_output = door_of(context).voice.json_wanted
    if what is None:
        if sample is not None or store is not None:
            raise Usage("--sample and --store are of: takeback bench recovery")
        from takeback.bench.run import main

        return main(json_output=json_output, quick=quick, brokers=broker or ())
    if what != "recovery" or quick or broker:
        raise Usage(f"{what!r} is no measurement of its own; next: takeback bench recovery")
    try:
        from takeback.bench import recovery

        return recovery.main(json_output=json_output, count=sample, store=store)
    except ModuleNotFoundError as problem:
        raise Usage(
            f"this needs {problem.name!r}, which is not installed; "
            'next: pip install "takeback[embedded]"'
        ) from problem
