"""What keeps intents from beginning, as columns of the statements that record and read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from takeback.model.hindrance import UNHINDERED, Hindrance

HINDRANCE = """
    i.restores IS NULL AND takeback.frozen(i.tenant, i.tool, i.run),
    (SELECT c.name FROM takeback.connectors AS c
     WHERE c.name = i.lane AND c.opened_at IS NOT NULL)"""
"""Of the row i. What takes back is never frozen."""


def hindrance_of(columns: Sequence[Any]) -> Hindrance:
    """The hindrance in these two columns."""
    is_frozen, paused = columns
    return Hindrance(is_frozen=is_frozen, paused=paused) if is_frozen or paused else UNHINDERED
