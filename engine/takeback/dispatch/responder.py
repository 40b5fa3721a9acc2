"""Carries out the intents that others are woken for: by their ids, with the engine of the worker.

Whoever is woken hands the id over and waits until there is nothing more to do for it here. One
thread claims what has been handed over meanwhile, in one statement, and settles what has ended; the
attempts run on the crew's threads. What nobody may claim now is no work: a wake-up that is late,
doubled or wrong costs a look. While the database is away the ids are kept, and asked for again; for
a moment those too that are due and passed by: a sum of theirs is being added up, or their lane has
no room. After that somebody else is woken for them, a bounded number of times.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from takeback.client.context import Context
from takeback.dispatch.crew import crew_of
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace, check_pace
from takeback.dispatch.pulse import Pulse
from takeback.dispatch.trouble import Troubles
from takeback.dispatch.work import Identity
from takeback.dispatch.worker import ABANDONED_MAX
from takeback.log import logger
from takeback.model import errors

LOOK_SECONDS = 0.02
"""While attempts run: how long one more id waits until it is claimed."""

IDLE_SECONDS = 1.0
"""How often a stop is looked for while nothing is handed over."""

FAULTS = (errors.TakebackError, psycopg.Error, SQLAlchemyError, ValueError, MemoryError)
"""What passes, or comes again: then somebody has to look."""

LEFT_SECONDS = 0.05
"""How soon something is asked for again that is due and was passed by."""

LEFT_SECONDS_MAX = 0.5
"""So long it is asked for again; then whoever waits goes on, and somebody else is to be woken."""

LEFT_TIMES_MAX = 20
"""So often in a row somebody else is woken for it; after that the ticker finds it again."""

LEFT_KEPT_MAX = 10_000
"""Of so many it is known how often they were passed by."""


@dataclass(slots=True, kw_only=True)
class Errand:
    """An id that was handed over, who waits for it, and when it is to be asked for."""

    wanted: Identity
    done: Future[bool]
    handed_at: float
    at: float


class Responder:
    """Carries out intents by their ids, in the thread that calls ``run``; the log has its ``name``.

    ``pace.concurrency`` bounds what runs at once.
    """

    def __init__(
        self, context: Context, pace: Pace, *, name: str, monotonic: Callable[[], float]
    ) -> None:
        check_pace(pace, context.registry)
        self._dispatcher = Dispatcher(context, pace, name)
        self._crew = crew_of(context, pace, monotonic=monotonic)
        self._meter = context.meter
        self._pace = pace
        self._monotonic = monotonic
        self._handed: deque[Errand] = deque()
        self._running: dict[Identity, list[Future[bool]]] = {}
        self._left: dict[Identity, int] = {}
        self._bell = threading.Condition()
        self._is_stopping = False
        self._troubles = Troubles()
        self._turns = 0
        self._succeeded_at = monotonic()
        self.claimed = 0

    @property
    def tenant(self) -> str | None:
        """Whose intents are carried out; None is every tenant's."""
        return self._dispatcher.tenant

    @property
    def abandoned(self) -> int:
        """Attempts that still run although they were given up: their threads can't be stopped."""
        return self._crew.abandoned

    def pulse(self) -> Pulse:
        """How it is; may be asked by any thread. It takes nothing over: tickers and workers do."""
        return self._crew.pulse(turns=self._turns, succeeded_at=self._succeeded_at)

    def carry_out(self, wanted: Identity) -> bool:
        """Returns when there is nothing more to do for it here; from any thread.

        False when the responder stopped before it was claimed, or passed it by although it is due:
        somebody else has to be woken.
        """
        done: Future[bool] = Future()
        now = self._monotonic()
        with self._bell:
            if self._is_stopping:
                return False
            self._handed.append(Errand(wanted=wanted, done=done, handed_at=now, at=now))
            self._bell.notify()
        return done.result()

    def stop(self) -> None:
        """Nothing more is claimed; ``run`` finishes or hands back what is, and returns."""
        with self._bell:
            self._is_stopping = True
            self._bell.notify()

    def run(self) -> None:
        """Carries out what is handed over until it is told to stop.

        A database that is away is waited for. Raises what is a fault of ours when it comes again
        and again.
        """
        try:
            while not self._is_stopping and not self._is_exhausted():
                self._tried_turn()
            self._crew.stop()
        finally:
            self.stop()
            self._crew.leave()
            self._let_go()

    def _is_exhausted(self) -> bool:
        if self._crew.abandoned < ABANDONED_MAX * self._pace.concurrency:
            return False
        logger.error("worker_exhausted", abandoned=self._crew.abandoned)
        return True

    def _tried_turn(self) -> None:
        try:
            self._turn()
        except errors.Unavailable as problem:
            pause = self._troubles.pause()
            logger.warning("responder_waits", code=problem.code, seconds=pause)
            self._wait(pause)
        except FAULTS as problem:
            is_hopeless = self._troubles.is_hopeless()
            logger.error("responder_failed", times=self._troubles.faults, exc_info=problem)
            if is_hopeless:
                raise
            self._wait(self._troubles.pause())
        else:
            self._troubles.end()
            self._turns += 1
            self._succeeded_at = self._monotonic()

    def _turn(self) -> None:
        at_work = self._crew.at_work
        room = max(self._pace.concurrency - len(at_work), 0)
        handed = self._take(room, 0.0 if at_work else IDLE_SECONDS)
        if handed:
            self._claim(handed)
        self._crew.look(LOOK_SECONDS)
        self._answer()

    def _take(self, room: int, seconds: float) -> list[Errand]:
        """Those whose time has come, as many as there is room for; waits a while for the first."""
        with self._bell:
            if not self._is_stopping:
                self._bell.wait_for(lambda: self._handed or self._is_stopping, seconds)
            now = self._monotonic()
            ready = [one for one in self._handed if one.at <= now][:room]
            if not ready and self._handed and seconds:
                self._bell.wait(LEFT_SECONDS)
            for one in ready:
                self._handed.remove(one)
            return ready

    def _claim(self, handed: list[Errand]) -> None:
        before = self._monotonic()
        try:
            claimed = self._dispatcher.claim(list({one.wanted for one in handed}))
        except BaseException:
            # The claim may have happened: then its lease ends, and it is due again.
            with self._bell:
                self._handed.extendleft(reversed(handed))
            raise
        self.claimed += claimed.count
        if self._meter is not None:
            self._meter.claim(claimed.lateness, count=claimed.count, at=before)
        self._crew.take_on(claimed.works, before + self._pace.lease.total_seconds())
        left = claimed.left_over
        for one in handed:
            if one.wanted in left and before - one.handed_at < LEFT_SECONDS_MAX:
                one.at = before + LEFT_SECONDS
                with self._bell:
                    self._handed.append(one)
            elif one.wanted in left and self._is_to_pass_on(one.wanted):
                one.done.set_result(False)
            else:
                self._left.pop(one.wanted, None)
                self._running.setdefault(one.wanted, []).append(one.done)

    def _is_to_pass_on(self, wanted: Identity) -> bool:
        """Whether somebody else is to be woken, who may find room for it; not for ever."""
        if len(self._left) >= LEFT_KEPT_MAX:
            self._left.clear()
        self._left[wanted] = self._left.get(wanted, 0) + 1
        return self._left[wanted] <= LEFT_TIMES_MAX

    def _answer(self) -> None:
        """Lets those go on whose intent is in nobody's hands here any more."""
        at_work = self._crew.at_work
        for wanted in [wanted for wanted in self._running if wanted not in at_work]:
            for done in self._running.pop(wanted):
                done.set_result(True)

    def _wait(self, seconds: float) -> None:
        with self._bell:
            if not self._is_stopping:
                self._bell.wait_for(lambda: self._is_stopping, seconds)

    def _let_go(self) -> None:
        """Nobody waits for what has stopped."""
        for waiting in self._running.values():
            for done in waiting:
                done.set_result(True)
        self._running.clear()
        with self._bell:
            while self._handed:
                self._handed.popleft().done.set_result(False)
