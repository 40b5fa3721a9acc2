"""A connection of our own that waits for no answer for ever.

Keepalives find out that the other side's machine is gone. They don't where the machine lives and
nobody answers: a server that is stopped, a pooler or a balancer that holds on to what it was told.
What was asked is cancelled, the connection is closed, and whoever asked hears of a lost connection.
"""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import psycopg

CANCEL_SECONDS_MAX = 2.0
"""How long the server is asked to end what nobody waits for any more."""


class PatientConnection(psycopg.Connection[Any]):
    """Gives up each exchange with the server after ``answer_seconds_max``."""

    answer_seconds_max = 60.0

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """As of psycopg. Raises OperationalError when the server says nothing for too long."""
        if "timeout" in options:
            return super().wait(gen, *arguments, **options)
        options["timeout"] = self.answer_seconds_max
        try:
            return super().wait(gen, *arguments, **options)
        except psycopg.errors._WaitTimeout as problem:
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=CANCEL_SECONDS_MAX)
            self.pgconn.finish()
            raise psycopg.OperationalError(
                f"the server has not answered for {self.answer_seconds_max:g} s"
            ) from problem


DRIVER = ModuleType("takeback.ledger.patience.driver")
"""psycopg as SQLAlchemy is handed it, but for whose connections it opens."""
DRIVER.__dict__.update(vars(psycopg) | {"connect": PatientConnection.connect})
