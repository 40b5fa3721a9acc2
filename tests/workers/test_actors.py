"""dramatiq's processes on real brokers: whatever becomes of a message, each intent leaves once."""

import json
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from takeback.declare import Priority
from takeback_workers.broker import queue_lengths
from tests.dispatch.clock import Clock
from tests.workers.server import eventually
from tests.workers.yard import WORKER, Yard

pytestmark = pytest.mark.slow


def published(yard: Yard, count: int) -> None:
    """Returns when so many wake-ups wait."""
    eventually(
        lambda: sum(queue_lengths(yard.server.url, yard.tenant).values()) >= count,
        f"{count} wake-ups wait",
    )


def taken(yard: Yard) -> None:
    """Returns when no wake-up waits any more."""
    eventually(
        lambda: sum(queue_lengths(yard.server.url, yard.tenant).values()) == 0,
        "every wake-up is taken",
    )


def test_what_falls_due_is_carried_out_by_actors_that_a_ticker_wakes(yard: Yard):
    yard.actors()
    yard.ticker()
    refs = [*yard.calls("send", 5), *yard.calls("bill", 5)]
    yard.all_are(refs)
    yard.each_left_once(refs)


def test_what_a_broker_has_lost_is_carried_out_all_the_same(yard: Yard):
    """Published, and then every queue is emptied before anybody has looked into it."""
    refs = yard.calls("send", 10)
    yard.ticker()
    published(yard, 10)
    yard.server.wipe(yard.tenant)
    yard.actors()
    yard.all_are(refs)
    yard.each_left_once(refs)


def test_a_wake_up_that_is_delivered_a_hundred_times_is_one_attempt(yard: Yard):
    """dramatiq #431, #461, #597: delayed and redelivered messages were doubled."""
    yard.gate.touch()
    waits, quick = yard.call("freight", "a", how="at_the_gate"), yard.call("send", "b")
    yard.wake([waits] * 50)
    yard.actors(processes=2)
    yard.has_left(waits)
    yard.wake([quick, waits] * 50)
    yard.gate.unlink()
    yard.all_are([waits, quick])
    taken(yard)
    yard.each_left_once([waits, quick])


def test_wake_ups_that_are_late_or_out_of_order_change_nothing(yard: Yard):
    first, second = yard.call("send", "first"), yard.call("send", "second")
    early = yard.call("hold", "early")
    yard.actors()
    yard.wake([early, second, first])
    yard.all_are([first, second])
    third = yard.call("send", "third")
    yard.wake([first, early, second, third])
    yard.all_are([third])
    taken(yard)
    yard.each_left_once([first, second, third])
    assert yard.state(early) == "held"


def poisons(yard: Yard) -> Iterator[bytes]:
    """What is no wake-up, or one for somebody else."""
    yield from (b"", b"garbage", b"\xff\xfe", b"[]", b"{}", b"null", b"7", b"x" * 1_000_000)
    whole = {
        "queue_name": yard.queue(),
        "actor_name": "takeback_wake_default",
        "args": [yard.tenant, str(uuid.UUID(int=7))],
        "kwargs": {},
        "options": {},
        "message_id": "m",
        "message_timestamp": 1,
    }
    wrongs: tuple[dict[str, Any], ...] = (
        {"args": [yard.tenant, "not an id"]},
        {"args": ["somebody else", str(uuid.UUID(int=7))]},
        {"args": []},
        {"args": [yard.tenant, str(uuid.UUID(int=7)), "more"]},
        {"args": None},
        {"kwargs": {"tenant": "x"}},
        {"kwargs": None},
        {"options": None},
        {"options": {"eta": 4102444800000}},
        {"options": {"eta": "soon"}},
        {"queue_name": "another queue"},
        {"queue_name": None},
        {"actor_name": "nobody"},
        {"message_id": []},
        {"surprise": 1},
        {},
    )
    for wrong in wrongs:
        yield json.dumps(whole | wrong).encode()


