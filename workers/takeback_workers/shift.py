"""What a process of dramatiq's does beside handing messages on: begins work, counts it, and stops.

Middleware of our own in place of dramatiq's: its time limits and shutdown raise exceptions inside
of threads, its retries would be a second owner of what the ledger decides, and its exporter opens a
port to everybody.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from dramatiq import Broker, Message
from dramatiq.broker import MessageProxy
from dramatiq.middleware import Middleware

from takeback import Takeback
from takeback.client.context import Context
from takeback.dispatch.pace import check_pace
from takeback.dispatch.pulse import Pulse
from takeback.dispatch.responder import Responder
from takeback.dispatch.work import Identity
from takeback.log import logger
from takeback.meter import Count, Meter
from takeback.model.errors import BrokerUnavailable
from takeback_workers.broker import translated
from takeback_workers.wake_up import word_of

STOP_SECONDS_MAX = 6.0
"""How long a stop waits for attempts: dramatiq needs seconds of its own to notice and to leave."""

FORCE_SECONDS = 8.0
"""Whatever a process is stuck in, it is gone so long after it began to stop. While its broker is
away dramatiq tries for ten minutes to acknowledge what was done."""

SAME_SECONDS = 1.0
"""A second signal so soon is the same stop: a process manager tells every process of a group, and
dramatiq tells its own once more. One that comes later ends the process at once."""

KILLED = 3
"""The exit code that dramatiq gives to who was told twice."""

STOPPING = (signal.SIGTERM, signal.SIGHUP)
"""What dramatiq's processes stop on; it sends them a SIGTERM where it is sent a SIGINT itself."""

LEAVE_SECONDS = 2.0
START_SECONDS_MAX = 30.0
TALLY_SECONDS = 60.0
"""How often the log is told what was done, while there is something to tell."""


class Shift(Middleware):
    """Carries out what this process is woken for, from the start of its worker to the end."""

    def __init__(self, app: Takeback) -> None:
        """Raises InvalidSettings when the times of the settings and of the rows contradict."""
        self._app = app
        self._pace = replace(app.pace, stop_seconds_max=STOP_SECONDS_MAX)
        check_pace(self._pace, app.registry)
        self._responder: Responder | None = None
        self._thread: threading.Thread | None = None
        self._has_begun = threading.Event()
        self._told_at: float | None = None
        self._is_ending = False
        self._has_failed = False

    def carry_out(self, wanted: Identity) -> bool:
        """As ``Responder.carry_out``; waits for the shift to begin."""
        self._has_begun.wait(START_SECONDS_MAX)
        return self._responder is not None and self._responder.carry_out(wanted)

    def pulse(self) -> Pulse | None:
        """How it is; None before its worker has begun."""
        return self._responder.pulse() if self._responder else None

    @property
    def claimed(self) -> int:
        """How many intents were claimed so far."""
        return self._responder.claimed if self._responder else 0

    def after_worker_boot(self, broker: Broker, worker: Any) -> None:
        """As many attempts beside each other as dramatiq has threads that wait for them."""
        self._heed_signals()
        pace = replace(self._pace, concurrency=worker.worker_threads)
        name = f"{socket.gethostname()}:{os.getpid()}"
        context = self._app.context
        self._responder = Responder(context, pace, name=name, monotonic=context.monotonic)
        self._thread = threading.Thread(target=self._run, name="takeback-responder", daemon=True)
        self._thread.start()
        self._has_begun.set()
        logger.info("actors_started", worker=name, concurrency=pace.concurrency)

    def before_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """Nothing more is begun; what runs is finished or handed back, and the process ends."""
        self._is_ending = True
        self._leave_after(FORCE_SECONDS)
        if self._responder is not None:
            self._responder.stop()

    def after_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """Soon, also where an attempt hangs: Python would wait for its thread."""
        if self._responder is None or self._thread is None:
            return
        self._thread.join(LEAVE_SECONDS)
        self._app.close()
        logger.info("actors_stopped", abandoned=self._responder.abandoned)
        if self._responder.abandoned or self._has_failed:
            self._leave_after(LEAVE_SECONDS)

    def _heed_signals(self) -> None:
        """Stands before dramatiq's own, which would leave without a stop when it is told twice, and
        without an end where an attempt hangs.
        """
        for number in STOPPING:
            former = signal.getsignal(number)
            if callable(former):
                signal.signal(number, partial(self._told, former))

    def _told(self, former: Callable[[int, Any], object], number: int, frame: Any) -> None:
        now = self._app.context.monotonic()
        if self._told_at is None:
            self._told_at = now
            former(number, frame)
        elif now - self._told_at >= SAME_SECONDS:
            os._exit(KILLED)

    def _leave_after(self, seconds: float) -> None:
        leaving = threading.Timer(seconds, self._leave)
        leaving.daemon = True
        leaving.start()

    def _leave(self) -> None:
        """Nothing is lost by it: what is not settled is taken over when its lease is over."""
        is_settled = self._thread is not None and not self._thread.is_alive()
        logger.warning("stopped_by_force", is_settled=is_settled)
        os._exit(0 if is_settled and not self._has_failed else 1)

    def _run(self) -> None:
        assert self._responder is not None
        try:
            self._responder.run()
        finally:
            if not self._is_ending:
                # A fault that stays, or too many attempts that hang: another process is rid of it.
                self._has_failed = True
                logger.error("responder_ended", abandoned=self._responder.abandoned)
                os.kill(os.getpid(), signal.SIGTERM)


class Tally(Middleware):
    """Counts wake-ups and what came of them, for the log and for whoever watches."""

    def __init__(self, shift: Shift, context: Context) -> None:
        self._shift = shift
        self._meter = context.meter
        self._monotonic = context.monotonic
        self._lock = threading.Lock()
        self._handled = 0
        self._broken = 0
        self._said = 0
        self._say_at = self._monotonic() + TALLY_SECONDS

    def after_process_message(
        self,
        broker: Broker,
        message: MessageProxy,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        """One more."""
        if self._meter is not None:
            self._meter.add(Count.WAKE_UPS_RECEIVED, word_of(message.queue_name))
        with self._lock:
            self._handled += 1
            self._broken += exception is not None
            is_time = self._monotonic() >= self._say_at
        if is_time:
            self._say()

    def before_worker_shutdown(self, broker: Broker, worker: Any) -> None:
        """The last line says it all."""
        self._say()

    def _say(self) -> None:
        with self._lock:
            self._say_at = self._monotonic() + TALLY_SECONDS
            is_news, self._said = self._handled != self._said, self._handled
        if is_news:
            logger.info(
                "wake_ups",
                handled=self._handled,
                claimed=self._shift.claimed,
                broken=self._broken,
            )


def pass_on(broker: Broker, message: Message[None], meter: Meter | None = None) -> None:
    """Puts a wake-up back for others. Where the broker is away, the ticker finds what it named."""
    try:
        with translated():
            broker.enqueue(message)
        if meter is not None:
            meter.add(Count.WAKE_UPS_PASSED_ON, word_of(message.queue_name))
    except BrokerUnavailable as problem:
        logger.warning("wake_up_not_passed_on", code=problem.code)
