"""Asks providers what became of attempts: in threads of its own, each question bounded in time.

No transaction is open meanwhile. A question that outlives its time counts as unanswered, and its
thread is left behind: Python can't stop one. What it says after all is nobody's concern then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime

from takeback.client.face import Broke, performed, try_face
from takeback.dispatch.work import Work
from takeback.log import logger
from takeback.model import errors
from takeback.model.handler import Absent, Performed

Answer = Performed | Absent | None
"""What a provider says of an attempt; None is no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """About which attempt, in how many seconds, and until when nobody else asks: the fence of the
    answer.
    """

    work: Work
    seconds_max: float
    held_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question that is over."""

    question: Question
    answer: Answer


class Asker:
    """Has at most ``threads`` questions under way. Not for several threads at once."""

    def __init__(self, threads: int, *, monotonic: Callable[[], float]) -> None:
        self._threads = threads
        self._monotonic = monotonic
        self._pool: ThreadPoolExecutor | None = None
        self._pending: dict[Future[Answer], tuple[Question, float]] = {}
        self._left: list[Future[Answer]] = []

    @property
    def room(self) -> int:
        """How many more may be asked now."""
        return self._threads - len(self._pending)

    @property
    def busy(self) -> int:
        """How many questions are under way."""
        return len(self._pending)

    @property
    def abandoned(self) -> int:
        """Threads that are still busy with a question that was given up."""
        return sum(not future.done() for future in self._left)

    def ask(self, question: Question) -> None:
        """Asks; there is room."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="takeback-asking")
        future = self._pool.submit(_ask, question.work)
        self._pending[future] = (question, self._monotonic() + question.seconds_max)

    def look(self, seconds: float) -> Sequence[Answered]:
        """The questions that are over, waiting at most ``seconds`` for all of them."""
        done, _ = wait(self._pending, timeout=seconds)
        ended = [
            Answered(question=self._pending.pop(future)[0], answer=_answer_of(future))
            for future in done
        ]
        return [*ended, *self._given_up()]

    def leave(self) -> None:
        """Lets the threads go; what is under way is asked again by somebody else."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _given_up(self) -> list[Answered]:
        late = [f for f, (_, ends_at) in self._pending.items() if self._monotonic() >= ends_at]
        given_up = []
        for future in late:
            question, _ = self._pending.pop(future)
            logger.error("question_given_up", ref=question.work.intent.ref)
            given_up.append(Answered(question=question, answer=None))
            self._left.append(future)
        if late and self._pool is not None:
            # New threads in place of those that hang; none waits, since only so many are asked.
            self._pool.shutdown(wait=False)
            self._pool = None
        self._left = [future for future in self._left if not future.done()]
        return given_up


def _ask(work: Work) -> Answer:
    find = work.bound.handler.find
    assert find is not None
    try:
        answer = try_face(find, work.given, work.attempt())
    except errors.TakebackError as problem:
        logger.info("question_not_answered", ref=work.intent.ref, reason=str(problem))
        return None
    if isinstance(answer, Broke):
        logger.error("question_broke", ref=work.intent.ref, exc_info=answer.problem)
        return None
    if answer is None or isinstance(answer, Absent):
        return answer
    return performed(answer)


def _answer_of(future: Future[Answer]) -> Answer:
    """An answer that ended in SystemExit or the like is none."""
    problem = future.exception()
    if problem is not None:
        logger.error("question_broke", exc_info=problem)
        return None
    return future.result()
