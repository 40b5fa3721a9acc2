"""``list``, ``show`` and ``events``: what was recorded. They change nothing, and need no app.

Without an app there are no sentences of the tools, and nothing is said of how to take back.
"""

from __future__ import annotations

import select
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeback.cli.asking import approval_of, can_of, doubt_of
from takeback.cli.attempt import attempts_told, verdict_of
from takeback.cli.door import Door, door_of
from takeback.cli.failure import DONE, NO_SUCH_REF, Failure, Usage
from takeback.cli.handing import say_intent, say_list
from takeback.cli.hindering import hindrances_of
from takeback.cli.sheet import event_of, field
from takeback.cli.typed import LIMIT_MAX, POSITION_MAX, number_within, span_of, state_of
from takeback.cli.voice import ReaderGone, plain
from takeback.model.door import Door as Exit

if TYPE_CHECKING:
    from takeback.app import Takeback
    from takeback.client.looking import Shown
    from takeback.ledger.barrier import Page
    from takeback.ledger.faults import Fault

PAGE = 500
FOLLOW_SECONDS = 0.25
"""How often ``--follow`` looks when nothing comes."""

AWAY_SECONDS = 1.0
"""How long it waits for a database that is away."""


def list_intents(
    context: typer.Context,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only in this state, such as held, in_doubt or succeeded.")
    ] = None,
    tool: Annotated[str | None, typer.Option(help="Only of this tool.")] = None,
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Only as old as this: 30m, 2h, 7d.")
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=number_within("--limit", 1, LIMIT_MAX),
            help="At most so many, 1000 at most.",
        ),
    ] = 50,
) -> int:
    """List intents, the newest first."""
    door = door_of(context)
    wanted, span = state_of(state), span_of(since)
    found = door.ledger().list(state=wanted, tool=tool, run=run, since=span, limit=limit)
    say_list(door, found, Exit.CLI_LIST)
    return DONE


def show(
    context: typer.Context,
    ref: Annotated[
        str,
        typer.Argument(
            metavar="REF", help="The ref, as every answer shows it; or a refusal's trace id."
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Also the arguments, the result and every row.")
    ] = False,
) -> int:
    """Show one intent with its timeline, or the fault of a trace id."""
    from takeback.client.looking import is_trace_id

    door = door_of(context)
    if is_trace_id(ref):
        return _find_fault(door, ref)
    app = door.ledger()
    shown = app.show(ref)
    answer = shown.envelope
    if door.settings.app is None:
        reason = "no app is named, so its catalog is not known"
        answer = answer.amended({"restore": None, "no_restore": reason})
    everything = Exit.CLI_SHOW_FULL if full else None
    beside = _beside(shown) | hindrances_of(app, shown)
    say_intent(door, answer, beside, Exit.CLI_SHOW, full=everything)
    return DONE


_LOGGED = "with `TAKEBACK_LOG=json`, the event `answered` of this trace_id"


def _find_fault(door: Door, trace_id: str) -> int:
    """The fault, or where else an answer with that trace id is found."""
    from takeback.model.errors import NoSuchRef

    try:
        fault = door.ledger().fault(trace_id)
    except NoSuchRef as problem:
        return Failure(
            exit=NO_SUCH_REF,
            code=problem.code,
            class_="invalid_request",
            message=f"no fault is kept under the trace id {trace_id}",
            hints=(
                "an answer that names a ref: see `takeback show REF`",
                f"a refusal that recorded nothing is in the log alone, of who answered: {_LOGGED}",
            ),
            status="refused",
        ).say(door.voice)
    return _show_fault(door, fault)


def _show_fault(door: Door, fault: Fault) -> int:
    from takeback.model.moment import iso

    document = {**asdict(fault), "at": iso(fault.at)}
    if door.voice.json_wanted:
        door.voice.document(document)
        return DONE
    labels = ("trace_id", "at", "tool", "run", "principal", "effect", "kind")
    door.voice.lines([field(name, document[name]) for name in labels if document[name] is not None])
    door.voice.lines(["", *map(plain, fault.details.splitlines())])
    return DONE


def _beside(shown: Shown) -> dict[str, Any]:
    """What an operator sees of an intent beside its lean answer."""
    from takeback.model.moment import iso

    intent = shown.entry.intent
    return {
        "state": intent.state.value,
        "tool": intent.tool,
        "tool_version": intent.tool_version,
        "run": intent.run,
        "principal": intent.principal,
        "recorded_at": iso(intent.recorded_at),
        "due_at": iso(intent.due_at) if intent.due_at else None,
        "settled_at": iso(intent.settled_at) if intent.settled_at else None,
        "attempt": intent.attempt,
        "approval": approval_of(shown),
        "doubt": doubt_of(shown),
        "can": can_of(shown),
        "verdict": verdict_of(shown),
        "attempts": attempts_told(shown),
        "events": [event_of(stored, intent.ref) for stored in shown.events],
    }


def events(
    context: typer.Context,
    after: Annotated[
        int,
        typer.Option(
            metavar="N",
            parser=number_within("--after", 0, POSITION_MAX),
            help="Only behind this position.",
        ),
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what comes, until interrupted.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=number_within("--limit", 1, POSITION_MAX),
            help="At most so many; all of them if not said.",
        ),
    ] = None,
) -> int:
    """Print the log, an event a line, as JSON.

    In order and without gaps, however many write to it. With --json it is one document: the
    events, and the position to go on from.
    """
    door = door_of(context)
    app = door.ledger()
    if follow:
        if door.voice.json_wanted:
            raise Usage("--follow has no end, so it is no one document; expected it without --json")
        return _follow(door, app, after, limit)
    if door.voice.json_wanted:
        door.voice.document(_document(list(_pages(app, after, limit))))
        return DONE
    for page, told in _pages(app, after, limit):
        _print(door, told)
        _tell_held_back(door, page)
    return DONE


