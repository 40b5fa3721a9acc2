"""What keeps the ledger moving beside the attempts: one list of processes, for whoever runs them.

A worker runs them between its claims, and a ticker between its wake-ups; any number may run them
at once, since each takes only rows that are free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from takeback.client.context import Context
from takeback.dispatch.expirer import Expirer
from takeback.dispatch.pace import Pace
from takeback.dispatch.reaper import Reaper
from takeback.dispatch.reconciler import Reconciler
from takeback.dispatch.waker import Waker
from takeback.meter import Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What one sweep changed: ``taken_over`` leases that were over, ``count`` intents in all."""

    taken_over: int
    count: int


class Sweep:
    """Runs each sweeping process once. For ``tenant``; None is every one. ``monotonic`` measures
    how long providers are asked. Not for several threads at once.
    """

    def __init__(
        self,
        context: Context,
        pace: Pace,
        *,
        tenant: str | None,
        monotonic: Callable[[], float],
    ) -> None:
        self._context = context
        self._reaper = Reaper(context, tenant=tenant)
        self._expirer = Expirer(context, tenant=tenant)
        self._waker = Waker(context, tenant=tenant)
        self._reconciler = Reconciler(context, pace, monotonic, tenant=tenant)

    @property
    def busy(self) -> int:
        """Providers that are being asked, and answers not written down yet: see ``look``."""
        return self._reconciler.busy

    @property
    def abandoned(self) -> int:
        """Threads that are still busy with a question that was given up."""
        return self._reconciler.abandoned

    def run_once(self) -> Swept:
        """At most a batch of each, in a transaction of its own. Raises Unavailable."""
        taken_over = len(self._reaper.run_once())
        if self._context.meter is not None:
            self._context.meter.add(Count.LEASES_TAKEN_OVER, amount=taken_over)
        sweeping = (self._expirer, self._waker, self._reconciler)
        others = sum(len(one.run_once()) for one in sweeping)
        return Swept(taken_over=taken_over, count=taken_over + others)

    def look(self) -> int:
        """Writes down what providers have answered since: how many. Raises Unavailable."""
        return len(self._reconciler.look()) if self._reconciler.busy else 0

    def leave(self) -> None:
        """Lets threads go that are still asking."""
        self._reconciler.leave()

    def hurry(self) -> bool:
        """Lets nothing be looked at later that can be now; says whether there is anything."""
        return self._waker.hurry()
