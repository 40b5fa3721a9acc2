"""Claims what is due, in batches, under a lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from takeback.client.context import Context
from takeback.client.restore_tool import RESTORE
from takeback.declare import Remote
from takeback.dispatch.limits import Limits
from takeback.dispatch.work import Unfit, Work, identity, load
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import Agenda, Taken, agenda, lock_due
from takeback.log import logger
from takeback.model import command as commands
from takeback.model.decide import decide, why_not_begin
from takeback.model.evolve import foresee
from takeback.model.intent import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What a claim took: ``count`` intents, and ``works`` for those that can be run."""

    count: int
    works: Sequence[Work]


@dataclass(frozen=True)
class Dispatcher:
    """Finds work for one worker, which is named ``worker`` in the log."""

    context: Context
    limits: Limits
    worker: str

    def run_once(self, limit: int) -> Claimed:
        """Claims at most ``limit`` due intents of the tools that this worker has, and commits.

        What goes to a provider that keeps our key is begun in the same transaction: were the
        worker to die before the call, a repeat under the key would be harmless. What can't be run
        is parked there.
        """
        with self.context.database.transaction() as tx:
            taken = lock_due(tx, self._tools, min(limit, self.limits.batch_max))
            if not taken:
                return Claimed(count=0, works=())
            loaded = load(self.context, tx, [one.intent for one in taken])
            found = [loaded[identity(one.intent)] for one in taken]
            changes = [self._claim(one, what) for one, what in zip(taken, found, strict=True)]
            intents = append(tx, changes)
        works = [
            what.with_intent(intent)
            for what, intent in zip(found, intents, strict=True)
            if isinstance(what, Work) and intent.state is not State.PARKED
        ]
        return Claimed(count=len(intents), works=works)

    def agenda(self) -> Agenda:
        """When there is something to do next."""
        with self.context.database.statements() as tx:
            return agenda(tx, self._tools)

    def _claim(self, taken: Taken, what: Work | Unfit) -> Change:
        claim = commands.Claim(worker=self.worker, lease=self.limits.lease)
        events = list(decide(taken.intent, claim, taken.now))
        claimed = foresee(taken.intent, events, taken.now)
        cause = what.cause if isinstance(what, Unfit) else why_not_begin(claimed, taken.now)
        if cause is not None:
            logger.error("intent_parked", ref=claimed.ref, cause=cause)
            events += decide(claimed, commands.Park(cause=cause), taken.now)
        elif isinstance(what, Work) and what.is_keyed:
            events += decide(claimed, commands.Begin(lease=self.limits.lease), taken.now)
        return Change(taken=taken, events=events)

    @cached_property
    def _tools(self) -> Mapping[str, int]:
        """The tools that this worker has, with the versions of their rows."""
        remote = {b.name: b.tool.version for b in self.context.registry if _is_remote(b.effect)}
        return {**remote, RESTORE.name: RESTORE.version}


def _is_remote(effect: object) -> bool:
    return isinstance(effect, Remote)
