"""``refund_charge`` and ``delete_attachment``: on fakes of providers that count for themselves."""

from datetime import timedelta

import pytest

from takeback.testing import ProviderFault

SMALL = {
    "charge_id": "ch_1",
    "amount": 12_900,
    "currency": "EUR",
    "reason": "requested_by_customer",
}
LARGE = SMALL | {"charge_id": "ch_2", "amount": 90_000}
PHOTO = "tickets/T-1/broken-cup.jpg"


def refund(shop, **said):
    return shop.call("refund_charge", **(SMALL | said))


def delete(shop, path=PHOTO):
    return shop.call("delete_attachment", path=path)


def test_a_refund_waits_ten_minutes_and_is_then_made_once(shop, later):
    held = refund(shop)
    assert held.status == "scheduled"
    assert "unless taken back" in held.summary
    shop.work()
    assert shop.payments.refunds == []
    later(timedelta(minutes=11))
    shop.work()
    (made,) = shop.payments.refunds
    assert (made.charge_id, made.amount, made.currency) == ("ch_1", 12_900, "EUR")
    assert shop.app.status(held.ref).status == "done"


def test_the_same_refund_again_is_replayed_before_and_after_it_was_made(shop, later):
    """crewAI #5802."""
    first = refund(shop)
    assert (refund(shop).ref, refund(shop).replayed) == (first.ref, True)
    later(timedelta(minutes=11))
    shop.work()
    assert (refund(shop).ref, refund(shop).status) == (first.ref, "done")
    shop.work()
    assert len(shop.payments.refunds) == 1


def test_another_reason_is_a_conflict_that_names_both_early_and_late(shop, later):
    """idempot-js #183, ravel #1653."""
    first = refund(shop)
    for _ in range(2):
        refused = refund(shop, reason="duplicate")
        assert (refused.status, refused.code) == ("refused", "key_conflict")
        (violation,) = refused.error["violations"]
        assert violation["field"] == "reason"
        assert violation["first"] == "requested_by_customer"
        assert violation["received"] == "duplicate"
        assert refused["again"] == {"repeat_of": first.ref}
        later(timedelta(minutes=11))
        shop.work()
    assert len(shop.payments.refunds) == 1


def test_two_equal_partial_refunds_are_two_when_the_second_is_meant(shop, later):
    """S2.6: saleor/apps #2446."""
    first = refund(shop, amount=1_000)
    second = shop.call("refund_charge", repeat_of=first.ref, **(SMALL | {"amount": 1_000}))
    retried = shop.call("refund_charge", repeat_of=first.ref, **(SMALL | {"amount": 1_000}))
    assert second.ref != first.ref
    assert (retried.ref, retried.replayed) == (second.ref, True)
    later(timedelta(minutes=11))
    shop.work()
    assert [made.amount for made in shop.payments.refunds] == [1_000, 1_000]


def test_over_five_hundred_a_person_decides_and_nothing_is_made_meanwhile(shop, later):
    waits = refund(shop, **LARGE)
    assert waits.status == "needs_approval"
    assert "waits for a person" in waits.summary
    assert refund(shop, **LARGE).ref == waits.ref
    later(timedelta(hours=1))
    shop.work()
    assert shop.payments.refunds == []


def test_five_hundred_itself_needs_nobody(shop):
    assert refund(shop, charge_id="ch_2", amount=50_000).status == "scheduled"
    assert refund(shop, charge_id="ch_2", amount=50_001).status == "needs_approval"


def test_a_refund_that_is_taken_back_in_time_is_never_made(shop, later):
    shop.restore(refund(shop))
    later(timedelta(minutes=11))
    shop.work()
    assert shop.payments.refunds == []


def test_a_refund_that_was_made_is_charged_again_and_says_what_stays_visible(shop, later):
    held = refund(shop)
    later(timedelta(minutes=11))
    shop.work()
    done = shop.app.status(held.ref)
    assert done.restore["leaves"] == [
        "a refund that was made stays visible on the customer's statement"
    ]
    shop.restore(done)
    shop.work()
    assert shop.payments.refunds[0].charged_again
    assert shop.payments.charges["ch_1"].refunded == 0
    assert shop.app.status(held.ref).status == "taken_back"


def test_more_than_was_charged_is_refused_with_what_is_left(shop, later):
    held = refund(shop, amount=20_000)
    later(timedelta(minutes=11))
    shop.work()
    refused = shop.app.status(held.ref)
    assert (refused.status, refused.code) == ("refused", "provider_rejected")
    assert refused.error["alternatives"] == [{"amount": 12_900, "currency": "EUR"}]


def test_a_refund_in_doubt_is_one_refund(shop, later):
    shop.payments.inject(ProviderFault.DROP_ANSWER)
    held = refund(shop)
    later(timedelta(minutes=11))
    shop.work()
    assert len(shop.payments.refunds) == 1
    assert shop.app.status(held.ref).status in ("in_doubt", "done")


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"amount": 129.0}, "amount"),
        ({"amount": 0}, "amount"),
        ({"currency": "XXX"}, "currency"),
        ({"reason": "because"}, "reason"),
    ],
)
def test_money_that_can_not_be_meant_is_refused_by_field(shop, said, field):
    refused = refund(shop, **said)
    assert [one["field"] for one in refused.error["violations"]] == [field]


def test_a_file_is_deleted_and_made_visible_again_as_it_was(shop):
    before = shop.files.read(PHOTO)
    held = delete(shop)
    shop.work()
    assert not shop.files.exists(PHOTO)
    done = shop.app.status(held.ref)
    assert (done.status, done["affected"][0]["id"]) == ("done", PHOTO)
    shop.restore(done)
    shop.work()
    assert shop.files.read(PHOTO) == before
    assert shop.app.status(held.ref).status == "taken_back"


def test_the_same_file_twice_is_one_deletion(shop):
    first = delete(shop)
    shop.work()
    assert (delete(shop).ref, delete(shop).replayed) == (first.ref, True)
    shop.work()
    assert len(shop.files.requests) == 1


def test_a_file_that_there_is_not_is_refused_by_its_store(shop):
    held = delete(shop, "tickets/none.txt")
    shop.work()
    refused = shop.app.status(held.ref)
    assert (refused.status, refused.code) == ("refused", "provider_rejected")
    assert "There is no file" in refused.error["message"]
