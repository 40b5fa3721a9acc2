"""What is known of each attempt decides what may follow: a repeat, a new key, a late verdict."""

from datetime import timedelta
from typing import Any

import pytest

from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.decide import decide
from takeback.model.errors import InvalidTransition
from takeback.model.evolve import foresee
from takeback.model.intent import State, is_cancellable, why_not_begin
from tests.model.history import (
    MINUTE,
    NOW,
    after,
    began,
    claimed,
    contradicted,
    deferred,
    doubt,
    failed,
    given,
    late,
    parked,
    recorded,
    refuses,
    requeued,
    running,
    second,
    situation,
)


def test_each_attempt_has_the_next_number_and_the_epoch_of_its_key():
    intent = given(recorded(), *running(1), deferred(1), claimed())
    assert decide(intent, commands.Begin(lease=MINUTE), NOW) == [began(2, epoch=0, lease=60)]
    intent = given(recorded(), *running(1), failed(1), requeued("person", epoch=1), claimed())
    assert decide(intent, commands.Begin(lease=MINUTE), NOW) == [began(2, epoch=1, lease=60)]


def test_a_failed_attempt_is_tried_again_under_a_new_key_when_a_person_says_so():
    intent = given(recorded(), *running(1), failed(1))
    again = after(intent, commands.Requeue(cause="person", by="dana", new_epoch=True))
    assert (again.epoch, again.state, again.settled_at) == (1, State.DUE, None)


def test_a_failed_attempt_is_tried_again_under_its_old_key_unless_a_new_one_is_asked_for():
    intent = given(recorded(), *running(1), failed(1))
    assert after(intent, commands.Requeue(cause="person", by="dana")).epoch == 0


def test_a_key_never_changes_after_an_unknown_however_the_next_attempt_ended():
    unknown = (recorded(), *running(1), doubt(1))
    again = commands.Requeue(cause="person", by="dana", new_epoch=True)
    assert refuses(given(*unknown), again)
    assert refuses(given(*unknown, parked(1)), again)
    for cause in ("provider_key", "person"):
        path = (*unknown, parked(1)) if cause == "person" else unknown
        assert refuses(given(*path, requeued(cause), *running(2), failed(2)), again)


@pytest.mark.parametrize("source", ["find", "person"])
def test_a_key_changes_once_somebody_proved_that_no_attempt_arrived(source):
    intent = given(recorded(), *running(1), doubt(1), failed(1, source))
    again = commands.Requeue(cause="person", by="dana", new_epoch=True)
    assert after(intent, again).epoch == 1


def test_proof_that_nothing_arrived_is_about_every_attempt_under_the_key():
    path = (recorded(), *running(1), doubt(1), requeued("provider_key"), *running(2), doubt(2))
    assert given(*path).attempts_unknown == (1,)
    found = after(given(*path), commands.Requeue(cause="absent", new_epoch=True))
    assert (found.attempts_unknown, found.epoch) == ((), 1)
    assert is_cancellable(found)


def test_a_late_answer_clears_the_unknown_that_it_is_about():
    path = (recorded(), *running(1), doubt(1), requeued("provider_key"), *running(2), failed(2))
    again = commands.Requeue(cause="person", by="dana", new_epoch=True)
    assert refuses(given(*path), again)
    assert after(given(*path, late(1, "failed")), again).epoch == 1


def test_a_repeat_begins_only_while_the_provider_keeps_the_key():
    ask = commands.Requeue(cause="provider_key", begin_before=second(1))
    due = after(given(recorded(), *running(1), doubt(1)), ask)
    assert due.begin_before == second(1)
    claim = foresee(due, [claimed()], NOW)
    begin = commands.Begin(lease=MINUTE)
    assert why_not_begin(claim, second(0.999999)) is None
    assert decide(claim, begin, second(0.999999)) == [began(2, lease=60.999999)]
    assert why_not_begin(claim, second(1)) == "key_expired"
    with pytest.raises(InvalidTransition):
        decide(claim, begin, second(1))


def test_the_end_of_a_key_outlasts_attempts_that_were_put_off():
    path = (recorded(), *running(1), doubt(1), requeued("provider_key", begin_before=0))
    late_claim = given(*path, *running(2), deferred(2, until=-1), claimed())
    assert why_not_begin(late_claim, NOW) == "key_expired"


def test_a_person_may_go_on_without_the_key():
    path = (recorded(), *running(1), doubt(1), requeued("provider_key", begin_before=0))
    stuck = given(*path, claimed(), parked(1, "key_expired"))
    again = after(stuck, commands.Requeue(cause="person", by="dana"))
    assert (again.begin_before, again.attempts_unknown) == (None, (1,))
    assert why_not_begin(foresee(again, [claimed()], NOW), NOW) is None


def test_only_a_repeat_under_the_key_ends_with_the_key():
    ask = commands.Requeue(cause="absent", begin_before=NOW)
    assert after(situation("in_doubt"), ask).begin_before is None


def test_a_repeat_may_be_put_off():
    ask = commands.Requeue(cause="provider_key", wait=timedelta(seconds=9))
    assert after(situation("in_doubt"), ask).due_at == second(9)


def test_what_is_put_off_is_due_after_its_wait():
    intent = after(situation("executing"), commands.Defer(wait=timedelta(seconds=9)))
    assert (intent.state, intent.due_at, intent.lease_until) == (State.DUE, second(9), None)


