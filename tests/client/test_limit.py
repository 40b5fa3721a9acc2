"""Limits of Local effects: enforced where they happen, and what two at one moment make of them."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from takeback import InvalidCatalog, Performed, Takeback
from takeback.client.batching import Call
from takeback.declare import (
    BLIND,
    PER_RUN,
    PER_TENANT,
    REFUSE,
    Catalog,
    Limit,
    Local,
    Remote,
    Tool,
)
from takeback.dispatch.dispatcher import Dispatcher
from takeback.dispatch.pace import Pace
from takeback.model.envelope import Envelope
from takeback.model.handler import Handler
from tests.dispatch.office import Office, World, file_case, make_cases, row, unfile_case

SECONDS_MAX = 30
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


def case(*limits: Limit) -> Tool:
    return dataclasses.replace(row("file_case", Local()), limits=limits)


@pytest.fixture
def make(database_url: str, request: pytest.FixtureRequest) -> Callable[..., Office]:
    make_cases(database_url)

    def made(*limits: Limit, **more: Any) -> Office:
        office = Office(database_url, World(), rows=[case(*limits)], **more)
        request.addfinalizer(office.close)
        return office

    return made


@contextmanager
def calling(url: str, level: str = "READ COMMITTED") -> Iterator[psycopg.Connection[Any]]:
    """A caller's transaction, whose snapshot is taken where the level keeps one."""
    with psycopg.connect(url) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        connection.execute("SELECT count(*) FROM public.cases")
        yield connection
        connection.rollback()


def waits_for_a_scope(observer: psycopg.Connection[Any], future: Future[Any]) -> None:
    """Returns when the call stands in the queue for the sums of a scope."""
    pause = threading.Event()
    for _ in range(SECONDS_MAX * 100):
        assert not future.done(), future.result()
        row = observer.execute(
            "SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 31418 AND NOT granted"
        ).fetchone()
        if row is not None:
            return
        pause.wait(0.01)
    raise TimeoutError("it never waited for the scope")


def cases(url: str) -> int:
    with psycopg.connect(url) as connection:
        (count,) = connection.execute("SELECT count(*) FROM public.cases").fetchone() or (0,)
    return int(count)


def test_over_a_limit_a_local_call_waits_for_a_person_and_has_changed_nothing(database_url, make):
    office = make(Limit(count=1))

    answers = [office.call(None, "file_case", {"to": to}) for to in ("a", "b")]

    assert [one.status for one in answers] == ["done", "needs_approval"]
    assert cases(database_url) == 1


def test_over_a_limit_that_refuses_it_says_what_is_left_and_is_no_intent(database_url, make):
    """S2.3: a repeat is futile, and the answer says so."""
    office = make(Limit(count=1, over=REFUSE))
    office.call(None, "file_case", {"to": "a"})

    refused = office.call(None, "file_case", {"to": "b"})

    error = refused.error or {}
    assert (error["class"], error["retry_after_s"]) == ("terminal", None)
    assert (refused["effect"], refused["repeat_can_succeed"]) == ("none", False)
    assert (refused.status, refused.code, refused.ref) == ("refused", "limit_exceeded", None)
    assert "at most 1 calls by this tool, 0 left" in (refused.error or {})["message"]
    assert cases(database_url) == len(office.list()) == 1


def test_sums_beyond_what_a_column_holds_are_over_the_limit_and_break_nothing(database_url, make):
    """Whoever claims an absurd number of rows does not end the calls of all others."""
    office = make(Limit(rows=2**63 - 1))
    with psycopg.connect(database_url) as connection:
        office.call(None, "file_case", {"to": "a"})
        office.call(None, "file_case", {"to": "b"})
        connection.execute("UPDATE takeback.limit_entries SET rows = %s", [2**63 - 1])

    told = office.call(None, "file_case", {"to": "c"})

    assert told.status == "needs_approval"
    assert [one.left for _, one in office.limits_in_use()] == [0]


def test_a_repeat_at_the_limit_is_a_replay(make):
    office = make(Limit(count=1, over=REFUSE))
    first = office.call(None, "file_case", {"to": "a"})

    again = office.call(None, "file_case", {"to": "a"})

    assert (again.status, again.ref, again.replayed) == ("done", first.ref, True)


def test_one_transaction_counts_its_own_calls(database_url, make):
    office = make(Limit(count=2, over=REFUSE))
    with psycopg.connect(database_url) as tx:
        codes = [office.call(tx, "file_case", {"to": to}).code for to in ("a", "b", "c")]
        tx.commit()
    assert codes == [None, None, "limit_exceeded"]
    batch = office.call_many(
        None, [Call(tool="file_case", arguments={"to": to}) for to in ("a", "d")]
    )
    assert [one.code for one in batch] == [None, "limit_exceeded"]


