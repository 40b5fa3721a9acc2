"""``worker``, ``ticker`` and ``up``: processes that stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeback.cli.door import SHOP, Door, door_of
from takeback.cli.failure import DONE, REFUSED, Failure
from takeback.cli.foreign import Foreign
from takeback.cli.remainder import remainder_document, remainder_lines
from takeback.cli.sheet import field
from takeback.cli.typed import address_of, number_within

if TYPE_CHECKING:
    from takeback.process import Worked

CONCURRENCY_MAX = 64
"""Threads of one worker; a process is cheaper than more of them."""

MEMORY_MB_MAX = 2**20
"""A terabyte."""

Concurrency = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=number_within("--concurrency", 1, CONCURRENCY_MAX),
        help="How many attempts run beside each other; 4 if not said.",
    ),
]


Metrics = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        parser=address_of("--metrics"),
        help="Serve metrics there, or at a port of this machine alone; not served if not said.",
    ),
]


def worker(
    context: typer.Context,
    *,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop when nothing is due and nothing executing.")
    ] = False,
    concurrency: Concurrency = None,
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Whatever is due, of every tenant.")
    ] = False,
    memory_mb: Annotated[
        int | None,
        typer.Option(
            "--memory-mb",
            metavar="N",
            parser=number_within("--memory-mb", 64, MEMORY_MB_MAX),
            help="As much memory as its process may have, in place of the setting.",
        ),
    ] = None,
    metrics: Metrics = None,
) -> int:
    """Carry out what is due, of the tenant that is set.

    SIGTERM or Ctrl-C end it within ten seconds, a second one at once. --drain waits out the
    leases of workers that died, half a minute at most. A database that goes away is waited for.
    The log is on stderr.
    """
    from takeback import process

    door = door_of(context)
    worked = process.work(
        door.app(),
        drain=drain,
        concurrency=concurrency,
        all_tenants=all_tenants,
        memory_mb=memory_mb,
        metrics=metrics,
    )
    return _ended(door, worked)


def ticker(
    context: typer.Context,
    stand_in: Annotated[
        bool,
        typer.Option("--stand-in", help="Carry out what is due while the broker is away."),
    ] = False,
    metrics: Metrics = None,
) -> int:
    """Wake the workers of a broker for whatever falls due.

    They are started with `dramatiq takeback_workers.actors`. Any number of tickers may run.
    SIGTERM or Ctrl-C end one within ten seconds, a second one at once. A database or a broker
    that goes away is waited for, and calls are recorded meanwhile. The log is on stderr.
    """
    from takeback import process

    door = door_of(context)
    ticked = process.workers("ticker").tick(door.app(), stand_in=stand_in, metrics=metrics)
    door.threads_abandoned = ticked.abandoned
    ends = _ends(ticked)
    counts = {
        "published": ticked.published,
        "taken_over": ticked.taken_over,
        "performed": ticked.performed,
        **ends,
    }
    if door.voice.json_wanted:
        door.voice.document({"status": "done", **counts})
    else:
        has_stood_in = ticked.performed or any(ends.values())
        stood_in = f", itself carried out {ticked.performed}{_told(ends)}" if has_stood_in else ""
        door.voice.line(f"published {ticked.published}, taken over {ticked.taken_over}{stood_in}")
    return DONE


def up(context: typer.Context, concurrency: Concurrency = None) -> int:
    """Run everything at once on this machine.

    An embedded database if none is set, the schema, and a worker. Without an app it is the
    example shop. Ctrl-C ends it.
    """
    from takeback import process
    from takeback.settings import masked

    door = door_of(context)
    app = door.app(fallback=SHOP)
    with Foreign("the migration failed"):
        before, after = app.migrate()
    embedded = "" if app.settings.database_url else " (embedded: it ends with its last user)"
    shop = "" if door.settings.app else " (none was named: this is the example shop)"
    door.voice.lines(
        [
            field("database", f"{masked(app.database_url)}{embedded}"),
            field("schema", after if before == after else f"{before or 'nothing'} to {after}"),
            field("app", f"{door.settings.app or SHOP}{shop}"),
            field("worker", "runs; Ctrl-C ends it"),
        ]
    )
    door.voice.flush()
    return _ended(door, process.work(app, drain=False, concurrency=concurrency))


def _ended(door: Door, worked: Worked) -> int:
    door.threads_abandoned = worked.abandoned
    ends = _ends(worked)
    counts: dict[str, Any] = {
        "performed": worked.performed,
        **ends,
        "taken_over": worked.taken_over,
        "abandoned": worked.abandoned,
    }
    if worked.left is not None:
        counts["left"] = remainder_document(worked.left)
    if worked.exhausted:
        failure = Failure(
            exit=REFUSED,
            code="worker_exhausted",
            class_="transient",
            message=f"{worked.abandoned} attempts hang, and no thread is left for others",
            hints=("they are in doubt; start the worker again",),
            beside=counts,
        )
        return failure.say(door.voice)
    if door.voice.json_wanted:
        door.voice.document({"status": "done", **counts})
    else:
        carried_out = f"carried out {worked.performed}{_told(ends)}"
        door.voice.line(f"{carried_out}, taken over {worked.taken_over}")
        door.voice.lines([f"left {line}" for line in remainder_lines(worked.left or {})])
    return DONE


def _ends(counted: Any) -> dict[str, int]:
    """How many attempts of a worker, or of a ticker that stood in, did not succeed."""
    return {end: getattr(counted, end) for end in _SAID}


def _told(ends: Mapping[str, int]) -> str:
    return "".join(f", {_SAID[end]} {count}" for end, count in ends.items() if count)


_SAID = {"failed": "failed", "deferred": "put off", "in_doubt": "in doubt"}
"""What became of attempts that did not succeed."""
