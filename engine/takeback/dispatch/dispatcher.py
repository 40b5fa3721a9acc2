"""Claims what is due, in batches, under a lease."""

from __future__ import annotations

from dataclasses import dataclass

from takeback.client.context import Context
from takeback.client.restore_tool import RESTORE
from takeback.declare import Keyed, Remote
from takeback.dispatch.limits import Limits
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import Agenda, Taken, agenda, lock_due
from takeback.model import command as commands
from takeback.model.decide import decide
from takeback.model.evolve import foresee
from takeback.model.intent import Intent


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Finds work for one worker, which is named ``worker`` in the log."""

    context: Context
    limits: Limits
    worker: str

    def run_once(self, limit: int) -> list[Intent]:
        """Claims at most ``limit`` due intents of the tools that this worker has, and commits.

        What goes to a provider that keeps our key is begun in the same transaction: were the
        worker to die before the call, a repeat under the key would be harmless.
        """
        with self.context.database.transaction() as tx:
            taken = lock_due(tx, self._tools(), min(limit, self.limits.batch_max))
            return append(tx, [self._claim(one) for one in taken])

    def agenda(self) -> Agenda:
        """When there is something to do next."""
        with self.context.database.statements() as tx:
            return agenda(tx, self._tools())

    def _claim(self, taken: Taken) -> Change:
        claim = commands.Claim(worker=self.worker, lease=self.limits.lease)
        events = list(decide(taken.intent, claim, taken.now))
        if self._is_keyed(taken.intent):
            begin = commands.Begin(lease=self.limits.lease)
            events += decide(foresee(taken.intent, events, taken.now), begin, taken.now)
        return Change(taken=taken, events=events)

    def _is_keyed(self, intent: Intent) -> bool:
        if intent.tool == RESTORE.name:
            return False
        effect = self.context.registry.tool(intent.tool).tool.effect
        return isinstance(effect, Remote) and isinstance(effect.upstream, Keyed)

    def _tools(self) -> list[str]:
        remote = [b.name for b in self.context.registry if isinstance(b.tool.effect, Remote)]
        return [*remote, RESTORE.name]
