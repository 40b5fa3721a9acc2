"""Writes down what became of attempts, each behind the fence of its own number.

Locks only rows that nobody else holds, and says which are left: a caller who sits in an open
transaction on one intent must not hold up the rest. What was decided meanwhile by somebody else is
never overwritten; the answer is then recorded as late. An outcome that the database refuses is
written alone, then without its body, so that it stops nobody else's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg
from sqlalchemy.exc import SQLAlchemyError

from takeback.client import local
from takeback.client.context import Context
from takeback.client.original import follow
from takeback.dispatch.ends import Ends
from takeback.dispatch.executor import Ended, is_begun
from takeback.dispatch.listener import Listener
from takeback.dispatch.outcome import INTERRUPTED, Outcome, command_for, given_up, not_reached
from takeback.dispatch.salvage import salvage
from takeback.dispatch.work import Identity, identity, is_held_still
from takeback.ledger import faults
from takeback.ledger.appending import Body, Change, append
from takeback.ledger.faults import Breakage
from takeback.ledger.locking import Taken, lock_free
from takeback.ledger.settling import Success, settle_many
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.meter import SUCCEEDED
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.attempt import attempt_trace
from takeback.model.chain import SALT_BYTES, body_digest
from takeback.model.decide import decide
from takeback.model.intent import Intent, State

_OWN_END = {"succeeded": State.SUCCEEDED, "failed": State.FAILED, "deferred": State.DUE}
"""Where an executing intent stands after nobody but its owner has settled it."""

LATE = "answered_late"
"""What is counted of an attempt that others had decided about before its answer came."""

Became = tuple[str, str, str]
"""Of an attempt the tool, the connector, and the word for what became of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Committed:
    """Of one transaction what was ``told``, what of that was ``written``, and the lanes that were
    ``failing`` before.
    """

    told: Sequence[Ended]
    written: Sequence[Became]
    failing: Collection[str]


@dataclass(frozen=True, slots=True)
class Settler:
    """Settles what has ended; each call is one transaction, or one for each outcome."""

    context: Context
    ends: Ends = field(default_factory=Ends)

    def settle(self, ended: Sequence[Ended]) -> list[Ended]:
        """Records the outcomes; answers with those that are left, since somebody holds their rows.

        Raises Unavailable when nothing could be recorded, as far as is known.
        """
        committed: list[_Committed] = []
        try:
            return salvage(ended, lambda some: self._write(some, committed), _bare, what="outcome")
        finally:
            for one in committed:
                self._follow_up(one)

    def _write(self, ended: Sequence[Ended], committed: list[_Committed]) -> list[Ended]:
        written: list[Became] = []
        with self.context.database.internal_transaction() as tx:
            judged = self._listener.judge(tx, ended)
            others = self._settle_plain(tx, ended, written)
            left = self._settle_free(tx, others, judged.outcomes, written) if others else []
        open_ = {id(one) for one in left}
        told = [one for one in ended if id(one) not in open_]
        committed.append(_Committed(told=told, written=written, failing=judged.failing))
        return left

    def _follow_up(self, done: _Committed) -> None:
        """What others learn of it; nothing of this can undo what is written down."""
        self.ends.note(word for _, _, word in done.written)
        if self.context.meter is not None:
            self.context.meter.settle(done.written)
        self._listener.tell(done.told, done.failing)
        self._keep_reasons([one for one in done.told if one.outcome.reason is not None])

    def _keep_reasons(self, ended: Sequence[Ended]) -> None:
        """What handlers raised is kept for operators, as well as can be: it changes no outcome."""
        for tenant in {one.work.intent.tenant for one in ended}:
            kept = [_breakage(one) for one in ended if one.work.intent.tenant == tenant]
            try:
                with self.context.database.internal_transaction() as tx:
                    faults.keep(tx, tenant, kept)
            except (errors.TakebackError, psycopg.Error, SQLAlchemyError) as problem:
                traces = [one.trace_id for one in kept]
                logger.warning("reasons_not_kept", trace_ids=traces, exc_info=problem)

    @property
    def _listener(self) -> Listener:
        return Listener(self.context)

    def _settle_plain(self, tx: Tx, ended: Sequence[Ended], written: list[Became]) -> list[Ended]:
        """Settles what has plainly succeeded; answers with the others."""
        plain = [one for one in ended if _is_plain(one)]
        if not plain:
            return list(ended)
        salts = self.context.entropy(SALT_BYTES * len(plain))
        successes = [
            Success(
                intent=one.work.intent,
                salt=salts[place * SALT_BYTES : (place + 1) * SALT_BYTES],
                body=one.outcome.body or "",
                affected_count=one.outcome.affected_count,
            )
            for place, one in enumerate(plain)
        ]
        settled = {id(plain[place]) for place in settle_many(tx, successes)}
        written += [_became(one, SUCCEEDED) for one in plain if id(one) in settled]
        return [one for one in ended if id(one) not in settled]

    def _settle_free(
        self,
        tx: Tx,
        ended: Sequence[Ended],
        ended_as: Mapping[int, Outcome],
        written: list[Became],
    ) -> list[Ended]:
        originals = [one.work.original for one in ended if one.work.original is not None]
        free = lock_free(tx, [*(one.work.intent for one in ended), *originals])
        rows = {identity(taken.intent): taken for taken in free}
        changes: list[Change] = []
        left = []
        for one in ended:
            if _is_held(one, rows):
                left.append(one)
            else:
                outcome = ended_as.get(id(one), one.outcome)
                changes += self._changes(one, outcome, rows, written)
        append(tx, changes)
        return left

    def _changes(
        self,
        one: Ended,
        outcome: Outcome,
        rows: Mapping[Identity, Taken],
        written: list[Became],
    ) -> list[Change]:
        own, taken = one.work.intent, rows[identity(one.work.intent)]
        is_ours = is_held_still(own, taken.intent) or (
            outcome.kind == "interrupted" and is_begun(one.work, taken)
        )
        if is_ours:
            outcome = given_up(outcome, taken.intent, one.work.bound.tool)
        else:
            outcome = _late(own, outcome, taken.intent)
        body, digest = self._body(outcome, taken.intent)
        command = self._command(one, outcome, taken.intent, digest, is_late=not is_ours)
        if command is None:
            return []
        try:
            events = decide(taken.intent, command, taken.now)
        except errors.InvalidTransition as problem:
            logger.error("outcome_not_recordable", ref=own.ref, state=problem.state)
            return []
        written.append(_became(one, outcome.word if is_ours else LATE))
        change = Change(taken=taken, events=events, bodies=body)
        if one.work.original is None:
            return [change]
        return [change, *follow(own, events, rows[identity(one.work.original)])]

    def _command(
        self, one: Ended, outcome: Outcome, now: Intent, digest: str | None, *, is_late: bool
    ) -> commands.Command | None:
        if not is_late:
            dice = int.from_bytes(self.context.entropy(4), "big") / 2**32
            return command_for(outcome, now, digest, dice, one.work.bound.effect)
        if outcome.kind not in ("succeeded", "failed"):
            return None
        own = one.work.intent
        logger.warning("answered_late", ref=own.ref, attempt=own.attempt, outcome=outcome.kind)
        return commands.AnswerLate(
            attempt=own.attempt,
            outcome=outcome.kind,
            body=digest,
            code=outcome.code or "provider_rejected",
            affected_count=outcome.affected_count,
        )

    def _body(self, outcome: Outcome, now: Intent) -> tuple[Sequence[Body], str | None]:
        # Of what is purged nothing is kept, and no event may name what is not there.
        if outcome.body is None or now.state is State.PURGED:
            return (), None
        name = "result" if outcome.kind == "succeeded" else "error"
        body = local.sealed_body(self.context, name, outcome.body)
        return (body,), body_digest(body.salt, body.text)


