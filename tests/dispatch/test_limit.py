"""A limit holds at release, whoever works and however many: what is over waits, or is refused."""

import dataclasses
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import psycopg
import pytest

from takeback.declare import (
    BLIND,
    COMPENSATE,
    KEYED,
    PER_RUN,
    PER_TENANT,
    REFUSE,
    Currency,
    Limit,
    Money,
    OverLimit,
    Remote,
    Tool,
    hours,
)
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace
from takeback.model import command as commands
from takeback.testing.crash import Stage
from tests.dispatch.halt import Halt
from tests.dispatch.office import Letter, Office, World, row
from tests.dispatch.pay_desk import BOUND, call_and_work
from tests.dispatch.shift import SECONDS_MAX
from tests.dispatch.step import step


class Payment(Letter):
    """Money that goes to somebody."""

    amount: Money = 100
    currency: Currency = "EUR"


def pay(*limits: Limit, name: str = "pay") -> Tool:
    """A row whose provider keeps our key; a payment is told by whom it goes to."""
    effect = Remote(upstream=KEYED(ttl=hours(24)), reversal=COMPENSATE)
    return dataclasses.replace(row(name, effect), arguments=Payment, limits=limits)


def send(*limits: Limit) -> Tool:
    return dataclasses.replace(row("send_letter", Remote(upstream=BLIND)), limits=limits)


@pytest.fixture
def make(database_url: str, world: World, clock: Any, request: pytest.FixtureRequest) -> Any:
    """An office with these rows, and a clock that its waits move."""

    def made(*rows: Tool, **more: Any) -> Office:
        office = Office(database_url, world, rows=rows, pause=clock.advance, **more)
        request.addfinalizer(office.close)
        return office

    return made


def dispatcher(office: Office, name: str = "w") -> Dispatcher:
    return Dispatcher(office.context, Pace(), name)


def drain(office: Office, clock: Any) -> int:
    performed: int = office.worker_of("w", sleep=clock.advance).run(drain=True).performed
    return performed


def recorded_unseen(office: Office, tool: str, calls: Sequence[dict[str, Any]]) -> list[str]:
    """Calls that were recorded when no limit was declared yet: nobody has weighed them."""
    free = Office(
        office.settings.database_url or "",
        World(),
        rows=[dataclasses.replace(b.tool, limits=()) for b in office.registry],
    )
    refs = [free.call(None, tool, one, run=one.pop("run", None)).ref or "" for one in calls]
    free.close()
    return refs


def states(office: Office, refs: Sequence[str]) -> list[str]:
    return [office.state(ref) for ref in refs]


@pytest.mark.parametrize("over", ["approve", "refuse"])
def test_of_two_workers_at_the_last_unit_exactly_one_releases(
    database_url, world, make, clock, over
):
    """Both are in the middle of a claim: the one that is first to sum up holds the scope."""
    office = make(send(Limit(count=3, over=OverLimit(over))))
    refs = recorded_unseen(office, "send_letter", [{"to": f"dana-{n}"} for n in range(4)])
    assert dispatcher(office).run_once(2).count == 2
    with psycopg.connect(database_url, autocommit=True) as observer:
        halt = Halt(observer, at="before COMMIT")
        other = Office(database_url, world, rows=[send(Limit(count=3, over=OverLimit(over)))])
        with halt.watching(other), ThreadPoolExecutor(1) as thread:
            first = thread.submit(dispatcher(other, "w1").run_once, 1)
            halt.wait()
            second = dispatcher(office, "w2")
            assert second.run_once(10).count == 0
            halt.go()
            assert len(first.result(SECONDS_MAX).works) == 1
        assert second.run_once(10).count == 0  # who was busy is passed by once
        claimed = second.run_once(10)
    assert (claimed.count, claimed.works) == (1, [])
    ended = "awaiting_approval" if over == "approve" else "failed"
    assert sorted(states(office, refs)) == sorted(["claimed"] * 3 + [ended])


def test_what_is_over_is_asked_about_and_passes_once_a_person_has_approved(make, clock, world):
    office = make(send(Limit(count=1)))
    first, second = recorded_unseen(office, "send_letter", [{"to": "dana"}, {"to": "robin"}])

    assert drain(office, clock) == 1
    assert office.kinds(second) == ["recorded", "claimed", "approval_asked"]
    assert office.status(second).status == "needs_approval"

    step(office, second, commands.Approve(by="dana"))
    assert drain(office, clock) == 1
    assert states(office, [first, second]) == ["succeeded", "succeeded"]
    assert world.arrived("robin") == 1
    assert office.verify().problems == ()


