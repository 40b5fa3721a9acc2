"""The way to a provider that several tools share: how much of it is used at once, and how fast.

What is bounded here is bounded for all workers of a ledger together, whatever the tenant.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

BURST_SECONDS = 0.25
"""A worker whose attempts are long looks for work so often: what comes in between is not lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When an outage pauses a connector.

    After ``failures`` attempts in a row of which none was answered nothing of the connector is
    carried out for ``pause``; then one attempt probes whether the provider is back. An answer lets
    everything go on; without one the pause is doubled, up to ``pause_max``.
    """

    failures: int = 5
    pause: timedelta = timedelta(seconds=10)
    pause_max: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Connector:
    """A row beside the tools: the connector ``name``, which tools name in their ``Remote``.

    At most ``concurrency`` of its attempts are under way at once, and at most ``rate`` a second are
    begun in the long run; ``burst`` is how many may be begun at once after a rest (None: a quarter
    of a second's worth, and at least one). ``breaker`` pauses it in an outage; None never does.
    """

    name: str
    concurrency: int | None = field(default=None, kw_only=True)
    rate: float | None = field(default=None, kw_only=True)
    burst: int | None = field(default=None, kw_only=True)
    breaker: Breaker | None = field(default=Breaker(), kw_only=True)

    @property
    def tokens_max(self) -> float:
        """How many attempts may be begun at once after a rest.

        >>> Connector("a", rate=100.0).tokens_max, Connector("a", rate=0.5).tokens_max
        (25.0, 1.0)
        """
        if self.burst is not None:
            return float(self.burst)
        return max((self.rate or 0.0) * BURST_SECONDS, 1.0)
