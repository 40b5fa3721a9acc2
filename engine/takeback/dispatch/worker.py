"""The embedded worker: dispatcher, crew and sweep in one loop that sleeps until it is needed.

Sleeps until the next due instant, lease end, end of a request or time to ask, at most
``idle_seconds_max``: an idle worker says one statement in that time. For half a second after it
had something to do it looks every few milliseconds, and then ever later. Claims only as much as its
threads can begin soon, by how quick the attempts of the claim before were. An attempt that hangs
costs one thread until it is given up, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from takeback.client.context import Context
from takeback.dispatch.crew import HELD_SECONDS, LOOK_SECONDS, crew_of
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace, check_pace
from takeback.dispatch.pulse import PULSE_SECONDS, Pulse
from takeback.dispatch.sweep import Sweep
from takeback.dispatch.trouble import Troubles
from takeback.ledger.claiming import Agenda
from takeback.log import logger
from takeback.model import errors

FRUITLESS_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.25)
"""Seconds between looks while all that is due, or left behind, is held by others."""

SLEEP_SECONDS_MIN = 0.001

LOOK_AGAIN_SECONDS = 0.005

QUICK_LOOKS = 100
"""Where something was to be done, more is likely to follow: so many looks come at the shortest
interval, and then each twice as late as the one before."""

IDLE_LOOKS = QUICK_LOOKS + 16
"""As many as that, and the interval is the longest, whatever that is."""

SWEEP_SECONDS = 1.0
"""How often a worker sweeps that always has something to claim."""

LOOK_QUICK_SECONDS = 0.05
LOOK_SHARE = 20
"""A look everywhere that is not quick takes at most this part of a worker's time."""

BATCH_SECONDS = 1.0
"""A claim is right when its last attempt begins within this time."""

GROWTH_MAX = 4
"""A claim is at most so many times as large as the one before; the first is as large as there are
threads, so that an outage is met by few."""

ABANDONED_MAX = 8
"""Hung attempts for each thread before the worker gives up: only a new process is rid of them."""


@dataclass(slots=True)
class Tally:
    """What a worker has done so far: how many attempts it has written down, by their ends.

    ``performed`` have succeeded, ``deferred`` are tried again later; an answer that came late is
    among the ``attempts`` alone.
    """

    attempts: int = 0
    performed: int = 0
    failed: int = 0
    deferred: int = 0
    in_doubt: int = 0
    taken_over: int = 0