def _look(app: Takeback, after: int, wanted: int) -> tuple[Page, list[dict[str, Any]]]:
    """The next page, and its events as they are told."""
    page = app.events(after, limit=wanted)
    refs = app.refs(page.events) if page.events else {}
    return page, [event_of(stored, refs.get(stored.intent_id)) for stored in page.events]


def _pages(
    app: Takeback, after: int, limit: int | None
) -> Iterator[tuple[Page, list[dict[str, Any]]]]:
    """The log as far as it is there, at most ``limit`` events of it."""
    left = limit
    while left is None or left > 0:
        wanted = PAGE if left is None else min(PAGE, left)
        page, told = _look(app, after, wanted)
        yield page, told
        if len(told) < wanted:
            return
        after = page.safe_position
        left = None if left is None else left - len(told)


def _document(pages: Sequence[tuple[Page, list[dict[str, Any]]]]) -> dict[str, Any]:
    last, _ = pages[-1]
    return {
        "events": [event for _, told in pages for event in told],
        "safe_position": last.safe_position,
        "held_back_by": list(last.held_back_by),
        "age_seconds": last.age_seconds,
    }


def _follow(door: Door, app: Takeback, after: int, limit: int | None) -> int:
    """Prints what comes. A database that goes away is waited for; one must be there at first."""
    from takeback.model.errors import Unavailable

    seen = told_away = told_held = False
    left = limit
    while left is None or left > 0:
        try:
            page, told = _look(app, after, PAGE if left is None else min(PAGE, left))
        except Unavailable as problem:
            if not seen:
                raise
            if not told_away:
                door.voice.note(f"takeback: {problem}; waiting for it")
            told_away = True
            _wait(door, AWAY_SECONDS)
            continue
        seen = True
        if told_away:
            door.voice.note("takeback: the database is back")
            told_away = False
        _print(door, told)
        after = page.safe_position
        left = None if left is None else left - len(told)
        if page.held_back_by and not told_held:
            _tell_held_back(door, page)
        told_held = bool(page.held_back_by)
        if not told:
            _wait(door, FOLLOW_SECONDS)
    return DONE


def _print(door: Door, told: Sequence[dict[str, Any]]) -> None:
    for event in told:
        door.voice.document(event)
    door.voice.flush()


def _tell_held_back(door: Door, page: Page) -> None:
    if page.held_back_by:
        who = ", ".join(map(str, page.held_back_by))
        door.voice.note(
            f"takeback: held back by database process {who}, whose transaction has been open for "
            f"{page.age_seconds:.0f} s; nothing is skipped"
        )


def _wait(door: Door, seconds: float) -> None:
    """Waits, unless whoever reads stdout goes away meanwhile."""
    watched = select.poll()
    if door.voice.stdout is not None and not door.voice.on_terminal:
        # Only errors are asked for: those that say that the other end of a pipe is closed.
        watched.register(door.voice.stdout, 0)
    if watched.poll(seconds * 1000):
        raise ReaderGone
