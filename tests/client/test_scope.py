"""How far a key reaches: for ever, within a run, for a while, or as long as the effect stands."""

from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from takeback import Rejected
from takeback.declare import Approval, Key, Read, window
from tests.client.catalog import CATALOG
from tests.client.desk import Pauses
from tests.client.every_state import CASE, FINAL, LARGE, STATES, refuse

OUT = {"book": "b1", "state": "out"}
SOMEBODY_PUTS_IT_BACK = "UPDATE desk.books SET state = 'in' WHERE id = 'b1'"
WINDOWED = {"deliver": {"key": Key(("case",), scope=window(timedelta(hours=24)))}}
GENERATIONS = "SELECT generation FROM takeback.intents ORDER BY generation"


def generations(desk):
    return [generation for (generation,) in desk.rows(GENERATIONS)]


# ── a run ────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_is_once_per_run_needs_a_run(desk, holder):
    for run in (None, "", "two words", "a\nb", "\ud800", "x" * 201, 7):
        told = holder.call(desk.app, "remind", {"who": "dana"}, run=run)
        assert told.code == "invalid_argument"
        assert [v["field"] for v in told.error["violations"]] == ["run"]
    assert desk.is_empty()


def test_a_call_that_is_once_per_run_is_anew_in_another_run(desk):
    first = desk.app.call(None, "remind", {"who": "dana"}, run="run-1")
    assert desk.app.call(None, "remind", {"who": "dana"}, run="run-1").ref == first.ref
    other = desk.app.call(None, "remind", {"who": "dana"}, run="run-2")
    assert other["replayed"] is False
    assert len(desk.states()) == 2


def test_where_a_key_is_for_ever_the_run_does_not_matter(desk):
    letter = {"to": "dana", "subject": "hello"}
    first = desk.app.call(None, "send_letter", letter, run="run-1")
    assert desk.app.call(None, "send_letter", letter, run="run-2").ref == first.ref
    assert desk.app.call(None, "send_letter", letter).ref == first.ref


def test_a_repeat_that_is_meant_stays_in_its_run(desk):
    first = desk.app.call(None, "remind", {"who": "dana"}, run="run-1")
    again = desk.app.call(None, "remind", {"who": "dana"}, run="run-1", repeat_of=first.ref)
    assert again.ref != first.ref
    retried = desk.app.call(None, "remind", {"who": "dana"}, run="run-1", repeat_of=first.ref)
    assert retried.ref == again.ref


# ── a while ──────────────────────────────────────────────────────────────────────────────────────


def test_a_retry_across_midnight_and_up_to_the_edge_of_the_window_is_the_same_call(desk):
    """flexprice #2488: a timestamp stood inside a derived key."""
    first = desk.app.call(None, "digest", {"who": "dana"})
    to_midnight = desk.value(
        "SELECT date_trunc('day', takeback.now(), 'UTC') + '1 day' - takeback.now()"
    )
    desk.shift(to_midnight + timedelta(seconds=1))
    assert desk.app.call(None, "digest", {"who": "dana"}).ref == first.ref
    desk.shift(timedelta(hours=24) - to_midnight - timedelta(minutes=1))
    assert desk.app.call(None, "digest", {"who": "dana"}).ref == first.ref
    assert len(desk.states()) == 1


def test_beyond_the_window_the_next_generation_opens(desk, holder):
    first = holder.call(desk.app, "digest", {"who": "dana"})
    holder.commit()
    desk.shift(timedelta(hours=24, seconds=1))
    desk.work()
    second = holder.call(desk.app, "digest", {"who": "dana"})
    assert (second["replayed"], second.status) == (False, "scheduled")
    assert second.ref != first.ref
    assert holder.call(desk.app, "digest", {"who": "dana"}).ref == second.ref
    holder.commit()
    desk.shift(timedelta(hours=24, seconds=1))
    desk.work()
    third = holder.call(desk.app, "digest", {"who": "dana"})
    holder.commit()
    assert list(desk.states()) == [first.ref, second.ref, third.ref]
    assert generations(desk) == [0, 1, 2]


def test_two_callers_at_the_edge_of_a_window_open_one_generation(desk, callers):
    desk.app.call(None, "digest", {"who": "dana"})
    desk.shift(timedelta(hours=25))
    desk.work()
    app = desk.make_app(pauses=Pauses())
    one, two = callers(), callers()
    opened = one.call(app, "digest", {"who": "dana"})
    assert two.call(app, "digest", {"who": "dana"}).code == "in_progress"
    one.commit()
    assert two.call(app, "digest", {"who": "dana"}).ref == opened.ref
    assert generations(desk) == [0, 1]


OVER = frozenset(name for name in STATES if name.removeprefix("purged_") in FINAL)


