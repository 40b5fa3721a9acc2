"""A support agent that follows a script, and does what agents do: repeats, mistypes, errs, regrets.

It knows the shop's tools and what they answer, and nothing else: whatever it does next stands in
the answer before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from takeback import Envelope, Takeback

RUN = "demo-1"
PRINCIPAL = "agent:support"
DANA = "dana@example.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The story goes on elsewhere."""

    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A person says something, or the story is told on."""

    by: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """The agent has called a tool; ``why`` when it is not what the person has just asked for.

    ``expects`` is what the story says that the answer is, in the words of ``word_of``.
    """

    tool: str
    arguments: Mapping[str, Any]
    answer: Envelope
    expects: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """The story waits for the worker: until the intent of ``ref`` has been carried out."""

    ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All rows of the shop are looked at, ``before`` something is done or after it was undone."""

    before: bool


Beat = Scene | Said | Called | Awaited | Compared


class Agent:
    """Calls tools of ``app``, each in a transaction of its own."""

    def __init__(self, app: Takeback) -> None:
        self._app = app

    def call(
        self, tool: str, arguments: Mapping[str, Any], *, expects: str, why: str = ""
    ) -> Called:
        """One call, whatever comes of it."""
        answer = self._app.call(None, tool, arguments, run=RUN, principal=PRINCIPAL)
        return Called(tool=tool, arguments=arguments, answer=answer, expects=expects, why=why)

    def correct(self, refused: Called) -> Called:
        """The corrected call that a refusal has handed over."""
        error = refused.answer.error or {}
        offered = error.get("next_call") or {"tool": refused.tool, "arguments": refused.arguments}
        why = "the next_call, as it came"
        return self.call(offered["tool"], offered["arguments"], expects="done", why=why)

    def take_back(self, done: Called) -> Called:
        """The call that takes an earlier one back, as its answer had it."""
        offered = (done.answer.restore or {"arguments": {"ref": done.answer.ref}})["arguments"]
        answer = self._app.restore(None, offered["ref"], run=RUN, principal=PRINCIPAL)
        return Called(
            tool="restore",
            arguments=offered,
            answer=answer,
            expects="done",
            why="the restore call, as it came",
        )

    def regret(self, sent: Called) -> Called:
        """Asks to take back what can't be taken back any more."""
        ref = str(sent.answer.ref)
        answer = self._app.restore(None, ref, run=RUN, principal=PRINCIPAL)
        return Called(tool="restore", arguments={"ref": ref}, answer=answer, expects="refused")

    def ask(self, done: Called) -> Called:
        """What became of an earlier call."""
        ref = str(done.answer.ref)
        answer = self._app.status(ref)
        return Called(tool="status", arguments={"ref": ref}, answer=answer, expects="done")


def word_of(answer: Envelope) -> str:
    """The status of an answer as the story says it.

    >>> word_of(Envelope({"status": "taken_back", "replayed": True}))
    'taken back, replayed'
    """
    return answer.status.replace("_", " ") + (", replayed" if answer.replayed else "")


def story(agent: Agent) -> Iterator[Beat]:
    """Everything that happens, in order; each beat has happened when it is told."""
    yield from _calls_twice(agent)
    yield from _mistypes(agent)
    yield from _deletes_the_wrong_customer(agent)
    yield from _unsends(agent)
    yield from _refunds(agent)
    yield from _sends(agent)


def _calls_twice(agent: Agent) -> Iterator[Beat]:
    yield Scene(title="A connection breaks, and the agent calls again: one mail")
    yield Said(by="person", text="Dana's new espresso machine is late. Tell her, will you?")
    words = {"query": "Dana espresso machine late", "area": "orders"}
    yield agent.call("search_orders", words, expects="ok")
    mail = {"to": DANA, "template": "order_delayed", "order_id": "O-2"}
    yield agent.call("send_customer_email", mail, expects="scheduled")
    why = "no answer came: was that sent?"
    yield agent.call("send_customer_email", mail, expects="scheduled, replayed", why=why)


def _mistypes(agent: Agent) -> Iterator[Beat]:
    yield Scene(title="It mistypes a status: the refusal has the right call")
    yield Said(by="person", text="And close her ticket, T-7.")
    call = {"ticket_id": "T-7", "status": "Closed"}
    wrong = agent.call("update_ticket", call, expects="refused")
    yield wrong
    yield agent.correct(wrong)


def _deletes_the_wrong_customer(agent: Agent) -> Iterator[Beat]:
    yield Scene(title="It deletes the wrong customer: the same rows come back")
    yield Said(by="person", text="Delete the account of Dana Ruiz-Ortega; she asked us to.")
    yield Compared(before=True)
    wrong = agent.call("delete_customer", {"customer_id": "C-1"}, expects="done")
    yield wrong
    yield Said(by="person", text="No! C-1 is Dana Ruiz. Ruiz-Ortega is C-4.")
    yield agent.take_back(wrong)
    yield Compared(before=False)
    yield agent.call("delete_customer", {"customer_id": "C-4"}, expects="done")


def _unsends(agent: Agent) -> Iterator[Beat]:
    yield Scene(title="It sends a mail and takes it back in time: nothing leaves")
    mail = {"to": DANA, "template": "apology", "order_id": "O-1"}
    sent = agent.call("send_customer_email", mail, expects="scheduled")
    yield sent
    yield Said(by="person", text="O-1 was on time. Don't send that.")
    yield agent.take_back(sent)
    yield agent.call(
        "send_customer_email",
        mail,
        expects="taken back, replayed",
        why="a late retry; taken back stays taken back",
    )


def _refunds(agent: Agent) -> Iterator[Beat]:
    yield Scene(title="It gives money back: once, and over 500.00 a person decides")
    yield Said(by="person", text="She returned O-1 and O-2. Give her the money back.")
    small = {
        "charge_id": "ch_1",
        "amount": 12_900,
        "currency": "EUR",
        "reason": "requested_by_customer",
    }
    yield agent.call("refund_charge", small, expects="scheduled")
    yield agent.call(
        "refund_charge",
        small | {"reason": "duplicate"},
        expects="refused",
        why="again, and says another reason",
    )
    large = small | {"charge_id": "ch_2", "amount": 90_000}
    yield agent.call("refund_charge", large, expects="needs approval")


def _sends(agent: Agent) -> Iterator[Beat]:
    yield Scene(title="It sends for real: what has left can't be taken back")
    mail = {"to": DANA, "template": "refund_issued", "order_id": "O-1"}
    sent = agent.call("send_customer_email", mail, expects="scheduled")
    yield sent
    yield Awaited(ref=str(sent.answer.ref))
    yield agent.ask(sent)
    yield agent.regret(sent)