def test_what_is_rolled_back_has_counted_for_nobody(database_url, make):
    office = make(Limit(count=1, over=REFUSE))
    with psycopg.connect(database_url) as tx:
        office.call(tx, "file_case", {"to": "a"})
        tx.rollback()
    assert office.call(None, "file_case", {"to": "b"}).status == "done"


def test_without_strict_two_at_one_moment_overshoot_together(database_url, make):
    """What may overshoot, and by how much: by what runs at the same moment."""
    office = make(Limit(count=1, over=REFUSE))
    with calling(database_url) as one, calling(database_url) as two:
        answers = [office.call(tx, "file_case", {"to": f"{tx}"}) for tx in (one, two)]
        one.commit()
        two.commit()
    assert [answer.status for answer in answers] == ["done", "done"]
    assert cases(database_url) == 2
    assert office.call(None, "file_case", {"to": "c"}).code == "limit_exceeded"


def at_once(
    office: Office,
    url: str,
    level: str,
    end: Callable[[psycopg.Connection[Any]], None],
) -> Envelope:
    """What the second hears, which waits while the first is in flight and until it ends."""
    with (
        psycopg.connect(url, autocommit=True) as observer,
        calling(url) as first,
        calling(url, level) as second,
        ThreadPoolExecutor(1) as thread,
    ):
        assert office.call(first, "file_case", {"to": "a"}).status == "done"
        future = thread.submit(office.call, second, "file_case", {"to": "b"})
        waits_for_a_scope(observer, future)
        end(first)
        answer = future.result(SECONDS_MAX)
        second.commit()
    return answer


@pytest.mark.parametrize("level", LEVELS)
def test_strict_at_the_last_unit_exactly_one_of_two_is_done(database_url, make, level):
    """Both in flight, also where the second's snapshot is older than the first's commit."""
    office = make(Limit(count=1, over=REFUSE, strict=True))

    answer = at_once(office, database_url, level, lambda first: first.commit())

    assert answer.code == "limit_exceeded"
    assert cases(database_url) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_strict_the_second_goes_on_when_the_first_is_rolled_back(database_url, make, level):
    office = make(Limit(count=1, over=REFUSE, strict=True))

    answer = at_once(office, database_url, level, lambda first: first.rollback())

    assert answer.status == "done"
    assert cases(database_url) == 1


def test_strict_in_one_run_does_not_hold_up_another(database_url, make):
    office = make(Limit(count=1, scope=PER_RUN, strict=True))
    with calling(database_url) as one:
        assert office.call(one, "file_case", {"to": "a"}, run="run-1").status == "done"
        assert office.call(None, "file_case", {"to": "b"}, run="run-2").status == "done"
        one.commit()


def test_a_worker_passes_by_what_a_strict_transaction_is_summing_up(database_url, make):
    """An open transaction of somebody's holds up its own scope, and no worker's other work."""
    limit = Limit(count=5, scope=PER_TENANT)
    remote = Remote(upstream=BLIND)
    rows = [
        case(dataclasses.replace(limit, strict=True)),
        dataclasses.replace(row("send_letter", remote), limits=(limit,)),
        row("ship", remote),
    ]
    make()
    world = World()
    office = Office(database_url, world, rows=rows)
    worker = Dispatcher(office.context, Pace(), "w")
    letter, parcel = (
        office.call(None, tool, {"to": "dana"}).ref for tool in ("send_letter", "ship")
    )
    with calling(database_url) as caller:
        office.call(caller, "file_case", {"to": "a"})
        taken = [[work.intent.ref for work in worker.run_once(1).works] for _ in range(2)]
        assert taken == [[], [parcel]]
    assert [work.intent.ref for work in worker.run_once(1).works] == [letter]
    office.close()


def test_rows_are_counted_as_they_were_affected(database_url):
    """What a Local call has affected counts, and it is undone when that is too much."""
    make_cases(database_url)

    def file_many(session: Any, arguments: Any) -> Performed:
        file_case(session, arguments)
        return Performed(affected_count=int(arguments.note))

    tool = dataclasses.replace(row("file_case", Local()), limits=(Limit(rows=10, over=REFUSE),))
    handler = Handler(perform=file_many, restore=unfile_case)
    office = Office(database_url, World(), rows=[tool], handlers={"file_case": handler})
    told = [
        office.call(None, "file_case", {"to": f"c-{n}", "note": str(rows)})
        for n, rows in enumerate((6, 5, 4, 1))
    ]
    assert [one.status for one in told] == ["done", "refused", "done", "refused"]
    assert told[1].error is not None and "4 left" in told[1].error["message"]
    assert cases(database_url) == 2
    office.close()


def test_a_limit_of_the_app_that_says_nothing_is_refused():
    with pytest.raises(InvalidCatalog, match="bounds nothing"):
        Takeback(Catalog(), handlers={}, limits=(Limit(),))
