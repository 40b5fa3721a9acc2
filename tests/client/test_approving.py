"""A person's decision: whose counts, what it is bound to, and what the late are told."""

import asyncio
import json
from datetime import timedelta
from enum import StrEnum

import pytest

from takeback.dispatch.expirer import Expirer
from takeback.model import command as commands

LARGE = {"charge": "ch_2", "amount": 90_000, "currency": "EUR"}
DAY = timedelta(days=1)


def ask(desk, **said) -> str:
    """A refund that waits for a person."""
    answer = desk.app.call(None, "refund", LARGE | said, principal="agent:support")
    assert answer.status == "needs_approval"
    return answer.ref or ""


def kinds(desk, ref) -> list[str]:
    return [one.kind.removeprefix("intent.") for one in desk.app.show(ref).events]


def payload(desk, ref, kind):
    (found,) = [one for one in desk.app.show(ref).events if one.kind == f"intent.{kind}"]
    return json.loads(found.payload)


# ── Yes and no ────────────────────────────────────────────────────────────────────────────────────


def test_an_approved_call_is_carried_out_once_with_what_was_recorded(desk):
    ref = ask(desk)
    approved = desk.app.approve(None, ref, principal="dana")
    assert (approved.status, approved.ref, approved.replayed) == ("scheduled", ref, False)
    assert approved["decided"]["how"] == "approved" and approved["decided"]["by"] == "dana"
    desk.work()
    assert desk.world.done == [("refund", 90_000)]
    assert desk.app.show(ref).entry.intent.approved_by == "dana"


def test_nothing_is_carried_out_before_it_is_approved(desk):
    ref = ask(desk)
    desk.shift(timedelta(hours=23))
    desk.work()
    assert desk.state(ref) == "awaiting_approval" and desk.world.done == []


def test_a_denied_call_never_happens_and_says_who_denied_it(desk):
    ref = ask(desk)
    denied = desk.app.deny(None, ref, principal="dana", reason="too much for a scratched cup")
    assert (denied.status, denied.code) == ("refused", "approval_denied")
    assert denied["decided"]["reason"] == "too much for a scratched cup"
    desk.work()
    assert desk.world.done == [] and desk.state(ref) == "denied"
    told = desk.app.call(None, "refund", LARGE, principal="agent:support")
    assert (told.status, told.code, told.replayed) == ("refused", "approval_denied", True)
    assert told.error["message"] == "dana denied it"
    assert "scratched" not in told.to_json(), "why is for persons"


def test_the_reason_is_a_body_that_can_be_forgotten_and_the_log_still_proves(desk):
    ref = ask(desk)
    desk.app.deny(None, ref, principal="dana", reason="Ana Lima is moving abroad")
    assert "Lima" not in json.dumps([one.payload for one in desk.app.show(ref).events])
    assert len(payload(desk, ref, "denied")["reason"]) == 64
    assert desk.app.verify().problems == ()
    desk.rows("DELETE FROM takeback.bodies WHERE name = 'reason'")
    assert desk.app.status(ref).error["message"] == "a person denied it"
    assert desk.app.verify().problems == ()


@pytest.mark.parametrize(
    "decision",
    [None, "", "deny", "yes", "APPROVE", "approve ", "approved", True, 1, {"approve": 1}],
)
def test_whatever_is_not_the_word_approve_means_no(desk, decision):
    ref = ask(desk)
    answer = desk.app.decide(None, ref, decision, principal="dana")
    assert (answer.code, desk.state(ref)) == ("approval_denied", "denied")
    if decision != "deny":
        assert answer["taken_for"] == "deny" and "decision_received" in answer
    desk.work()
    assert desk.world.done == []


class Agrees:
    """Says that it is equal to anything; or nothing at all."""

    __hash__ = object.__hash__

    def __init__(self, said):
        self.said = said

    def __eq__(self, other):
        return self.said()

    def __str__(self):
        return self.said()


class Obliging(str):
    """A text that says that it is every other."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def broken():
    raise RuntimeError("no word")


@pytest.mark.parametrize(
    "decision",
    [Agrees(lambda: True), Agrees(broken), Obliging("no")],
    ids=["agrees", "breaks", "obliging"],
)
def test_what_only_says_of_itself_that_it_is_the_word_means_no(desk, decision):
    ref = ask(desk)
    answer = desk.app.decide(None, ref, decision, principal="dana")
    assert (answer.code, answer["taken_for"]) == ("approval_denied", "deny")


class Word(StrEnum):
    """The words of somebody's own program."""

    YES = "approve"


