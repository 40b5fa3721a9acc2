"""A refund of much money, from the agent's call to the person's word and what comes of it."""

from datetime import timedelta

import pytest

LARGE = {
    "charge_id": "ch_2",
    "amount": 90_000,
    "currency": "EUR",
    "reason": "requested_by_customer",
}
WINDOW = timedelta(minutes=11)


@pytest.fixture
def waits(shop) -> str:
    answer = shop.call("refund_charge", **LARGE)
    assert answer.status == "needs_approval"
    return answer.ref or ""


def test_it_is_made_after_its_window_once_dana_has_approved_it(shop, waits, later):
    later(timedelta(hours=5))
    held = shop.app.approve(None, waits, principal="dana")
    assert held.status == "scheduled" and held.restore is not None
    shop.work()
    assert shop.payments.refunds == [], "the window starts with the yes"
    later(timedelta(hours=5) + WINDOW)
    shop.work()
    (made,) = shop.payments.refunds
    assert (made.charge_id, made.amount) == ("ch_2", 90_000)
    assert shop.app.status(waits).status == "done"


def test_two_operators_who_approve_it_make_one_refund(shop, waits, later):
    shop.app.approve(None, waits, principal="dana")
    again = shop.app.approve(None, waits, principal="pat")
    assert (again.replayed, again["decided"]["by"]) == (True, "dana")
    later(WINDOW)
    shop.work()
    assert len(shop.payments.refunds) == 1


def test_it_can_be_taken_back_in_its_window_although_it_was_approved(shop, waits, later):
    shop.restore(shop.app.approve(None, waits, principal="dana"))
    later(WINDOW)
    shop.work()
    assert shop.payments.refunds == []


def test_it_is_never_made_once_it_is_denied_and_the_agent_hears_who_did(shop, waits, later):
    shop.app.deny(None, waits, principal="dana", reason="the cup came back whole")
    told = shop.call("refund_charge", **LARGE)
    assert (told.code, told.error["message"]) == ("approval_denied", "dana denied it")
    later(WINDOW)
    shop.work()
    assert shop.payments.refunds == []


def test_it_is_never_made_once_a_day_has_gone_by(shop, waits, later):
    later(timedelta(days=1))
    assert shop.app.approve(None, waits, principal="dana").code == "too_late"
    shop.work()
    told = shop.call("refund_charge", **LARGE)
    assert (told.ref, told.code) == (waits, "approval_expired")
    assert shop.payments.refunds == []


def test_the_agent_that_asks_can_not_say_yes_and_nor_can_a_person_to_their_own_call(shop, waits):
    assert shop.app.approve(None, waits, principal="agent:support").code == "no_access"
    own = shop.call("refund_charge", principal="user:pat", **(LARGE | {"amount": 80_000}))
    assert shop.app.approve(None, own.ref, principal="pat").code == "no_access"
    assert shop.app.approve(None, own.ref, principal="dana").status == "scheduled"


def test_other_arguments_after_the_yes_are_refused_by_name_and_change_nothing(shop, waits, later):
    """extra #139, pydantic-ai #6968."""
    shop.app.approve(None, waits, principal="dana")
    refused = shop.call("refund_charge", **(LARGE | {"reason": "duplicate"}))
    assert refused.status == "refused"
    assert [one["field"] for one in refused.error["violations"]] == ["reason"]
    later(WINDOW)
    shop.work()
    (made,) = shop.payments.refunds
    assert made.amount == 90_000