def test_what_is_over_and_to_be_refused_says_what_is_left(make, clock, world):
    limit = Limit(money=1000, currency="EUR", per=hours(24), over=REFUSE)
    office = make(pay(limit))
    _, second = recorded_unseen(
        office, "pay", [{"to": "dana", "amount": 700}, {"to": "robin", "amount": 301}]
    )

    assert drain(office, clock) == 1

    told = office.status(second)
    assert (told.status, told.code) == ("refused", "limit_exceeded")
    assert "at most 10.00 EUR within 1 day by this tool, 3.00 EUR left" in told.error["message"]
    (left,) = told.error["alternatives"]
    assert (left["limit"], left["left"], left["currency"]) == ("money", 300, "EUR")
    assert world.called("robin") == 0
    assert office.verify().problems == ()


@pytest.mark.parametrize(
    ("limit", "first", "within", "over"),
    [
        (Limit(count=2), {}, {}, {}),
        (Limit(money=500, currency="EUR"), {"amount": 300}, {"amount": 200}, {"amount": 1}),
    ],
    ids=["count", "money"],
)
def test_a_call_exactly_at_the_limit_is_within(make, clock, limit, first, within, over):
    office = make(pay(limit))
    calls = [{"to": f"dana-{n}"} | given for n, given in enumerate((first, within, over))]
    refs = recorded_unseen(office, "pay", calls)

    drain(office, clock)

    assert states(office, refs) == ["succeeded", "succeeded", "awaiting_approval"]


def test_money_is_summed_by_currency_and_one_that_no_limit_names_has_none_left(make, clock):
    office = make(pay(Limit(money=500, currency="EUR"), Limit(money=900, currency="USD")))
    calls = [("EUR", 500), ("USD", 900), ("EUR", 1), ("USD", 1), ("JPY", 1)]
    refs = recorded_unseen(
        office,
        "pay",
        [{"to": f"d-{n}", "currency": c, "amount": a} for n, (c, a) in enumerate(calls)],
    )

    drain(office, clock)

    assert states(office, refs) == ["succeeded"] * 2 + ["awaiting_approval"] * 3


def test_a_limit_of_a_time_has_room_again_when_that_is_over(make, clock):
    office = make(send(Limit(count=2, per=hours(1))))
    recorded_unseen(office, "send_letter", [{"to": "a"}, {"to": "b"}])
    assert drain(office, clock) == 2
    clock.advance(3500)
    (late,) = recorded_unseen(office, "send_letter", [{"to": "c"}])
    assert drain(office, clock) == 0 and office.state(late) == "awaiting_approval"
    clock.advance(200)
    (later,) = recorded_unseen(office, "send_letter", [{"to": "d"}])
    assert drain(office, clock) == 1 and office.state(later) == "succeeded"


def test_a_run_has_its_own_sum_and_calls_without_a_run_share_one(make, clock):
    office = make(send(Limit(count=1, scope=PER_RUN)))
    runs = ["run-1", "run-2", "run-1", None, None]
    refs = recorded_unseen(
        office, "send_letter", [{"to": f"d-{n}", "run": run} for n, run in enumerate(runs)]
    )

    drain(office, clock)

    waiting = "awaiting_approval"
    assert states(office, refs) == ["succeeded", "succeeded", waiting, "succeeded", waiting]


def test_rows_of_one_tenant_share_its_sum_and_other_tenants_have_their_own(make, clock):
    limit = Limit(count=2, scope=PER_TENANT)
    rows = [send(limit), pay(limit)]
    office, other = make(*rows), make(*rows, tenant="other")
    refs = [
        *recorded_unseen(office, "send_letter", [{"to": "a"}]),
        *recorded_unseen(office, "pay", [{"to": "b"}]),
        *recorded_unseen(office, "send_letter", [{"to": "c"}]),
    ]
    assert drain(office, clock) == 2
    assert states(office, refs) == ["succeeded", "succeeded", "awaiting_approval"]

    assert other.call(None, "pay", {"to": "d"}).status == "scheduled"
    assert drain(other, clock) == 1


def test_a_limit_of_the_app_counts_the_calls_of_every_row(database_url, world, clock):
    office = Office(database_url, world, pause=clock.advance)
    office.context = dataclasses.replace(
        office.context, limits=(Limit(count=2, scope=PER_TENANT, over=REFUSE),)
    )
    for tool in ("send_letter", "ship"):
        assert office.call(None, tool, {"to": "dana"}).status == "scheduled"

    refused = office.call(None, "pay", {"to": "dana"})

    assert (refused.status, refused.code) == ("refused", "limit_exceeded")
    assert drain(office, clock) == 2
    office.close()


