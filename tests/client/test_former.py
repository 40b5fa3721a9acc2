"""A row's key changes in a deploy, and nothing that was done becomes undone by it."""

import pytest

from takeback.declare import RUN, Key, window
from takeback.declare.effect import hours

WAS = Key(("to", "subject"))
IS = Key(("to",), version=2, former=(WAS,))
FINER = Key(("to", "subject", "note"), version=2, former=(WAS,))
LETTER = {"to": "r-1", "subject": "due", "note": "n"}


def app_with(desk, key, **said):
    return desk.make_app(changed={"send_letter": {"key": key, **said}})


@pytest.mark.parametrize("key", [IS, FINER], ids=["coarser", "finer"])
def test_what_was_done_before_the_deploy_is_found_after_it(desk, caller, key):
    first = app_with(desk, WAS).call(None, "send_letter", LETTER)
    told = caller.call(app_with(desk, key), "send_letter", LETTER)
    caller.commit()
    assert (told.ref, told.replayed) == (first.ref, True)
    assert desk.counts()["intents"] == 1


@pytest.mark.parametrize("key", [IS, FINER], ids=["coarser", "finer"])
def test_a_retry_through_a_process_of_the_release_before_is_found_too(desk, caller, key):
    """In a rolling deploy the first call and its retry may meet different releases."""
    before, after = app_with(desk, WAS), app_with(desk, key)
    first = caller.call(after, "send_letter", LETTER)
    told = caller.call(before, "send_letter", LETTER)
    caller.commit()
    assert (told.ref, told.replayed) == (first.ref, True)
    assert before.call(None, "send_letter", LETTER).ref == first.ref
    assert desk.counts()["intents"] == 1


def test_what_only_the_earlier_recipe_takes_for_one_call_is_two(desk):
    """By the recipe of today the note tells them apart: the second is no repeat of the first."""
    before, after = app_with(desk, WAS), app_with(desk, FINER)
    first = before.call(None, "send_letter", LETTER)
    other = after.call(None, "send_letter", LETTER | {"note": "m"})
    assert (other.status, other.replayed) == ("scheduled", False)
    assert other.ref != first.ref
    assert after.call(None, "send_letter", LETTER | {"note": "m"}).ref == other.ref
    assert after.call(None, "send_letter", LETTER).ref == first.ref
    assert desk.counts()["intents"] == 2


def test_what_is_forgotten_still_keeps_its_former_key(desk):
    """A stub keeps the key: of its arguments nothing is left that could be compared."""
    first = app_with(desk, WAS).call(None, "send_letter", LETTER)
    desk.rows("DELETE FROM takeback.bodies")
    told = app_with(desk, FINER).call(None, "send_letter", LETTER | {"note": "m"})
    assert (told.ref, told.replayed) == (first.ref, True)


def test_a_recipe_of_runs_is_looked_up_in_the_run(desk):
    of_runs = Key(("to", "subject"), scope=RUN)
    after = app_with(desk, Key(("to", "subject"), version=2, former=(of_runs,)))
    before = app_with(desk, of_runs)
    first = before.call(None, "send_letter", LETTER, run="r-1")
    assert after.call(None, "send_letter", LETTER, run="r-1").ref == first.ref
    assert after.call(None, "send_letter", LETTER | {"to": "r-2"}).replayed is False


def test_several_former_recipes_are_all_looked_up(desk):
    older = Key(("to", "subject", "note"))
    newer = Key(("to", "subject"), version=2, former=(older,))
    newest = Key(("to",), version=3, former=(newer.former[0], Key(("to", "subject"), version=2)))
    first = app_with(desk, older).call(None, "send_letter", LETTER)
    second = app_with(desk, newer).call(None, "send_letter", LETTER | {"to": "r-2"})
    app = app_with(desk, newest)
    assert app.call(None, "send_letter", LETTER).ref == first.ref
    assert app.call(None, "send_letter", LETTER | {"to": "r-2"}).ref == second.ref


def test_meaning_it_twice_is_meant_across_the_deploy(desk):
    before, after = app_with(desk, WAS), app_with(desk, IS)
    first = before.call(None, "send_letter", LETTER)
    again = after.call(None, "send_letter", LETTER, repeat_of=first.ref)
    assert again.replayed is False
    assert before.call(None, "send_letter", LETTER, repeat_of=first.ref).ref == again.ref
    assert desk.counts()["intents"] == 2


def test_many_calls_find_what_was_done_before_the_deploy(desk, joined):
    from takeback import Call

    first = app_with(desk, WAS).call(None, "send_letter", LETTER)
    calls = [Call(tool="send_letter", arguments=LETTER | {"to": to}) for to in ("r-1", "r-2")]
    told = joined.call_many(app_with(desk, IS), calls)
    joined.commit()
    assert [one.replayed for one in told] == [True, False]
    assert told[0].ref == first.ref
    back = joined.call_many(app_with(desk, WAS), calls)
    assert [one.ref for one in back] == [one.ref for one in told]


def test_another_argument_outside_the_key_is_told_across_the_deploy(desk):
    first = app_with(desk, WAS).call(None, "send_letter", LETTER)
    told = app_with(desk, IS).call(None, "send_letter", LETTER | {"subject": "due", "note": "m"})
    assert told.ref == first.ref
    assert [d["field"] for d in told["differs"]] == ["note"]


def test_a_window_that_is_over_opens_a_generation_whichever_recipe_recorded(desk):
    of_a_day = Key(("to", "subject"), scope=window(hours(24)))
    after = app_with(desk, Key(("to",), version=2, scope=window(hours(24)), former=(of_a_day,)))
    first = app_with(desk, of_a_day).call(None, "send_letter", LETTER)
    assert after.call(None, "send_letter", LETTER).ref == first.ref
    desk.shift(hours(25))
    desk.work()
    anew = after.call(None, "send_letter", LETTER)
    assert anew.replayed is False
    assert after.call(None, "send_letter", LETTER).ref == anew.ref


def test_a_recipe_that_is_dropped_while_intents_use_it_is_named(desk):
    for number in range(3):
        app_with(desk, WAS).call(None, "send_letter", LETTER | {"to": f"r-{number}"})
    dropped = app_with(desk, Key(("to",), version=2))
    (lost,) = dropped.unfound()
    assert (lost.tool, lost.intents, lost.looked_at) == ("send_letter", 3, 3)
    assert app_with(desk, IS).unfound() == []
    assert app_with(desk, WAS).unfound() == []


def test_a_key_secret_that_was_changed_is_noticed(desk):
    app_with(desk, WAS).call(None, "send_letter", LETTER)
    changed = desk.make_app(key_secret="a secret of sixteen")
    assert [one.tool for one in changed.unfound()] == ["send_letter"]


def test_a_new_generation_is_found_through_either_catalog(desk):
    of_a_day = Key(("to", "subject"), scope=window(hours(24)))
    before = app_with(desk, of_a_day)
    after = app_with(desk, Key(("to",), version=2, scope=window(hours(24)), former=(of_a_day,)))
    before.call(None, "send_letter", LETTER)
    desk.shift(hours(25))
    desk.work()
    anew = after.call(None, "send_letter", LETTER)
    told = before.call(None, "send_letter", LETTER)
    assert (told.ref, told.replayed) == (anew.ref, True)
    assert desk.counts()["intents"] == 2
