"""The threads of one worker: attempts run beside each other, and are settled in groups.

A Local effect is settled by its own thread, in its own transaction.

An attempt that outlives its time is in doubt, and its thread is left behind: Python can't stop one.
When its answer comes after all, it is recorded as late. Outcomes that can't be written yet, since
the database is away or somebody holds a row, are kept and tried again; they stop nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from takeback.client.context import Context
from takeback.dispatch.executor import Ended, Executor
from takeback.dispatch.outcome import INTERRUPTED, SETTLED, Outcome
from takeback.dispatch.pace import Pace
from takeback.dispatch.performer import Performer
from takeback.dispatch.renewer import Renewer, Running
from takeback.dispatch.settler import Settler
from takeback.dispatch.work import Identity, Work, identity
from takeback.log import logger
from takeback.model import errors
from takeback.model.command import DoubtCause

GATHER_SECONDS = 0.005
"""Quick attempts are settled together: this long one waits for others to end too."""

LOOK_SECONDS = 0.25
"""How often a stop and overdue attempts are looked at while attempts run."""

HELD_SECONDS = 0.1
"""How often an outcome is tried again whose row somebody holds."""

STOP_PAUSE_SECONDS = 0.05
"""Between tries to write the last outcomes while a worker stops."""


@dataclass(slots=True, kw_only=True)
class Task:
    """A claim for a thread, with the end of its lease; ``running`` once it has begun."""

    work: Work
    lease_ends_at: float
    running: Running | None = None


Pending = dict[Future[Ended | None], Task]


class Crew:
    """Carries out claims on ``pace.concurrency`` threads. Not for several threads at once."""

    def __init__(
        self,
        executor: Executor,
        performer: Performer,
        settler: Settler,
        renewer: Renewer,
        pace: Pace,
        *,
        monotonic: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        self._executor = executor
        self._performer = performer
        self._settler = settler
        self.renewer = renewer
        self._pace = pace
        self._monotonic = monotonic
        self._pause = pause
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Pending = {}
        self._late: Pending = {}
        self._open: list[Ended] = []
        self._open_again_at = 0.0
        self._is_stopping = False
        self._settled_apart = 0

    @property
    def busy(self) -> int:
        """Attempts that run or wait for a thread."""
        return len(self._pending)

    @property
    def open(self) -> int:
        """Outcomes that are known and not written yet."""
        return len(self._open)

    @property
    def at_work(self) -> set[Identity]:
        """Whose attempts run, wait for a thread, or have an outcome that is not written yet."""
        running = {identity(task.work.intent) for task in self._pending.values()}
        return running | {identity(one.work.intent) for one in self._open}

    @property
    def abandoned(self) -> int:
        """Threads that are still busy with an attempt that was given up."""
        return sum(not future.done() for future in self._late)

    def take_on(self, works: Sequence[Work], lease_ends_at: float) -> None:
        """Starts the attempts; ``lease_ends_at`` is when their claim is over."""
        self.renewer.start()
        for work in works:
            self._submit(Task(work=work, lease_ends_at=lease_ends_at))

    def look(self, seconds: float) -> int:
        """Settles what has ended; answers with how many attempts it has written down.

        Waits at most ``seconds`` for an attempt to end. Raises Unavailable, and keeps what it
        could not write.
        """
        ended = [*self._ended(seconds), *self._overdue(), *self._answered_late()]
        if self._open and (ended or self._monotonic() >= self._open_again_at):
            ended, self._open = [*self._open, *ended], []
        if not ended:
            return self._count([])
        left = ended
        try:
            left = self._settler.settle(ended)
        finally:
            self._open += left
            self._open_again_at = self._monotonic() + HELD_SECONDS
        kept = {id(one) for one in left}
        return self._count([one for one in ended if id(one) not in kept])

    def _count(self, written: Sequence[Ended]) -> int:
        apart, self._settled_apart = self._settled_apart, 0
        return apart + sum(one.outcome is not INTERRUPTED for one in written)

    def stop(self) -> int:
        """Hands back what was not called and waits a while for the rest; like ``look``."""
        self._is_stopping = True
        stop_at = self._monotonic() + self._pace.stop_seconds_max
        self._interrupt()
        settled = 0
        while (self._pending or self._open) and self._monotonic() < stop_at:
            settled += self._look_and_wait(stop_at)
        if self._pending:
            self._leave_running()
            settled += self._look_and_wait(stop_at)
        if self._open:
            refs = [one.work.intent.ref for one in self._open]
            logger.error("outcomes_not_written", refs=refs)
        return settled

    def leave(self) -> None:
        """Lets the threads go; those of abandoned attempts end with the process."""
        self.renewer.stop()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _submit(self, task: Task) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self._pace.concurrency, thread_name_prefix="takeback-attempt"
            )
        self._pending[self._pool.submit(self._attempt, task)] = task

    def _attempt(self, task: Task) -> Ended | None:
        if self._is_stopping:
            return Ended(work=task.work, outcome=INTERRUPTED)
        if task.work.is_local:
            task.running = self._running(task.work, task.lease_ends_at)
            return self._performer.perform(task.work, task.lease_ends_at)
        asked_at = self._monotonic()
        begun = self._executor.begin(task.work, task.lease_ends_at)
        if not isinstance(begun, Work):
            return begun
        is_fresh = task.work.intent.attempt < begun.intent.attempt
        own_end = asked_at + self._pace.lease.total_seconds()
        running = self._running(begun, own_end if is_fresh else task.lease_ends_at)
        self.renewer.hold(running)
        task.running = running
        return Ended(work=begun, outcome=self._executor.perform(begun))

    def _running(self, work: Work, lease_ends_at: float) -> Running:
        return Running(work=work, began_at=self._monotonic(), lease_ends_at=lease_ends_at)

    def _ended(self, seconds: float) -> list[Ended]:
        done, _ = wait(self._pending, timeout=GATHER_SECONDS)
        if not done and seconds > GATHER_SECONDS:
            done, _ = wait(self._pending, timeout=seconds, return_when=FIRST_COMPLETED)
        return [one for future in done for one in self._end(future, self._pending.pop(future))]

    def _answered_late(self) -> list[Ended]:
        done = [future for future in self._late if future.done()]
        return [one for future in done for one in self._end(future, self._late.pop(future))]

    def _end(self, future: Future[Ended | None], task: Task) -> list[Ended]:
        """An attempt that ended in SystemExit or the like is in doubt as any other.

        What could not even begin, and not for want of the database, waits for its lease to end:
        handed back, it would only come again at once. So does a Local effect, which is undone then.
        """
        work, begun = task.work, None
        if task.running is not None:
            self.renewer.let_go(task.running)
            begun = None if work.is_local else task.running.work
        if future.cancelled():
            return [Ended(work=work, outcome=INTERRUPTED)]
        problem = future.exception()
        if problem is None:
            ended = future.result()
            is_settled = ended is not None and ended.outcome is SETTLED
            self._settled_apart += is_settled
            return [] if ended is None or is_settled else [ended]
        logger.error("attempt_broke", ref=work.intent.ref, exc_info=problem)
        if begun is None and isinstance(problem, errors.Unavailable):
            return [Ended(work=work, outcome=INTERRUPTED)]
        if begun is None:
            return []
        return [Ended(work=begun, outcome=Outcome(kind="in_doubt", cause="exception"))]

    def _overdue(self) -> list[Ended]:
        given_up: list[Ended] = []
        hangs = False
        for future, task in list(self._pending.items()):
            running = task.running
            if running is None:
                continue
            if self._monotonic() - running.began_at > self._seconds_max(running.work):
                given_up += self._give_up(future, running, "timed_out")
                hangs = True
            elif not running.work.is_local and not self.renewer.is_owned(running):
                given_up += self._give_up(future, running, "lease_over")
                hangs = True
        if hangs:
            self._replace_threads()
        return given_up

    def _seconds_max(self, work: Work) -> float:
        """A Local effect has its lease: the server ends a transaction that hangs that long."""
        return self._pace.lease.total_seconds() if work.is_local else work.seconds_max

    def _give_up(
        self, future: Future[Ended | None], running: Running, cause: DoubtCause
    ) -> list[Ended]:
        """In doubt from now on; what became of a Local effect, its own transaction says."""
        self._late[future] = self._pending.pop(future)
        self.renewer.let_go(running)
        begun = running.work
        logger.error("attempt_given_up", ref=begun.intent.ref, cause=cause)
        if begun.is_local:
            return []
        return [Ended(work=begun, outcome=Outcome(kind="in_doubt", cause=cause))]

    def _replace_threads(self) -> None:
        """New threads in place of those that hang; what waited for one moves over."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None
        for future in [future for future in self._pending if future.cancel()]:
            self._submit(self._pending.pop(future))

    def _interrupt(self) -> None:
        """Cancels what no thread has taken up."""
        for future in [future for future in self._pending if future.cancel()]:
            self._open += self._end(future, self._pending.pop(future))
        self._open_again_at = self._monotonic()

    def _leave_running(self) -> None:
        logger.warning("stopped_while_executing", attempts=len(self._pending))
        for future, task in list(self._pending.items()):
            if task.running is not None:
                self._open += self._give_up(future, task.running, "interrupted")
        self._open_again_at = self._monotonic()

    def _look_and_wait(self, stop_at: float) -> int:
        """A database that is away while a worker stops is waited for no longer than attempts."""
        try:
            settled = self.look(min(LOOK_SECONDS, max(stop_at - self._monotonic(), 0.0)))
        except errors.Unavailable as problem:
            logger.warning("settle_delayed", code=problem.code, outcomes=len(self._open))
            settled = 0
        if self._open:
            self._pause(STOP_PAUSE_SECONDS)
        return settled


def crew_of(context: Context, pace: Pace, *, monotonic: Callable[[], float]) -> Crew:
    """A crew that begins, performs and settles in the ledger of ``context``."""
    return Crew(
        Executor(context=context, pace=pace, monotonic=monotonic),
        Performer(context=context, pace=pace, monotonic=monotonic),
        Settler(context),
        Renewer(context, pace, monotonic=monotonic),
        pace,
        monotonic=monotonic,
        pause=context.pause,
    )
