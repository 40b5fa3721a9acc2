"""``update_ticket``: a state that is set for as long as it stands."""

from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from tests.shop.counter import PERSON

T7 = "SELECT status, note FROM shop.tickets WHERE id = 'T-7'"
REOPEN = "UPDATE shop.tickets SET status = 'open' WHERE id = 'T-7'"


def close(shop, **said):
    return shop.call("update_ticket", ticket_id="T-7", status="closed", **said)


def test_a_ticket_is_set_and_the_answer_says_what_it_was(shop):
    done = close(shop, note="she is happy")
    assert done.status == "done"
    assert done.summary == "Ticket T-7 is closed; it was pending."
    assert done["affected"] == [{"kind": "ticket", "id": "T-7", "label": "Twin boiler is late"}]
    assert shop.rows(T7) == [("closed", "she is happy")]


def test_a_status_alone_leaves_the_note_as_it_is(shop):
    close(shop)
    assert shop.rows(T7) == [("closed", "carrier says Thursday")]


def test_the_same_call_twice_is_replayed_and_writes_once(shop):
    first = close(shop)
    again = close(shop)
    assert (again.ref, again.replayed) == (first.ref, True)
    assert shop.value("SELECT version FROM shop.tickets WHERE id = 'T-7'") == 4


def test_another_note_is_answered_with_both(shop):
    first = close(shop)
    again = close(shop, note="she called")
    assert (again.ref, again.replayed) == (first.ref, True)
    assert again["differs"] == [{"field": "note", "first": None, "now": "she called"}]
    assert shop.rows(T7) == [("closed", "carrier says Thursday")]


def test_another_run_closes_anew_what_a_person_has_reopened(shop):
    first = close(shop, run="run-1")
    shop.person(REOPEN)
    again = close(shop, run="run-2")
    assert again.ref != first.ref and not again.replayed
    assert shop.rows(T7)[0][0] == "closed"
    assert shop.value("SELECT count(DISTINCT key) FROM takeback.intents") == 1


def test_another_run_hears_of_what_still_stands(shop):
    first = close(shop, run="run-1")
    again = close(shop, run="run-2")
    assert (again.ref, again.replayed) == (first.ref, True)
    assert "stands" not in again


def test_the_same_run_within_the_quiet_time_is_told_that_it_no_longer_stands(shop):
    first = close(shop)
    shop.person(REOPEN)
    again = close(shop)
    assert (again.ref, again.replayed, again["stands"]) == (first.ref, True, False)
    assert shop.rows(T7)[0][0] == "open"


def test_the_same_run_after_the_quiet_time_closes_anew(shop, later):
    first = close(shop)
    shop.person(REOPEN)
    later(timedelta(minutes=11))
    again = close(shop)
    assert again.ref != first.ref and not again.replayed
    assert shop.rows(T7)[0][0] == "closed"


def test_what_is_taken_back_is_the_same_row_again(shop):
    before = shop.digest()
    done = close(shop, note="by mistake")
    assert shop.digest() != before
    back = shop.restore(done)
    assert back.status == "done"
    assert back.summary == "Ticket T-7 is pending again, as it was."
    assert shop.digest() == before
    assert shop.app.status(done.ref).status == "taken_back"


def test_taking_back_twice_is_once(shop):
    done = close(shop)
    first = shop.restore(done)
    shop.person("UPDATE shop.tickets SET note = 'after the restore' WHERE id = 'T-7'")
    again = shop.restore(done)
    assert (again.ref, again.replayed) == (first.ref, True)
    assert shop.rows(T7) == [("pending", "after the restore")]


def test_taking_the_restore_back_closes_the_ticket_anew(shop):
    """zed #28676."""
    back = shop.restore(close(shop))
    anew = shop.restore(back)
    assert anew.status == "done"
    assert shop.rows(T7)[0][0] == "closed"


def test_a_persons_later_edit_is_not_overwritten_and_each_field_is_named(shop):
    """intent #5095, karaoke #6."""
    done = close(shop)
    shop.person("UPDATE shop.tickets SET status = 'open', note = 'she called' WHERE id = 'T-7'")
    refused = shop.restore(done)
    assert (refused.status, refused.code) == ("refused", "restore_conflict")
    assert [(one["field"], one["now"]) for one in refused.error["violations"]] == [
        ("status", "open"),
        ("note", "she called"),
    ]
    assert shop.rows(T7) == [("open", "she called")]
    assert shop.app.status(done.ref).status == "done"


def test_an_edit_of_what_the_call_has_not_touched_is_not_overwritten_either(shop):
    done = close(shop)
    shop.person("UPDATE shop.tickets SET subject = 'Twin boiler' WHERE id = 'T-7'")
    assert [one["field"] for one in shop.restore(done).error["violations"]] == ["subject"]


def test_a_person_may_force_a_restore_over_a_later_edit(shop):
    before = shop.digest()
    done = close(shop)
    shop.person("UPDATE shop.tickets SET note = 'she called' WHERE id = 'T-7'")
    assert shop.restore(done, principal=PERSON, force=True).status == "done"
    assert shop.digest() == before


def test_an_agent_may_not_force_a_restore(shop):
    done = close(shop)
    shop.person("UPDATE shop.tickets SET note = 'she called' WHERE id = 'T-7'")
    assert shop.restore(done, force=True).code == "no_access"
    assert shop.rows(T7) == [("closed", "she called")]


def test_a_mistyped_status_is_refused_with_the_call_that_was_meant(shop):
    refused = shop.call("update_ticket", ticket_id="T-7", status="CLOSED")
    assert (refused.status, refused.code) == ("refused", "invalid_argument")
    offered = refused.error["next_call"]
    assert shop.call(offered["tool"], **offered["arguments"]).status == "done"


@pytest.mark.parametrize("said", ["t-7", "T7", "T-7.", "t_7"])
def test_a_ticket_that_there_is_not_is_refused_with_the_nearest_first(shop, said):
    refused = shop.call("update_ticket", ticket_id=said, status="closed")
    (violation,) = refused.error["violations"]
    assert (violation["field"], violation["permitted"][0]) == ("ticket_id", "T-7")
    assert violation["repair"] == "choice"
    assert shop.intents == 0


def test_what_the_caller_rolls_back_has_not_happened(shop):
    before = shop.digest()
    with Session(shop.engine) as session, session.begin() as transaction:
        assert close(shop, tx=session).status == "done"
        transaction.rollback()
    assert (shop.digest(), shop.intents) == (before, 0)
