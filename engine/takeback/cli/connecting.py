"""``connectors``: what goes through each, which an outage pauses, and a person's end of a pause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeback.cli.calling import Principal
from takeback.cli.door import door_of
from takeback.cli.failure import DONE
from takeback.cli.lane import lane_cells, lane_document, pause_note, unused_document
from takeback.cli.sheet import columns, field
from takeback.cli.voice import plain

if TYPE_CHECKING:
    from takeback.app import Takeback

HEADINGS = ("  connector", "under way", "due", "tokens", "state")


def list_lanes(context: typer.Context) -> int:
    """List the connectors, and which of them is paused.

    What is under way, what is due, and why nothing leaves. Needs no app; with one, those that no
    worker has come to yet are there too.
    """
    door = door_of(context)
    documents = lanes_of(door.ledger())
    if door.voice.json_wanted:
        door.voice.document({"status": "done", "connectors": documents})
        return DONE
    if not documents:
        door.voice.line("there is no connector")
        return DONE
    notes = [note for one in documents if (note := pause_note(one)) is not None]
    door.voice.lines(
        [
            *columns(door.voice, HEADINGS, [lane_cells(one) for one in documents]),
            *(f"note: {plain(note)}" for note in notes),
        ]
    )
    return DONE


def lanes_of(app: Takeback) -> list[dict[str, Any]]:
    """The connectors of the ledger, and of the app. Raises LedgerClosed where there is none."""
    from takeback.model.errors import LedgerClosed
    from takeback.process import NO_LEDGER

    health = app.health()
    if health.revision is None:
        raise LedgerClosed(NO_LEDGER)
    known = app.registry.connectors
    return [lane_document(one, known, health.now) for one in health.lanes] + [
        unused_document(known[name])
        for name in sorted(known.keys() - {one.lane.name for one in health.lanes})
    ]


def resume(
    context: typer.Context,
    connector: Annotated[
        str, typer.Argument(metavar="NAME", help="The connector, as `list` shows it.")
    ],
    principal: Principal = None,
) -> int:
    """End the pause of a connector.

    Its provider is back, and no probe has found it yet. What is due leaves as fast as its row
    allows. A probe that is under way goes on. As many failures in a row as ever pause it again.
    """
    door = door_of(context)
    resumed = door.ledger().resume(connector, principal=door.principal(principal))
    since = None
    if resumed.paused_since is not None:
        from takeback.model.moment import iso

        since = iso(resumed.paused_since)
    if door.voice.json_wanted:
        door.voice.document(
            {
                "status": "done",
                "connector": resumed.connector,
                "paused_since": since,
                "failures": resumed.failures,
            }
        )
        return DONE
    was = f"paused since {since}, {resumed.failures} failures in a row" if since else "not paused"
    door.voice.lines([field("resumed", resumed.connector), field("was", was)])
    return DONE
