"""The heartbeat of a worker: renews the leases of its attempts while they run.

In a thread of its own, so that neither a handler nor a slow statement of the worker's loop keeps it
up. One statement for all attempts, from when a third of their lease has passed, and none while no
attempt takes that long. An attempt is renewed up to its own time and no further: a handler that
hangs is taken over like any other. What can't be renewed is given up before its lease is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from takeback.client.context import Context
from takeback.dispatch.pace import Pace
from takeback.dispatch.work import Identity, Work, identity
from takeback.ledger.renewing import Renewal, renew
from takeback.log import logger
from takeback.meter import Count
from takeback.model import errors

JOIN_SECONDS_MAX = 1.0
"""The end of the process does not wait for a database that does not answer."""

LOST = float("-inf")

Key = tuple[Identity, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An attempt that a thread is at: since when, and when the lease that it began with is over,
    both by the worker's ``monotonic``.
    """

    work: Work
    began_at: float
    lease_ends_at: float

    @property
    def key(self) -> Key:
        """The intent, and the number of its attempt."""
        return identity(self.work.intent), self.work.intent.attempt


class Renewer:
    """Keeps the attempts that it is told of until it is told that they have ended. For several
    threads at once.
    """

    def __init__(
        self,
        context: Context,
        pace: Pace,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._context = context
        self._pace = pace
        self._monotonic = monotonic
        self._lease_seconds = pace.lease.total_seconds()
        self._running: dict[Key, Running] = {}
        self._ends: dict[Key, float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def hold(self, one: Running) -> None:
        """From now on its lease is renewed."""
        self._running[one.key] = one

    def let_go(self, one: Running) -> None:
        """It has ended, or was given up."""
        self._running.pop(one.key, None)
        self._ends.pop(one.key, None)

    def is_owned(self, one: Running) -> bool:
        """Whether its lease lasts a while yet, as far as is known here."""
        return self._monotonic() < self._ends_at(one) - self._pace.lease_margin_seconds

    def run_once(self) -> int:
        """Renews the leases of which a third has passed; answers with how many it has renewed.

        A database that is away is tried again at the next turn.
        """
        now = self._monotonic()
        wanted = [one for one in self._running.copy().values() if self._is_wanted(one, now)]
        if not wanted:
            return 0
        try:
            with self._context.database.internal_transaction() as tx:
                found = renew(tx, [one.work.intent for one in wanted], self._pace.lease)
        except (errors.TakebackError, psycopg.Error, SQLAlchemyError) as problem:
            left = min(self._ends_at(one) for one in wanted) - now
            logger.warning(
                "renewal_delayed",
                attempts=len(wanted),
                code=getattr(problem, "code", "internal_error"),
                seconds_left=round(left, 1),
            )
            return 0
        return sum(
            self._note(one, renewal, now) for one, renewal in zip(wanted, found, strict=True)
        )

    def start(self) -> None:
        """Begins the thread, which looks twice in each third of a lease; again is harmless."""
        if self._thread is not None:
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self._beat, name="takeback-renewer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, unless it is stuck in the database: then it ends with the process."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS_MAX)
            self._thread = None

    def _beat(self) -> None:
        while not self._stop.wait(self._lease_seconds / 6):
            self.run_once()

    def _is_wanted(self, one: Running, now: float) -> bool:
        left = self._ends_at(one) - now
        is_in_time = now - one.began_at <= one.work.seconds_max
        return is_in_time and LOST < left <= self._lease_seconds * 2 / 3

    def _note(self, one: Running, renewal: Renewal, asked_at: float) -> bool:
        if one.key not in self._running:
            # It has ended meanwhile, and may be settled.
            return renewal is Renewal.RENEWED
        if renewal is Renewal.RENEWED:
            # By the moment of asking: the server's own end comes later, never before.
            self._ends[one.key] = asked_at + self._lease_seconds
        elif renewal is Renewal.LOST:
            self._ends[one.key] = LOST
            if self._context.meter is not None:
                self._context.meter.add(Count.LEASES_LOST)
            logger.error("lease_lost", ref=one.work.intent.ref, attempt=one.work.intent.attempt)
        return renewal is Renewal.RENEWED

    def _ends_at(self, one: Running) -> float:
        return self._ends.get(one.key, one.lease_ends_at)
