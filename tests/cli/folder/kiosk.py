"""The app of these tests: walls to paint, notes to post, a bell to ring.

Handlers find what they need in the environment: KIOSK_BELL is a pipe on which the bell says that it
began to ring, and for which ref.
"""

import os
import threading
from pathlib import Path
from typing import Any, Literal

import psycopg
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.orm import Session

from takeback import (
    Affected,
    Attempt,
    Found,
    InvalidReference,
    NotDispatched,
    Original,
    Performed,
    Rejected,
    Takeback,
)
from takeback.declare import (
    BLIND,
    COMPENSATE,
    DIFFERS,
    GATED,
    OMIT,
    STAGING,
    Affects,
    Approval,
    Breaker,
    Catalog,
    Connector,
    Local,
    Read,
    Remote,
    Tool,
    Wording,
    seconds,
)

TABLES = """
CREATE SCHEMA IF NOT EXISTS kiosk;
CREATE TABLE IF NOT EXISTS kiosk.walls (id text PRIMARY KEY, colour text NOT NULL);
INSERT INTO kiosk.walls VALUES ('north', 'white'), ('south', 'white') ON CONFLICT DO NOTHING;
"""


class Paint(BaseModel):
    """A wall and its colour."""

    wall: str
    colour: Literal["white", "green", "blue"]


class Note(BaseModel):
    """A note to somebody."""

    to: str
    text: str = ""


class Ring(BaseModel):
    """How to ring."""

    bell: str
    how: Literal["once", "for_ever", "badly", "later", "never"] = "once"


class Amount(BaseModel):
    """An amount."""

    amount: int


class Words(BaseModel):
    """What is looked for."""

    words: str = ""


CATALOG = Catalog(
    Tool(
        "paint",
        Paint,
        effect=Local(),
        description="Paints a wall.",
        key=("wall", "colour"),
        tier=GATED,
        inline=True,
        exposure=STAGING,
        affects=Affects(kind="wall", id="wall"),
        wording=Wording(subject="Wall {wall} in {colour}", undo="paints it as it was"),
    ),
    Tool(
        "post",
        Note,
        effect=Remote(window=seconds(60), upstream=BLIND, attempt_seconds_max=0.5),
        description="Posts a note.",
        key=("to",),
        on_difference=DIFFERS,
        affects=Affects(kind="note", id="to"),
        wording=Wording(subject="Note to {to}", scheduled="leaves at {until} unless taken back"),
    ),
    Tool(
        "ring",
        Ring,
        effect=Remote(
            upstream=BLIND, reversal=COMPENSATE, attempt_seconds_max=0.5, connector="belfry"
        ),
        description="Rings a bell.",
        key=("bell", "how"),
    ),
    Tool(
        "give",
        Amount,
        effect=Remote(window=seconds(60), upstream=BLIND, attempt_seconds_max=0.5),
        description="Gives an amount away.",
        key=("amount",),
        approval=Approval(argument="amount", over=100),
    ),
    Tool(
        "note_down",
        Words,
        effect=Remote(upstream=BLIND, attempt_seconds_max=0.5),
        description="Notes words down.",
        key=("words",),
    ),
    Tool("jam", Words, effect=Local(), description="Always breaks.", key=("words",)),
    Tool("seek", Words, effect=Read(on_forbidden=OMIT), description="Finds walls."),
    connectors=(Connector("belfry", concurrency=4, rate=1000.0, breaker=Breaker(failures=50)),),
)


class Painting:
    """The wall changes, and can be painted as it was."""

    @staticmethod
    def perform(session: Session, arguments: Paint) -> Performed:
        former = session.execute(
            text("SELECT colour FROM kiosk.walls WHERE id = :wall"), {"wall": arguments.wall}
        ).scalar()
        if former is None:
            raise InvalidReference(
                "wall", arguments.wall, message="there is no such wall", permitted=["north"]
            )
        _paint(session, arguments.wall, arguments.colour)
        wall = Affected(kind="wall", id=arguments.wall, label=f"the {arguments.wall} wall")
        return Performed(result={"former": former}, affected=[wall])

    @staticmethod
    def restore(session: Session, original: Original) -> Performed:
        _paint(session, original.arguments.wall, original.result["former"])
        return Performed(affected=original.affected)

    @staticmethod
    def drift(session: Session, original: Original) -> list[dict[str, Any]]:
        now = session.execute(
            text("SELECT colour FROM kiosk.walls WHERE id = :wall"),
            {"wall": original.arguments.wall},
        ).scalar()
        if now == original.arguments.colour:
            return []
        return [{"field": "colour", "first": original.arguments.colour, "now": now}]


def _paint(session: Session, wall: str, colour: str) -> None:
    session.execute(
        text("UPDATE kiosk.walls SET colour = :colour WHERE id = :wall"),
        {"colour": colour, "wall": wall},
    )


def post(arguments: Note, attempt: Attempt) -> None:
    """Nobody reads it."""


class Ringing:
    """The bell says that it begins, and then rings as it was told."""

    @staticmethod
    def perform(arguments: Ring, attempt: Attempt) -> str:
        if bell := os.environ.get("KIOSK_BELL"):
            with Path(bell).open("w") as pipe:
                pipe.write(f"{attempt.ref}\n")
        if arguments.how == "for_ever":
            threading.Event().wait()
        if arguments.how == "badly":
            raise RuntimeError("the clapper fell out")
        if arguments.how == "later":
            raise NotDispatched("the rope is away")
        if arguments.how == "never":
            raise Rejected("the bell is cracked")
        return "rung"

    @staticmethod
    def restore(original: Original, attempt: Attempt) -> str:
        return "silent"


def give(arguments: Amount, attempt: Attempt) -> None:
    """It is gone."""


def note_down(arguments: Words, attempt: Attempt) -> None:
    """They are noted."""


class Jamming:
    """A handler with a mistake in it."""

    @staticmethod
    def perform(session: Session, arguments: Words) -> None:
        raise ZeroDivisionError("the drawer is jammed")

    @staticmethod
    def restore(session: Session, original: Original) -> None:
        """Nothing was done."""


def seek(session: Session, arguments: Words) -> Found:
    rows = session.execute(text("SELECT id, colour FROM kiosk.walls ORDER BY id")).all()
    found = [{"wall": wall, "colour": colour} for wall, colour in rows if arguments.words in wall]
    return Found(matches=found)


def tables(url: str) -> None:
    """The step of ``takeback migrate`` that is the app's own."""
    with psycopg.connect(url) as connection:
        connection.execute(TABLES)


HANDLERS = {
    "paint": Painting,
    "post": post,
    "ring": Ringing,
    "give": give,
    "note_down": note_down,
    "jam": Jamming,
    "seek": seek,
}

app = Takeback(CATALOG, handlers=HANDLERS, migrations=(tables,))
