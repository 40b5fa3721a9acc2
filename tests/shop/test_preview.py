"""The shop's tools previewed: what would be affected is named, and a call can be held to it."""

from typing import Any

from sqlalchemy.orm import Session

from takeback import Envelope
from tests.shop.counter import AGENT, PERSON, Counter


def error_of(answer: Envelope) -> dict[str, Any]:
    assert answer.error is not None
    return dict(answer.error)


def add_order(shop: Counter, id_: str, customer: str = "C-1") -> None:
    """Somebody sells something more, at this moment."""
    columns = ", ".join(
        name
        for (name,) in shop.rows(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = 'shop' AND table_name = 'orders'"
            " AND column_name NOT IN ('id', 'customer_id', 'charge_id') ORDER BY ordinal_position"
        )
    )
    shop.person(
        f"INSERT INTO shop.orders (id, customer_id, charge_id, {columns})"
        f" SELECT '{id_}', '{customer}', 'ch_of_{id_}', {columns}"
        " FROM shop.orders WHERE id = 'O-1'"
    )


def test_a_deletion_is_previewed_with_its_dependents_and_nothing_happens(shop: Counter):
    """S2.21: what would be affected is named before it is."""
    before = shop.digest()
    seen = shop.app.preview(None, "delete_customer", {"customer_id": "C-1"}, principal=AGENT)
    assert (seen.status, seen["would"], seen["affected_count"]) == ("ok", "done", 6)
    assert seen["affected_by_kind"] == {"order": 3, "address": 2, "customer": 1}
    assert len(seen.affected) == 5
    assert "C-1, Dana Ruiz, is deleted with 3 orders and 2 addresses" in seen.summary
    assert seen["undo"]["until"] is not None
    assert shop.digest() == before
    assert shop.intents == 0
    assert shop.value("SELECT count(1) FROM takeback.tombstones") == 0


def test_a_call_that_expects_what_it_affects_is_made(shop: Counter):
    seen = shop.app.preview(None, "delete_customer", {"customer_id": "C-1"}, principal=AGENT)
    done = shop.app.call(None, "delete_customer", {"customer_id": "C-1", "expect": seen["expect"]})
    assert (done.status, done["affected_count"]) == ("done", 6)


def test_an_order_that_was_added_since_makes_the_preview_stale(shop: Counter):
    seen = shop.app.preview(None, "delete_customer", {"customer_id": "C-1"}, principal=AGENT)
    add_order(shop, "O-77")
    before = shop.digest()
    told = shop.app.call(None, "delete_customer", {"customer_id": "C-1"}, expect=seen["expect"])
    assert told.code == "preview_stale"
    (difference,) = error_of(told)["violations"]
    named = {name: difference[name] for name in ("field", "change", "kind", "id", "label")}
    assert named == {
        "field": "affected",
        "change": "appeared",
        "kind": "order",
        "id": "O-77",
        "label": "O-77",
    }
    assert "order O-77" in error_of(told)["message"]
    assert (shop.digest(), shop.intents) == (before, 0)
    again = shop.app.preview(None, "delete_customer", {"customer_id": "C-1"})
    done = shop.app.call(None, "delete_customer", {"customer_id": "C-1"}, expect=again["expect"])
    assert done.status == "done"


def test_an_address_that_is_gone_makes_the_preview_stale(shop: Counter):
    seen = shop.app.preview(None, "delete_customer", {"customer_id": "C-1"})
    (gone, line) = shop.rows(
        "SELECT id, line FROM shop.addresses AS a WHERE customer_id = 'C-1'"
        " AND NOT EXISTS (SELECT 1 FROM shop.orders AS o WHERE o.address_id = a.id)"
    )[0]
    shop.person(f"DELETE FROM shop.addresses WHERE id = {gone}")
    told = shop.app.call(None, "delete_customer", {"customer_id": "C-1"}, expect=seen["expect"])
    (difference,) = error_of(told)["violations"]
    assert (difference["change"], difference["kind"], difference["id"], difference["label"]) == (
        "gone",
        "address",
        str(gone),
        line,
    )


def test_a_preview_of_one_customer_is_no_word_on_another(shop: Counter):
    seen = shop.app.preview(None, "delete_customer", {"customer_id": "C-2"})
    told = shop.app.call(None, "delete_customer", {"customer_id": "C-1"}, expect=seen["expect"])
    assert told.code == "preview_stale"
    (difference,) = error_of(told)["violations"]
    assert (difference["field"], difference["previewed"], difference["now"]) == (
        "customer_id",
        "C-2",
        "C-1",
    )
    assert shop.intents == 0


