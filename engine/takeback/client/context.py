"""What every call needs and nothing more: handed down from the composition root."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from takeback.catalog.registry import Registry
from takeback.client.course import Course
from takeback.declare import Limit
from takeback.ledger.database import Database
from takeback.meter import Meter
from takeback.model.policy import Policy

TRACE_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The parts of an app that the rooms of motion work with.

    ``entropy`` answers with that many random bytes, ``pause`` waits for that many seconds and
    ``monotonic`` says how many have gone by: handed in, so that one seed replays a run.
    ``key_secret`` turns keys into HMACs. ``policy`` is asked of every call that writes, ``limits``
    count the calls of every tool, and ``grants`` says whose intents an agent may take back beside
    its own. ``course`` is that of the one request which the context was copied for. ``meter``
    counts what is carried out, None where nobody watches.
    """

    registry: Registry
    database: Database
    tenant: str
    entropy: Callable[[int], bytes]
    pause: Callable[[float], None]
    monotonic: Callable[[], float]
    key_secret: bytes | None = None
    policy: Policy | None = None
    limits: tuple[Limit, ...] = ()
    grants: Mapping[str, frozenset[str]] = field(default_factory=dict)
    course: Course | None = None
    meter: Meter | None = None

    def draw_trace_id(self) -> str:
        """The trace id of a request that may come to nothing: an intent's follows from its id."""
        return self.entropy(TRACE_BYTES).hex()
