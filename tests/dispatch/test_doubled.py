"""What is tried again, or meant once more, although it may have happened: told alike everywhere,
stopped by a person, and done twice by nobody who did not mean that.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from takeback.cli.asking import can_of, doubt_of
from takeback.client.batching import Call
from takeback.model.errors import NotDispatched
from tests.dispatch.halt import Halt
from tests.dispatch.office import Office, World
from tests.dispatch.test_reconciler import causes, drain, in_doubt, lost, reconcile
from tests.dispatch.test_resolving import DANA, denied, doubtful, parked


def tried_again(office: Office, world: World, clock: Any) -> str:
    ref = parked(office, world, clock)
    office.retry(None, ref, principal=DANA)
    return ref


def queued_under_its_key(office: Office, world: World, clock: Any) -> str:
    """The engine itself has it tried again: the provider keeps the key."""
    ref = in_doubt(office, world, clock, "pay", arrived=True)
    assert reconcile(office) == ["due"]
    return ref


AGAIN = pytest.mark.parametrize(
    "make", [tried_again, queued_under_its_key], ids=lambda make: make.__name__
)


@AGAIN
def test_what_is_tried_again_is_told_alike_wherever_it_is_asked_about(make, office, world, clock):
    """No undo is promised that nobody can keep, and the verb that stops it is named everywhere."""
    ref = make(office, world, clock)
    shown = office.show(ref)
    tool = shown.entry.intent.tool

    again = office.call(None, tool, {"to": "dana"})
    (line,) = (one for one in office.list() if one["ref"] == ref)
    for told in (office.status(ref), again, shown.envelope, line):
        assert "may or may not have happened, and is tried again" in told["summary"]
        assert "taken back" not in told["summary"]
    assert (again.status, again.restore) == ("scheduled", None) and "again" not in again
    assert "a person can stop it (`resolve`)" in again["no_restore"]
    doubt = doubt_of(shown)
    assert doubt is not None and doubt["attempts_unknown"] == [1]
    assert (can_of(shown), doubt["cause"]) == (["resolve"], "outcome_unknown")

    step = {"resolve": ref, "as": ["unknown", "succeeded", "failed"], "by": "a person"}
    back, amended = office.restore(None, ref), office.amend(None, ref, {"note": "x"})
    assert (back.code, amended.code) == ("not_restorable", "too_late")
    for refused in (back, amended):
        assert refused.error is not None and step in refused.error["alternatives"]
        assert "is to be tried again" in refused.error["message"]
    retried = office.retry(None, ref, principal="robin")
    if make is tried_again:
        assert retried.replayed and retried["decided"]["by"] == DANA
    else:
        assert retried.code == "wrong_state" and "`resolve`" in retried.error["message"]


@pytest.mark.parametrize("word", ["succeeded", "failed", "unknown"])
@AGAIN
def test_a_person_stops_what_is_tried_again_before_it_begins(make, word, office, world, clock):
    ref = make(office, world, clock)
    called = world.called("dana")

    told = office.resolve(None, ref, word, principal="robin")
    again = office.resolve(None, ref, word, principal=DANA)
    drain(office, clock)

    assert world.called("dana") == called, "nothing more begins"
    assert office.state(ref) == ("parked" if word == "unknown" else word)
    assert (told["decided"]["how"], told["decided"]["by"]) == (word, "robin")
    assert (told.replayed, again.replayed, again["decided"]) == (False, True, told["decided"])
    assert causes(office, ref)[-1] == "person"
    assert (office.verify().problems, office.rebuild().differing) == ((), ())


def test_what_was_stopped_is_parked_as_before_and_can_be_tried_again(office, world, clock):
    ref = tried_again(office, world, clock)
    office.resolve(None, ref, "unknown", principal="robin")

    shown = office.show(ref)
    doubt = doubt_of(shown)
    assert doubt is not None and (doubt["cause"], doubt["parked"]["by"]) == (
        "outcome_unknown",
        "robin",
    )
    assert can_of(shown) == ["resolve", "retry"]
    office.retry(None, ref, principal="robin")
    drain(office, clock)

    assert (office.state(ref), world.called("dana")) == ("succeeded", 2)


def test_who_begins_while_a_person_stops_it_finds_it_gone(office, world, clock, database_url):
    """Both held: the worker has claimed it, and is about to begin."""
    ref = tried_again(office, world, clock)
    with psycopg.connect(database_url, autocommit=True) as observer:
        halt = Halt(observer, at="before lock_free")
        other = Office(database_url, world, pause=clock.advance)
        with ThreadPoolExecutor(1) as thread, halt.watching(other):
            working = thread.submit(drain, other, clock)
            halt.wait()
            told = office.resolve(None, ref, "unknown", principal=DANA)
            halt.go()
            working.result()

    assert told["decided"]["how"] == "unknown" and world.called("dana") == 1
    assert office.state(ref) == "parked" and office.verify().problems == ()
    other.close()


def test_what_is_in_doubt_is_parked_by_a_person_and_then_tried_again(office, world, clock):
    """The engine asks no more, and a retry need not wait for it to give up."""
    ref = doubtful(office, world, clock)
    refused = office.retry(None, ref, principal=DANA)
    step = {"resolve": ref, "as": ["unknown", "succeeded", "failed"], "by": "a person"}
    assert step in refused.error["alternatives"]

    told = office.resolve(None, ref, "unknown", principal=DANA)
    assert (told.status, office.state(ref)) == ("in_doubt", "parked")
    assert office.retry(None, ref, principal=DANA).status == "scheduled"


def lost_for_good(office: Office, world: World, clock: Any) -> str:
    world.on["send_letter"] = lost(world, arrived=True)
    ref = office.call(None, "send_letter", {"to": "dana"}).ref or ""
    drain(office, clock)
    del world.on["send_letter"]
    return ref


@pytest.mark.parametrize(
    "make", [lost_for_good, parked, tried_again, denied], ids=lambda make: make.__name__
)
def test_what_may_have_happened_is_not_repeated_by_whoever_knows_its_ref(
    make, office, world, clock
):
    """S2.15: the refusal names the step. What is not offered is not taken either."""
    ref = make(office, world, clock)
    called, intents = world.called("dana"), len(office.list())

    for principal in ("agent:support", DANA):
        for told in (
            office.call(None, "send_letter", {"to": "dana"}, repeat_of=ref, principal=principal),
            office.preview(None, "send_letter", {"to": "dana", "repeat_of": ref}),
            *office.call_many(
                None,
                [Call(tool="send_letter", arguments={"to": "dana"}, repeat_of=ref)],
                principal=principal,
            ),
        ):
            assert (told.code, told["effect"]) == ("first_in_doubt", "none")
            step, *_ = told.error["alternatives"]
            assert (step["resolve"], step["by"]) == (ref, "a person")
            assert step["as"][-2:] == ["succeeded", "failed"]
            assert ("unknown" in step["as"]) == (make in (lost_for_good, tried_again))
    assert (len(office.list()), world.called("dana")) == (intents, called)

    office.resolve(None, ref, "failed", principal=DANA)
    again = office.call(None, "send_letter", {"to": "dana"}, repeat_of=ref)
    drain(office, clock)
    assert again.ref != ref and world.called("dana") == called + 1


def test_a_repeat_that_was_made_in_time_is_replayed_although_the_first_is_in_doubt_by_now(
    office, world, clock
):
    """S2.9: its answer was lost, and so is that of the first attempt."""
    ref = office.call(None, "hold_letter", {"to": "dana"}).ref or ""
    second = office.call(None, "hold_letter", {"to": "dana"}, repeat_of=ref)
    world.on["hold_letter"] = lost(world, arrived=True)
    clock.advance(61)
    drain(office, clock)

    again = office.call(None, "hold_letter", {"to": "dana"}, repeat_of=ref)

    assert (again.ref, again.replayed) == (second.ref, True)


@pytest.mark.parametrize(
    ("tool", "arrived", "event"),
    [
        ("send_letter", True, "intent_parked"),
        ("pay", True, "repeated_in_doubt"),
        ("wire", True, "doubt_ended"),
        ("wire", False, "doubt_ended"),
    ],
)
def test_the_log_says_of_a_doubt_only_that_it_ended_where_it_has(
    tool, arrived, event, office, world, clock, caplog
):
    caplog.set_level("INFO", "takeback")
    in_doubt(office, world, clock, tool, arrived=arrived)
    reconcile(office)

    events = ("intent_parked", "repeated_in_doubt", "doubt_ended")
    said = [r.getMessage() for r in caplog.records]
    assert [one for one in events if any(f"'event': '{one}'" in line for line in said)] == [event]


def test_why_each_attempt_ended_is_kept_for_persons_and_no_answer_has_it(office, world, clock):
    def down(called: Any) -> Any:
        raise NotDispatched("no route\x00 to host")

    world.on["send_letter"] = down
    ref = office.call(None, "send_letter", {"to": "dana"}).ref or ""
    drain(office, clock)
    clock.advance(600)
    world.on["send_letter"] = lost(world, arrived=True)
    drain(office, clock)

    shown = office.show(ref)
    assert [(one.number, one.became) for one in shown.attempts] == [
        (1, "deferred"),
        (2, "in_doubt"),
    ]
    assert [shown.reasons[n].kind.rpartition(".")[2] for n in (1, 2)] == [
        "NotDispatched",
        "OutcomeUnknown",
    ]
    assert shown.reasons[1].details.startswith("no route\\u0000 to host\n")
    for told in (
        office.status(ref),
        shown.envelope,
        office.call(None, "send_letter", {"to": "dana"}),
    ):
        assert "route" not in told.to_json() and "cut" not in told.to_json()
    assert office.verify().problems == ()


def test_a_reason_that_can_not_be_kept_changes_no_outcome(office, world, clock, database_url):
    world.on["send_letter"] = lost(world, arrived=True)
    ref = office.call(None, "send_letter", {"to": "dana"}).ref or ""
    with psycopg.connect(database_url) as tx:
        tx.execute("ALTER TABLE takeback.faults RENAME COLUMN details TO renamed")
    drain(office, clock)
    with psycopg.connect(database_url) as tx:
        tx.execute("ALTER TABLE takeback.faults RENAME COLUMN renamed TO details")

    shown = office.show(ref)
    assert (office.state(ref), shown.reasons, shown.attempts[0].cause) == (
        "in_doubt",
        {},
        "outcome_unknown",
    )


def test_when_it_was_found_out_is_not_called_when_it_happened(office, world, clock):
    """Days may lie between the two."""
    said = parked(office, world, clock)
    office.resolve(None, said, "succeeded", principal="robin")
    found = in_doubt(office, world, clock, "wire", arrived=True)
    assert reconcile(office) == ["succeeded"]
    plain = office.call(None, "send_letter", {"to": "mo"}).ref or ""
    drain(office, clock)

    for ref, words in (
        (said, "has happened, as robin said at"),
        (found, "has happened, as was found out at"),
        (plain, "happened at"),
    ):
        for told in (office.restore(None, ref), office.amend(None, ref, {"note": "x"})):
            assert told.code == "too_late" and f"{ref} {words}" in told.error["message"]


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("pay", "nobody knows yet. It is repeated under the same key alone, while its provider"),
        ("wire", "nobody knows yet. Its provider is asked; it is repeated only if that says"),
        ("send_letter", "nobody knows yet. It is not repeated."),
    ],
)
def test_of_a_doubt_it_is_said_what_the_engine_does_about_it(tool, said, office, world, clock):
    ref = in_doubt(office, world, clock, tool, arrived=True)
    (line,) = (one for one in office.list() if one["ref"] == ref)
    for told in (office.status(ref), office.show(ref).envelope, line):
        assert f"may or may not have happened; {said}" in told["summary"]


def test_a_doubt_is_as_old_as_its_first_attempt_that_is_unknown(office, world, clock):
    ref = queued_under_its_key(office, world, clock)
    first = doubt_of(office.show(ref))
    assert first is not None
    world.on["pay"] = lost(world, arrived=False)
    drain(office, clock)
    again = doubt_of(office.show(ref))
    assert again is not None and office.state(ref) == "in_doubt"
    assert (again["attempt"], again["since"]) == (2, first["since"])
