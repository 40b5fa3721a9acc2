"""Ends doubts: finds out what became of an attempt, repeats it under its key, or parks it.

    take · hold · commit, then ask, then lock · write down what is so · commit

While it asks nobody else does: the intent's ``ask_at`` is moved on first, and says whether the
answer is still wanted. A death in between asks once more. A late answer that comes meanwhile is the
better one, and settles; what was found is then dropped. Any worker may do it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from takeback.client import local
from takeback.client.body import count_of, outcome_body
from takeback.client.context import Context
from takeback.dispatch.asker import Answer, Answered, Asker, Question
from takeback.dispatch.doubt import Case, absent, ask_from, unanswered, unasked
from takeback.dispatch.outcome import not_reached
from takeback.dispatch.pace import GRACE_SECONDS, Pace
from takeback.dispatch.salvage import salvage
from takeback.dispatch.work import Identity, Unfit, Work, identity, load, writing_tools
from takeback.ledger.appending import Body, Change, append
from takeback.ledger.doubting import Ask, Doubt, lock_doubtful, move_asks, read_doubts
from takeback.ledger.governing import attempts_spared
from takeback.ledger.locking import Taken, lock_free
from takeback.ledger.transaction import Tx
from takeback.log import logger
from takeback.model import command as commands
from takeback.model.chain import body_digest
from takeback.model.decide import decide
from takeback.model.handler import Absent, Performed
from takeback.model.intent import Intent, State

BATCH_MAX = 100

HOLD_SECONDS = 10.0
"""So much longer than a question may take is it held, to write down the answer."""

QUICK_SECONDS = 0.1
"""Quick answers are written down at once: so long one look waits for them."""


@dataclass(frozen=True)
class Reconciler:
    """Ends the doubts of the tools that its app has; ``monotonic`` measures how long questions
    take. Those of ``tenant``; None is every one. Not for several threads at once.
    """

    context: Context
    pace: Pace
    monotonic: Callable[[], float]
    tenant: str | None = None
    _asker: Asker = field(init=False)
    _open: list[Answered] = field(default_factory=list, init=False)
    _tools: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        asker = Asker(self.pace.concurrency, monotonic=self.monotonic)
        object.__setattr__(self, "_asker", asker)
        object.__setattr__(self, "_tools", writing_tools(self.context.registry))

    @property
    def busy(self) -> int:
        """Questions that are under way, or answered and not written down yet."""
        return self._asker.busy + len(self._open)

    @property
    def abandoned(self) -> int:
        """Threads that are still busy with a question that was given up."""
        return self._asker.abandoned

    def run_once(self) -> list[Intent]:
        """Takes a batch of those whose time has come, and whatever is answered by now.

        Answers with the intents whose doubt has ended, as they are now. Never waits long: a slow
        answer is written down by a later ``look``. Raises Unavailable.
        """
        with self.context.database.internal_transaction() as tx:
            ended, questions = self._take(tx)
        for question in questions:
            self._asker.ask(question)
        return [*ended, *self.look(QUICK_SECONDS)]

    def look(self, seconds: float = 0.0) -> list[Intent]:
        """Writes down what is answered; waits at most ``seconds`` for that. Raises Unavailable."""
        self._open.extend(self._asker.look(seconds))
        if not self._open:
            return []
        answered = [*self._open]
        ended, left = self._settle(answered)
        self._open[:] = left
        return ended

    def leave(self) -> None:
        """Lets the threads go."""
        self._asker.leave()

    def _take(self, tx: Tx) -> tuple[list[Intent], list[Question]]:
        """Ends at once what needs no question, and holds what is asked now."""
        changes: list[Change] = []
        asks: list[Ask] = []
        questions: list[Question] = []
        timely = self._timely(tx, asks)
        if not timely:
            move_asks(tx, asks)
            return [], []
        spared = attempts_spared(tx, [identity(one.intent) for one, _, _ in timely])
        for one, doubt, what in timely:
            step = self._step(one, what, doubt, spared)
            if step is not None:
                changes.append(_change(one, step))
            elif isinstance(what, Work) and len(questions) < self._asker.room:
                question = self._question(what, one.now)
                asks.append(Ask(intent=one.intent, at=question.held_until))
                questions.append(question)
        move_asks(tx, asks)
        return append(tx, changes), questions

    def _timely(self, tx: Tx, asks: list[Ask]) -> list[tuple[Taken, Doubt, Work | Unfit]]:
        """Those whose time has come; when the others' does is added to ``asks``."""
        taken = lock_doubtful(tx, self._tools, BATCH_MAX, tenant=self.tenant)
        if not taken:
            return []
        doubts = read_doubts(tx, [one.intent for one in taken])
        loaded = load(self.context, tx, [one.intent for one in taken])
        timely = []
        for one in taken:
            doubt, what = doubts[identity(one.intent)], loaded[identity(one.intent)]
            not_before = ask_from(doubt, self.pace, what)
            if one.now < not_before:
                asks.append(Ask(intent=one.intent, at=not_before))
            else:
                timely.append((one, doubt, what))
        return timely

    def _step(
        self, one: Taken, what: Work | Unfit, doubt: Doubt, spared: Mapping[UUID, int]
    ) -> commands.Command | None:
        """The command that ends the doubt without a question; None where somebody is asked."""
        if isinstance(what, Unfit):
            return commands.Park(cause=what.cause)
        case = self._case(one, what, doubt, spared)
        return None if case.is_askable else unasked(case)

    def _question(self, work: Work, now: datetime) -> Question:
        seconds = min(work.seconds_max, self.pace.lease.total_seconds())
        held_until = now + timedelta(seconds=seconds + GRACE_SECONDS + HOLD_SECONDS)
        return Question(work=work, seconds_max=seconds, held_until=held_until)

    def _settle(self, answered: Sequence[Answered]) -> tuple[list[Intent], list[Answered]]:
        """Those whose doubt has ended, and the answers that are left since a row is held."""
        said = salvage(answered, self._write, _bare, what="answer")
        ended = [one for one in said if isinstance(one, Intent)]
        return ended, [one for one in said if isinstance(one, Answered)]

    def _write(self, answered: Sequence[Answered]) -> list[Intent | Answered]:
        with self.context.database.internal_transaction() as tx:
            ended, left = self._settle_free(tx, answered)
        return [*ended, *left]

    def _settle_free(
        self, tx: Tx, answered: Sequence[Answered]
    ) -> tuple[list[Intent], list[Answered]]:
        asked = {identity(one.question.work.intent): one for one in answered}
        free = lock_free(tx, [one.question.work.intent for one in answered])
        doubts = read_doubts(tx, [taken.intent for taken in free])
        spared = attempts_spared(tx, [identity(taken.intent) for taken in free])
        ours = self._still_ours(tx, free, asked)
        changes: list[Change] = []
        later: list[Ask] = []
        for taken in free:
            one = asked.pop(identity(taken.intent))
            if identity(taken.intent) not in ours:
                logger.warning("answer_not_wanted", ref=taken.intent.ref)
                continue
            doubt = doubts[identity(taken.intent)]
            case = self._case(taken, one.question.work, doubt, spared)
            step = self._verdict(case, one.answer)
            if isinstance(step, datetime):
                later.append(Ask(intent=taken.intent, at=step))
            else:
                command, bodies = step
                changes.append(_change(taken, command, bodies))
        move_asks(tx, later)
        return append(tx, changes), list(asked.values())

    def _still_ours(
        self, tx: Tx, free: Sequence[Taken], asked: Mapping[Identity, Answered]
    ) -> set[Identity]:
        """Those that are in the doubt that was asked about, and held by nobody else since."""
        holds = [
            Ask(intent=taken.intent, at=hold, was=hold)
            for taken in free
            for question in [asked[identity(taken.intent)].question]
            for hold in [question.held_until]
            if taken.intent.state is State.IN_DOUBT
            and taken.intent.attempt == question.work.intent.attempt
        ]
        return move_asks(tx, holds)

    def _verdict(
        self, case: Case, answer: Answer
    ) -> datetime | tuple[commands.Command, tuple[Body, ...]]:
        """What the answer makes of the doubt, with the body beside it; or when to ask again."""
        match answer:
            case Absent():
                again = absent(case)
                if again is not None:
                    return again, ()
                given_up = not_reached(f"it never arrived in {case.attempts} attempts")
                bodies, digest = self._sealed("error", given_up.body)
                return commands.Fail(code=given_up.code, error=digest, source="find"), bodies
            case Performed():
                text = None if answer is _BARE else outcome_body(answer, {"found": True})
                bodies, digest = self._sealed("result", text)
                count = count_of(answer)
                return commands.Succeed(result=digest, affected_count=count, source="find"), bodies
            case None:
                step = unanswered(case, self.pace)
                return step if isinstance(step, datetime) else (step, ())

    def _sealed(self, name: str, text: str | None) -> tuple[tuple[Body, ...], str | None]:
        if text is None:
            return (), None
        body = local.sealed_body(self.context, name, text)
        return (body,), body_digest(body.salt, body.text)

    def _case(self, taken: Taken, work: Work, doubt: Doubt, spared: Mapping[UUID, int]) -> Case:
        return Case(
            intent=taken.intent,
            work=work,
            doubt=doubt,
            now=taken.now,
            dice=int.from_bytes(self.context.entropy(4), "big") / 2**32,
            spared=spared.get(taken.intent.id, 0),
        )


_BARE = Performed()
"""In place of an answer that can't be stored: it has happened all the same."""


def _bare(one: Answered) -> tuple[str, Answered | None]:
    ref = one.question.work.intent.ref
    if not isinstance(one.answer, Performed) or one.answer is _BARE:
        return ref, None
    return ref, replace(one, answer=_BARE)


def _change(taken: Taken, command: commands.Command, bodies: Sequence[Body] = ()) -> Change:
    events = decide(taken.intent, command, taken.now)
    named = {"ref": taken.intent.ref, "attempt": taken.intent.attempt}
    match command:
        case commands.Park(cause=cause):
            logger.error("intent_parked", **named, cause=cause)
        case commands.Requeue(cause="provider_key"):
            logger.info("repeated_in_doubt", **named)
        case _:
            kinds = [event.KIND for event in events]
            logger.info("doubt_ended", **named, becomes=kinds)
    return Change(taken=taken, events=events, bodies=bodies)
