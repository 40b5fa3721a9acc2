"""Looks for freezes once more before a call that was begun with its claim and then stood in line.

Whoever claims has looked for freezes, and for a provider that keeps our key it has begun in the
same transaction. Behind others in the line such a call may wait long enough for a person to stop
it. One look serves all that is called within ``FRESH_SECONDS`` of it, so that quick attempts cost
nothing; while the database is away nothing that has stood so long is called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from takeback.client.context import Context
from takeback.ledger.braking import Freeze, in_force
from takeback.log import logger
from takeback.model.errors import Unavailable
from takeback.model.intent import Intent

FRESH_SECONDS = 0.25
"""So long after a claim, or a look, a call is made without another."""

NEVER = float("-inf")


@dataclass(slots=True, kw_only=True)
class Brake:
    """What the threads of one worker know of freezes. For several of them at once."""

    context: Context
    monotonic: Callable[[], float]
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _looked_at: float = field(default=NEVER, init=False)
    _found: Sequence[Freeze] | None = field(default=(), init=False)

    def holds(self, intent: Intent, claimed_at: float) -> bool:
        """Whether ``intent``, claimed ``claimed_at`` by ``monotonic``, must not be called now."""
        with self._lock:
            if self.monotonic() - max(claimed_at, self._looked_at) > FRESH_SECONDS:
                self._looked_at = self.monotonic()
                self._found = self._look()
            if self._looked_at <= claimed_at:
                return False
            return self._found is None or any(
                one.scope.covers(intent.tenant, intent.tool, intent.run) for one in self._found
            )

    def _look(self) -> Sequence[Freeze] | None:
        """The freezes in force; None where nobody can say."""
        try:
            with self.context.database.statements(for_work=True) as tx:
                return in_force(tx)
        except Unavailable as problem:
            logger.warning("calls_held_back", code=problem.code)
            return None
