"""Takes over what an owner has left: recovery lies in the lease, and any worker may do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from takeback.client.context import Context
from takeback.client.original import follow
from takeback.dispatch.work import Identity, identity
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import Taken, lock_expired, lock_free
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.decide import decide
from takeback.model.intent import Intent, State

BATCH_MAX = 100


@dataclass(frozen=True, slots=True)
class Reaper:
    """Ends leases that are over: what was only claimed is due again, what had begun is in doubt.

    Those of ``tenant``; None is every one.
    """

    context: Context
    tenant: str | None = None

    def run_once(self) -> list[Intent]:
        """At most a batch of them, in one transaction; answers with the intents as they are now.

        A restore whose original somebody holds is left for the next time.
        """
        with self.context.database.internal_transaction() as tx:
            expired = lock_expired(tx, BATCH_MAX, tenant=self.tenant)
            originals = _originals(tx, expired)
            changes = [change for one in expired for change in _end(one, originals)]
            expired_now = {identity(one.intent) for one in expired}
            return [i for i in append(tx, changes) if identity(i) in expired_now]


def _originals(tx: Tx, expired: list[Taken]) -> Mapping[Identity, Taken]:
    wanted = [replace(i, id=i.restores) for i in _restores(expired) if i.restores is not None]
    return {identity(taken.intent): taken for taken in lock_free(tx, wanted)} if wanted else {}


def _restores(expired: list[Taken]) -> list[Intent]:
    return [one.intent for one in expired if one.intent.state is State.EXECUTING]


def _end(one: Taken, originals: Mapping[Identity, Taken]) -> list[Change]:
    intent = one.intent
    original = None
    if intent.restores is not None and intent.state is State.EXECUTING:
        original = originals.get((intent.tenant, intent.restores))
        if original is None:
            return []
    try:
        events = decide(intent, commands.ExpireLease(), one.now)
    except errors.InvalidTransition:
        # The clock went back within the statement: its lease is not over after all.
        return []
    logger.warning("lease_over", ref=intent.ref, state=intent.state.value, attempt=intent.attempt)
    change = Change(taken=one, events=events)
    return [change] if original is None else [change, *follow(intent, events, original)]
