"""What keeps intents from beginning, as a column of the statements that record and read them."""

from __future__ import annotations

from takeback.model.hindrance import UNHINDERED, Hindrance

HINDRANCE = "takeback.hindered(i.tenant, i.tool, i.run, i.lane, i.restores)"
"""Of the row i."""

_FROZEN, _PAUSED = 1, 2


def hindrance_of(hindrances: int, lane: str) -> Hindrance:
    """The hindrance in that column, of an intent of ``lane``.

    >>> hindrance_of(3, "post")
    Hindrance(is_frozen=True, paused='post')
    """
    if not hindrances:
        return UNHINDERED
    paused = lane if hindrances & _PAUSED else None
    return Hindrance(is_frozen=bool(hindrances & _FROZEN), paused=paused)
