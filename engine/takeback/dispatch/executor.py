"""Begins and performs one attempt.

An attempt is begun by a durable mark just before its own call (for a provider that keeps our key
the claim has made it already: such a call is not made any more once it is frozen), so that a crash
leaves in doubt only what had begun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from takeback.client.context import Context
from takeback.client.face import Broke, try_face
from takeback.client.previewing import by_row
from takeback.dispatch.brake import Brake
from takeback.dispatch.outcome import INTERRUPTED, Outcome, of_answer, of_refusal
from takeback.dispatch.pace import Pace
from takeback.dispatch.work import Work, identity, is_held_still
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import Taken, lock_free
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.attempt import attempt_trace
from takeback.model.decide import decide
from takeback.model.handler import Performed
from takeback.model.intent import State, why_not_begin

BEGIN_PAUSES = (0.05, 0.2, 0.5)
"""Seconds between tries to begin while the database is away; then the claim is handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A finished attempt on its way to the ledger; ``is_late``: it had been given up before."""

    work: Work
    outcome: Outcome
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Begins and performs; ``monotonic`` measures how much of a lease is left."""

    context: Context
    pace: Pace
    monotonic: Callable[[], float]
    _brake: Brake = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_brake", Brake(context=self.context, monotonic=self.monotonic))

    def begin(self, work: Work, lease_ends_at: float) -> Work | Ended | None:
        """Marks that the attempt begins.

        Answers with the attempt, with how it ended before it was called, or with None when the
        intent is no longer ours. ``lease_ends_at`` is when the claim's lease is over, by
        ``monotonic``. Raises Unavailable.
        """
        begun: Work | Ended | None = work
        if work.intent.state is not State.EXECUTING:
            lease_ends_at = self.monotonic() + self.pace.lease.total_seconds()
            begun = self._begin(work)
        elif self._brake.holds(work.intent, lease_ends_at - self.pace.lease.total_seconds()):
            logger.info("call_held_back", ref=work.intent.ref)
            return Ended(work=work, outcome=INTERRUPTED)
        if isinstance(begun, Work) and self.monotonic() + self._needed(work) > lease_ends_at:
            logger.warning("too_late_to_call", ref=work.intent.ref)
            return Ended(work=begun, outcome=INTERRUPTED)
        if isinstance(begun, Work) and self.context.meter is not None:
            self.context.meter.begin(identity(begun.intent), begun.intent.tool)
        return begun

    def perform(self, work: Work) -> Outcome:
        """Calls the face; no transaction is open meanwhile."""
        if self.context.meter is None:
            return self._perform(work)
        called_at = self.monotonic()
        try:
            return self._perform(work)
        finally:
            self.context.meter.end(work.intent.tool, self.monotonic() - called_at)

    def _perform(self, work: Work) -> Outcome:
        try:
            answer = try_face(work.face, work.given, work.attempt())
        except errors.TakebackError as problem:
            outcome = of_refusal(problem)
            self._log(work, problem, outcome)
            return outcome
        if isinstance(answer, Broke):
            logger.error("attempt_broke", **_named(work), exc_info=answer.problem)
        return of_answer(self._with_row(work, answer))

    def _with_row(self, work: Work, answer: object) -> object:
        """A plain result says nothing of what it affects: the row's word stands then."""
        affects = work.bound.tool.affects
        if affects is None or work.original or isinstance(answer, Broke | Performed):
            return answer
        return Performed(result=answer, affected=by_row(affects, work.canonical))

    def _log(self, work: Work, problem: errors.TakebackError, outcome: Outcome) -> None:
        """What a handler says of its attempt is told in its own words; what says nothing of it
        wants a traceback.
        """
        if isinstance(problem, errors.OutcomeUnknown):
            logger.warning("attempt_in_doubt", **_named(work), reason=str(problem))
        elif outcome.kind == "in_doubt":
            logger.error("attempt_broke", **_named(work), exc_info=problem)
        else:
            logger.info(
                "attempt_refused", **_named(work), becomes=outcome.kind, reason=str(problem)
            )

    def _needed(self, work: Work) -> float:
        """How much of a lease has to be left: all of the attempt, or enough to renew it."""
        half = self.pace.lease.total_seconds() / 2
        return min(work.seconds_max, half) if work.renews_lease else work.seconds_max

    def _begin(self, work: Work) -> Work | Ended | None:
        for pause in BEGIN_PAUSES:
            try:
                return self._begin_once(work)
            except errors.Unavailable as problem:
                logger.warning("begin_delayed", ref=work.intent.ref, code=problem.code)
                self.context.pause(pause)
        return self._begin_once(work)

    def _begin_once(self, work: Work) -> Work | Ended | None:
        with self.context.database.internal_transaction() as tx:
            for taken in lock_free(tx, [work.intent]):
                return self._begin_taken(tx, work, taken)
        return Ended(work=work, outcome=INTERRUPTED)

    def _begin_taken(self, tx: Tx, work: Work, taken: Taken) -> Work | Ended | None:
        if is_begun(work, taken):
            return work.with_intent(taken.intent)
        if not is_held_still(work.intent, taken.intent):
            return None
        if taken.is_frozen:
            return Ended(work=work, outcome=INTERRUPTED)
        cause = why_not_begin(taken.intent, taken.now)
        command: commands.Command = commands.Begin(lease=self.pace.lease)
        if cause is not None:
            logger.error("intent_parked", ref=work.intent.ref, cause=cause)
            command = commands.Park(cause=cause)
        events = decide(taken.intent, command, taken.now)
        (intent,) = append(tx, [Change(taken=taken, events=events)])
        return work.with_intent(intent) if cause is None else None


def _named(work: Work) -> dict[str, Any]:
    intent = work.intent
    return {
        "ref": intent.ref,
        "attempt": intent.attempt,
        "trace_id": attempt_trace(intent.id, intent.attempt),
    }


def is_begun(work: Work, taken: Taken) -> bool:
    """Whether the mark is there although the answer to its commit was lost.

    From this claim nobody but its owner begins.
    """
    claimed, now = work.intent, taken.intent
    return (
        claimed.state is State.CLAIMED
        and now.state is State.EXECUTING
        and (now.version, now.attempt) == (claimed.version + 1, claimed.attempt + 1)
    )
