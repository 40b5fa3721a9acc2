"""A handler that ends its transaction on the driver's own connection: what is answered is true."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from takeback.client.looking import find_fault
from tests.client.desk import Desk


def driver_of(session: Any) -> Any:
    raw = session.connection().connection.driver_connection
    return getattr(raw, "owner", raw)


def ends(verb: str, *, then: Exception | None = None) -> Callable[..., Any]:
    def perform(session: Any, arguments: Any) -> Any:
        session.execute(text("UPDATE desk.books SET state = 'out' WHERE id = 'b1'"))
        getattr(driver_of(session), verb)()
        if then is not None:
            raise then

    return perform


def told(desk: Desk, ask: Callable[[], Any]) -> Any:
    """What is answered, and that the operator can find why."""
    answer = ask()
    assert (answer.status, answer.code, answer["effect"]) == (
        "refused",
        "internal_error",
        "unknown",
    )
    with desk.app.context.database.transaction() as tx:
        fault = find_fault(desk.app.context, tx, answer["trace_id"])
    assert (fault.effect, "TransactionEnded" in fault.kind) == ("unknown", True)
    return answer


@pytest.mark.parametrize("verb", ["commit", "rollback"])
def test_a_call_whose_handler_ends_the_transaction_is_not_said_to_have_done_nothing(desk, verb):
    desk.case("x", perform=ends(verb))
    told(desk, lambda: desk.app.call(None, "act", {"case": "x"}))


def test_so_is_one_that_fails_after_it_has_committed(desk):
    desk.case("x", perform=ends("commit", then=RuntimeError("later")))
    told(desk, lambda: desk.app.call(None, "act", {"case": "x"}))


def test_so_is_one_that_goes_on_after_that_and_fails(desk):
    def perform(session: Any, arguments: Any) -> Any:
        driver_of(session).commit()
        session.execute(text("SELECT 1"))
        raise RuntimeError("later")

    desk.case("x", perform=perform)
    told(desk, lambda: desk.app.call(None, "act", {"case": "x"}))


def test_a_preview_that_was_committed_says_that_nobody_knows(desk):
    desk.case("x", perform=ends("commit"))
    told(desk, lambda: desk.app.preview(None, "act", {"case": "x"}))


def test_in_a_callers_transaction_too(desk, holder):
    desk.case("x", perform=ends("commit"))
    answer = holder.call(desk.app, "act", {"case": "x"})
    assert (answer.code, answer["effect"]) == ("internal_error", "unknown")


def test_who_only_refuses_is_told_as_ever(desk):
    desk.case("x", perform=lambda *_: (_ for _ in ()).throw(RuntimeError("no")))
    answer = desk.app.call(None, "act", {"case": "x"})
    assert (answer.code, answer["effect"]) == ("internal_error", "none")
