"""Carries out a Local call that a person has approved: effect and outcome in one transaction.

    lock · mark the attempt · handler · held against what was foreseen · settle · commit

So nothing of it is ever in doubt. Whoever dies before the commit has changed nothing, and it is due
again when the lease is over; whether a commit whose answer was lost has happened is read from the
row. Whatever ends the transaction badly undoes all of it, and is then written down alone. The row
is locked meanwhile: nobody takes over what still runs, however long ago its lease has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from sqlalchemy.exc import DBAPIError

from takeback.client import local
from takeback.client.body import refusal_body
from takeback.client.context import Context
from takeback.client.previewing import compare, foreseen_of, in_words
from takeback.declare.effect import Remote
from takeback.dispatch.ends import Ends
from takeback.dispatch.executor import BEGIN_PAUSES, Ended
from takeback.dispatch.outcome import INTERRUPTED, SETTLED, Outcome, command_for, of_refusal
from takeback.dispatch.pace import Pace
from takeback.dispatch.work import Work, identity, is_held_still
from takeback.ledger.appending import Body, Change, append
from takeback.ledger.bound import bound
from takeback.ledger.locking import Taken, lock_free
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.chain import body_digest
from takeback.model.decide import decide
from takeback.model.envelope import trace_of
from takeback.model.event import Event
from takeback.model.evolve import foresee
from takeback.model.handler import Performed
from takeback.model.intent import Intent, State

ATTEMPTS_MAX = Remote().attempts_max
"""As many as a remote effect has by default."""

_IN_VAIN = "it could not be done in {} attempts; nothing was changed"
_BROKE = "the tool failed and changed nothing; an operator finds the cause under the trace id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Performer:
    """Performs one claimed Local intent; ``monotonic`` measures how much of a lease is left."""

    context: Context
    pace: Pace
    monotonic: Callable[[], float]
    ends: Ends = field(default_factory=Ends)

    def perform(self, work: Work, lease_ends_at: float) -> Ended | None:
        """Performs it and writes down what became of it: SETTLED then.

        INTERRUPTED where it is to be handed back, None when the intent is no longer ours. Raises
        Unavailable.
        """
        if self.monotonic() >= lease_ends_at:
            logger.warning("too_late_to_call", ref=work.intent.ref)
            return Ended(work=work, outcome=INTERRUPTED)
        if (meter := self.context.meter) is not None:
            meter.begin(identity(work.intent), work.intent.tool)
        outcome = self._tried(work)
        return None if outcome is None else Ended(work=work, outcome=outcome)

    def _tried(self, work: Work) -> Outcome | None:
        for pause in BEGIN_PAUSES:
            try:
                return self._once(work)
            except errors.DatabaseUnavailable as problem:
                logger.warning("perform_delayed", ref=work.intent.ref, code=problem.code)
                self.context.pause(pause)
        return self._once(work)

    def _once(self, work: Work) -> Outcome | None:
        try:
            return self._in_transaction(work, lambda tx, taken: self._perform(tx, work, taken))
        except errors.DatabaseUnavailable:
            raise
        except (errors.TakebackError, psycopg.Error, DBAPIError) as problem:
            # A deferred constraint that refuses the commit gets here too: all of it is undone.
            undone = _outcome_of(problem, work)
        return self._in_transaction(
            work, lambda tx, taken: self._write_down(tx, work, taken, undone)
        )

    def _in_transaction(self, work: Work, then: Callable[[Tx, Taken], Outcome]) -> Outcome | None:
        """``then`` answers with how the attempt is written down to have ended."""
        written: Outcome | None = None
        with self.context.database.transaction() as tx:
            bound(tx, self.pace.lease)
            for taken in lock_free(tx, [work.intent]):
                if not is_held_still(work.intent, taken.intent):
                    if not _is_settled(work.intent, taken.intent):
                        return None
                    self.ends.note([_ENDS.get(taken.intent.state, "failed")])
                    return SETTLED
                written = None if taken.is_frozen else then(tx, taken)
        if written is None:
            return INTERRUPTED
        self.ends.note([written.word])
        if self.context.meter is not None:
            self.context.meter.settle([(work.intent.tool, work.intent.lane, written.word)])
        return SETTLED

    def _perform(self, tx: Tx, work: Work, taken: Taken) -> Outcome:
        begin = decide(taken.intent, commands.Begin(lease=self.pace.lease), taken.now)
        (intent,) = append(tx, [Change(taken=taken, events=begin)])
        done = local.face_in(tx, intent, intent.tool, work.face, work.given)
        _require_as_foreseen(work, done)
        local.settle(self.context, tx, intent, done)
        return Outcome(kind="succeeded")

    def _write_down(self, tx: Tx, work: Work, taken: Taken, undone: Outcome) -> Outcome:
        """The attempt and how it ended; what it had done is gone with its own transaction."""
        events: list[Event] = [
            *decide(taken.intent, commands.Begin(lease=self.pace.lease), taken.now)
        ]
        begun = foresee(taken.intent, events, taken.now)
        outcome = _given_up(undone, begun)
        bodies: tuple[Body, ...] = ()
        digest = None
        if outcome.body is not None:
            body = local.sealed_body(self.context, "error", outcome.body)
            bodies, digest = (body,), body_digest(body.salt, body.text)
        dice = int.from_bytes(self.context.entropy(4), "big") / 2**32
        events += decide(begun, command_for(outcome, begun, digest, dice), taken.now)
        append(tx, [Change(taken=taken, events=events, bodies=bodies)])
        logger.info("attempt_undone", ref=work.intent.ref, becomes=outcome.kind, code=outcome.code)
        return outcome


_ENDS = {State.SUCCEEDED: "succeeded", State.DUE: "deferred"}


def _is_settled(own: Intent, now: Intent) -> bool:
    """Whether our own commit has happened although its answer was lost."""
    return now.attempt == own.attempt + 1


class _NotAsForeseen(errors.HandlerError):
    """It affects something else than a person was told."""

    code = "preview_stale"

    def __init__(self, changed: Any) -> None:
        super().__init__(
            f"what it affects is no longer what was approved: {in_words(changed)}; "
            "nothing was changed"
        )
        self.changed = changed


def _require_as_foreseen(work: Work, done: Performed) -> None:
    if work.foreseen is None:
        return
    changed = compare(work.foreseen, foreseen_of(done, work.bound))
    if changed:
        raise _NotAsForeseen(changed)


def _outcome_of(problem: Exception, work: Work) -> Outcome:
    """What the end of the transaction means; whatever it was, nothing has happened."""
    match problem:
        case _NotAsForeseen():
            body = refusal_body(problem.code, problem, list(problem.changed))
            return Outcome(kind="failed", body=body, code=problem.code)
        case errors.RetryTransaction():
            return Outcome(kind="deferred", code=errors.NotDispatched.code)
        case errors.TakebackError() if (known := of_refusal(problem)).kind == "failed":
            return known
        case errors.NotDispatched():
            known = of_refusal(problem)
            return replace(known, code=problem.code)
        case _:
            intent = work.intent
            logger.error(
                "attempt_broke",
                ref=intent.ref,
                trace_id=trace_of(intent.id),
                exc_info=problem.__cause__ or problem,
            )
            return Outcome(kind="deferred", code=errors.HandlerBroke.code)


def _given_up(outcome: Outcome, begun: Intent) -> Outcome:
    """The outcome once it is known whether there is another attempt."""
    if outcome.kind != "deferred" or begun.attempt < ATTEMPTS_MAX:
        return outcome
    broke = outcome.code == errors.HandlerBroke.code
    said = _BROKE if broke else _IN_VAIN.format(begun.attempt)
    return Outcome(kind="failed", body=refusal_body(outcome.code, said, []), code=outcome.code)
