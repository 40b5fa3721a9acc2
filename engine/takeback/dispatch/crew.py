"""The threads of one worker: attempts run beside each other, and are settled in groups.

An attempt that outlives its time is in doubt, and its thread is left behind: Python can't stop one.
When its answer comes after all, it is recorded as late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from uuid import UUID

from takeback.declare import Remote
from takeback.dispatch.executor import Ended, Executor, Work
from takeback.dispatch.limits import Limits
from takeback.dispatch.outcome import Outcome
from takeback.log import logger
from takeback.model.intent import Intent

GATHER_SECONDS = 0.005
"""Quick attempts are settled together: this long one waits for others to end too."""

LOOK_SECONDS = 0.25
"""How often a stop and overdue attempts are looked at while attempts run."""

GRACE_SECONDS = 1.0
"""A connector ends by itself at its limit; only what is this much later is given up."""

Pending = dict[Future[Ended | None], Work]


class Crew:
    """Carries out batches on ``limits.concurrency`` threads."""

    def __init__(
        self,
        executor: Executor,
        limits: Limits,
        *,
        stopping: Callable[[], bool],
        monotonic: Callable[[], float],
    ) -> None:
        self._executor = executor
        self._limits = limits
        self._stopping = stopping
        self._monotonic = monotonic
        self._pool: ThreadPoolExecutor | None = None
        self._running: dict[UUID, tuple[float, Work]] = {}
        self._late: Pending = {}

    @property
    def abandoned(self) -> int:
        """Threads that are still busy with an attempt that was given up."""
        return sum(not future.done() for future in self._late)

    def carry_out(self, claimed: Sequence[Intent]) -> int:
        """Performs and settles ``claimed``; answers with how many were settled.

        When told to stop, hands back what has not begun and waits a while for the rest.
        """
        works = self._executor.load(claimed)
        pool = self._open_pool()
        pending: Pending = {pool.submit(self._attempt, work): work for work in works}
        settled = 0
        stop_at: float | None = None
        while pending:
            settled += self._settle_done(pending)
            settled += self._give_up_overdue(pending)
            if stop_at is None and self._stopping():
                stop_at = self._monotonic() + self._limits.stop_seconds_max
                self._hand_back(pending)
            if stop_at is not None and self._monotonic() > stop_at:
                logger.warning("stopped_while_executing", attempts=len(pending))
                self._late |= pending
                break
        return settled

    def settle_late(self) -> None:
        """Records the answers of attempts that were given up and have ended since."""
        ended = {future: work for future, work in self._late.items() if future.done()}
        if ended:
            self._late = {f: w for f, w in self._late.items() if f not in ended}
            self._settle([self._end(future, work) for future, work in ended.items()])

    def leave(self) -> None:
        """Lets the threads go; those of abandoned attempts end with the process."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _attempt(self, work: Work) -> Ended | None:
        begun = self._executor.begin(work)
        if begun is None:
            return None
        self._running[work.intent.id] = (self._monotonic(), begun)
        return Ended(work=begun, outcome=self._executor.perform(begun))

    def _settle_done(self, pending: Pending) -> int:
        done, _ = wait(pending, timeout=GATHER_SECONDS)
        if not done:
            done, _ = wait(pending, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
        ended = []
        for future in done:
            work = pending.pop(future)
            if not future.cancelled():
                ended.append(self._end(future, work))
        return self._settle(ended)

    def _settle(self, ended: Sequence[Ended | None]) -> int:
        known = [one for one in ended if one is not None]
        self._executor.settle(known)
        return len(known)

    def _end(self, future: Future[Ended | None], work: Work) -> Ended | None:
        """An attempt that ended in SystemExit or the like is in doubt as any other."""
        _, begun = self._running.pop(work.intent.id, (0.0, None))
        problem = future.exception()
        if problem is None:
            return future.result()
        logger.error("attempt_broke", ref=work.intent.ref, exc_info=problem)
        if begun is None:
            return None
        return Ended(work=begun, outcome=Outcome(kind="in_doubt", cause="exception"))

    def _give_up_overdue(self, pending: Pending) -> int:
        given_up = []
        for future, work in list(pending.items()):
            began, begun = self._running.get(work.intent.id, (0.0, None))
            if begun is not None and self._monotonic() - began > _seconds_max(begun):
                self._late[future] = pending.pop(future)
                outcome = Outcome(kind="in_doubt", cause="timed_out")
                given_up.append(Ended(work=begun, outcome=outcome))
        if self._pool is not None and self.abandoned >= self._limits.concurrency:
            self._pool.shutdown(wait=False)
            self._pool = None
        return self._settle(given_up)

    def _hand_back(self, pending: Pending) -> None:
        given_up = [future for future in pending if future.cancel()]
        self._executor.hand_back([pending.pop(future) for future in given_up])

    def _open_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self._limits.concurrency, thread_name_prefix="takeback-attempt"
            )
        return self._pool


def _seconds_max(work: Work) -> float:
    effect = work.bound.tool.effect
    return (effect.attempt_seconds_max if isinstance(effect, Remote) else 0.0) + GRACE_SECONDS
