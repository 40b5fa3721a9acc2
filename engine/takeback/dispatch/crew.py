"""The threads of one worker: attempts run beside each other, and are settled in groups.

The threads share one line of tasks, so that a quick attempt costs no hand-over, and one that takes
long keeps nobody else waiting. While a worker hurries, a group is settled in a thread beside it: so
the database writes down one batch while the worker claims the next. A Local effect is settled by
its own thread, in its own transaction.

What waits in the line for half of its lease is handed back, also while every thread is busy.

An attempt that outlives its time is in doubt, and its thread is left behind: Python can't stop one.
When its answer comes after all, it is recorded as late. Outcomes that can't be written yet, since
the database is away or somebody holds a row, are kept and tried again; they stop nobody.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace

from takeback.client.context import Context
from takeback.dispatch.ends import Ends
from takeback.dispatch.executor import Ended, Executor
from takeback.dispatch.outcome import INTERRUPTED, SETTLED, Outcome, reason_of
from takeback.dispatch.pace import Pace
from takeback.dispatch.performer import Performer
from takeback.dispatch.pulse import Pulse
from takeback.dispatch.renewer import Renewer, Running
from takeback.dispatch.settler import Settler
from takeback.dispatch.work import Identity, Work, identity
from takeback.log import logger
from takeback.model import errors
from takeback.model.command import DoubtCause

GATHER_SECONDS = 0.01
"""Quick attempts are settled together: this long one waits for others to end too."""

BESIDE_MIN = 8
"""A group of so many is settled beside the worker; for fewer it isn't worth a thread."""

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