@pytest.mark.parametrize("word", ["approve", Word.YES], ids=["text", "enum"])
def test_the_word_approve_means_yes(desk, word):
    ref = ask(desk)
    answer = desk.app.decide(None, ref, word, principal="dana")
    assert (answer.status, "taken_for" in answer) == ("scheduled", False)


def test_the_window_of_a_call_starts_when_it_is_approved(desk_url, desk):
    """By the database's clock: what was recorded long ago is held as long as any other."""
    ref = ask(desk)
    desk.shift(timedelta(hours=20))
    desk.app.approve(None, ref, principal="dana")
    due, approved = desk.rows(
        """
        SELECT takeback.micros(i.due_at), takeback.micros(e.recorded_at)
        FROM takeback.intents i JOIN takeback.events e ON e.intent_id = i.id
        WHERE i.ref = %s AND e.kind = 'intent.approved'
        """,
        ref,
    )[0]
    window = desk.value("SELECT window_us FROM takeback.intents WHERE ref = %s", ref)
    assert due == approved + window


# ── Who may ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["approve", "deny"])
@pytest.mark.parametrize("agent", ["agent:support", "agent:other"])
def test_an_agent_decides_about_nothing(desk, word, agent):
    ref = ask(desk)
    refused = desk.app.decide(None, ref, word, principal=agent)
    assert (refused.status, refused.code) == ("refused", "no_access")
    assert kinds(desk, ref) == ["recorded"]


@pytest.mark.parametrize("caller, approver", [("dana", "user:dana"), ("user:dana", "dana")])
def test_who_has_made_the_call_can_not_approve_it_however_they_are_spelled(desk, caller, approver):
    ref = desk.app.call(None, "refund", LARGE, principal=caller).ref or ""
    refused = desk.app.approve(None, ref, principal=approver)
    assert (refused.code, desk.state(ref)) == ("no_access", "awaiting_approval")
    assert desk.app.deny(None, ref, principal=approver).code == "approval_denied"


@pytest.mark.parametrize("principal", ["", "ro bot:x", "dana\n", "robot:dana"])
def test_a_principal_that_can_not_be_one_is_refused(desk, principal):
    ref = ask(desk)
    assert desk.app.approve(None, ref, principal=principal).code == "invalid_argument"
    assert desk.state(ref) == "awaiting_approval"


def test_a_reason_that_is_no_text_is_refused_and_nothing_is_decided(desk):
    ref = ask(desk)
    for reason in (7, "x" * 2001, "a\0b", "lone \ud800"):
        assert desk.app.deny(None, ref, principal="dana", reason=reason).code == "invalid_argument"
    assert desk.state(ref) == "awaiting_approval"


def test_a_ref_that_there_is_not_is_no_such_ref(desk):
    assert desk.app.approve(None, "refund-00000000", principal="dana").code == "no_such_ref"


def test_what_nobody_was_asked_about_can_not_be_approved(desk):
    ref = desk.app.call(None, "send_letter", {"to": "a", "subject": "b"}).ref or ""
    for word in ("approve", "deny"):
        assert desk.app.decide(None, ref, word, principal="dana").code == "approval_mismatch"
    assert desk.state(ref) == "held"


# ── What it is bound to ───────────────────────────────────────────────────────────────────────────


def test_approved_arguments_are_those_that_run_and_others_are_refused_by_name(desk):
    """extra #139, pydantic-ai #6968: approve, then call with others."""
    ref = ask(desk)
    desk.app.approve(None, ref, principal="dana")
    other = desk.app.call(
        None, "refund", LARGE | {"reason": "fraudulent"}, principal="agent:support"
    )
    assert other.status == "refused" and other.code in ("approval_mismatch", "key_conflict")
    assert [one["field"] for one in other.error["violations"]] == ["reason"]
    desk.work()
    assert desk.world.done == [("refund", 90_000)]
    stored = desk.value("SELECT body FROM takeback.bodies WHERE name = 'arguments'")
    assert json.loads(stored)["reason"] == "requested"