def test_what_never_happened_leaves_its_room_and_what_was_taken_back_does_not(make, clock):
    """Cancelled gives its unit back; restored does not: else doing and undoing had no limit."""
    office = make(pay(Limit(count=1)))
    (first,) = recorded_unseen(office, "pay", [{"to": "a"}])
    assert office.restore(None, first).status == "done" and office.state(first) == "cancelled"
    (second,) = recorded_unseen(office, "pay", [{"to": "b"}])
    assert drain(office, clock) == 1
    office.restore(None, second)
    assert drain(office, clock) == 1 and office.state(second) == "restored"
    (third,) = recorded_unseen(office, "pay", [{"to": "c"}])
    assert drain(office, clock) == 0 and office.state(third) == "awaiting_approval"


def test_a_purge_gives_no_room(make, clock):
    office = make(send(Limit(count=1)))
    (first,) = recorded_unseen(office, "send_letter", [{"to": "a"}])
    drain(office, clock)
    step(office, first, commands.Purge())
    with office.context.database.transaction() as tx:
        tx.session.connection().exec_driver_sql("DELETE FROM takeback.bodies")
    (second,) = recorded_unseen(office, "send_letter", [{"to": "b"}])
    assert drain(office, clock) == 0 and office.state(second) == "awaiting_approval"


def test_what_may_be_in_the_world_is_not_held_back_by_a_limit(make, clock, world):
    """Tried again under its provider's key it adds nothing; it counts all the same."""
    office = make(pay(Limit(count=1)))
    (first,) = recorded_unseen(office, "pay", [{"to": "a"}])
    dispatcher(office).run_once(1)
    step(office, first, commands.LoseTrack(cause="exception"))
    with psycopg.connect(office.settings.database_url or "") as connection:
        connection.execute("DELETE FROM takeback.limit_entries")
    (second,) = recorded_unseen(office, "pay", [{"to": "b"}])
    assert drain(office, clock) == 1 and office.state(second) == "succeeded"
    step(office, first, commands.Requeue(cause="provider_key"))

    assert drain(office, clock) == 1
    assert office.state(first) == "succeeded" and world.called("a") == 1


def test_at_record_a_limit_is_told_of_at_once(make, clock):
    office = make(send(Limit(count=1)))

    answers = [office.call(None, "send_letter", {"to": to}) for to in ("a", "b")]

    assert [one.status for one in answers] == ["scheduled", "needs_approval"]
    assert drain(office, clock) == 1


def test_what_has_no_limit_costs_no_statement(database_url, world, office, clock):
    with psycopg.connect(database_url, autocommit=True) as observer:
        stage = Stage(observer)
        stage.watch(*office.context.database.engines)
        for tool in ("send_letter", "pay", "file_case"):
            office.call(None, tool, {"to": "dana"})
        assert drain(office, clock) == 2
    counting = {"limit_usage", "enter_limits", "try_scopes", "lock_scopes", "limit_rows_foreseen"}
    said = {point.split(" ", 1)[1] for point in stage.points}
    assert said & counting == set() and "lock_due" in said


def test_random_payments_of_four_workers_never_add_up_to_more(
    database_url, world, clock, rng: random.Random
):
    bound = 2000
    limited = pay(Limit(money=bound, currency="EUR", per=hours(24)))
    offices = [Office(database_url, world, rows=[limited]) for _ in range(4)]
    amounts = [rng.randrange(1, 120) for _ in range(80)]
    recorded_unseen(
        offices[0], "pay", [{"to": f"d-{n}", "amount": a} for n, a in enumerate(amounts)]
    )

    def work(office: Office) -> int:
        return office.worker_of("w").run(drain=True).performed

    with ThreadPoolExecutor(4) as threads:
        performed = list(threads.map(work, offices))

    paid = {one.to: amounts[int(one.to.split("-")[1])] for one in world.effects}
    print(f"paid {sum(paid.values())} of {sum(amounts)}, at most {bound}; {performed}")
    assert len(world.calls) == len(paid) == sum(performed)
    assert bound - max(amounts) < sum(paid.values()) <= bound
    for office in offices:
        office.close()


def test_eight_processes_that_call_and_work_never_release_more(database_url, office):
    with ProcessPoolExecutor(8, mp_context=get_context("spawn")) as processes:
        sent = list(
            processes.map(call_and_work, [database_url] * 8, [f"p{n}" for n in range(8)], [25] * 8)
        )
    letters = [to for one in sent for to in one]
    print(f"released by each: {[len(one) for one in sent]} of {8 * 25}, at most {BOUND}")
    assert len(letters) == len(set(letters)) == BOUND
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "SELECT state, count(*) FROM takeback.intents GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert rows == [("awaiting_approval", 8 * 25 - BOUND), ("succeeded", BOUND)]
