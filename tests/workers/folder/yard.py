"""The app of these tests: a yard from which parcels leave, and a book of those that have left.

Handlers run in processes of their own. YARD_BOOK is the file to which each attempt adds a line with
what it was handed; YARD_GATE is a file: while it is there, a parcel that waits at the gate does not
leave.
"""

import json
import os
import threading
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from takeback import Attempt, Takeback
from takeback.declare import (
    BLIND,
    DIFFERS,
    HIGH,
    KEYED,
    LOW,
    Catalog,
    Remote,
    Tool,
    hours,
    seconds,
)


class Parcel(BaseModel):
    """What leaves for whom, and how."""

    to: str
    how: Literal["at_once", "at_the_gate", "never"] = "at_once"


def row(name: str, effect: Remote) -> Tool:
    """A row of the yard; two calls for one addressee are the same call."""
    return Tool(
        name,
        Parcel,
        effect=effect,
        description="Sends a parcel.",
        key=("to",),
        on_difference=DIFFERS,
    )


CATALOG = Catalog(
    row("send", Remote(upstream=BLIND, attempt_seconds_max=1.0)),
    row("hold", Remote(upstream=BLIND, window=seconds(60), attempt_seconds_max=1.0)),
    row("bill", Remote(upstream=KEYED(ttl=hours(24)), attempt_seconds_max=1.0)),
    row("urgent", Remote(upstream=BLIND, attempt_seconds_max=1.0, priority=HIGH)),
    row("whenever", Remote(upstream=BLIND, attempt_seconds_max=1.0, priority=LOW)),
    row("freight", Remote(upstream=BLIND, attempt_seconds_max=20.0, renew_lease=True)),
)


def leave(arguments: Parcel, attempt: Attempt) -> str:
    """It is in the book, and then it leaves as it was told."""
    line = json.dumps(
        {"ref": attempt.ref, "to": arguments.to, "number": attempt.number, "pid": os.getpid()}
    )
    book = os.open(os.environ["YARD_BOOK"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(book, f"{line}\n".encode())
    os.close(book)
    pause = threading.Event()
    gate = Path(os.environ.get("YARD_GATE", "no-gate"))
    while arguments.how == "at_the_gate" and gate.exists():
        pause.wait(0.02)
    if arguments.how == "never":
        pause.wait()
    return "left"


HANDLERS = dict.fromkeys(("send", "hold", "bill", "urgent", "whenever", "freight"), leave)

app = Takeback(CATALOG, handlers=HANDLERS)
