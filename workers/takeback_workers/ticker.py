"""The ticker: wakes the workers of a broker for whatever has fallen due in the ledger.

Sleeps until the next due instant, then publishes the ids of what may be claimed, in batches. What
it has published it remembers, and publishes again only after a while in which nobody has claimed
it: soon where its queue is empty, so that the message is nowhere, and late where it is not. The
memory is no truth: a ticker that starts knows nothing, and wakes for everything that is due. So any
number of them may run. It also sweeps, so that the leases of dead workers end and providers are
asked what became of their attempts: among actors and tickers nobody else does.

While the broker is away the ledger goes on recording. The ticker looks for the broker ever more
seldom, and then wakes for all that is due; told to stand in, it carries it out itself meanwhile.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import islice

from takeback import Takeback, log
from takeback.declare import HIGH, LOW, NORMAL, Priority
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pulse import PULSE_SECONDS, Pulse
from takeback.dispatch.responder import FAULTS
from takeback.dispatch.sweep import Sweep
from takeback.dispatch.trouble import Troubles
from takeback.dispatch.work import Identity
from takeback.dispatch.worker import SWEEP_SECONDS, Worker
from takeback.ledger.claiming import Agenda, Due
from takeback.log import logger
from takeback.meter import Count
from takeback.model import errors
from takeback.process import NO_LEDGER, bound_memory, stoppable, watch
from takeback_workers.broker import NO_BROKER, Post
from takeback_workers.wake_up import QUEUES

WINDOW = 1000
"""So many wake-ups of a kind may wait at once: more would only grow old, or be lost together."""

TURN = 300
"""So many of each priority are published between two looks at the ledger, the most urgent first:
what is recorded meanwhile doesn't wait until a backlog is published."""

BATCH = 100
"""So many are published between two looks at whether it is to stop."""

DOUBLINGS_MAX = 3
"""So often is the time doubled after which it is published once more."""

LOOK_SECONDS_MIN = 0.05
"""How soon it looks again after it has found something; then ever more seldom."""

LOOK_SECONDS_MAX = 2.0

ANSWER_LOOK_SECONDS = 0.1
"""How often answers are looked for while providers are asked what became of attempts."""

AGAIN_SECONDS = 2.0
"""What nobody has claimed for so long is published again, where its queue is empty."""

AGAIN_SECONDS_BEHIND = 60.0
"""The same where others wait in the queue: it stands behind them, most likely, and a second would
keep whatever comes after it waiting longer. By queue, and so by priority."""

EVERYWHERE_SECONDS = 1.0

STAND_IN_SECONDS = 5.0
"""A broker that restarts is waited for this long; then a ticker that stands in begins."""

REASON_LENGTH_MAX = 200