def _became(one: Ended, word: str) -> Became:
    return one.work.intent.tool, one.work.intent.lane, word


def _bare(one: Ended) -> tuple[str, Ended | None]:
    if one.outcome.body is None:
        return one.work.intent.ref, None
    return one.work.intent.ref, replace(one, outcome=replace(one.outcome, body=None))


def _breakage(one: Ended) -> Breakage:
    """What ended an attempt, under the trace id of that."""
    intent, reason = one.work.intent, one.outcome.reason
    assert reason is not None
    return Breakage(
        trace_id=attempt_trace(intent.id, intent.attempt),
        tool=intent.tool,
        run=intent.run,
        principal=intent.principal,
        effect="unknown" if one.outcome.kind == "in_doubt" else "none",
        kind=reason.kind,
        details=f"{reason.message}\n\n{reason.details}",
    )


def _is_plain(one: Ended) -> bool:
    return (
        one.outcome.kind == "succeeded"
        and one.outcome.body is not None
        and one.work.original is None
        and one.work.intent.state is State.EXECUTING
    )


def _is_held(one: Ended, rows: Mapping[Identity, Taken]) -> bool:
    original = one.work.original
    return identity(one.work.intent) not in rows or (
        original is not None and identity(original) not in rows
    )


def _late(own: Intent, outcome: Outcome, now: Intent) -> Outcome:
    """What is left to say of an attempt that others have decided about, or that was settled.

    The proof that it did nothing is worth telling while somebody asks about this very attempt.
    """
    is_settled_by_us = (now.version, now.state) == (own.version + 1, _OWN_END.get(outcome.kind))
    if is_settled_by_us:
        return INTERRUPTED
    is_asked = own.attempt in now.attempts_unknown or (
        now.state is State.IN_DOUBT and now.attempt == own.attempt
    )
    if outcome.kind == "deferred" and is_asked:
        return not_reached("the provider could not be reached; nothing happened")
    return outcome
