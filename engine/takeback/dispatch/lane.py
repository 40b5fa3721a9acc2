"""How much room there is in each lane: a dispatcher asks before a claim, and tells after it.

Both are asked inside the transaction of the claim, before its rows are locked and after they have
been claimed. So whatever bounds a lane for all workers together is counted and taken in the same
commit, or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from takeback.ledger.transaction import Tx


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


class Lanes:
    """Every lane has room for all that is due in it."""

    def rooms(self, tx: Tx, lanes: Collection[str]) -> Mapping[str, Room]:
        """The room in each of ``lanes``; one that is not answered is open."""
        return dict.fromkeys(lanes, OPEN)

    def took(self, tx: Tx, counts: Mapping[str, int]) -> None:
        """So many were claimed in each lane, in the transaction that had asked for the room."""
