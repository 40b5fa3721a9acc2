"""What keeps the ledger moving beside the attempts: one list of processes, for whoever runs them.

A worker runs them between its claims, and a ticker between its wake-ups; any number may run them
at once, since each takes only rows that are free.
"""

from __future__ import annotations

from dataclasses import dataclass

from takeback.client.context import Context
from takeback.dispatch.expirer import Expirer
from takeback.dispatch.reaper import Reaper


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep changed: ``taken_over`` leases that were over, ``count`` intents in all."""

    taken_over: int
    count: int


class Sweep:
    """Runs each sweeping process once. For ``tenant``; None is every one."""

    def __init__(self, context: Context, *, tenant: str | None) -> None:
        self._reaper = Reaper(context, tenant=tenant)
        self._others = (Expirer(context, tenant=tenant),)

    def run_once(self) -> Swept:
        """At most a batch of each, in a transaction of its own. Raises Unavailable."""
        taken_over = len(self._reaper.run_once())
        others = sum(len(other.run_once()) for other in self._others)
        return Swept(taken_over=taken_over, count=taken_over + others)
