"""Awakens what waits for others, once these have succeeded, and ends what waits in vain.

    all have happened         held or due: its window starts now
    one came to nothing       as its row declares: it never happens, it goes on without that one, or
                              a person decides once the rest is over. Of what may be in the world
                              already it is only said to go on: whoever claims it parks it
    anything else             looked at again later: soon after the last of them is due, else after
                              an eighth of the time that it has waited

Nobody else knows of those who wait, so there is no wake-up that could be lost. How the others stand
is read without a lock: one that has happened may be taken back at the same moment, as it may right
after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from takeback.client.context import Context
from takeback.client.local import sealed_body
from takeback.client.permission import person_first
from takeback.client.waiting import said_of, stand
from takeback.declare import ASK, CANCEL, Tool
from takeback.dispatch.work import writing_tools
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import Taken
from takeback.ledger.other import Named, Other, lock_waiting, look_later, look_now
from takeback.log import logger
from takeback.model import command as commands
from takeback.model.chain import body_digest
from takeback.model.decide import decide
from takeback.model.intent import Intent, may_have_happened
from takeback.model.key import canonical_bytes
from takeback.model.waiting import next_look

BATCH_MAX = 100

HURRIED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Waker:
    """Looks at what waits, of ``tenant`` (None: of every one), and of the tools of this catalog."""

    context: Context
    tenant: str | None = None

    def run_once(self) -> list[Intent]:
        """At most a batch of them, in one transaction; answers with the intents as they are now.

        One that somebody decides about at this moment is left to them.
        """
        with self.context.database.internal_transaction() as tx:
            tools = writing_tools(self.context.registry)
            found = lock_waiting(tx, tools, BATCH_MAX, tenant=self.tenant)
            others = stand(tx, {named for one in found for named in _named(one.intent)})
            changes, later = [], []
            for one in found:
                change = self._change(one, others)
                if change is None:
                    later.append((one.intent, _next_look(one, others)))
                else:
                    changes.append(change)
            look_later(tx, later)
            return [*append(tx, changes), *(intent for intent, _ in later)]

    def hurry(self) -> bool:
        """Has what was to be looked at later looked at now; says whether there is anything."""
        with self.context.database.internal_transaction() as tx:
            return look_now(tx, HURRIED_MAX, tenant=self.tenant) > 0

    def _change(self, one: Taken, others: Mapping[Named, Other]) -> Change | None:
        """What becomes of it; None while it has to wait."""
        intent = one.intent
        tool = self.context.registry.tool(intent.tool).tool
        said = said_of(tool)
        fates = [
            (named[1], others[named].fate if named in others else "open")
            for named in _named(intent)
        ]
        lost = [(ref, fate) for ref, fate in fates if fate in ("failed", "taken_back")]
        if may_have_happened(intent):
            lost = []
        if lost and said is CANCEL:
            return self._stop(one, lost[0][0], others[intent.tenant, lost[0][0]])
        if any(fate == "open" for _, fate in fates):
            return None
        if lost and said is ASK:
            return _ask(one, tool, lost[0][0])
        after = [others[named].ref for named in _named(intent) if named in others]
        logger.info("awoken", ref=intent.ref, after=after)
        return Change(taken=one, events=decide(intent, commands.Awake(), one.now))

    def _stop(self, one: Taken, ref: str, other: Other) -> Change:
        """``ref`` was named to be waited for, and ``other`` stands in its place, or is that."""
        is_taken_back = other.fate == "taken_back"
        amended = {} if other.ref == ref else {"amended_by": other.ref}
        told = {"ref": ref, "became": "taken_back" if is_taken_back else "failed", **amended}
        body = sealed_body(self.context, "waited_for", canonical_bytes(told).decode())
        cause: commands.WaitCause = "other_taken_back" if is_taken_back else "other_failed"
        command = commands.StopWaiting(cause=cause, waited_for=body_digest(body.salt, body.text))
        logger.info("waited_in_vain", ref=one.intent.ref, other=other.ref, became=told["became"])
        return Change(taken=one, events=decide(one.intent, command, one.now), bodies=(body,))


def _ask(one: Taken, tool: Tool, other: str) -> Change:
    person = person_first(tool, "other_failed")
    command = commands.AskApproval(cause=person.cause, approval_for=person.stays_open)
    logger.info("other_failed", ref=one.intent.ref, other=other)
    return Change(taken=one, events=decide(one.intent, command, one.now))


def _named(intent: Intent) -> Sequence[Named]:
    return [(intent.tenant, ref) for ref in intent.after]


def _next_look(one: Taken, others: Mapping[Named, Other]) -> datetime:
    known = [others[named] for named in _named(one.intent) if named in others]
    due = [other.due_at for other in known if other.fate == "open"]
    return next_look(one.now, one.intent.recorded_at, due)