def test_a_ticket_is_previewed_with_what_it_was_and_would_be(shop: Counter):
    seen = shop.app.preview(None, "update_ticket", {"ticket_id": "T-7", "status": "closed"})
    assert [(one["kind"], one["id"]) for one in seen.affected] == [("ticket", "T-7")]
    assert "Ticket T-7 is closed; it was pending." in seen.summary
    assert shop.value("SELECT status FROM shop.tickets WHERE id = 'T-7'") == "pending"
    done = shop.call("update_ticket", ticket_id="T-7", status="closed", expect=seen["expect"])
    assert done.status == "done"


def test_a_ticket_that_is_not_there_is_refused_as_the_call_would_be(shop: Counter):
    arguments = {"ticket_id": "T-99", "status": "closed"}
    seen = shop.app.preview(None, "update_ticket", arguments)
    told = shop.app.call(None, "update_ticket", arguments)
    assert error_of(seen) == error_of(told)
    assert error_of(seen)["violations"][0]["field"] == "ticket_id"


def test_a_mail_is_previewed_by_what_its_row_says(shop: Counter):
    arguments = {"to": "dana@example.com", "template": "apology", "order_id": "O-1"}
    seen = shop.app.preview(None, "send_customer_email", arguments)
    assert seen["would"] == "scheduled"
    assert seen["affected"] == [
        {"kind": "email", "id": "dana@example.com", "label": "dana@example.com"}
    ]
    assert "whoever carries it out" in seen["not_covered"][0]
    assert shop.intents == 0
    sent = shop.app.call(None, "send_customer_email", arguments, expect=seen["expect"])
    assert sent.status == "scheduled"


def test_a_refund_over_the_bound_is_foretold_to_need_a_person(shop: Counter):
    arguments = {
        "charge_id": "ch_2",
        "amount": 60_000,
        "currency": "EUR",
        "reason": "requested_by_customer",
    }
    seen = shop.app.preview(None, "refund_charge", arguments)
    assert seen["would"] == "needs_approval"
    assert shop.intents == 0
    waiting = shop.app.call(None, "refund_charge", arguments, expect=seen["expect"])
    assert waiting.status == "needs_approval"


def test_the_wrong_customer_is_seen_before_and_brought_back_after(shop: Counter):
    """S2.22: the wrong one is deleted, and the returned restore brings everything back."""
    before = shop.digest()
    wrong = shop.app.preview(None, "delete_customer", {"customer_id": "C-2"})
    assert "C-1" not in wrong.summary
    held = shop.app.call(None, "delete_customer", {"customer_id": "C-1"}, expect=wrong["expect"])
    assert held.code == "preview_stale" and shop.digest() == before
    done = shop.app.call(None, "delete_customer", {"customer_id": "C-2"}, expect=wrong["expect"])
    assert shop.digest() != before
    assert done.restore is not None
    back = shop.app.call(None, done.restore["tool"], done.restore["arguments"])
    assert back.status == "done"
    assert shop.digest() == before


def test_a_call_that_was_made_before_would_be_a_repeat(shop: Counter):
    done = shop.call("delete_customer", customer_id="C-1")
    seen = shop.app.preview(None, "delete_customer", {"customer_id": "C-1"})
    assert (seen["would"], seen["first"]["ref"], seen["expect"]) == ("replayed", done.ref, None)
    assert seen["again"] == {"repeat_of": done.ref}
    assert shop.intents == 1


def test_an_agent_previews_by_a_tool_and_a_read_has_nothing_to_expect(shop: Counter):
    call = {"tool": "update_ticket", "arguments": {"ticket_id": "T-7", "status": "open"}}
    seen = shop.app.call(None, "preview", call, principal=AGENT)
    assert seen["would"] == "done" and seen["expect"].startswith("preview-")
    looked = shop.app.call(
        None, "preview", {"tool": "search_orders", "arguments": {"query": "Dana"}}
    )
    assert (looked["would"], looked["expect"]) == ("ok", None)


def test_a_preview_in_ones_own_transaction_sees_what_is_not_committed(shop: Counter):
    with Session(shop.engine) as session:
        session.connection().exec_driver_sql("DELETE FROM shop.orders WHERE id = 'O-3'")
        seen = shop.app.preview(session, "delete_customer", {"customer_id": "C-1"})
        assert seen["affected_by_kind"]["order"] == 2
        done = shop.app.call(
            session,
            "delete_customer",
            {"customer_id": "C-1"},
            expect=seen["expect"],
            principal=PERSON,
        )
        assert done.status == "done"
        session.commit()
    assert shop.value("SELECT count(1) FROM shop.orders WHERE customer_id = 'C-1'") == 0
