"""Where a call goes through, how urgent it is and what it is ordered by stand in its intent."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from takeback import Call, Handler, Settings, Takeback
from takeback.declare import COMPENSATE, HIGH, KEYED, LOW, Catalog, Remote, Text, Tool, hours


class Payment(BaseModel):
    """A payment to somebody, with nobody named where it is for all."""

    number: int
    customer: Text | None = None


def row(name: str, **more: Any) -> Tool:
    return Tool(
        name,
        Payment,
        effect=Remote(upstream=KEYED(ttl=hours(1)), reversal=COMPENSATE, **more),
        description="Pays.",
        key=("number", "customer"),
    )


CATALOG = Catalog(
    row("pay", connector="bank", order_by="customer", priority=LOW),
    row("pay_back", connector="bank", order_by="customer"),
    row("write", order_by="customer"),
    row("knock"),
)
HANDLER = Handler(perform=lambda arguments, attempt: None, restore=lambda original, attempt: None)


@dataclass(frozen=True)
class Placed:
    """What stands in the row of an intent."""

    lane: str
    priority: int
    ordering: str | None


@pytest.fixture
def app(desk):
    handlers = dict.fromkeys(("pay", "pay_back", "write", "knock"), HANDLER)
    app = Takeback(CATALOG, handlers=handlers, settings=Settings(database_url=desk.url))
    yield app
    app.close()


def placed(desk, ref: str) -> Placed:
    ((lane, priority, ordering),) = desk.rows(
        "SELECT lane, priority, ordering FROM takeback.intents WHERE ref = %s", ref
    )
    return Placed(lane, priority, ordering)


def test_a_call_stands_in_the_lane_and_the_priority_of_its_row(app, desk):
    pay = app.call(None, "pay", {"number": 1, "customer": "C-1"})
    knock = app.call(None, "knock", {"number": 1, "customer": "C-1"})
    assert (placed(desk, pay.ref).lane, placed(desk, pay.ref).priority) == ("bank", -1)
    assert placed(desk, knock.ref) == Placed("", 0, None)


def test_one_value_is_one_ordering_among_the_tools_of_a_connector(app, desk):
    calls = [("pay", "C-1"), ("pay", "C-2"), ("pay_back", "C-1"), ("write", "C-1")]
    pay, other, back, write = (
        str(placed(desk, app.call(None, tool, {"number": 1, "customer": name}).ref).ordering)
        for tool, name in calls
    )
    assert pay == back
    assert len({pay, other, write}) == 3
    assert all(one.startswith("o1:") and "C-" not in one for one in (pay, other, write))


def test_a_call_without_the_value_is_ordered_by_nothing(app, desk):
    answer = app.call(None, "pay", {"number": 1})
    assert placed(desk, answer.ref).ordering is None


def test_a_batch_stands_where_single_calls_do(app, desk):
    calls = [Call(tool="pay", arguments={"number": n, "customer": "C-1"}) for n in range(3)]
    single = placed(desk, app.call(None, "pay", {"number": 9, "customer": "C-1"}).ref)
    assert {placed(desk, one.ref) for one in app.call_many(None, calls)} == {single}


def test_what_takes_back_a_call_that_says_nothing_stands_where_the_release_before_reads_it(
    app, desk
):
    ref = app.call(None, "knock", {"number": 1, "customer": "C-1"}).ref
    desk.work(app)
    assert placed(desk, app.restore(None, ref).ref) == Placed("", 0, None)


def test_a_compensation_goes_where_the_call_went_and_first(app, desk):
    ref = app.call(None, "pay", {"number": 1, "customer": "C-1"}).ref
    desk.work(app)
    back = app.restore(None, ref)
    assert placed(desk, back.ref) == Placed("bank", int(HIGH), placed(desk, ref).ordering)
