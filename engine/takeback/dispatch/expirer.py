"""Ends the requests for approval that nobody has decided in time: no answer means no."""

from __future__ import annotations

from dataclasses import dataclass

from takeback.client.context import Context
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import Taken, lock_lapsed
from takeback.log import logger
from takeback.model import command as commands
from takeback.model.approval import is_lapsed
from takeback.model.decide import decide
from takeback.model.intent import Intent

BATCH_MAX = 100


@dataclass(frozen=True, slots=True)
class Expirer:
    """Writes down what is so already: a request that is over can't be approved any more.

    Those of ``tenant``; None is every one.
    """

    context: Context
    tenant: str | None = None

    def run_once(self) -> list[Intent]:
        """At most a batch of them, in one transaction; answers with the intents as they are now.

        One that somebody decides about at this moment is left to them.
        """
        with self.context.database.internal_transaction() as tx:
            # The clock may have gone back within the statement.
            found = lock_lapsed(tx, BATCH_MAX, tenant=self.tenant)
            return append(tx, [_end(one) for one in found if is_lapsed(one.intent, one.now)])


def _end(one: Taken) -> Change:
    logger.info("approval_expired", ref=one.intent.ref)
    return Change(taken=one, events=decide(one.intent, commands.ExpireApproval(), one.now))