def test_a_yes_to_what_was_seen_is_a_yes_to_nothing_else(desk):
    ref, other = ask(desk), ask(desk, charge="ch_3")
    seen = desk.app.show(ref).asked.expect
    refused = desk.app.approve(None, other, principal="dana", expect=seen)
    assert (refused.code, desk.state(other)) == ("approval_mismatch", "awaiting_approval")
    (violation,) = refused.error["violations"]
    assert violation["received"] == seen
    assert desk.app.approve(None, ref, principal="dana", expect=seen.upper()).status == "scheduled"
    assert payload(desk, ref, "approved")["saw"].startswith(seen)


def test_a_yes_to_the_first_request_is_none_to_the_second(desk):
    """Single use: over a limit it is asked about again, and that is another question."""
    ref = ask(desk)
    seen = desk.app.show(ref).asked.expect
    desk.app.approve(None, ref, principal="dana", expect=seen)
    desk.command(ref, commands.Claim(worker="w", lease=timedelta(seconds=30)))
    desk.command(ref, commands.AskApproval(cause="limit", approval_for=DAY))
    again = desk.app.approve(None, ref, principal="dana", expect=seen)
    assert (again.code, desk.state(ref)) == ("approval_mismatch", "awaiting_approval")
    assert desk.app.show(ref).asked.cause == "limit"
    assert desk.app.approve(None, ref, principal="dana").status == "scheduled"
    desk.work()
    assert desk.world.done == [("refund", 90_000)]


def test_a_decision_repeated_with_what_was_seen_is_that_decision_and_with_less_is_none(desk):
    ref, other = ask(desk), ask(desk, charge="ch_3")
    seen, unwanted = (desk.app.show(one).asked.expect for one in (ref, other))
    desk.app.approve(None, ref, principal="dana", expect=seen)
    assert desk.app.approve(None, ref, principal="dana", expect=seen).replayed
    for less in ("", seen[:1]):
        said = desk.app.approve(None, ref, principal="dana", expect=less)
        assert said.code == "approval_mismatch"
    for _ in range(2):
        said = desk.app.decide(None, other, "deny", principal="dana", expect=unwanted)
        assert said.code == "approval_denied"


ALTERED = "UPDATE takeback.bodies SET body = replace(body, '90000', '10000')"
ERASED = "DELETE FROM takeback.bodies WHERE name = 'arguments'"


@pytest.mark.parametrize("change", [ALTERED, ERASED], ids=["altered", "erased"])
def test_arguments_that_are_no_longer_the_recorded_ones_are_not_approved(desk, change):
    ref = ask(desk)
    desk.rows(change)
    refused = desk.app.approve(None, ref, principal="dana")
    assert (refused.code, desk.state(ref)) == ("approval_mismatch", "awaiting_approval")
    assert [one["field"] for one in refused.error["violations"]] == ["arguments"]
    assert desk.app.deny(None, ref, principal="dana").code == "approval_denied"


@pytest.mark.parametrize("change", [ALTERED, ERASED], ids=["altered", "erased"])
def test_arguments_that_are_altered_after_the_yes_are_parked_and_never_run(desk, change):
    ref = ask(desk)
    desk.app.approve(None, ref, principal="dana")
    desk.rows(change)
    desk.work()
    assert desk.world.done == [] and desk.state(ref) == "parked"
    assert payload(desk, ref, "parked")["cause"] == "altered"


# ── Too late ──────────────────────────────────────────────────────────────────────────────────────


def test_approving_twice_is_once_and_says_so(desk):
    ref = ask(desk)
    desk.app.approve(None, ref, principal="dana")
    for principal in ("dana", "robin"):
        again = desk.app.approve(None, ref, principal=principal)
        assert (again.status, again.replayed) == ("scheduled", True)
        assert again["decided"]["by"] == "dana"
    assert kinds(desk, ref).count("approved") == 1
    desk.work()
    assert desk.app.approve(None, ref, principal="robin").status == "done"
    assert desk.world.done == [("refund", 90_000)]