PROBE_SECONDS = 2.0
"""How often one who stands in looks whether the broker is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Published:
    """What was published of an intent: at which version, how often, and when last."""

    version: int
    times: int
    at: float


@dataclass(slots=True)
class Ticked:
    """What a ticker has done so far: wake-ups published, leases ended, and of the attempts that it
    carried out itself how many succeeded (``performed``), failed, were put off or are in doubt.

    ``abandoned`` threads are still busy and can't be ended.
    """

    published: int = 0
    taken_over: int = 0
    performed: int = 0
    failed: int = 0
    deferred: int = 0
    in_doubt: int = 0
    abandoned: int = 0


def priority_of(due: Due) -> Priority:
    """In which queue a wake-up stands: the one place that says so."""
    if due.priority == NORMAL:
        return NORMAL
    return HIGH if due.priority > NORMAL else LOW


class Ticker:
    """Wakes others for what is due of the tenant of ``app``, by way of ``post``.

    ``sleep`` waits for that many seconds or until it is told to stop; ``stopping`` says whether it
    was. One that ``stands_in`` carries out itself what is due while the broker is away.
    """

    def __init__(
        self,
        app: Takeback,
        post: Post,
        *,
        name: str,
        sleep: Callable[[float], object],
        stopping: Callable[[], bool],
        monotonic: Callable[[], float],
        stands_in: bool = False,
    ) -> None:
        self.ticked = Ticked()
        pace = app.pace
        self._app = app
        self._post = post
        self._name = name
        self._sleep = sleep
        self._stopping = stopping
        self._stands_in = stands_in
        self._monotonic = monotonic
        self._dispatcher = Dispatcher(app.context, pace, name)
        self._sweep = Sweep(
            app.context, pace, tenant=self._dispatcher.tenant, monotonic=self._monotonic
        )
        self._published: dict[Identity, _Published] = {}
        self._look_seconds = LOOK_SECONDS_MAX
        self._sweep_at = self._monotonic()
        self._pulse_at = self._monotonic() + PULSE_SECONDS
        self._look_everywhere_at = self._monotonic()
        self._probe_at = self._monotonic()
        self._away_since: float | None = None
        self._troubles = Troubles()
        self._turns = 0
        self._succeeded_at = self._monotonic()
        self._stand_in: Worker | None = None

    def pulse(self) -> Pulse:
        """How it is, or the worker that stands in; may be asked by any thread."""
        if (stand_in := self._stand_in) is not None:
            return stand_in.pulse()
        return Pulse(
            turns=self._turns,
            seconds_since_success=round(self._monotonic() - self._succeeded_at, 1),
            busy=0,
            open=0,
            abandoned=self.ticked.abandoned + self._sweep.abandoned,
            performed=self.ticked.performed,
            failed=self.ticked.failed,
            deferred=self.ticked.deferred,
            in_doubt=self.ticked.in_doubt,
            taken_over=self.ticked.taken_over,
        )

    def run(self) -> Ticked:
        """Wakes until it is told to stop. A database or a broker that is away is waited for.

        Raises what is a fault of ours when it comes again and again.
        """
        try:
            while not self._stopping():
                self._tried_turn()
        finally:
            self.ticked.abandoned += self._sweep.abandoned
            self._sweep.leave()
        return self.ticked

    def _tried_turn(self) -> None:
        try:
            self._turn()
        except errors.BrokerUnavailable as problem:
            # Whatever was there may be lost with it: all of it is published anew.
            self._published.clear()
            self._wait_out(problem)
            self._stand_in_when_time()
        except errors.Unavailable as problem:
            self._wait_out(problem)
        except FAULTS as problem:
            is_hopeless = self._troubles.is_hopeless()
            logger.error("ticker_failed", times=self._troubles.faults, exc_info=problem)
            if is_hopeless:
                raise
            self._sleep(self._troubles.pause())
        else:
            self._troubles.end()
            self._turns += 1
            self._succeeded_at = self._monotonic()
            self._say_pulse()

    def _say_pulse(self) -> None:
        if self._monotonic() >= self._pulse_at:
            self._pulse_at = self._monotonic() + PULSE_SECONDS
            logger.info("ticker_pulse", unclaimed=len(self._published), **asdict(self.ticked))

    def _wait_out(self, problem: errors.Unavailable) -> None:
        pause = self._troubles.pause()
        logger.warning("ticker_waits", code=problem.code, reason=_reason(problem), seconds=pause)
        self._sleep(pause)

    def _turn(self) -> None:
        if self._monotonic() >= self._look_everywhere_at:
            # What commits late lies below the marks, and lanes of other releases are not known.
            self._look_everywhere_at = self._monotonic() + EVERYWHERE_SECONDS
            self._dispatcher.look_everywhere()
        agenda = self._dispatcher.agenda()
        self._sweep_when_time(agenda)
        self._sweep.look()
        next_in = agenda.due_in
        if next_in is not None and next_in <= timedelta(0):
            waiting = self._dispatcher.waiting(WINDOW)
            next_in = waiting.next_in
            if self._wake(waiting.due):
                return
        else:
            self._published.clear()
            self._look_seconds = min(self._look_seconds * 2, LOOK_SECONDS_MAX)
        spans = [one.total_seconds() for one in (next_in, agenda.sweep_in) if one is not None]
        longest = ANSWER_LOOK_SECONDS if self._sweep.busy else self._look_seconds
        self._sleep(max(min([*spans, longest]), LOOK_SECONDS_MIN))

    def _sweep_when_time(self, agenda: Agenda) -> None:
        """Not at every turn, since what is over may be held by an open transaction."""
        is_wanted = agenda.sweep_in is not None and agenda.sweep_in <= timedelta(0)
        if is_wanted and self._monotonic() >= self._sweep_at:
            self._sweep_at = self._monotonic() + SWEEP_SECONDS
            self.ticked.taken_over += self._sweep.run_once().taken_over

    def _wake(self, due: Sequence[Due]) -> bool:
        """Publishes what is new among ``due``, and what nobody has claimed for too long, as far as
        one turn goes; says whether there is more.
        """
        known = {(one.tenant, one.id): one for one in due}
        self._published = {who: it for who, it in self._published.items() if who in known}
        every = [*self._unpublished(due), *self._unclaimed(due)]
        wanted = _first_of_each(every)
        for start in range(0, len(wanted), BATCH):
            if self._stopping():
                return False
            batch = wanted[start : start + BATCH]
            self._post.send([(one.id, priority_of(one)) for one in batch])
            for one in batch:
                self._remember(one)
        self._back_again()
        # Whoever finds something may find more soon; who finds a full window certainly does.
        if wanted or len(due) >= WINDOW:
            self._look_seconds = LOOK_SECONDS_MIN
        else:
            self._look_seconds = min(self._look_seconds * 2, LOOK_SECONDS_MAX)
        return len(wanted) < len(every)

    def _remember(self, one: Due) -> None:
        before = self._published.get((one.tenant, one.id))
        is_again = before is not None and before.version == one.version
        times = before.times + 1 if before is not None and is_again else 1
        self._published[(one.tenant, one.id)] = _Published(
            version=one.version, times=times, at=self._monotonic()
        )
        self.ticked.published += 1
        if self._app.context.meter is not None:
            queue = QUEUES[priority_of(one)]
            self._app.context.meter.add(Count.WAKE_UPS_SENT, queue)

    def _unpublished(self, due: Sequence[Due]) -> list[Due]:
        """What is due at a version that nobody was woken for."""
        return [one for one in due if self._last(one) is None]

    def _unclaimed(self, due: Sequence[Due]) -> list[Due]:
        """What was published long ago, each time twice as long, and is nowhere or far behind."""
        ages = [(one, self._age(one)) for one in due]
        if not any(age >= AGAIN_SECONDS for _, age in ages):
            return []
        lengths = self._post.lengths()
        return [one for one, age in ages if age >= _patience(lengths[priority_of(one)])]

    def _last(self, one: Due) -> _Published | None:
        last = self._published.get((one.tenant, one.id))
        return last if last is not None and last.version == one.version else None

    def _age(self, one: Due) -> float:
        """How long ago it was published, in units of its own: halved with every time."""
        last = self._last(one)
        if last is None:
            return 0.0
        return (self._monotonic() - last.at) / float(2 ** min(last.times - 1, DOUBLINGS_MAX))

    def _back_again(self) -> None:
        if self._away_since is not None:
            logger.info("broker_back", after_seconds=round(self._monotonic() - self._away_since, 1))
            self._away_since = None

    def _stand_in_when_time(self) -> None:
        if self._away_since is None:
            self._away_since = self._monotonic()
        is_time = self._monotonic() - self._away_since >= STAND_IN_SECONDS
        if not (self._stands_in and is_time) or self._stopping():
            return
        logger.warning("ticker_stands_in", worker=self._name)
        worker = self._app.worker(name=self._name, sleep=self._sleep, stopping=self._is_relieved)
        self._stand_in = worker
        try:
            tally = worker.run()
        finally:
            self._stand_in = None
        self.ticked.abandoned += worker.abandoned
        self.ticked.performed += tally.performed
        self.ticked.failed += tally.failed
        self.ticked.deferred += tally.deferred
        self.ticked.in_doubt += tally.in_doubt
        self.ticked.taken_over += tally.taken_over

    def _is_relieved(self) -> bool:
        """Whether the broker is back, or there is a stop."""
        if self._stopping():
            return True
        if self._monotonic() < self._probe_at:
            return False
        self._probe_at = self._monotonic() + PROBE_SECONDS
        try:
            self._post.lengths()
        except errors.BrokerUnavailable:
            return False
        return True


def _first_of_each(wanted: Sequence[Due]) -> list[Due]:
    """What is published in one turn: none of a priority holds up those of another."""
    return [
        one
        for priority in QUEUES
        for one in islice((one for one in wanted if priority_of(one) == priority), TURN)
    ]


def _patience(length: int) -> float:
    return AGAIN_SECONDS_BEHIND if length else AGAIN_SECONDS


def _reason(problem: BaseException) -> str | None:
    """What the driver said, on one line."""
    cause = problem.__cause__
    return None if cause is None else " ".join(str(cause).split())[:REASON_LENGTH_MAX]


def _require_broker(post: Post, *, stands_in: bool) -> None:
    """One who stands in begins without the broker, which is waited for as if it had gone away."""
    try:
        post.lengths()
    except errors.BrokerUnavailable as problem:
        if not stands_in:
            raise
        logger.warning("broker_away", code=problem.code, reason=_reason(problem))


def tick(app: Takeback, *, stand_in: bool, metrics: str | None = None) -> Ticked:
    """Runs a ticker until a signal stops it, and closes ``app``. ``metrics`` is in place of the
    setting: where it serves them.

    Raises InvalidSettings without a broker, and DatabaseUnavailable or BrokerUnavailable when one
    of them can't be used at the start; what goes away later is waited for. One who stands in needs
    no broker at the start.
    """
    log.configure(app.settings.log)
    url = app.settings.broker_url
    if url is None:
        raise errors.InvalidSettings(NO_BROKER)
    post = Post(url, app.settings.tenant)
    name = f"{socket.gethostname()}:{os.getpid()}"
    with stoppable() as stop, ExitStack() as stack:
        try:
            if app.health().revision is None:
                raise errors.LedgerClosed(NO_LEDGER)
            _require_broker(post, stands_in=stand_in)
            watched = watch(app, "ticker", metrics)
            # It sweeps, so it runs handlers' find; and one that stands in whatever a worker runs.
            bound_memory(app.settings.memory_mb)
            ticker = Ticker(
                app,
                post,
                name=name,
                sleep=stop.sleep,
                stopping=stop.asked,
                monotonic=app.context.monotonic,
                stands_in=stand_in,
            )
            if watched is not None:
                stack.enter_context(watched.expose(ticker.pulse))
            logger.info("ticker_started", ticker=name, stands_in=stand_in)
            ticked = ticker.run()
            logger.info("ticker_stopped", ticker=name, published=ticked.published)
        finally:
            post.close()
            app.close()
    return ticked
