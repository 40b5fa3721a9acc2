"""A walk: whatever anybody may ask of the desk, in an order that dice decide, looked at each time.

Each step is printed, so that a walk that fails tells its story; the seed brings it about again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from sqlalchemy.exc import IntegrityError

from takeback import (
    Call,
    Envelope,
    HandlerError,
    NotDispatched,
    Rejected,
    RetryTransaction,
    Takeback,
    TransactionAborted,
)
from takeback.declare import PER_RUN, REFUSE, Limit, hours
from takeback.model import command as commands
from takeback.model.command import Command
from takeback.model.errors import InvalidTransition
from takeback.model.intent import FINAL, State
from tests.client.caller import CALLERS, Caller
from tests.client.closed_answer import about_intent, require_closed
from tests.client.desk import Desk, Pauses
from tests.client.fickle import Fickle

CASES = ("c0", "c1", "c2")
READS = ("find_books", "look", "seek")
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "send_letter": [{"to": to, "subject": "due", "note": n} for to in ("r1", "r2") for n in "ab"],
    "refund": [
        {"charge": "ch", "amount": amount, "currency": "EUR", "reason": reason}
        for amount in (100, 60_000)
        for reason in ("duplicate", "requested")
    ],
    "delete_book": [{"book": book} for book in ("b1", "b2", "nowhere")],
    "set_state": [
        {"book": "b3", "state": state, "note": note} for state in ("in", "out") for note in "ab"
    ],
    "rename_book": [{"book": "b3", "title": title} for title in ("Solaris", "Emma")],
    "remind": [{"who": "r1"}],
    "digest": [{"who": "r1"}],
    "find_books": [{"query": query} for query in ("e", "nothing like it")],
    **{
        tool: [{"case": case, "note": note} for case in CASES for note in ("", "n")]
        for tool in ("act", "act_over_limit", "act_standing", "deliver", "look", "seek")
    },
}
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("refund", {"charge": "ch", "amount": "lots", "currency": "eur"}),
    ("send_leter", {"to": "r1", "subject": "due"}),
    ("act", {"case": "c0", "idempotency_key": "k"}),
    ("deliver", {}),
    ("restore", {"ref": 7}),
]
WITHOUT_LOCKS = ("send_letter", "refund", "act", "deliver", "act_over_limit")
"""Tools whose handlers wait for no row: two calls of one of them can be open at once."""

PRINCIPALS = (None, "agent:a", "agent:b", "user:dana", "mo")
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
SPANS = [timedelta(seconds=1), timedelta(seconds=70), timedelta(hours=2), timedelta(days=31)]
LEASE = timedelta(seconds=30)
LIMITS = {
    "act": {"limits": (Limit(count=4, over=REFUSE),)},
    "deliver": {"limits": (Limit(count=3, per=hours(1)),)},
    "delete_book": {"limits": (Limit(rows=4, strict=True),)},
    "refund": {"limits": (Limit(money=60_100, currency="EUR", over=REFUSE),)},
}
GHOSTS: list[Command] = [
    commands.Claim(worker="ghost", lease=LEASE),
    commands.Begin(lease=LEASE),
    commands.HandBack(),
    commands.LoseTrack(cause="interrupted"),
    commands.Park(),
    commands.Requeue(cause="person", by="mo"),
    commands.Fail(code="provider_rejected", source="person", by="mo"),
    commands.Succeed(result=None, source="person", by="mo"),
    commands.AnswerLate(attempt=1, outcome="failed"),
    commands.ExpireApproval(),
]
"""What other processes and persons do to an intent, as far as its state allows."""

LEFT = (RetryTransaction, TransactionAborted, HandlerError)
"""What a caller hears in its own transaction instead of an answer: roll it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One call, as it is made again and again."""

    tool: str
    arguments: dict[str, Any]
    run: str | None = None
    principal: str | None = None
    on_behalf_of: str | None = None
    repeat_of: str | None = None

    def __str__(self) -> str:
        said = (self.run, self.principal, self.on_behalf_of, self.repeat_of)
        return f"{self.tool} {self.arguments} {said}"

    @property
    def reads(self) -> bool:
        """Whether it writes nothing."""
        return self.tool in READS


def fickle_desk(desk: Desk, seed: str) -> None:
    """Lays down the cases, each with dice of its own."""
    for case in CASES:
        desk.plays[case] = Fickle(seed, case).play()


class Walk:
    """The desk, an app that looks at everything there is to look at, and what was asked so far."""

    def __init__(self, desk: Desk, dice: random.Random) -> None:
        self.desk = desk
        self.dice = dice
        self.word: Any = "allow"
        self.met = Counter[str]()
        fickle_desk(desk, str(dice.random()))
        self.app = self._make_app()
        self.questions: list[Question] = []
        self.expects: list[str] = []

    def _make_app(self) -> Takeback:
        return self.desk.make_app(
            awaiting=self.dice.random() < 0.3,
            pauses=Pauses(),
            changed=LIMITS,
            limits=(Limit(count=9, scope=PER_RUN),),
            policy=lambda proposal: self.word,
            grants={"agent:b": ["agent:a"]},
        )

    def run(self, steps: int) -> None:
        """So many steps, and then what has to be true at the end."""
        rules = {
            self.calls: 10,
            self.repeats: 6,
            self.calls_beside_another: 2,
            self.calls_many: 1,
            self.asks_wrongly: 1,
            self.previews: 2,
            self.restores: 6,
            self.decides: 3,
            self.works: 5,
            self.time_goes_by: 3,
            self.somebody_else_acts: 6,
            self.brakes: 1,
            self.purges: 2,
            self.policy_changes: 1,
            self.provider_fails: 2,
        }
        for _ in range(steps):
            self.dice.choices(list(rules), list(rules.values()))[0]()
        self.proves_itself()

    # ── what is asked ───────────────────────────────────────────────────────────────────────────

    def calls(self) -> None:
        question = self._question()
        self.questions.append(question)
        beside: dict[str, Any] = {}
        if not question.reads and self.dice.random() < 0.15:
            beside["expect"] = self.dice.choice([*self.expects[-3:], "preview-00000000", "yes"])
        if question.tool in ("send_letter", "deliver") and self.dice.random() < 0.1:
            beside["not_before"] = datetime(2030, 1, 1, tzinfo=UTC)
        if self.dice.random() < 0.2:
            beside["savepoint"] = self.dice.random() < 0.5
        self._put(question, beside)
        self._hear_again(question)

    def repeats(self) -> None:
        if not self.questions:
            return
        question = self.dice.choice(self.questions)
        if self.dice.random() < 0.3:
            other = self.dice.choice(ARGUMENTS[question.tool])
            question = replace(question, arguments=other)
        self._put(question, {})
        self._hear_again(question)

    def calls_beside_another(self) -> None:
        """An equal call is uncommitted elsewhere: bounded, and nobody waits for it."""
        tool = self.dice.choice(WITHOUT_LOCKS)
        question = replace(self._question(), tool=tool)
        question = replace(question, arguments=self.dice.choice(ARGUMENTS[tool]), repeat_of=None)
        with psycopg.connect(self.desk.url) as holder:
            try:
                first = self.ask(question, holder)
            except LEFT:
                holder.rollback()
                return
            self._told("beside", question, first)
            try:
                second = self.ask(question, None)
            except HandlerError:
                pass
            else:
                self._told("  other", question, second)
            try:
                holder.commit() if self.dice.random() < 0.5 else holder.rollback()
            except psycopg.errors.IntegrityError:
                holder.rollback()
        self._hear_again(question)

    def calls_many(self) -> None:
        some = [self._question() for _ in range(self.dice.randint(1, 4))]
        calls = [Call(tool=q.tool, arguments=q.arguments, repeat_of=q.repeat_of) for q in some]
        run, principal = self.dice.choice([None, "run-1"]), self.dice.choice(PRINCIPALS)
        answers = self.app.call_many(None, calls, run=run, principal=principal)
        for question, answer in zip(some, answers, strict=True):
            self._told("many", question, answer)

    def asks_wrongly(self) -> None:
        tool, arguments = self.dice.choice(WRONG)
        before = self.desk.counts()
        answer = self.app.call(None, tool, arguments)
        self._told("wrong", Question(tool=tool, arguments=arguments), answer)
        assert answer.error is not None
        assert answer.error["class"] == "invalid_request"
        assert self.desk.counts() == before

    def previews(self) -> None:
        question = self._question()
        before = self.desk.counts()
        answer = self.app.preview(
            None,
            question.tool,
            question.arguments,
            run=question.run,
            principal=question.principal,
        )
        print("preview", question.tool, answer.status, answer.code)
        require_closed(answer, reads=True)
        assert self.desk.counts() == before
        if answer.error is None and answer["expect"]:
            self.expects.append(answer["expect"])

    def restores(self) -> None:
        ref = self._ref()
        said: dict[str, Any] = {"principal": self.dice.choice(PRINCIPALS)}
        if said["principal"] in ("mo", "user:dana"):
            said["force"] = self.dice.random() < 0.3
        if self.dice.random() < 0.3:
            said["run"] = "run-1"
        asked = Question(tool="restore", arguments={"ref": ref})
        answer = self._through(
            lambda caller: (
                self.app.restore(None, ref, **said)
                if caller is None
                else caller.restore(self.app, ref, **said)
            )
        )
        if answer is not None:
            self._told(f"restore {said}", asked, answer)
            self._hear(lambda: self.app.restore(None, ref, **said))

    def decides(self) -> None:
        waiting = [ref for ref, state in self.desk.states().items() if state == "awaiting_approval"]
        ref = self.dice.choice([*waiting, self._ref()])
        word = self.dice.choice(["approve", "approve", "deny", None, "yes", {"decision": True}])
        principal = self.dice.choice(["mo", "user:dana", "agent:a"])
        answer = self.app.decide(None, ref, word, principal=principal)
        self._told(f"decide {word} by {principal}", Question(tool="-", arguments={}), answer)

    # ── what else happens ───────────────────────────────────────────────────────────────────────

    def works(self) -> None:
        """The leases of ghosts are over by then: a draining worker would wait for them."""
        self.desk.shift(LEASE + timedelta(seconds=1))
        print("work")
        self.desk.work(self.app, concurrency=1)

    def time_goes_by(self) -> None:
        span = self.dice.choice(SPANS)
        print("later by", span)
        self.desk.shift(span)

    def somebody_else_acts(self) -> None:
        """Several in a row on one intent: so it gets far."""
        ref = self._ref()
        if ref not in self.desk.states():
            return
        for command in self.dice.sample(GHOSTS, len(GHOSTS)):
            try:
                self.desk.command(ref, command)
            except InvalidTransition:
                continue
            print("ghost", command, ref, self.desk.state(ref))
            if self.dice.random() < 0.5:
                return

    def brakes(self) -> None:
        scopes: list[dict[str, Any]] = [{"tool": "deliver"}, {"tool": "act"}, {"run": "run-1"}]
        scope = self.dice.choice(scopes)
        freezes = self.dice.random() < 1 / 3
        print("freeze" if freezes else "thaw", scope)
        if freezes:
            self.app.freeze(reason="a try", principal="mo", **scope)
        else:
            self.app.thaw(reason="a try", principal="mo", **scope)

    def purges(self) -> None:
        """What is final is forgotten but for its stub."""
        final = [ref for ref, state in self.desk.states().items() if State(state) in FINAL]
        if not final:
            return
        ref = self.dice.choice(final)
        print("purge", ref)
        self.desk.command(ref, commands.Purge())
        self.desk.rows(
            """
            DELETE FROM takeback.bodies AS b USING takeback.intents AS i
            WHERE (i.tenant, i.id) = (b.tenant, b.intent_id) AND i.ref = %s
            """,
            ref,
        )

    def policy_changes(self) -> None:
        self.word = self.dice.choice(["allow", "allow", "allow", "allow", "ask", "refuse", None])
        print("policy says", self.word)

    def provider_fails(self) -> None:
        trouble = self.dice.choice(
            [NotDispatched("refused"), Rejected("never"), RuntimeError("reset by peer")]
        )
        print("next at the provider:", trouble)
        self.desk.world.troubles.append(trouble)

    def proves_itself(self) -> None:
        """The log proves itself, and folding it finds nothing to put right."""
        verdict = self.app.verify()
        assert verdict.problems == ()
        rebuilt = self.app.rebuild()
        assert (rebuilt.differing, rebuilt.refused) == ((), ())
        for ref in self.desk.states():
            require_closed(self.app.status(ref))

    # ── how it is asked, and what is looked at each time ────────────────────────────────────────

    def ask(self, question: Question, tx: object, **beside: Any) -> Envelope:
        """The call, in ``tx`` or in a transaction of its own."""
        return self.app.call(tx, question.tool, question.arguments, **said(question), **beside)

    def _put(self, question: Question, beside: dict[str, Any]) -> None:
        answer = self._through(
            lambda caller: (
                self.ask(question, None, **beside)
                if caller is None
                else caller.call(
                    self.app, question.tool, question.arguments, **said(question), **beside
                )
            )
        )
        if answer is not None:
            self._told(f"call {beside}", question, answer)

    def _through(self, ask: Callable[[Caller | None], Envelope]) -> Envelope | None:
        """Asks with or without a transaction of the caller's; None when that came to nothing."""
        name = self.dice.choice([None, None, *CALLERS])
        if name is None:
            try:
                return ask(None)
            except HandlerError:
                return None
        caller, before = CALLERS[name](self.desk.url), self.desk.counts()
        keeps = self.dice.random() < 0.8
        answer: Envelope | None = None
        try:
            caller.sql(f"SET TRANSACTION ISOLATION LEVEL {self.dice.choice(LEVELS)}")
            answer = ask(caller)
            caller.commit() if keeps else caller.rollback()
        except (*LEFT, IntegrityError, psycopg.errors.IntegrityError) as problem:
            print("  left:", type(problem).__name__)
            caller.rollback()
            keeps = False
        finally:
            caller.close()
        if keeps:
            return answer
        assert self.desk.counts() == before, "a transaction that was left has left something"
        return None

    def _told(self, how: str, question: Question, answer: Envelope) -> None:
        print(how, str(question), "→", answer.status, answer.code, answer.ref)
        require_closed(answer, reads=question.reads)

    def _hear_again(self, question: Question) -> None:
        if not question.reads:
            self._hear(lambda: self.ask(question, None))

    def _hear(self, ask: Callable[[], Envelope]) -> None:
        """Twice the same is the same, byte for byte, and what ``status`` says of it too."""
        first, second = ask(), ask()
        for answer in (first, second):
            require_closed(answer)
        if not (first.replayed and second.replayed and first.ref == second.ref):
            return
        self.met[self.desk.state(first.ref)] += 1
        assert first.to_json() == second.to_json()
        if "redone_by" not in first:
            assert about_intent(first) == about_intent(self.app.status(str(first.ref)))

    def _question(self) -> Question:
        tool = self.dice.choice(sorted(ARGUMENTS))
        run = self.dice.choice([None, "run-1", "run-2"])
        question = Question(
            tool=tool,
            arguments=self.dice.choice(ARGUMENTS[tool]),
            run="run-1" if tool == "remind" else run,
            principal=self.dice.choice(PRINCIPALS),
            on_behalf_of=self.dice.choice([None, "user:dana"]),
        )
        own = [ref for ref in self.desk.states() if ref.startswith(f"{tool}-")]
        if question.reads or not own or self.dice.random() < 0.75:
            return question
        return replace(question, repeat_of=self.dice.choice([*own, *own, self._ref()]))

    def _ref(self) -> str:
        """Any that there is; now and then one that there is not."""
        refs = list(self.desk.states())
        if not refs or self.dice.random() < 0.05:
            return self.dice.choice(["act-0000000", "act-7F3K9QDM", "é"])
        return self.dice.choice(refs)


def said(question: Question) -> dict[str, Any]:
    """Who asks, in which run, for whom, and of what it is a repeat that is meant."""
    return {
        "run": question.run,
        "principal": question.principal,
        "on_behalf_of": question.on_behalf_of,
        "repeat_of": question.repeat_of,
    }