@pytest.mark.parametrize(
    "first, then",
    [("approve", "deny"), ("deny", "approve"), ("restore", "approve"), ("restore", "deny")],
)
def test_who_comes_too_late_is_told_who_decided_and_when(desk, first, then):
    ref = ask(desk)
    if first == "restore":
        desk.app.restore(None, ref, principal="robin")
    else:
        desk.app.decide(None, ref, first, principal="robin")
    before = kinds(desk, ref)
    refused = desk.app.decide(None, ref, then, principal="dana")
    assert (refused.status, refused.code, refused.ref) == ("refused", "too_late", ref)
    assert "robin" in refused.error["message"]
    assert refused["decided"]["by"] == "robin" and refused["decided"]["at"].endswith("Z")
    assert kinds(desk, ref) == before


def test_what_was_denied_can_not_be_taken_back_since_it_never_happened(desk):
    ref = ask(desk)
    desk.app.deny(None, ref, principal="dana")
    assert desk.app.restore(None, ref, principal="robin").code == "not_restorable"


def test_what_was_approved_can_still_be_taken_back(desk):
    ref = ask(desk)
    desk.app.approve(None, ref, principal="dana")
    assert desk.app.restore(None, ref, principal="agent:support").status == "done"
    desk.work()
    assert desk.world.done == [] and desk.state(ref) == "cancelled"


@pytest.mark.parametrize("swept", [False, True], ids=["not swept yet", "swept"])
def test_a_request_that_is_over_is_expired_for_everybody_at_once(desk, swept):
    ref = ask(desk)
    desk.shift(DAY)
    if swept:
        (expired,) = Expirer(desk.app.context).run_once()
        assert expired.state.value == "expired"
    for word in ("approve", "deny"):
        refused = desk.app.decide(None, ref, word, principal="dana")
        assert refused.code == "too_late" and refused["decided"]["how"] == "expired"
    status, repeat = desk.app.status(ref), desk.app.call(None, "refund", LARGE)
    for told in (status, repeat):
        assert (told.status, told.code) == ("refused", "approval_expired")
    assert repeat.ref == ref
    assert desk.app.restore(None, ref, principal="dana").code == "not_restorable"
    assert desk.app.list()[0]["state"] == "expired"
    desk.work()
    assert desk.world.done == []
    assert kinds(desk, ref)[-1] == "approval_expired"


def test_a_minute_before_the_end_it_can_be_approved(desk):
    ref = ask(desk)
    desk.shift(DAY - timedelta(minutes=1))
    assert Expirer(desk.app.context).run_once() == []
    assert desk.app.approve(None, ref, principal="dana").status == "scheduled"
    desk.shift(DAY)
    assert Expirer(desk.app.context).run_once() == []


# ── In whose transaction ──────────────────────────────────────────────────────────────────────────


def test_a_decision_is_part_of_the_transaction_that_it_is_made_in(desk, joined):
    ref = ask(desk)
    given = getattr(joined, "given", None) or joined.connection
    if joined.__class__.__name__ == "AsyncCaller":
        joined._run(desk.app.aapprove(given, ref, principal="dana"))
    else:
        desk.app.approve(given, ref, principal="dana")
    assert desk.state(ref) == "awaiting_approval"
    joined.rollback()
    assert desk.state(ref) == "awaiting_approval"
    if joined.__class__.__name__ == "AsyncCaller":
        joined._run(desk.app.adeny(given, ref, principal="dana"))
    else:
        desk.app.deny(given, ref, principal="dana")
    joined.commit()
    assert desk.state(ref) == "denied"


def test_a_refused_decision_holds_nobody_up(desk, callers):
    """The row is free again, though the transaction of the one who was refused goes on."""
    ref = ask(desk)
    caller = callers("psycopg")
    refused = desk.app.approve(caller.raw, ref, principal="dana", expect="something else")
    assert refused.code == "approval_mismatch"
    assert desk.app.approve(None, ref, principal="robin").status == "scheduled"


def test_each_decision_can_be_awaited(desk):
    first, second, third = ask(desk), ask(desk, charge="ch_3"), ask(desk, charge="ch_4")

    async def decide() -> list[str]:
        return [
            (await desk.app.aapprove(None, first, principal="dana")).status,
            (await desk.app.adeny(None, second, principal="dana")).status,
            (await desk.app.adecide(None, third, None, principal="dana")).status,
        ]

    assert asyncio.run(decide()) == ["scheduled", "refused", "refused"]
