"""How much room there is in a lane, as a dispatcher is told before it claims: see the governor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many intents of a lane may be claimed now: ``count``, None for any number.

    Where there is none left, ``opens_at`` is the instant of the database's clock at which the lane
    is asked about again; until then nothing in it counts as due, so that a worker neither turns
    for it nor sleeps past it.
    """

    count: int | None = None
    opens_at: datetime | None = None


OPEN = Room()