@pytest.mark.parametrize("name", STATES)
def test_beyond_the_window_only_what_is_over_is_followed_by_another(desk, name):
    """Else both would be approved, or sent: a repeat means whatever may still come about."""
    desk.app = desk.make_app(
        changed={
            tool.name: {"key": replace(tool.recipe, scope=window(timedelta(hours=1)))}
            for tool in CATALOG
            if not isinstance(tool.effect, Read)
        }
    )
    state, bring = STATES[name]
    tool, arguments = bring(desk)
    before = desk.states()
    first = next(iter(before))
    assert before[first] == state
    desk.shift(timedelta(hours=2))

    told = desk.app.call(None, tool, arguments)

    assert (told.ref != first) == (name in OVER)
    assert told["replayed"] == (name not in OVER)
    assert len(desk.states()) == len(before) + (name in OVER)


def test_a_request_that_stays_open_beyond_the_window_is_approved_and_done_once(desk):
    asks = Approval(argument="amount", over=50_000, expires=timedelta(days=7))
    key = Key(("charge", "amount", "currency"), scope=window(timedelta(hours=24)))
    desk.app = desk.make_app(changed={"refund": {"approval": asks, "key": key}})
    first = desk.app.call(None, "refund", LARGE)
    desk.shift(timedelta(hours=25))
    second = desk.app.call(None, "refund", LARGE)
    assert (second.ref, second.status) == (first.ref, "needs_approval")
    for ref in desk.states():
        desk.app.approve(None, ref, principal="mo")
    desk.work()
    assert [what for what, _ in desk.world.done] == ["refund"]
    desk.shift(timedelta(hours=25))
    assert desk.app.call(None, "refund", LARGE).ref != first.ref


def test_what_was_made_again_is_not_tried_again(desk):
    """Both would happen: a person is told which call came after it."""
    desk.app = desk.make_app(changed=WINDOWED)
    desk.case("x", refuse)
    first = desk.app.call(None, "deliver", CASE)
    desk.work()
    desk.shift(timedelta(hours=25))
    second = desk.app.call(None, "deliver", CASE)
    told = desk.app.retry(None, first.ref, principal="mo")
    assert (told.code, desk.state(first.ref)) == ("wrong_state", "failed")
    assert second.ref in told.error["message"]
    desk.work()
    assert desk.app.retry(None, second.ref, principal="mo").status == "scheduled"


def test_who_makes_it_again_and_who_has_it_tried_again_are_one_race(desk, callers):
    """Whoever comes first keeps the row of what has failed; the other is told to come again."""
    desk.app = desk.make_app(changed=WINDOWED, pauses=Pauses())
    desk.case("x", refuse)
    first = desk.app.call(None, "deliver", CASE)
    desk.work()
    desk.shift(timedelta(hours=25))
    one = callers()

    anew = one.call(desk.app, "deliver", CASE)
    assert desk.app.retry(None, first.ref, principal="mo").code == "in_progress"
    one.rollback()
    assert anew.ref not in desk.states()

    with psycopg.connect(desk.url) as person:
        assert desk.app.retry(person, first.ref, principal="mo").status == "scheduled"
        assert one.call(desk.app, "deliver", CASE).code == "in_progress"
        one.rollback()
    told = one.call(desk.app, "deliver", CASE)
    assert (told.ref, told["replayed"]) == (first.ref, True)


# ── as long as it stands ─────────────────────────────────────────────────────────────────────────


def test_a_repeat_while_the_effect_stands_is_a_replay_for_everybody(desk, holder):
    first = holder.call(desk.app, "set_state", OUT, run="run-1", principal="agent:a")
    holder.commit()
    for run, principal in (("run-1", "agent:a"), ("run-2", "agent:b"), (None, "dana")):
        told = holder.call(desk.app, "set_state", OUT, run=run, principal=principal)
        assert (told.ref, told["replayed"], told.status) == (first.ref, True, "done")
        assert "stands" not in told
    desk.shift(timedelta(days=400))
    assert holder.call(desk.app, "set_state", OUT).ref == first.ref
    holder.commit()
    assert desk.book("b1") == ("b1", "Emma", "out", 2)


def test_when_somebody_changed_it_the_same_run_and_principal_still_hear_of_the_first(desk, holder):
    first = holder.call(desk.app, "set_state", OUT, run="run-1", principal="agent:a")
    holder.commit()
    desk.rows(SOMEBODY_PUTS_IT_BACK)
    desk.shift(timedelta(minutes=9))
    told = holder.call(desk.app, "set_state", OUT, run="run-1", principal="agent:a")
    holder.commit()
    assert (told.ref, told["replayed"], told["stands"]) == (first.ref, True, False)
    assert desk.book("b1")[2] == "in"