def test_a_cause_that_nobody_knows_moves_nothing():
    other: Any = "because"
    assert refuses(situation("in_doubt"), commands.Requeue(cause=other))
    assert refuses(situation("in_doubt"), commands.Succeed(result=None, source=other))
    assert refuses(situation("claimed"), commands.Park(cause=other))


@pytest.mark.parametrize("stands", ["in_doubt", "parked"])
def test_a_late_answer_settles_the_attempt_in_doubt(stands):
    path = (recorded(), *running(1), doubt(1), *((parked(1),) if stands == "parked" else ()))
    answer = commands.AnswerLate(attempt=1, outcome="succeeded", body="d4735e3a", affected_count=2)
    assert decide(given(*path), answer, NOW) == [
        late(1, "succeeded"),
        events.Succeeded(attempt=1, source="late", result="d4735e3a", affected_count=2),
    ]
    answer = commands.AnswerLate(attempt=1, outcome="failed", body="d4735e3a", code="no_access")
    assert decide(given(*path), answer, NOW) == [
        late(1, "failed"),
        events.Failed(attempt=1, source="late", code="no_access", error="d4735e3a"),
    ]


@pytest.mark.parametrize(
    ("name", "attempt", "outcome", "decided"),
    [
        ("succeeded", 1, "failed", "succeeded"),
        ("restoring", 1, "failed", "succeeded"),
        ("restored", 1, "failed", "succeeded"),
        ("restore_failed", 1, "failed", "succeeded"),
        ("in_doubt, restore", 1, "failed", "succeeded"),
        ("purged", 1, "failed", "succeeded"),
        ("failed", 1, "succeeded", "failed"),
        ("failed, first unknown", 1, "succeeded", "failed"),
        ("purged, failed", 1, "succeeded", "failed"),
        ("due, first deferred", 1, "succeeded", "no_trace"),
        ("due, first absent", 1, "succeeded", "no_trace"),
        ("claimed, first deferred", 1, "succeeded", "no_trace"),
        ("executing, first deferred", 1, "succeeded", "no_trace"),
        ("in_doubt, first deferred", 1, "succeeded", "no_trace"),
        ("succeeded, first deferred", 1, "succeeded", "no_trace"),
        ("cancelled, first deferred", 1, "succeeded", "no_trace"),
    ],
)
def test_a_late_answer_against_a_verdict_is_told_and_flips_nothing(name, attempt, outcome, decided):
    intent = situation(name)
    assert intent is not None
    following = decide(intent, commands.AnswerLate(attempt=attempt, outcome=outcome), NOW)
    assert following[1:] == [contradicted(attempt, decided, outcome)]
    told = foresee(intent, following, NOW)
    assert told.contradicted
    assert (told.state, told.settled_at, told.last_word) == (
        intent.state,
        intent.settled_at,
        intent.last_word,
    )


@pytest.mark.parametrize("attempt", [0, -1, 2])
def test_an_attempt_that_never_began_has_no_late_answer(attempt):
    answer = commands.AnswerLate(attempt=attempt, outcome="succeeded")
    assert refuses(situation("in_doubt"), answer)


def test_a_late_answer_brings_no_body_back_to_what_is_purged():
    answer = commands.AnswerLate(attempt=1, outcome="succeeded", body="d4735e3a")
    assert decide(situation("purged"), answer, NOW) == [
        events.AnsweredLate(attempt=1, outcome="succeeded", body=None)
    ]


def test_what_was_contradicted_does_not_begin_again_before_a_person_has_decided():
    proof = (recorded(), *running(1), deferred(1))
    denied = (late(1, "succeeded"), contradicted(1, "no_trace", "succeeded"))
    intent = given(*proof, *denied, claimed())
    assert why_not_begin(intent, NOW) == "contradicted"
    assert refuses(intent, commands.Begin(lease=MINUTE))
    stuck = after(intent, commands.Park(cause="contradicted"))
    again = after(stuck, commands.Requeue(cause="person", by="dana"))
    assert not again.contradicted
    assert why_not_begin(foresee(again, [claimed()], NOW), NOW) is None
    # It may have happened all the same, so nobody is told that it never will.
    assert again.attempts_unknown == (1,)
    assert refuses(again, commands.Cancel(by="dana"))


def test_a_provider_that_denies_an_answer_does_not_settle_the_contradiction():
    disputed = situation("in_doubt, contradicted")
    absent = after(disputed, commands.Requeue(cause="absent"))
    assert (absent.attempts_unknown, absent.contradicted) == ((), True)
    assert not is_cancellable(absent)
    assert refuses(absent, commands.Cancel(by="dana"))


def test_a_person_settles_a_contradiction():
    proof = (recorded(), *running(1), deferred(1))
    denied = (late(1, "succeeded"), contradicted(1, "no_trace", "succeeded"))
    stuck = given(*proof, *denied, claimed(), parked(1, "contradicted"))
    for verdict in (
        commands.Succeed(result=None, source="person", by="dana"),
        commands.Fail(code="provider_rejected", source="person", by="dana"),
    ):
        settled = after(stuck, verdict)
        assert (settled.contradicted, settled.attempts_unknown) == (False, ())