def test_what_is_no_wake_up_is_dropped_and_the_next_one_is_carried_out(yard: Yard):
    actors = yard.actors()
    refs = yard.calls("send", 3)
    yard.wake(refs[:1])
    bad = list(poisons(yard))
    for data in bad:
        yard.server.put(yard.queue(), data)
    yard.wake(refs[1:])
    yard.all_are(refs)
    taken(yard)
    yard.each_left_once(refs)
    eventually(lambda: yard.server.in_hand(yard.queue()) == 0, "nothing is left in hand")
    actors.says("no_wake_up", len(bad) // 2)
    assert "Restarting consumer" not in actors.log.read_text()
    actors.tell(signal.SIGTERM)
    assert actors.ended() == 0
    taken(yard)


def test_a_broker_that_is_wiped_while_mails_are_held_and_due_delays_none_for_long(yard: Yard):
    """dramatiq #527: delayed jobs were lost, or hours late, after the broker had restarted."""
    clock = Clock(yard.database_url)
    due, held = yard.calls("send", 3), yard.calls("hold", 3)
    ticker = yard.ticker()
    published(yard, 3)
    yard.server.wipe(yard.tenant)
    yard.server.kill()
    clock.advance(61)
    ticker.says("ticker_waits")
    yard.server.start()
    yard.server.wipe(yard.tenant)
    yard.actors()
    yard.all_are([*due, *held])
    yard.each_left_once([*due, *held])
    clock.close()


@pytest.mark.chaos
def test_while_the_broker_is_down_calls_are_recorded_and_leave_once_it_is_back(yard: Yard):
    """It restarts under a ticker and actors that run."""
    ticker, actors = yard.ticker(), yard.actors()
    before = yard.call("send", "before")
    yard.all_are([before])
    yard.server.stop()
    meanwhile = yard.calls("bill", 5)
    ticker.says("ticker_waits")
    assert {yard.state(ref) for ref in meanwhile} == {"due"}
    yard.server.start()
    after = yard.call("send", "after")
    yard.all_are([*meanwhile, after])
    yard.each_left_once([before, *meanwhile, after])
    assert actors.child.poll() is None


@pytest.mark.chaos
def test_a_broker_that_restarts_in_the_middle_of_an_attempt_repeats_nothing(yard: Yard):
    yard.gate.touch()
    ref = yard.call("freight", "dana", how="at_the_gate")
    yard.wake([ref])
    yard.actors()
    yard.has_left(ref)
    yard.server.kill()
    yard.gate.unlink()
    yard.all_are([ref])
    yard.server.start()
    yard.wake([ref])
    later = yard.call("send", "later")
    yard.wake([later])
    yard.all_are([later])
    yard.each_left_once([ref, later])


@pytest.mark.chaos
def test_what_a_killed_actor_was_executing_is_taken_over_after_its_lease(yard: Yard):
    yard.lease_seconds = 2.5
    yard.ticker()
    actors = yard.actors()
    ref = yard.call("send", "dana", how="never")
    yard.has_left(ref)
    (line,) = yard.left()
    os.kill(line["pid"], signal.SIGKILL)
    actors.ended()
    yard.all_are([ref], "in_doubt")
    yard.actors()
    other = yard.call("send", "robin")
    yard.all_are([other])
    yard.each_left_once([ref, other])


def test_two_tickers_at_once_wake_for_each_and_each_leaves_once(yard: Yard):
    tickers = [yard.ticker(), yard.ticker()]
    yard.actors(processes=2)
    refs = [*yard.calls("send", 20), *yard.calls("bill", 20)]
    yard.all_are(refs)
    yard.each_left_once(refs)
    for ticker in tickers:
        ticker.tell(signal.SIGTERM)
        assert ticker.ended() == 0


def test_actors_that_are_told_to_stop_finish_what_they_have_begun(yard: Yard):
    yard.gate.touch()
    ref = yard.call("freight", "dana", how="at_the_gate")
    yard.wake([ref])
    actors = yard.actors()
    yard.has_left(ref)
    actors.tell(signal.SIGTERM)
    actors.says("Shutting down")
    yard.gate.unlink()
    assert actors.ended() == 0
    assert yard.state(ref) == "succeeded"
    yard.each_left_once([ref])


def test_actors_whose_attempt_hangs_stop_all_the_same_and_it_is_in_doubt(yard: Yard):
    """What they were woken for and had not begun is handed to others."""
    ref = yard.call("freight", "dana", how="never")
    yard.wake([ref])
    actors = yard.actors(threads=1)
    yard.has_left(ref)
    waiting = yard.calls("send", 3)
    yard.wake(waiting)
    actors.tell(signal.SIGTERM)
    assert actors.ended() == 0
    assert yard.state(ref) == "in_doubt"
    assert {yard.state(one) for one in waiting} == {"due"}
    yard.actors()
    yard.all_are(waiting)
    yard.each_left_once([ref, *waiting])


@pytest.mark.chaos
def test_actors_whose_broker_is_away_stop_all_the_same(yard: Yard):
    """dramatiq would try for ten minutes to acknowledge what was done."""
    yard.gate.touch()
    ref = yard.call("freight", "dana", how="at_the_gate")
    yard.wake([ref])
    actors = yard.actors()
    yard.has_left(ref)
    yard.server.kill()
    yard.gate.unlink()
    yard.all_are([ref])
    actors.tell(signal.SIGTERM)
    assert actors.ended() == 0


def test_actors_that_are_stuck_in_the_database_stop_all_the_same(yard: Yard):
    actors = yard.actors()
    ref = yard.call("send", "dana")
    message = yard.message(ref)
    with psycopg.connect(yard.database_url) as holder, observing(yard.database_url) as look:
        holder.execute("LOCK TABLE takeback.intents IN ACCESS EXCLUSIVE MODE")
        yard.send([message])
        eventually(lambda: is_blocked(look), "the claim is blocked")
        actors.tell(signal.SIGTERM)
        assert actors.ended() == 1
    actors.says_at_the_end("stopped_by_force")
    assert yard.state(ref) == "due"


def observing(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)


def is_blocked(look: psycopg.Connection[Any]) -> bool:
    """Whether somebody waits for a lock in this database."""
    query = """
    SELECT count(*) > 0 FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()
    """
    return look.execute(query).fetchone() == (True,)


def test_an_urgent_one_passes_a_backlog_of_others(yard: Yard):
    """By the priority of its row: recorded last, carried out first."""
    yard.gate.touch()
    busy = yard.call("freight", "busy", how="at_the_gate")
    yard.wake([busy])
    yard.actors(threads=1)
    yard.has_left(busy)
    backlog = yard.calls("whenever", 20)
    yard.ticker()
    published(yard, 10)
    urgent = yard.call("urgent", "dana")
    yard.wake([urgent], Priority.HIGH)
    eventually(
        lambda: queue_lengths(yard.server.url, yard.tenant)[Priority.HIGH] == 0,
        "the urgent one is taken",
    )
    yard.gate.unlink()
    yard.all_are([busy, urgent, *backlog])
    assert [one["ref"] for one in yard.left()][1] == urgent
    yard.each_left_once([busy, urgent, *backlog])


def test_actors_wait_for_a_database_that_goes_away(yard: Yard, server_url: str):
    actors = yard.actors()
    refs = yard.calls("send", 3)
    yard.wake(refs[:1])
    yard.all_are(refs[:1])
    messages = [yard.message(ref) for ref in refs[1:]]
    with away(yard.database_url, server_url):
        yard.send(messages)
        actors.says("responder_waits")
    yard.reconnect()
    yard.all_are(refs)
    yard.each_left_once(refs)


@contextmanager
def away(database_url: str, server_url: str) -> Iterator[None]:
    """Nobody gets into the database, and whoever was in it is thrown out."""
    name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
    allow = psycopg.sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(allow.format(psycopg.sql.Identifier(str(name)), False))
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            admin.execute(allow.format(psycopg.sql.Identifier(str(name)), True))


@pytest.mark.chaos
def test_a_ticker_that_stands_in_carries_out_what_is_due_while_the_broker_is_down(yard: Yard):
    ticker = yard.ticker("--stand-in")
    yard.server.stop()
    refs = yard.calls("send", 3)
    yard.all_are(refs)
    assert {one["pid"] for one in yard.left()} == {ticker.child.pid}
    yard.server.start()
    yard.actors()
    # Whoever stands in looks now and then whether it is relieved.
    for number in range(300):
        refs.append(yard.call("bill", f"later-{number}"))
        yard.all_are(refs)
        if yard.left()[-1]["pid"] != ticker.child.pid:
            break
    yard.each_left_once(refs)
    assert yard.left()[-1]["pid"] != ticker.child.pid


def test_an_embedded_worker_carries_out_what_no_ticker_wakes_for(yard: Yard):
    """Beside actors that share the work, on the same ledger."""
    yard.actors()
    yard.run(WORKER).says("worker_started")
    refs = yard.calls("send", 20)
    yard.wake(refs)
    yard.all_are(refs)
    yard.each_left_once(refs)
