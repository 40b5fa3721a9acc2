"""The embedded worker: dispatcher, executor and reaper in one loop that sleeps until it is needed.

Sleeps until the next due instant or lease end, at most ``idle_seconds_max``: an idle worker says
one statement in that time. A batch grows while its attempts are quick and shrinks when they are
slow, so that what is claimed is begun long before its lease is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from takeback.client.context import Context
from takeback.dispatch.crew import Crew
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.executor import Executor
from takeback.dispatch.limits import Limits, check_limits
from takeback.dispatch.reaper import Reaper
from takeback.log import logger
from takeback.model import errors

TROUBLE_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between looks while the database is away; the last is repeated."""


SLEEP_SECONDS_MIN = 0.01


@dataclass(slots=True)
class Tally:
    """What a worker has done so far."""

    performed: int = 0
    taken_over: int = 0


class Worker:
    """One embedded worker. ``sleep`` waits for that many seconds or until it is told to stop;
    ``stopping`` says whether it was; ``monotonic`` measures how long attempts take.
    """

    def __init__(
        self,
        context: Context,
        limits: Limits,
        *,
        name: str,
        sleep: Callable[[float], object],
        stopping: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        check_limits(limits, context.registry)
        self.tally = Tally()
        self._dispatcher = Dispatcher(context, limits, name)
        self._crew = Crew(Executor(context, limits), limits, stopping=stopping, monotonic=monotonic)
        self._reaper = Reaper(context)
        self._limits = limits
        self._sleep = sleep
        self._stopping = stopping
        self._monotonic = monotonic
        self._batch = limits.concurrency

    def run(self, *, drain: bool = False) -> Tally:
        """Works until it is told to stop; with ``drain`` until nothing is due and nothing executes.

        A database that is away is waited for, however long. Raises InvalidSettings at the start.
        """
        trouble = 0
        while not self._stopping():
            try:
                self._crew.settle_late()
                if not self._turn() and self._rest(drain=drain):
                    break
                trouble = 0
            except errors.Unavailable as problem:
                pause = TROUBLE_PAUSES[min(trouble, len(TROUBLE_PAUSES) - 1)]
                logger.warning("worker_waits", code=problem.code, seconds=pause)
                trouble += 1
                self._sleep(pause)
        self._crew.leave()
        return self.tally

    @property
    def abandoned(self) -> int:
        """Attempts that still run although they were given up: their threads can't be stopped."""
        return self._crew.abandoned

    def _turn(self) -> bool:
        claimed = self._dispatcher.run_once(self._batch)
        if not claimed:
            return False
        began = self._monotonic()
        self.tally.performed += self._crew.carry_out(claimed)
        took = self._monotonic() - began
        floor, ceiling = self._limits.concurrency, self._limits.batch_max
        self._batch = min(ceiling, self._batch * 2) if took < 1 else max(floor, self._batch // 2)
        return True

    def _rest(self, *, drain: bool) -> bool:
        """Sleeps until there is something to do; with ``drain`` says whether all is done."""
        agenda = self._dispatcher.agenda()
        spans = (agenda.due_in, agenda.lease_over_in)
        waits = [span.total_seconds() for span in spans if span is not None]
        waits.append(self._limits.idle_seconds_max)
        if agenda.lease_over_in is not None and agenda.lease_over_in.total_seconds() <= 0:
            self.tally.taken_over += len(self._reaper.run_once())
            return False
        due = agenda.due_in is not None and agenda.due_in.total_seconds() <= 0
        if drain and not due and agenda.lease_over_in is None:
            return True
        # Never a bare zero: what is due may be held by a caller's open transaction.
        self._sleep(max(min(waits), SLEEP_SECONDS_MIN))
        return False
