"""Approve, deny, expire, cancel: one race on one row, with both parties in the middle of it.

The one that comes first holds the row in an open transaction; the other finds it held, and waits
until the first has committed, or has gone. Each pair, in both orders.
"""

import itertools
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from takeback import Takeback
from takeback.dispatch.expirer import Expirer
from takeback.ledger.appending import Change, append
from takeback.ledger.locking import lock_lapsed
from takeback.ledger.transaction import adopt
from takeback.model import command as commands
from takeback.model.approval import is_lapsed
from takeback.model.decide import decide
from tests.client.desk import Desk, in_thread

ARGUMENTS = {"charge": "ch_2", "amount": 90_000, "currency": "EUR"}
DAY = timedelta(days=1)

STATES = {"approve": "due", "deny": "denied", "restore": "cancelled", "expire": "expired"}
HOW = {"approve": "approved", "deny": "denied", "restore": "cancelled", "expire": "expired"}


def act(desk: Desk, app: Takeback, name: str, given: Any, ref: str, who: str) -> Any:
    """What one party does, in the transaction ``given`` or in one of its own."""
    if name == "restore":
        return app.restore(given, ref, principal=who)
    if name != "expire":
        return app.decide(given, ref, name, principal=who)
    desk.shift(DAY)
    if given is None:
        return Expirer(app.context).run_once()
    tx = adopt(given)
    taken = [one for one in lock_lapsed(tx, 10) if is_lapsed(one.intent, one.now)]
    end = commands.ExpireApproval()
    return append(tx, [Change(taken=t, events=decide(t.intent, end, t.now)) for t in taken])


def meet(desk: Desk, callers: Callable[..., Any], first: str, second: str, *, ends: str) -> Any:
    """The first acts and keeps its transaction open; the second comes, waits, and is answered."""
    ref = desk.app.call(None, "refund", ARGUMENTS, principal="agent:support").ref or ""
    holder = callers("psycopg")
    act(desk, desk.app, first, holder.raw, ref, "robin")
    waits, goes_on = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        waits.set()
        assert goes_on.wait(20), "nobody let it go on"

    late = desk.make_app(pauses=pause)
    with in_thread(lambda: act(desk, late, second, None, ref, "dana")) as answers:
        if "expire" not in (first, second):  # what is over needs no lock to be seen as over
            assert waits.wait(20), "the second did not find the row held"
        getattr(holder, ends)()
        goes_on.set()
    (answer,) = answers
    assert not isinstance(answer, BaseException), answer
    return ref, answer


PAIRS = list(itertools.permutations(("approve", "deny", "restore", "expire"), 2))


@pytest.mark.parametrize("first, second", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_of_two_who_decide_at_once_one_wins_and_the_other_is_told_who(desk, callers, first, second):
    ref, answer = meet(desk, callers, first, second, ends="commit")
    if second == "expire":
        assert answer == [] and desk.state(ref) == STATES[first]
    elif (first, second) == ("approve", "restore"):
        # What is approved has not begun: it can be taken back like anything that is held.
        assert (answer.status, desk.state(ref)) == ("done", "cancelled")
    elif second == "restore":
        assert (answer.code, desk.state(ref)) == ("not_restorable", STATES[first])
    else:
        assert (answer.code, desk.state(ref)) == ("too_late", STATES[first])
        assert answer["decided"]["how"] == HOW[first]
        assert answer["decided"]["by"] == (None if first == "expire" else "robin")
    assert desk.app.verify().problems == ()


@pytest.mark.parametrize("first, second", PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_who_gives_up_in_the_middle_has_decided_nothing(desk, callers, first, second):
    ref, answer = meet(desk, callers, first, second, ends="rollback")
    if second == "expire":
        # It skips what somebody holds, and comes by again.
        Expirer(desk.app.context).run_once()
    if first == "expire" and second != "expire":
        # Its time was over all the same.
        assert answer.code in ("too_late", "not_restorable")
        Expirer(desk.app.context).run_once()
        assert desk.state(ref) == "expired"
    else:
        assert desk.state(ref) == STATES[second]


def test_two_operators_who_approve_one_refund_at_once_are_one_effect(desk, callers):
    ref, answer = meet(desk, callers, "approve", "approve", ends="commit")
    assert (answer.status, answer.replayed, answer["decided"]["by"]) == ("scheduled", True, "robin")
    desk.work()
    assert desk.world.done == [("refund", 90_000)]
    kinds = [one.kind for one in desk.app.show(ref).events]
    assert kinds.count("intent.approved") == 1


def test_whoever_holds_the_row_for_long_is_not_waited_for(desk, callers):
    ref = desk.app.call(None, "refund", ARGUMENTS, principal="agent:support").ref or ""
    holder = callers("psycopg")
    desk.app.deny(holder.raw, ref, principal="robin")
    waited: list[float] = []
    answer = desk.make_app(pauses=waited.append).approve(None, ref, principal="dana")
    assert (answer.status, answer.code) == ("in_progress", "in_progress")
    assert 0 < sum(waited) < 2
    holder.commit()
    assert desk.state(ref) == "denied"