@pytest.mark.parametrize(
    "minutes, run, principal",
    [
        (9, "run-2", "agent:a"),
        (9, "run-1", "agent:b"),
        (9, None, "agent:a"),
        (11, "run-1", "agent:a"),
    ],
)
def test_when_somebody_changed_it_another_or_a_later_call_sets_it_again(
    desk, holder, minutes, run, principal
):
    first = holder.call(desk.app, "set_state", OUT, run="run-1", principal="agent:a")
    holder.commit()
    desk.rows(SOMEBODY_PUTS_IT_BACK)
    desk.shift(timedelta(minutes=minutes))
    told = holder.call(desk.app, "set_state", OUT, run=run, principal=principal)
    holder.commit()
    assert (told.status, told["replayed"]) == ("done", False)
    assert told.ref != first.ref
    assert desk.book("b1")[2] == "out"
    assert generations(desk) == [0, 1]
    assert holder.call(desk.app, "set_state", OUT).ref == told.ref


def test_each_generation_has_its_own_restore(desk):
    first = desk.app.call(None, "set_state", OUT)
    desk.app.call(None, "set_state", OUT | {"state": "lost"})
    desk.shift(timedelta(minutes=11))
    second = desk.app.call(None, "set_state", OUT)
    assert second.ref != first.ref
    assert desk.app.restore(None, second.ref).status == "done"
    assert desk.book("b1")[2] == "lost"
    assert desk.app.status(first.ref).status == "done"


def test_what_was_taken_back_is_not_set_again_by_a_late_retry_of_the_same_run(desk):
    first = desk.app.call(None, "set_state", OUT, run="run-1", principal="agent:a")
    desk.app.restore(None, first.ref)
    retry = desk.app.call(None, "set_state", OUT, run="run-1", principal="agent:a")
    assert (retry.ref, retry.status, retry["stands"]) == (first.ref, "taken_back", False)
    assert desk.book("b1")[2] == "in"
    anew = desk.app.call(None, "set_state", OUT, run="run-2", principal="agent:a")
    assert (anew.status, anew["replayed"]) == ("done", False)
    assert desk.book("b1")[2] == "out"


def test_another_note_is_answered_with_both_values_only_while_the_effect_stands(desk):
    first = desk.app.call(None, "set_state", OUT | {"note": "a"})
    told = desk.app.call(None, "set_state", OUT | {"note": "b"})
    assert told["differs"] == [{"field": "note", "first": "a", "now": "b"}]
    desk.rows(SOMEBODY_PUTS_IT_BACK)
    desk.shift(timedelta(minutes=11))
    anew = desk.app.call(None, "set_state", OUT | {"note": "b"})
    assert anew.ref != first.ref
    assert "differs" not in anew


def test_a_rejection_in_a_later_generation_is_remembered_too(desk, holder):
    play = desk.case("x", drift=lambda session, original: [{"field": "it"}])
    first = holder.call(desk.app, "act_standing", {"case": "x"})
    holder.commit()

    def rejects(session, arguments):
        raise Rejected("not any more")

    play.perform = rejects
    desk.shift(timedelta(minutes=11))
    refused = holder.call(desk.app, "act_standing", {"case": "x"})
    holder.commit()
    assert (refused.status, refused.code) == ("refused", "provider_rejected")
    assert refused.ref != first.ref
    again = holder.call(desk.app, "act_standing", {"case": "x"})
    assert (again.ref, again["replayed"]) == (refused.ref, True)
    assert play.performed == 2
    assert generations(desk) == [0, 1]


def test_a_drift_check_that_breaks_changes_nothing_and_leaves_the_transaction_usable(desk, holder):
    play = desk.case("x", drift=lambda session, original: 1 / 0)
    first = holder.call(desk.app, "act_standing", {"case": "x"})
    told = holder.call(desk.app, "act_standing", {"case": "x"})
    assert told.code == "internal_error"
    play.drift = None
    again = holder.call(desk.app, "act_standing", {"case": "x"})
    holder.commit()
    assert again.ref == first.ref
    assert play.performed == 1


def test_a_drift_check_may_answer_with_performed(desk):
    """The faces of a handler answer alike: a plain value, or Performed with it."""
    from takeback import Performed

    desk.case("x", drift=lambda session, original: Performed(result=[]))
    first = desk.app.call(None, "act_standing", {"case": "x"})
    assert desk.app.call(None, "act_standing", {"case": "x"}).ref == first.ref
    assert desk.app.restore(None, first.ref).status == "done"


def test_a_missing_row_does_not_stand(desk):
    """The row went away with its state: asking for it again says that there is no such row."""
    desk.app.call(None, "set_state", OUT)
    desk.app.call(None, "delete_book", {"book": "b1"})
    told = desk.app.call(None, "set_state", OUT)
    assert told.code == "invalid_argument"
    assert told.error["violations"][0]["field"] == "book"
