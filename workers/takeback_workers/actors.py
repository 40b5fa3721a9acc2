"""The workers of a broker, as a program: ``dramatiq takeback_workers.actors``.

An actor for each priority. It is handed the tenant and the id of an intent that may be due, and
waits until there is nothing more to do for it in this process: the ledger decides who claims it,
and the engine of ``takeback worker`` carries it out. Importing this module reads the settings,
loads the app and names the broker to dramatiq, which is what dramatiq wants of a program.
"""

from __future__ import annotations

import logging
import sys
from functools import partial

import dramatiq

from takeback import Takeback, log
from takeback.declare import Priority
from takeback.log import logger
from takeback.meter import Count
from takeback.model.errors import InvalidCatalog, InvalidSettings
from takeback.process import bound_memory, watch
from takeback_workers import load_app
from takeback_workers.broker import NO_BROKER, open_broker
from takeback_workers.shift import Shift, Tally, pass_on
from takeback_workers.wake_up import QUEUES, actor_of, named_by, queue_of, wake_up, word_of

UNUSABLE = 2
"""How the process ends where a setting or the app can't be used, as the command line does."""

PORTS = 64
"""The processes of one dramatiq serve their metrics each at a port of its own: so many at most."""


def wake(priority: Priority, tenant: str, intent_id: str) -> None:
    """Carries out the intent, if it may be claimed now; returns when nothing more is to be done."""
    wanted = named_by((tenant, intent_id))
    if wanted is None or tenant != app.settings.tenant:
        queue = queue_of(app.settings.tenant, priority)
        logger.error("no_wake_up", queue=queue, dropped=tenant)
        count_dropped(queue)
        return
    if not shift.carry_out(wanted):
        pass_on(broker, wake_up(*wanted, priority), app.context.meter)


def count_dropped(queue: str) -> None:
    """A message was no wake-up of ours."""
    if app.context.meter is not None:
        app.context.meter.add(Count.WAKE_UPS_POISONED, word_of(queue))


def open_app() -> tuple[Takeback, str]:
    """The app, and the broker's URL. Ends the process with UNUSABLE where either can't be used:
    dramatiq would print the traceback of its import.
    """
    try:
        opened = load_app()
        if opened.settings.broker_url is None:
            raise InvalidSettings(NO_BROKER)
    except (InvalidSettings, InvalidCatalog) as refused:
        sys.stderr.write(
            f"actors can't start: {refused}\n"
            "next: set that, and start `dramatiq takeback_workers.actors` again\n"
        )
        raise SystemExit(UNUSABLE) from None
    return opened, opened.settings.broker_url


app, broker_url = open_app()
log.configure(app.settings.log)
bound_memory(app.settings.memory_mb)
# One log: what dramatiq has to say is said as we say it.
logging.getLogger("dramatiq").handlers = logging.getLogger("takeback").handlers
logging.getLogger("dramatiq").propagate = False

watched = watch(app, "actors")
shift = Shift(app)
if watched is not None:
    watched.expose(shift.pulse, ports=PORTS)
middleware = [shift, Tally(shift, app.context)]
broker = open_broker(broker_url, middleware, dropped=count_dropped)
dramatiq.set_broker(broker)
for one in QUEUES:
    dramatiq.actor(
        broker=broker,
        actor_name=actor_of(one),
        queue_name=queue_of(app.settings.tenant, one),
        priority=-one,  # dramatiq takes the lowest first
    )(partial(wake, one))
