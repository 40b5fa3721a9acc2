"""``migrate``, ``verify`` and ``rebuild``: what keeps the ledger sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from takeback.cli.door import door_of
from takeback.cli.failure import DONE, REFUSED, Failure
from takeback.cli.foreign import Foreign
from takeback.cli.sheet import columns
from takeback.cli.voice import Voice

if TYPE_CHECKING:
    from takeback.audit.proof import Problem

SHOWN_MAX = 100
"""So many problems are listed to people; the document has all."""


def migrate(context: typer.Context) -> int:
    """Bring the schema to this release.

    Then the app's own steps are run. Safe to repeat, and from several processes at once.
    """
    door = door_of(context)
    app = door.ledger()
    with Foreign("the migration failed"):
        before, after = app.migrate()
    named = door.settings.app
    if door.voice.json_wanted:
        door.voice.document({"status": "done", "before": before, "after": after, "app": named})
        return DONE
    if before == after:
        door.voice.line(f"the schema is at {after} already")
    else:
        door.voice.line(f"the schema went from {before or 'nothing'} to {after}")
    if named is None:
        door.voice.note("no app is named, so only the ledger was migrated")
    return DONE


def verify(context: typer.Context) -> int:
    """Prove that the log is whole and unchanged.

    Every chain of events, every body beside it, and that folding it gives what is shown.
    """
    door = door_of(context)
    app = door.ledger()
    with door.voice.progress("verifying") as progress:
        verdict = app.verify(progress=progress)
    said = f"{verdict.intents} intents, {verdict.events} events"
    document = {
        "intents": verdict.intents,
        "events": verdict.events,
        "problems": [_problem(one) for one in verdict.problems],
        "unlisted": verdict.unlisted,
    }
    count = len(verdict.problems) + verdict.unlisted
    if not count:
        return _sound(door.voice, document, f"{said}: all of it proves")
    failure = _unsound(document, f"{said}: {count} {_problems(count)} found")
    return _told(door.voice, failure, _table(door.voice, verdict.problems), count)


def rebuild(context: typer.Context) -> int:
    """Fold the log again, and compare.

    What is shown differently from what the log says is named, and put right, unless the log itself
    does not prove. Ends with 1 when there was any.
    """
    door = door_of(context)
    app = door.ledger()
    with door.voice.progress("rebuilding") as progress:
        rebuilt = app.rebuild(progress=progress)
    document = {
        "intents": rebuilt.intents,
        "differing": [
            {
                "ref": one.ref or None,
                "intent_id": str(one.intent_id),
                "tenant": one.tenant,
                "columns": list(one.columns),
            }
            for one in rebuilt.differing
        ],
        "refused": [_problem(one) for one in rebuilt.refused],
    }
    differing, refused = len(rebuilt.differing), len(rebuilt.refused)
    if not differing and not refused:
        said = f"{rebuilt.intents} intents: each is shown as the log says"
        return _sound(door.voice, document, said)
    message = f"{rebuilt.intents} intents: {differing} shown differently, and put right"
    if refused:
        message += f"; {refused} {_problems(refused)} in the log itself, and left as they are"
    rows = [(one.ref or str(one.intent_id), ", ".join(one.columns)) for one in rebuilt.differing]
    listed = columns(door.voice, ("ref", "put right"), rows[:SHOWN_MAX]) if rows else []
    if refused:
        listed += (
            ["", *_table(door.voice, rebuilt.refused)]
            if rows
            else _table(door.voice, rebuilt.refused)
        )
    return _told(door.voice, _unsound(document, message), listed, differing + refused)


def _problem(one: Problem) -> dict[str, Any]:
    return {
        "ref": one.ref or None,
        "intent_id": str(one.intent_id),
        "tenant": one.tenant,
        "version": one.version,
        "what": one.what,
    }


def _problems(count: int) -> str:
    return "problem" if count == 1 else "problems"


def _table(voice: Voice, problems: Sequence[Problem]) -> list[str]:
    rows = [
        (
            one.ref or str(one.intent_id),
            "-" if one.version is None else str(one.version),
            one.what,
        )
        for one in problems[:SHOWN_MAX]
    ]
    return columns(voice, ("ref", "event", "problem"), rows)


def _sound(voice: Voice, document: Mapping[str, Any], said: str) -> int:
    if voice.json_wanted:
        voice.document({"status": "done", **document})
    else:
        voice.line(said)
    return DONE


def _unsound(document: Mapping[str, Any], message: str) -> Failure:
    return Failure(
        exit=REFUSED,
        code="ledger_corrupt",
        class_="terminal",
        message=message,
        status="refused",
        beside=document,
    )


def _told(voice: Voice, failure: Failure, listed: Sequence[str], count: int) -> int:
    if not voice.json_wanted:
        voice.lines(listed)
        if count > SHOWN_MAX:
            voice.line(f"there are {count} in all; --json lists more")
    return failure.say(voice)
