"""Of one ordering one is carried out at a time, in the order of the calls, whoever works."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from takeback.dispatch.outcome import Outcome
from takeback.dispatch.work import identity
from takeback.model.errors import NotDispatched, OutcomeUnknown
from tests.dispatch.halt import Halt
from tests.dispatch.office import Called
from tests.dispatch.post import Post, down, refs, settle

DEFERRED = Outcome(kind="deferred", retry_after_s=60.0)


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def test_the_next_of_an_ordering_is_claimed_when_the_one_before_has_ended(post):
    office = post()
    first, second, third = office.post(3, "turn", to="dana")
    (other,) = office.post(1, "turn", to="robin")

    taken = office.dispatcher("w1").run_once(10).works
    assert sorted(refs(taken)) == sorted([first, other])
    assert office.dispatcher("w2").run_once(10).count == 0
    ended = [work for work in taken if work.intent.ref == first]
    settle(office, ended)
    assert refs(office.dispatcher("w2").run_once(10).works) == [second]
    assert office.state(third) == "due"


def test_those_asked_for_by_id_wait_their_turn_too(post):
    office = post()
    every = [identity(office.show(ref).entry.intent) for ref in office.post(3, "turn", to="dana")]
    counts = [office.dispatcher(f"a{n}").claim(every[-n:]).count for n in (1, 2, 3)]
    assert counts == [0, 0, 1]


@pytest.mark.parametrize("at", ["before try_orderings", "before out_of_turn", "before COMMIT"])
def test_two_of_an_ordering_are_never_under_way_together_though_an_earlier_one_comes_back(
    at, post, database_url, world, observer
):
    """The later one is being claimed, and is held in the middle of it, while a person approves the
    earlier one: no snapshot shows the one to the other.
    """
    other = post()
    (early,) = other.post(1, "asked_turn", to="dana")
    (late,) = other.post(1, "turn", to="dana")
    halt = Halt(observer, at=at)
    with halt.watching(Post(database_url, world)) as office, ThreadPoolExecutor(1) as thread:
        held = thread.submit(office.dispatcher("w1").run_once, 10)
        halt.wait()
        other.approve(None, early, principal="robin")

        beside = other.dispatcher("w2").run_once(10)
        halt.go()

        both = [*refs(held.result().works), *refs(beside.works)]
    assert len(both) <= 1, both
    assert other.dispatcher("w3").run_once(10).count == 1 - len(both)
    assert sorted([other.state(early), other.state(late)]) == ["claimed", "due"]


def test_who_has_locked_a_row_by_an_old_snapshot_looks_again_behind_the_lock(
    post, database_url, world, observer
):
    """Both are held: the later one before its commit, the earlier one before it tries the lock, so
    that it is free again by then, and its snapshot older than the claim.
    """
    other = post()
    (early,) = other.post(1, "asked_turn", to="dana")
    (late,) = other.post(1, "turn", to="dana")
    later, earlier = Halt(observer, at="before COMMIT"), Halt(observer, at="before try_orderings")
    with (
        later.watching(Post(database_url, world)) as one,
        earlier.watching(Post(database_url, world)) as two,
        ThreadPoolExecutor(2) as threads,
    ):
        claims_late = threads.submit(one.dispatcher("w1").run_once, 10)
        later.wait()
        other.approve(None, early, principal="robin")
        claims_early = threads.submit(two.dispatcher("w2").run_once, 10)
        earlier.wait()
        later.go()
        assert refs(claims_late.result().works) == [late]
        earlier.go()
        assert claims_early.result().count == 0
    assert (other.state(early), other.state(late)) == ("due", "claimed")


def test_one_that_is_tried_again_later_holds_up_those_after_it(post, clock):
    office = post()
    first, second = office.post(2, "turn", to="dana")
    settle(office, office.dispatcher().run_once(1).works, DEFERRED)

    clock.advance(30)
    assert office.dispatcher().run_once(10).count == 0
    clock.advance(30)
    assert refs(office.dispatcher().run_once(10).works) == [first]
    assert office.state(second) == "due"


def test_one_in_doubt_holds_up_those_after_it_until_the_doubt_is_over(post, world, clock):
    """Nobody can know whether it has happened: what was to come after it does not overtake it."""
    office = post()
    first, second = office.post(2, "turn", to="dana")
    settle(office, office.dispatcher().run_once(1).works, Outcome(kind="in_doubt"))
    assert office.state(first) == "in_doubt"
    assert office.dispatcher().run_once(10).count == 0

    clock.advance(3600)
    office.drain(clock)

    assert office.state(first) == "parked"
    office.drain(clock)
    assert office.state(second) == "succeeded" and world.called("dana") == 1


def test_what_waits_for_a_person_holds_nobody_up_and_comes_in_turn_when_it_may(post, clock):
    office = post()
    (asked,) = office.post(1, "asked_turn", to="dana")
    (second,) = office.post(1, "turn", to="dana")
    taken = office.dispatcher().run_once(10).works
    assert refs(taken) == [second]
    office.approve(None, asked, principal="robin")
    assert office.dispatcher("w2").run_once(10).count == 0
    settle(office, taken)
    assert refs(office.dispatcher("w2").run_once(10).works) == [asked]


def test_what_has_a_not_before_takes_its_place_when_that_has_come(post, clock):
    office = post()
    with office.context.database.statements() as tx:
        (friday,) = tx.raw.execute("SELECT takeback.now() + interval '1 h'").fetchone()
    planned = office.call(None, "turn", {"to": "dana", "note": "friday"}, not_before=friday).ref
    (now,) = office.post(1, "turn", to="dana")
    taken = office.dispatcher().run_once(10).works
    assert refs(taken) == [now]
    clock.advance(3601)
    assert office.dispatcher("w2").run_once(10).count == 0
    clock.advance(31)
    office.worker_of("reaper", sleep=clock.advance)._sweep.run_once()
    assert refs(office.dispatcher("w2").run_once(10).works) == [planned]


def test_one_that_waits_for_another_does_not_hold_up_what_stands_in_its_place(post, clock):
    """The one that was amended is the later one now: each would wait for the other."""
    office = post()
    (first,) = office.post(1, "held_turn", to="dana")
    waits = office.call(None, "turn", {"to": "dana", "note": "after"}, after=[first]).ref
    amended = office.amend(None, first, {"note": "said otherwise"}).ref
    clock.advance(60)
    office.drain(clock)
    office.drain(clock)
    assert (office.state(amended), office.state(waits)) == ("succeeded", "succeeded")


def test_what_takes_one_back_waits_for_none_that_is_still_to_come(post, clock):
    """Neither for a window nor for what is frozen."""
    office = post()
    (first,) = office.post(1, "turn", to="dana")
    office.drain(clock)
    (held,) = office.post(1, "held_turn", to="dana")
    due = office.call(None, "turn", {"to": "dana", "note": "more"}).ref
    office.freeze(reason="a look", principal="dana", tool="turn")
    restore = office.restore(None, first).ref

    taken = office.dispatcher().run_once(10).works
    assert refs(taken) == [restore]
    settle(office, taken)
    assert (office.state(first), office.state(held), office.state(due)) == (
        "restored",
        "held",
        "due",
    )


def test_what_takes_one_back_goes_before_what_is_due_and_never_beside_it(post, clock):
    office = post()
    one, two = office.post(2, "turn", to="dana")
    office.drain(clock)
    (next_,) = office.post(1, "asked_turn", to="dana")
    office.approve(None, next_, principal="robin")
    back = [office.restore(None, ref).ref for ref in (one, two)]

    order = []
    for _ in range(3):
        wanted = [identity(office.show(ref).entry.intent) for ref in (next_, *back)]
        taken = office.dispatcher("w1").claim(wanted).works
        assert office.dispatcher("w2").run_once(10).count == 0
        order += refs(taken)
        settle(office, taken)
    assert order == [*back, next_]


def test_what_takes_one_back_waits_for_what_is_under_way(post, clock):
    office = post()
    (first,) = office.post(1, "turn", to="dana")
    office.drain(clock)
    office.call(None, "turn", {"to": "dana", "note": "more"})
    taken = office.dispatcher().run_once(10).works
    restore = office.restore(None, first).ref
    assert office.dispatcher("w2").run_once(10).count == 0
    settle(office, taken)
    assert refs(office.dispatcher("w2").run_once(10).works) == [restore]


def test_an_undo_that_waits_for_a_person_holds_nobody_up_nor_does_its_call(post, clock):
    """Nobody knows whether it was taken back, and only a person can find out."""
    office = post()
    (first,) = office.post(1, "turn", to="dana")
    office.drain(clock)
    restore = office.restore(None, first).ref or ""
    settle(office, office.dispatcher().run_once(1).works, Outcome(kind="in_doubt"))
    (second,) = office.post(1, "asked_turn", to="dana")
    office.approve(None, second, principal="robin")
    assert office.dispatcher("w2").run_once(10).count == 0

    clock.advance(3600)
    office.worker_of("asker", sleep=clock.advance)._sweep.run_once()

    assert (office.state(first), office.state(restore)) == ("in_doubt", "parked")
    assert refs(office.dispatcher("w2").run_once(10).works) == [second]


def test_a_worker_that_dies_gives_the_turn_to_the_same_one_again(post, clock):
    """Claimed, and not begun: the lease ends, it is due again, and goes first."""
    office = post()
    first, second = office.post(2, "turn", to="dana")
    assert refs(office.dispatcher("dead").run_once(10).works) == [first]
    clock.advance(31)
    office.worker_of("w", sleep=clock.advance)._sweep.run_once()
    assert refs(office.dispatcher("w").run_once(10).works) == [first]
    assert office.state(second) == "due"


def test_what_takes_one_back_is_not_held_up_by_it_while_both_are_in_doubt(post, world, clock):
    office = post()
    (ref,) = office.post(1, "turn", to="dana")
    office.drain(clock)
    restore = office.restore(None, ref).ref or ""
    settle(office, office.dispatcher().run_once(1).works, Outcome(kind="in_doubt"))
    assert (office.state(ref), office.state(restore)) == ("in_doubt", "in_doubt")
    with psycopg.connect(office.context.database.url) as connection:
        connection.execute(
            "UPDATE takeback.intents SET state = 'due', due_at = takeback.now() WHERE ref = %s",
            [restore],
        )
    assert refs(office.dispatcher("w2").run_once(10).works) == [restore]


@pytest.mark.parametrize("number", range(3))
def test_the_order_is_kept_over_random_runs(number, post, world, clock):
    """Three workers, three customers; attempts fail, or are put off, at random."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    lock, open_, seen = threading.Lock(), set[str](), list[tuple[str, str]]()
    dice = random.Random(seed)
    pause = threading.Event()

    def carry(called: Called) -> Any:
        with lock:
            assert called.to not in open_, f"two for {called.to} at once"
            open_.add(called.to)
            fate, seconds = dice.random(), dice.random() / 200
        pause.wait(seconds)
        with lock:
            open_.discard(called.to)
            if fate < 0.3:
                raise NotDispatched("busy")
            seen.append((called.to, called.note))
        return world.arrive(called)

    world.on["turn"] = carry
    offices = [post(concurrency=5, breaker=None) for _ in range(3)]
    for to in ("ann", "bo", "cy"):
        offices[0].post(8, "turn", to=to)

    def work(n: int) -> None:
        for _ in range(40):
            offices[n].worker_of(f"w{n}", sleep=clock.advance).run(drain=True)
            if len(seen) == 24:
                return
            clock.advance(1)

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(work, range(3)))

    for to in ("ann", "bo", "cy"):
        notes = [int(note) for whom, note in seen if whom == to]
        assert notes == sorted(notes) == list(range(8)), (to, notes)


def test_two_of_an_ordering_one_after_the_other_take_no_second_each(post, world):
    """What an end lets go on is found by the next look, and not by one everywhere."""
    office = post()
    office.post(20, "turn", to="dana")
    office.post(200, "turn")
    naps: list[float] = []
    worker = office.worker_of("w", sleep=naps.append)
    worker.run(drain=True)
    assert [one.note for one in world.effects if one.to == "dana"] == [str(n) for n in range(20)]
    assert sum(naps) < 2, naps


def test_one_that_hangs_in_an_outage_keeps_its_place(post, world, clock):
    world.on["turn"] = down
    office = post(concurrency=4)
    office.post(3, "turn", to="dana")
    for _ in range(3):
        office.drain(clock)
        clock.advance(5)
    assert {one.note for one in world.calls} == {"0"}


def test_an_answer_that_never_came_is_no_turn_for_the_next(post, world, clock):
    def lost(called: Called) -> Any:
        raise OutcomeUnknown("cut off")

    world.on["turn"] = lost
    office = post()
    office.post(2, "turn", to="dana")
    office.drain(clock)
    assert {one.note for one in world.calls} == {"0"}