@dataclass(slots=True)
class Hand:
    """What one thread is at; None between two tasks. With ``is_off`` it takes up no other."""

    task: Task | None = None
    is_off: bool = False


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
        self._clerk: ThreadPoolExecutor | None = None
        self._tasks: dict[int, Task] = {}
        self._line: deque[Task] = deque()
        self._done: deque[tuple[Task, Ended | None]] = deque()
        self._news = threading.Event()
        self._hands: dict[Future[None], Hand] = {}
        self._late: dict[Future[None], Hand] = {}
        self._open: list[Ended] = []
        self._beside: tuple[Future[list[Ended]], list[Ended]] | None = None
        self._open_again_at = 0.0
        self._is_stopping = False
        self._settled_apart = 0

    @property
    def busy(self) -> int:
        """Attempts that run or wait for a thread."""
        return len(self._tasks)

    @property
    def ends(self) -> Ends:
        """What became of what is written down."""
        return self._settler.ends

    def pulse(self, *, turns: int, succeeded_at: float, taken_over: int = 0) -> Pulse:
        """How its worker is, whose last turn succeeded at ``succeeded_at``, by ``monotonic``; may
        be asked by any thread.
        """
        return Pulse(
            turns=turns,
            seconds_since_success=round(self._monotonic() - succeeded_at, 1),
            busy=self.busy,
            open=self.open,
            abandoned=self.abandoned,
            performed=self.ends.count("succeeded"),
            failed=self.ends.count("failed"),
            deferred=self.ends.count("deferred"),
            in_doubt=self.ends.count("in_doubt"),
            taken_over=taken_over,
        )

    @property
    def open(self) -> int:
        """Outcomes that are known and not written yet."""
        return len(self._open) + (len(self._beside[1]) if self._beside else 0)

    @property
    def at_work(self) -> set[Identity]:
        """Whose attempts run, wait for a thread, or have an outcome that is not written yet."""
        running = {identity(task.work.intent) for task in self._tasks.values()}
        beside = self._beside[1] if self._beside else []
        return running | {identity(one.work.intent) for one in [*self._open, *beside]}

    @property
    def abandoned(self) -> int:
        """Threads that are still busy with an attempt that was given up."""
        return sum(not future.done() for future in self._late)

    def take_on(self, works: Sequence[Work], lease_ends_at: float) -> None:
        """Starts the attempts; ``lease_ends_at`` is when their claim is over."""
        self.renewer.start()
        tasks = [Task(work=work, lease_ends_at=lease_ends_at) for work in works]
        self._tasks |= {id(task): task for task in tasks}
        self._line.extend(tasks)
        self._man()

    def look(self, seconds: float, *, beside: bool = False) -> int:
        """Settles what has ended; answers with how many attempts are written down by now.

        Waits at most ``seconds`` for an attempt to end. With ``beside`` what has ended may still be
        being written when it comes back. Raises Unavailable, and keeps what could not be written.
        """
        ended = [*self._ended(seconds), *self._overdue(), *self._handed_back(self._waits_too_long)]
        self._open += ended
        is_beside = beside and len(self._open) >= BESIDE_MIN and not self._is_stopping
        written = self._collected()
        if self._open and (ended or self._monotonic() >= self._open_again_at):
            group, self._open = self._open, []
            if is_beside:
                self._beside = (self._at_desk().submit(self._settler.settle, group), group)
            else:
                written += self._noted(group, lambda: self._settler.settle(group))
        return self._count(written)

    def _collected(self) -> list[Ended]:
        """What was settled beside; waits for it."""
        if self._beside is None:
            return []
        (future, group), self._beside = self._beside, None
        return self._noted(group, future.result)

    def _noted(self, group: list[Ended], settle: Callable[[], list[Ended]]) -> list[Ended]:
        """What is written of a group once ``settle`` has said what is left of it."""
        left = group
        try:
            left = settle()
        finally:
            self._open += left
            self._open_again_at = self._monotonic() + HELD_SECONDS
        kept = {id(one) for one in left}
        return [one for one in group if id(one) not in kept]

    def _at_desk(self) -> ThreadPoolExecutor:
        if self._clerk is None:
            self._clerk = ThreadPoolExecutor(1, thread_name_prefix="takeback-settler")
        return self._clerk

    def _count(self, written: Sequence[Ended]) -> int:
        apart, self._settled_apart = self._settled_apart, 0
        return apart + sum(one.outcome is not INTERRUPTED for one in written)

    def stop(self) -> int:
        """Hands back what was not called and waits a while for the rest; like ``look``."""
        self._is_stopping = True
        stop_at = self._monotonic() + self._pace.stop_seconds_max
        self._interrupt()
        settled = 0
        while (self._tasks or self.open) and self._monotonic() < stop_at:
            settled += self._look_and_wait(stop_at)
        if self._tasks or self._beside is not None:
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
        if self._clerk is not None:
            self._clerk.shutdown(wait=False)
            self._clerk = None

    def _man(self) -> None:
        """A thread for each task in the line, up to as many as there may be."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(
                self._pace.concurrency, thread_name_prefix="takeback-attempt"
            )
        for _ in range(min(len(self._line), self._pace.concurrency - len(self._hands))):
            hand = Hand()
            self._hands[self._pool.submit(self._work_through, hand)] = hand

    def _work_through(self, hand: Hand) -> None:
        while not hand.is_off:
            try:
                hand.task = task = self._line.popleft()
            except IndexError:
                return
            self._done.append((task, self._attempt(task)))
            hand.task = None
            self._news.set()

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
        wait(self._hands, timeout=GATHER_SECONDS)
        if not self._done and self._hands and seconds > GATHER_SECONDS:
            self._news.wait(seconds)
        self._news.clear()
        ended = []
        while self._done:
            ended += self._end(*self._done.popleft())
        for hands in (self._hands, self._late):
            for future in [future for future in hands if future.done()]:
                ended += self._end_hand(future, hands.pop(future))
        self._man()
        return ended

    def _end_hand(self, future: Future[None], hand: Hand) -> list[Ended]:
        """A thread has come to its end: nothing was left for it, or its attempt broke it."""
        if future.cancelled() or (problem := future.exception()) is None or hand.task is None:
            return []
        return self._end_broken(hand.task, problem)

    def _end(self, task: Task, ended: Ended | None) -> list[Ended]:
        is_late = id(task) not in self._tasks
        self._let_go(task)
        is_settled = ended is not None and ended.outcome is SETTLED
        self._settled_apart += is_settled
        return [] if ended is None or is_settled else [replace(ended, is_late=is_late)]

    def _end_broken(self, task: Task, problem: BaseException) -> list[Ended]:
        """An attempt that ended in SystemExit or the like is in doubt as any other.

        What could not even begin, and not for want of the database, waits for its lease to end:
        handed back, it would only come again at once. So does a Local effect, which is undone then.
        """
        is_late = id(task) not in self._tasks
        begun = self._let_go(task)
        logger.error("attempt_broke", ref=task.work.intent.ref, exc_info=problem)
        if begun is None and isinstance(problem, errors.Unavailable):
            return [Ended(work=task.work, outcome=INTERRUPTED)]
        if begun is None:
            return []
        outcome = Outcome(kind="in_doubt", cause="exception", reason=reason_of(problem))
        return [Ended(work=begun, outcome=outcome, is_late=is_late)]

    def _let_go(self, task: Task) -> Work | None:
        """The task is over: the work as it had begun, None where it had not, or is Local."""
        self._tasks.pop(id(task), None)
        if task.running is None:
            return None
        self.renewer.let_go(task.running)
        return None if task.work.is_local else task.running.work

    def _overdue(self) -> list[Ended]:
        given_up: list[Ended] = []
        hangs = False
        for future, hand in [*self._hands.items(), *self._late.items()]:
            task = hand.task
            if task is None or task.running is None or id(task) not in self._tasks:
                continue
            running = task.running
            if self._monotonic() - running.began_at > self._seconds_max(running.work):
                given_up += self._give_up(future, task, running, "timed_out")
            elif not running.work.is_local and not self.renewer.is_owned(running):
                given_up += self._give_up(future, task, running, "lease_over")
            else:
                continue
            hangs = True
        if hangs:
            self._replace_threads()
        return given_up

    def _seconds_max(self, work: Work) -> float:
        """A Local effect has its lease: the server ends a transaction that hangs that long."""
        return self._pace.lease.total_seconds() if work.is_local else work.seconds_max

    def _give_up(
        self, future: Future[None], task: Task, running: Running, cause: DoubtCause
    ) -> list[Ended]:
        """In doubt from now on; what became of a Local effect, its own transaction says."""
        hand = self._hands.pop(future, None)
        if hand is not None:
            hand.is_off = True
            self._late[future] = hand
        self._tasks.pop(id(task), None)
        self.renewer.let_go(running)
        begun = running.work
        logger.error("attempt_given_up", ref=begun.intent.ref, cause=cause)
        if begun.is_local:
            return []
        return [Ended(work=begun, outcome=Outcome(kind="in_doubt", cause=cause))]

    def _replace_threads(self) -> None:
        """New threads in place of those that hang."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None
        for future in [future for future in self._hands if future.cancel()]:
            del self._hands[future]
        self._man()

    def _interrupt(self) -> None:
        self._open += self._handed_back(lambda _: True)
        self._open_again_at = self._monotonic()

    def _waits_too_long(self, task: Task) -> bool:
        """Whether half of its lease went by in the line: were the rest to go by too, what was begun
        with its claim would be in doubt although nobody has called it.
        """
        return task.lease_ends_at - self._monotonic() < self._pace.lease.total_seconds() / 2

    def _handed_back(self, is_meant: Callable[[Task], bool]) -> list[Ended]:
        """Takes out of the line what no thread has taken up, from its beginning on."""
        taken: list[Task] = []
        # The threads take tasks from the same end at any moment.
        with suppress(IndexError):
            while is_meant(self._line[0]):
                taken.append(self._line.popleft())
        return [
            one
            for task in taken
            for one in self._end(task, Ended(work=task.work, outcome=INTERRUPTED))
        ]

    def _leave_running(self) -> None:
        if self._tasks:
            logger.warning("stopped_while_executing", attempts=len(self._tasks))
        for future, hand in list(self._hands.items()):
            task = hand.task
            if task is not None and task.running is not None:
                self._open += self._give_up(future, task, task.running, "interrupted")
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
    ends = Ends()
    return Crew(
        Executor(context=context, pace=pace, monotonic=monotonic),
        Performer(context=context, pace=pace, monotonic=monotonic, ends=ends),
        Settler(context, ends),
        Renewer(context, pace, monotonic=monotonic),
        pace,
        monotonic=monotonic,
        pause=context.pause,
    )
