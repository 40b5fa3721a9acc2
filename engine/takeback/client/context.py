"""What every call needs and nothing more: handed down from the composition root."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from takeback.catalog.registry import Registry
from takeback.ledger.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of an app that the rooms of motion work with.

    ``entropy`` answers with that many random bytes, ``pause`` waits for that many seconds and
    ``monotonic`` says how many have gone by: handed in, so that one seed replays a run.
    ``key_secret`` turns keys into HMACs.
    """

    registry: Registry
    database: Database
    tenant: str
    entropy: Callable[[int], bytes]
    pause: Callable[[float], None]
    monotonic: Callable[[], float]
    key_secret: bytes | None = None
