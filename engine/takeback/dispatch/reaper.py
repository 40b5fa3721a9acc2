"""Takes over what an owner has left: recovery lies in the lease, and any worker may do it."""

from __future__ import annotations

from dataclasses import dataclass

from takeback.client.context import Context
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import lock_expired
from takeback.model import command as commands
from takeback.model.decide import decide
from takeback.model.intent import Intent

BATCH_MAX = 100


@dataclass(frozen=True, slots=True)
class Reaper:
    """Ends leases that are over: what was only claimed is due again, what had begun is in doubt."""

    context: Context

    def run_once(self) -> list[Intent]:
        """At most a batch of them, in one transaction; answers with the intents as they are now."""
        with self.context.database.transaction() as tx:
            changes = [
                Change(taken=taken, events=decide(taken.intent, commands.ExpireLease(), taken.now))
                for taken in lock_expired(tx, BATCH_MAX)
            ]
            return append(tx, changes)
