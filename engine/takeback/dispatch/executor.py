"""Performs claimed intents and settles what became of them.

An attempt is begun by a durable mark just before its own call (for a provider that keeps our key
the claim has made it already), so that a crash leaves in doubt only what had begun. Settling locks
only rows that nobody else holds and repeats for the others: a caller who sits in an open
transaction on one intent must not hold up the rest. What was decided meanwhile by somebody else is
never overwritten; the answer is then recorded as late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from takeback.catalog.registry import Bound
from takeback.client import local
from takeback.client.context import Context
from takeback.client.face import try_face
from takeback.client.restore_tool import RESTORE
from takeback.dispatch.limits import Limits
from takeback.dispatch.outcome import Outcome, command_for, of_answer, of_refusal
from takeback.ledger.appending import Body, Change, append
from takeback.ledger.locking import Taken, lock, lock_free
from takeback.ledger.reading import Entry, read, read_many
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.arguments import revive
from takeback.model.chain import body_digest
from takeback.model.decide import decide
from takeback.model.event import Event
from takeback.model.handler import Attempt
from takeback.model.intent import Intent, State

SETTLE_PAUSES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between tries to settle; the last is repeated while ``SETTLE_TRIES_MAX`` lasts."""

SETTLE_TRIES_MAX = 120
"""About four minutes: longer than a database needs to come back, and not for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """An attempt that has begun, with all that its face needs."""

    intent: Intent
    bound: Bound
    entry: Entry
    original: Entry | None = None

    @property
    def identity(self) -> tuple[str, UUID]:
        """The tenant and the id: what tells intents apart."""
        return self.intent.tenant, self.intent.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A finished attempt on its way to the ledger."""

    work: Work
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Executor:
    """Begins, performs and settles; each step is a transaction of its own or none."""

    context: Context
    limits: Limits

    def load(self, intents: Sequence[Intent]) -> list[Work]:
        """The claimed intents with their arguments, and what each restore takes back."""
        with self.context.database.transaction() as tx:
            entries = {(e.intent.tenant, e.intent.id): e for e in read_many(tx, intents)}
            loaded = [self._work(tx, i, entries[i.tenant, i.id]) for i in intents]
        return [work for work in loaded if work is not None]

    def begin(self, work: Work) -> Work | None:
        """Marks that the attempt begins; None when it is no longer ours to begin."""
        if work.intent.state is State.EXECUTING:
            return work
        with self.context.database.transaction() as tx:
            for taken in lock_free(tx, [work.intent]):
                if taken.intent.version != work.intent.version:
                    continue
                events = decide(taken.intent, commands.Begin(lease=self.limits.lease), taken.now)
                (intent,) = append(tx, [Change(taken=taken, events=events)])
                return replace(work, intent=intent)
        return None

    def hand_back(self, works: Sequence[Work]) -> None:
        """Gives up what was claimed and not begun, so that others need not wait for the lease."""
        by_id = {work.identity: work.intent for work in works}
        with self.context.database.transaction() as tx:
            append(
                tx,
                [
                    Change(
                        taken=taken,
                        events=decide(taken.intent, commands.HandBack(), taken.now),
                    )
                    for taken in lock_free(tx, list(by_id.values()))
                    if taken.intent.version == by_id[taken.intent.tenant, taken.intent.id].version
                    and taken.intent.state is State.CLAIMED
                ],
            )

    def perform(self, work: Work) -> Outcome:
        """Calls the face; no transaction is open meanwhile."""
        try:
            return of_answer(self._call(work))
        except errors.TakebackError as problem:
            return of_refusal(problem)

    def settle(self, ended: Sequence[Ended]) -> None:
        """Records the outcomes, trying again while the database is away or rows are held."""
        open_ = list(ended)
        for turn in range(SETTLE_TRIES_MAX):
            if not open_:
                return
            self.context.pause(SETTLE_PAUSES[min(turn, len(SETTLE_PAUSES) - 1)])
            try:
                with self.context.database.transaction() as tx:
                    done = self._settle_free(tx, open_)
            except errors.Unavailable as problem:
                logger.warning("settle_delayed", code=problem.code, attempts=len(open_))
                continue
            open_ = [one for one in open_ if one.work.identity not in done]
        refs = [one.work.intent.ref for one in open_]
        logger.error("settle_given_up", refs=refs)

    def _work(self, tx: Tx, intent: Intent, entry: Entry) -> Work | None:
        original = None
        tool = intent.tool
        if tool == RESTORE.name and intent.restores is not None:
            original = read(tx, intent.tenant, intent.restores)
            tool = original.intent.tool if original is not None else tool
        try:
            bound = self.context.registry.tool(tool)
        except errors.UnknownTool:
            logger.error("tool_not_registered", ref=intent.ref, tool=tool)
            return None
        return Work(intent=intent, bound=bound, entry=entry, original=original)

    def _call(self, work: Work) -> Any:
        attempt = _attempt(work)
        if work.original is not None:
            face = work.bound.handler.restore
            if face is None:
                raise errors.Rejected(f"{work.bound.name} can't be taken back any more")
            return try_face(face, local.original_of(work.bound, work.original), attempt)
        stored = work.entry.bodies.get("arguments")
        if stored is None:
            raise errors.Rejected("its arguments have been erased")
        arguments = revive(work.bound.tool, work.intent.tool_version, stored)
        return try_face(work.bound.handler.perform, arguments.model, attempt)

    def _settle_free(self, tx: Tx, open_: Sequence[Ended]) -> set[tuple[str, UUID]]:
        by_id = {one.work.identity: one for one in open_}
        changes: list[Change] = []
        for taken in lock_free(tx, [one.work.intent for one in open_]):
            ended = by_id[taken.intent.tenant, taken.intent.id]
            changes += self._changes(tx, taken, ended)
        append(tx, changes)
        return {(c.taken.intent.tenant, c.taken.intent.id) for c in changes}

    def _changes(self, tx: Tx, taken: Taken, ended: Ended) -> list[Change]:
        own, outcome = ended.work.intent, ended.outcome
        bodies, digest = self._bodies(outcome)
        dice = int.from_bytes(self.context.entropy(4), "big") / 2**32
        if taken.intent.version == own.version:
            command = command_for(outcome, taken.intent, ended.work.bound.tool, digest, dice)
        elif outcome.kind in ("succeeded", "failed"):
            logger.warning("answered_late", ref=own.ref, outcome=outcome.kind)
            command = commands.AnswerLate(
                attempt=own.attempt,
                outcome=outcome.kind,
                body=digest,
                code=outcome.code,
                affected_count=outcome.affected_count,
            )
        else:
            return [Change(taken=taken, events=())]
        try:
            events = decide(taken.intent, command, taken.now)
        except errors.InvalidTransition as problem:
            logger.error("outcome_not_recordable", ref=own.ref, state=problem.state)
            return [Change(taken=taken, events=())]
        change = Change(taken=taken, events=events, bodies=bodies)
        return [change, *self._original_changes(tx, ended, events)]

    def _bodies(self, outcome: Outcome) -> tuple[tuple[Body, ...], str | None]:
        if outcome.body is None:
            return (), None
        name = "result" if outcome.kind == "succeeded" else "error"
        body = local.sealed_body(self.context, name, outcome.body)
        return (body,), body_digest(body.salt, body.text)

    def _original_changes(self, tx: Tx, ended: Ended, events: Sequence[Event]) -> list[Change]:
        """What the end of a compensation means for the intent that it takes back."""
        if ended.work.original is None:
            return []
        kinds = {event.KIND for event in events}
        via = ended.work.intent.ref
        command: commands.Command
        if "intent.succeeded" in kinds:
            command = commands.FinishRestore(via=via)
        elif "intent.failed" in kinds:
            command = commands.FailRestore(via=via)
        else:
            return []
        first = ended.work.original.intent
        (taken,) = lock(tx, first.tenant, [first.id])
        return [Change(taken=taken, events=decide(taken.intent, command, taken.now))]


def _attempt(work: Work) -> Attempt:
    intent, effect = work.intent, work.bound.tool.effect
    return Attempt(
        intent_id=str(intent.id),
        ref=intent.ref,
        tenant=intent.tenant,
        run=intent.run,
        principal=intent.principal,
        number=intent.attempt,
        provider_key=f"{intent.id}-{intent.epoch}",
        seconds_max=getattr(effect, "attempt_seconds_max", 20.0),
    )
