"""Carries out the intents that others are woken for: by their ids, with the engine of the worker.

Whoever is woken hands the id over and waits until there is nothing more to do for it here. One
thread claims what has been handed over meanwhile, in one statement, and settles what has ended; the
attempts run on the crew's threads. What nobody may claim now is no work: a wake-up that is late,
doubled or wrong costs a look. While the database is away the ids are kept, and asked for again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from takeback.client.context import Context
from takeback.dispatch.crew import crew_of
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace, check_pace
from takeback.dispatch.work import Identity
from takeback.dispatch.worker import ABANDONED_MAX, FAULTS_MAX, TROUBLE_PAUSES
from takeback.log import logger
from takeback.model import errors

LOOK_SECONDS = 0.02
"""While attempts run: how long one more id waits until it is claimed."""

IDLE_SECONDS = 1.0
"""How often a stop is looked for while nothing is handed over."""


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
        self._pace = pace
        self._monotonic = monotonic
        self._handed: deque[tuple[Identity, Future[bool]]] = deque()
        self._running: dict[Identity, list[Future[bool]]] = {}
        self._bell = threading.Condition()
        self._is_stopping = False
        self._troubles = 0
        self._faults = 0
        self.claimed = 0

    @property
    def tenant(self) -> str | None:
        """Whose intents are carried out; None is every tenant's."""
        return self._dispatcher.tenant

    @property
    def abandoned(self) -> int:
        """Attempts that still run although they were given up: their threads can't be stopped."""
        return self._crew.abandoned

    def carry_out(self, wanted: Identity) -> bool:
        """Returns when there is nothing more to do for it here; from any thread.

        False when the responder stopped before it was claimed: somebody else has to be woken.
        """
        done: Future[bool] = Future()
        with self._bell:
            if self._is_stopping:
                return False
            self._handed.append((wanted, done))
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
            pause = TROUBLE_PAUSES[min(self._troubles, len(TROUBLE_PAUSES) - 1)]
            self._troubles += 1
            logger.warning("responder_waits", code=problem.code, seconds=pause)
            self._wait(pause)
        except (errors.TakebackError, psycopg.Error, SQLAlchemyError, ValueError) as problem:
            self._faults += 1
            logger.error("responder_failed", times=self._faults, exc_info=problem)
            if self._faults >= FAULTS_MAX:
                raise
            self._wait(TROUBLE_PAUSES[min(self._faults, len(TROUBLE_PAUSES)) - 1])
        else:
            self._troubles = self._faults = 0

    def _turn(self) -> None:
        at_work = self._crew.at_work
        room = max(self._pace.concurrency - len(at_work), 0)
        handed = self._take(room, 0.0 if at_work else IDLE_SECONDS)
        if handed:
            self._claim(handed)
        self._crew.look(LOOK_SECONDS)
        self._answer()

    def _take(self, room: int, seconds: float) -> list[tuple[Identity, Future[bool]]]:
        with self._bell:
            if not self._handed and not self._is_stopping:
                self._bell.wait(seconds)
            count = min(room, len(self._handed))
            return [self._handed.popleft() for _ in range(count)]

    def _claim(self, handed: list[tuple[Identity, Future[bool]]]) -> None:
        before = self._monotonic()
        try:
            claimed = self._dispatcher.claim(list({wanted for wanted, _ in handed}))
        except BaseException:
            # The claim may have happened: then its lease ends, and it is due again.
            with self._bell:
                self._handed.extendleft(reversed(handed))
            raise
        self.claimed += claimed.count
        self._crew.take_on(claimed.works, before + self._pace.lease.total_seconds())
        for wanted, done in handed:
            self._running.setdefault(wanted, []).append(done)

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
                self._handed.popleft()[1].set_result(False)
