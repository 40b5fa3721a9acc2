"""``migrate``, ``verify`` and ``rebuild``: what keeps the ledger sound."""

from __future__ import annotations

from typing import Any

import typer

from takeback.cli.door import door_of
from takeback.cli.failure import DONE, REFUSED, Failure
from takeback.cli.foreign import Foreign
from takeback.cli.sheet import columns
from takeback.cli.voice import Voice

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
    found = [
        {
            "ref": one.ref,
            "intent_id": None if one.intent_id is None else str(one.intent_id),
            "version": one.version,
            "what": one.what,
        }
        for one in verdict.problems
    ]
    counts = {"intents": verdict.intents, "events": verdict.events}
    said = f"{verdict.intents} intents, {verdict.events} events"
    if not found:
        return _sound(door.voice, counts | {"problems": []}, f"{said}: all of it proves")
    message = f"{said}: {len(found)} of them do not prove"
    rows = [(one["ref"] or one["intent_id"] or "-", one["version"], one["what"]) for one in found]
    listed = columns(door.voice, ("ref", "event", "problem"), _cells(rows))
    return _unsound(door.voice, message, counts | {"problems": found}, listed, len(found))


def rebuild(context: typer.Context) -> int:
    """Fold the log again, and compare.

    What is shown differently from what the log says is named, and put right.
    """
    door = door_of(context)
    app = door.ledger()
    with door.voice.progress("rebuilding") as progress:
        rebuilt = app.rebuild(progress=progress)
    counts = {"intents": rebuilt.intents}
    found = [str(one) for one in rebuilt.differing]
    if not found:
        said = f"{rebuilt.intents} intents: each is shown as the log says"
        return _sound(door.voice, counts | {"differing": []}, said)
    message = f"{rebuilt.intents} intents: {len(found)} were shown differently, and are put right"
    return _unsound(door.voice, message, counts | {"differing": found}, found, len(found))


def _cells(rows: list[tuple[Any, ...]]) -> list[list[str]]:
    return [["-" if cell is None else str(cell) for cell in row] for row in rows[:SHOWN_MAX]]


def _sound(voice: Voice, document: dict[str, Any], said: str) -> int:
    if voice.json_wanted:
        voice.document({"status": "done", **document})
    else:
        voice.line(said)
    return DONE


def _unsound(
    voice: Voice, message: str, document: dict[str, Any], listed: list[str], count: int
) -> int:
    failure = Failure(
        exit=REFUSED,
        code="ledger_corrupt",
        class_="terminal",
        message=message,
        status="refused",
        beside=document,
    )
    if voice.json_wanted:
        voice.document(failure.document())
        return failure.exit
    voice.lines(listed)
    if count > SHOWN_MAX:
        voice.line(f"and {count - SHOWN_MAX} more; --json has all of them")
    for line in failure.lines():
        voice.note(line)
    return failure.exit