class Worker:
    """One embedded worker. ``sleep`` waits for that many seconds or until it is told to stop;
    ``stopping`` says whether it was; ``monotonic`` measures how long attempts take.
    """

    def __init__(
        self,
        context: Context,
        pace: Pace,
        *,
        name: str,
        sleep: Callable[[float], object],
        stopping: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        check_pace(pace, context.registry)
        self.tally = Tally()
        self._meter = context.meter
        self._dispatcher = Dispatcher(context, pace, name)
        self._crew = crew_of(context, pace, monotonic=monotonic)
        self._sweep = Sweep(context, pace, tenant=self._dispatcher.tenant, monotonic=monotonic)
        self._pace = pace
        self._sleep = sleep
        self._stopping = stopping
        self._monotonic = monotonic
        self._batch = pace.concurrency
        self._claimed: tuple[float, int] | None = None
        self._sweep_at = monotonic() + SWEEP_SECONDS
        self._look_at = monotonic()
        self._idle_looks = IDLE_LOOKS
        self._succeeded_at = monotonic()
        self._pulse_at = monotonic() + PULSE_SECONDS
        self._turns = 0
        self._is_more_due = False
        self._fruitless = 0
        self._hurried_at: int | None = None
        self._troubles = Troubles()

    @property
    def abandoned(self) -> int:
        """What still runs although it was given up: its threads can't be stopped."""
        return self._crew.abandoned + self._sweep.abandoned

    def pulse(self) -> Pulse:
        """How it is; may be asked by any thread, also while it waits for the database."""
        return self._crew.pulse(
            turns=self._turns,
            succeeded_at=self._succeeded_at,
            taken_over=self.tally.taken_over,
        )

    def run(self, *, drain: bool = False) -> Tally:
        """Works until it is told to stop; with ``drain`` until nothing is due and nothing executes.

        A database that is away is waited for, however long. Raises what is a fault of ours when it
        comes again and again.
        """
        try:
            while not self._stopping() and not self._is_exhausted():
                if self._tried_turn(drain=drain):
                    break
            self._count(self._crew.stop())
        finally:
            self._crew.leave()
            self._sweep.leave()
        return self.tally

    def _is_exhausted(self) -> bool:
        if self.abandoned < ABANDONED_MAX * self._pace.concurrency:
            return False
        logger.error("worker_exhausted", abandoned=self.abandoned)
        return True

    def _tried_turn(self, *, drain: bool) -> bool:
        try:
            is_over = self._turn(drain=drain)
        except errors.Unavailable as problem:
            self._wait_out(problem.code)
        except (errors.TakebackError, psycopg.Error, SQLAlchemyError, MemoryError) as problem:
            if self._troubles.is_hopeless():
                raise
            logger.error("worker_failed", exc_info=problem)
            self._wait_out("internal_error")
        else:
            self._troubles.end()
            self._succeeded_at = self._monotonic()
            self._turns += 1
            self._say_pulse()
            return is_over
        return False

    def _count(self, written: int) -> None:
        ends = self._crew.ends
        self.tally.attempts += written
        self.tally.performed = ends.count("succeeded")
        self.tally.failed = ends.count("failed")
        self.tally.deferred = ends.count("deferred")
        self.tally.in_doubt = ends.count("in_doubt")

    def _say_pulse(self) -> None:
        if self._monotonic() >= self._pulse_at:
            self._pulse_at = self._monotonic() + PULSE_SECONDS
            logger.info("worker_pulse", **asdict(self.pulse()))

    def _wait_out(self, code: str) -> None:
        pause = self._troubles.pause()
        logger.warning(
            "worker_waits",
            code=code,
            seconds=pause,
            seconds_since_success=self.pulse().seconds_since_success,
        )
        self._sleep(pause)

    def _turn(self, *, drain: bool) -> bool:
        """One look round; says whether a drain is over."""
        room = self._room()
        hurries = self._is_more_due and room > 0
        seconds = 0.0 if hurries else LOOK_SECONDS
        self._count(self._crew.look(seconds, beside=self._is_more_due))
        self._sweep.look()
        self._adapt_batch()
        room = self._room()
        if self._is_more_due and room > 0:
            self._claim(room)
            return False
        if room == 0:
            self._sweep_when_time()
            return False
        return self._rest(self._agenda(drain=drain), drain=drain)

    def _agenda(self, *, drain: bool) -> Agenda:
        """Above the low marks while work is fresh; everywhere before a rest, and to end a drain."""
        if self._idle_looks < QUICK_LOOKS and not drain:
            return self._dispatcher.agenda()
        if not drain and self._monotonic() < self._look_at:
            return self._dispatcher.agenda()
        return self._look_everywhere()

    def _look_everywhere(self) -> Agenda:
        before = self._monotonic()
        self._dispatcher.look_everywhere()
        agenda = self._dispatcher.agenda()
        now = self._monotonic()
        took = now - before
        self._look_at = now + (took * LOOK_SHARE if took > LOOK_QUICK_SECONDS else 0.0)
        return agenda

    def _room(self) -> int:
        """How many intents may be claimed now: none while some still wait for a thread."""
        if self._crew.busy >= self._pace.concurrency:
            return 0
        return self._batch - self._crew.busy

    def _claim(self, room: int) -> None:
        before = self._monotonic()
        claimed = self._dispatcher.run_once(room)
        if self._meter is not None:
            self._meter.claim(claimed.lateness, count=claimed.count, at=before)
        self._crew.take_on(claimed.works, before + self._pace.lease.total_seconds())
        # What leaves threads free says nothing of how quick attempts are: all of it begins at once.
        fills = self._crew.busy >= self._pace.concurrency
        self._claimed = (before, claimed.count) if fills else None
        self._is_more_due = claimed.count == room
        self._idle_looks = 0 if claimed.count else self._idle_looks
        self._fruitless = 0 if claimed.count else self._fruitless + 1
        self._sweep_when_time()

    def _adapt_batch(self) -> None:
        if self._claimed is None or self._crew.busy >= self._pace.concurrency:
            return
        (claimed_at, count), self._claimed = self._claimed, None
        took = self._monotonic() - claimed_at
        if count and took > 0:
            right = min(int(count * BATCH_SECONDS / took), self._batch * GROWTH_MAX)
            self._batch = max(min(right, self._pace.batch_max), self._pace.concurrency)

    def _sweep_when_time(self) -> None:
        if self._monotonic() >= self._sweep_at:
            self._sweep_once()
            if self._monotonic() >= self._look_at:
                self._look_everywhere()

    def _sweep_once(self) -> int:
        swept = self._sweep.run_once()
        self._sweep_at = self._monotonic() + SWEEP_SECONDS
        self.tally.taken_over += swept.taken_over
        return swept.count

    def _rest(self, agenda: Agenda, *, drain: bool) -> bool:
        """Sleeps until there is something to do; with ``drain`` says whether all is done."""
        due_in = _seconds(agenda.due_in)
        sweep_in = _seconds(agenda.sweep_in)
        if sweep_in is not None and sweep_in <= 0:
            if self._sweep_once():
                return False
            self._fruitless += 1
        is_due = due_in is not None and due_in <= 0
        is_idle = not self._crew.busy and not self._crew.open and not self._sweep.busy
        is_over = not is_due and not self._is_left_behind(agenda)
        if drain and is_idle and is_over and not self._dispatcher.is_rationed(agenda):
            return not self._hurry(agenda)
        if not (is_due and self._fruitless == 0) and not self._crew.busy:
            # A drain waits for what it knows of, and for nothing that may come.
            self._idle_looks = IDLE_LOOKS if drain else self._idle_looks
            self._sleep(self._nap(due_in, sweep_in))
            self._idle_looks += 1
        self._is_more_due = is_due
        return False

    def _is_left_behind(self, agenda: Agenda) -> bool:
        """Whether somebody dead has left something that a drain waits for: a lease that is not over
        yet, or an attempt that is asked about a moment after.
        """
        moment = self._pace.reconcile_after - self._pace.lease
        is_asked_soon = agenda.ask_in is not None and agenda.ask_in <= moment
        return agenda.lease_over_in is not None or is_asked_soon

    def _hurry(self, agenda: Agenda) -> bool:
        """Whether something may have been waiting for what was done since this was asked last."""
        if agenda.look_in is None or self._hurried_at == self.tally.attempts:
            return False
        self._hurried_at = self.tally.attempts
        return self._sweep.hurry()

    def _nap(self, *spans_until: float | None) -> float:
        """Never a bare zero: what is due, or left behind, may be held by an open transaction."""
        held = FRUITLESS_PAUSES[min(self._fruitless, len(FRUITLESS_PAUSES) - 1)]
        spans = [span if span > 0 else held for span in spans_until if span is not None]
        if self._crew.open or self._sweep.busy:
            spans.append(HELD_SECONDS)
        doublings = min(max(self._idle_looks - QUICK_LOOKS, 0), IDLE_LOOKS)
        spans.append(LOOK_AGAIN_SECONDS * 2**doublings)
        return max(min([*spans, self._pace.idle_seconds_max]), SLEEP_SECONDS_MIN)


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()
