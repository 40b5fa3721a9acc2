"""A repeat is answered from the first call: it is never done again, nor answered with another's."""

import threading
from datetime import timedelta

import pytest

from takeback import NotDispatched, Rejected
from takeback.model.moment import iso
from tests.client.desk import in_thread

LETTER = {"to": "dana@example.com", "subject": "hello"}
REFUND = {"charge": "c1", "amount": 100, "currency": "EUR"}
ABOUT_THE_REPEAT = {"replayed", "first_called_at", "again"}


def lean(envelope):
    """What the two answers to equal calls have to have in common, byte by byte."""
    return {name: value for name, value in envelope.items() if name not in ABOUT_THE_REPEAT}


def assert_replayed(first, repeat):
    assert lean(repeat) == lean(first)
    assert (first["replayed"], repeat["replayed"]) == (False, True)
    assert repeat["again"] == {"repeat_of": first.ref}
    assert repeat["first_called_at"]
    assert repeat["trace_id"] == first["trace_id"]


def test_a_repeat_of_a_held_call_is_the_same_answer(desk, holder):
    first = holder.call(desk.app, "send_letter", LETTER)
    assert_replayed(first, holder.call(desk.app, "send_letter", LETTER))
    holder.commit()
    assert_replayed(first, holder.call(desk.app, "send_letter", LETTER))
    assert list(desk.states()) == [first.ref]


def test_a_repeat_of_a_local_call_is_the_same_answer(desk, holder):
    first = holder.call(desk.app, "delete_book", {"book": "b1"})
    assert_replayed(first, holder.call(desk.app, "delete_book", {"book": "b1"}))
    holder.commit()
    assert_replayed(first, desk.app.call(None, "delete_book", {"book": "b1"}))


def test_a_repeat_of_a_call_that_waits_for_approval_is_the_same_answer(desk):
    over = REFUND | {"amount": 60_000}
    first = desk.app.call(None, "refund", over)
    assert first.status == "needs_approval"
    assert_replayed(first, desk.app.call(None, "refund", over))


def test_a_repeat_after_the_worker_says_what_came_of_it(desk):
    first = desk.app.call(None, "refund", REFUND)
    desk.work()
    repeat = desk.app.call(None, "refund", REFUND)
    assert (repeat.status, repeat.ref, repeat["replayed"]) == ("done", first.ref, True)
    assert lean(repeat) == lean(desk.app.call(None, "refund", REFUND))
    assert desk.world.done == [("refund", 100)]


def test_a_task_that_is_run_again_refunds_once(desk):
    """crewAI #5802: tools ran again when the task that had called them was retried."""

    def task(fails):
        envelope = desk.app.call(None, "refund", REFUND)
        desk.work()
        if fails:
            raise RuntimeError("after the refund, the task fails")
        return envelope

    with pytest.raises(RuntimeError):
        task(fails=True)
    second = task(fails=False)
    assert desk.world.done == [("refund", 100)]
    assert second["replayed"] is True
    assert list(desk.states()) == [second.ref]


def test_equal_calls_from_other_processes_are_one(desk, players):
    """agentmail-mcp #49: the client timed out and called again, from another process."""
    answers = players.call([1, 1], "send_letter", LETTER)
    assert len({answer["ref"] for answer in answers}) == 1
    assert sorted(answer["replayed"] for answer in answers) == [False, True]
    assert len(desk.states()) == 1


def test_the_key_does_not_depend_on_the_locale_of_the_process(desk, players):
    """spliit-cloud #68: the canonical form depended on the locale."""
    arguments = {"to": "İstanbul ıI ß", "subject": "Grüße \U0001f4ee"}
    answers = players.call([1, 1, 1, 1], "send_letter", arguments)
    assert len({answer["ref"] for answer in answers}) == 1
    assert len(desk.states()) == 1


def test_fifty_equal_calls_from_four_processes_are_one_and_all_get_its_ref(desk, players):
    """S2.8: mastodon #37879: the second request came before the first had ended."""
    answers = players.call([13, 13, 12, 12], "refund", REFUND, run="run-1")
    assert len(answers) == 50
    assert {answer["status"] for answer in answers} == {"scheduled"}
    assert {answer["ref"] for answer in answers} == set(desk.states())
    assert len(desk.states()) == 1
    assert sorted(answer["replayed"] for answer in answers) == [False] + [True] * 49
    assert desk.counts() == {"intents": 1, "events": 1, "bodies": 1}


def test_fifty_equal_local_calls_from_four_processes_change_the_row_once(desk, players):
    arguments = {"book": "b1", "title": "Persuasion"}
    answers = players.call([13, 13, 12, 12], "rename_book", arguments)
    assert {answer["status"] for answer in answers} == {"done"}
    assert len({answer["ref"] for answer in answers}) == 1
    assert desk.book("b1")[1] == "Persuasion"
    assert len(desk.states()) == 1


# ── other arguments under the same key ───────────────────────────────────────────────────────────


def assert_conflict(envelope, first, field, was, now):
    assert (envelope.status, envelope.code) == ("refused", "key_conflict")
    assert (envelope["effect"], envelope["repeat_can_succeed"]) == ("none", False)
    assert envelope.ref == first.ref
    assert envelope["again"] == {"repeat_of": first.ref}
    (violation,) = envelope.error["violations"]
    assert (violation["field"], violation["first"], violation["received"]) == (field, was, now)
    assert field in envelope.error["message"]


def test_another_reason_is_a_conflict_while_the_first_is_held_in_flight_and_after(desk):
    """idempot-js #183, ravel #1653: found out late, or answered silently."""
    begun, go_on = threading.Event(), threading.Event()

    def perform(arguments, attempt):
        begun.set()
        assert go_on.wait(20)

    desk.case("slow", perform)
    first = desk.app.call(None, "deliver", {"case": "slow", "note": "a"})
    other = {"case": "slow", "note": "b"}
    assert_conflict(desk.app.call(None, "deliver", other), first, "note", "a", "b")
    with in_thread(desk.work):
        assert begun.wait(20)
        assert desk.state(first.ref) == "executing"
        assert_conflict(desk.app.call(None, "deliver", other), first, "note", "a", "b")
        go_on.set()
    assert desk.state(first.ref) == "succeeded"
    assert_conflict(desk.app.call(None, "deliver", other), first, "note", "a", "b")
    assert desk.plays["slow"].performed == 1


def test_another_reason_is_a_conflict_in_the_same_transaction(desk, holder):
    first = holder.call(desk.app, "refund", REFUND | {"reason": "duplicate"})
    told = holder.call(desk.app, "refund", REFUND | {"reason": "fraudulent"})
    assert_conflict(told, first, "reason", "duplicate", "fraudulent")
    holder.commit()
    assert list(desk.states()) == [first.ref]


def test_a_default_that_is_spelled_out_is_no_difference(desk):
    first = desk.app.call(None, "refund", REFUND)
    again = desk.app.call(None, "refund", REFUND | {"reason": "requested"})
    assert (again.ref, again["replayed"]) == (first.ref, True)


def test_a_row_that_says_differs_answers_from_the_first_and_names_both_values(desk, holder):
    first = holder.call(desk.app, "send_letter", LETTER | {"note": "a"})
    told = holder.call(desk.app, "send_letter", LETTER | {"note": "b"})
    assert (told.ref, told["replayed"]) == (first.ref, True)
    assert told["differs"] == [{"field": "note", "first": "a", "now": "b"}]
    assert "differs" not in holder.call(desk.app, "send_letter", LETTER | {"note": "a"})


def test_arguments_of_an_earlier_version_are_compared_as_this_one_understands_them(desk):
    """What a deploy adds with a default is no difference to what was recorded before it."""
    first = desk.app.call(None, "refund", REFUND)
    stored = '{"amount":100,"charge":"c1","currency":"EUR"}'
    desk.rows("UPDATE takeback.bodies SET body = %s", stored)
    again = desk.app.call(None, "refund", REFUND)
    assert (again.status, again.ref) == ("scheduled", first.ref)


@pytest.mark.parametrize(
    "tool, arguments, other",
    [
        ("refund", REFUND, REFUND | {"reason": "duplicate"}),
        ("set_state", {"book": "b1", "state": "out"}, None),
        ("act", {"case": "x"}, {"case": "x", "note": "b"}),
    ],
)
def test_what_a_later_release_recorded_is_repeated_by_an_earlier_one_as_well_as_it_can(
    desk, tool, arguments, other
):
    """In the middle of a deploy both answer: a retry that meets the other one is still a retry."""
    desk.case("x")
    first = desk.app.call(None, tool, arguments)
    desk.rows("UPDATE takeback.intents SET tool_version = 99")
    again = desk.app.call(None, tool, arguments)
    assert (again.ref, again["replayed"]) == (first.ref, True)
    if other is not None:
        assert desk.app.call(None, tool, other).code == "key_conflict"
    assert len(desk.states()) == 1


# ── meaning it twice ─────────────────────────────────────────────────────────────────────────────


def test_two_equal_partial_refunds_are_two_however_often_each_is_retried(desk):
    """saleor/apps #2446: a key too coarse blocked the second of two equal partial refunds."""
    first = desk.app.call(None, "refund", REFUND)
    again = REFUND | first_again(desk.app.call(None, "refund", REFUND))
    second = desk.app.call(None, "refund", again)
    assert second.ref != first.ref
    for _ in range(3):
        assert desk.app.call(None, "refund", REFUND).ref == first.ref
        assert desk.app.call(None, "refund", again).ref == second.ref
    desk.work()
    for _ in range(2):
        assert desk.app.call(None, "refund", REFUND).ref == first.ref
        assert desk.app.call(None, "refund", again).ref == second.ref
    desk.work()
    assert desk.world.done == [("refund", 100), ("refund", 100)]


def first_again(envelope):
    return envelope["again"]


def test_a_third_one_is_a_repeat_of_the_second(desk, holder):
    first = holder.call(desk.app, "refund", REFUND)
    second = holder.call(desk.app, "refund", REFUND, repeat_of=first.ref)
    third = holder.call(desk.app, "refund", REFUND, repeat_of=second.ref)
    assert len({first.ref, second.ref, third.ref}) == 3
    assert holder.call(desk.app, "refund", REFUND, repeat_of=second.ref).ref == third.ref


def test_a_ref_spelled_sloppily_means_the_same_repeat(desk):
    first = desk.app.call(None, "refund", REFUND)
    second = desk.app.call(None, "refund", REFUND, repeat_of=first.ref)
    tool, _, code = first.ref.rpartition("-")
    sloppy = f"  {tool}-{code.lower()} "
    assert desk.app.call(None, "refund", REFUND, repeat_of=sloppy).ref == second.ref


@pytest.mark.parametrize(
    "ref",
    [
        "refund-00000000",
        "refund-7F3K9QDN",
        "refund",
        "",
        "-",
        "refund-\0",
        "refund-\ud800",
        "DROP TABLE takeback.intents",
        "refund-" + "7" * 10_000,
    ],
)
def test_a_repeat_of_a_ref_that_is_none_is_refused(desk, ref):
    desk.app.call(None, "refund", REFUND)
    told = desk.app.call(None, "refund", REFUND, repeat_of=ref)
    assert told.code == "no_such_ref"
    assert len(told.to_json()) < 1000
    assert len(desk.states()) == 1


def test_a_repeat_of_a_mistyped_ref_names_the_nearest(desk):
    first = desk.app.call(None, "refund", REFUND)
    mistyped = first.ref[:-1] + ("0" if first.ref[-1] != "0" else "1")
    told = desk.app.call(None, "refund", REFUND, repeat_of=mistyped)
    assert told.code == "no_such_ref"
    assert told.error["alternatives"] == [first.ref]
    assert len(desk.states()) == 1


def test_a_repeat_of_another_call_is_refused(desk, holder):
    """A model can't get round the key by naming whatever ref it has seen."""
    letter = holder.call(desk.app, "send_letter", LETTER)
    other = holder.call(desk.app, "refund", REFUND | {"amount": 200})
    for ref in (letter.ref, other.ref):
        told = holder.call(desk.app, "refund", REFUND, repeat_of=ref)
        assert told.code == "invalid_argument"
        (violation,) = told.error["violations"]
        assert violation["field"] == "repeat_of"
        assert "charge, amount, currency" in violation["message"]
    assert len(desk.states()) == 0


def test_a_repeat_is_known_by_its_key_where_its_arguments_are_forgotten(desk):
    first = desk.app.call(None, "refund", REFUND)
    desk.rows("DELETE FROM takeback.bodies")
    told = desk.app.call(None, "refund", REFUND | {"amount": 200}, repeat_of=first.ref)
    assert told.code == "invalid_argument"
    assert desk.app.call(None, "refund", REFUND, repeat_of=first.ref).status == "scheduled"


def test_a_repeat_of_another_tenants_call_is_refused(desk):
    theirs = desk.make_app(tenant="theirs").call(None, "refund", REFUND)
    assert desk.app.call(None, "refund", REFUND, repeat_of=theirs.ref).code == "no_such_ref"


@pytest.mark.parametrize("value", [7, ["refund-00000000"], {"ref": 1}, True])
def test_a_repeat_of_what_is_no_text_is_refused_by_name(desk, value):
    told = desk.app.call(None, "refund", REFUND | {"repeat_of": value})
    assert told.code == "invalid_argument"
    assert [v["field"] for v in told.error["violations"]] == ["repeat_of"]


def test_two_different_repeats_in_one_call_are_refused(desk):
    first = desk.app.call(None, "refund", REFUND)
    second = desk.app.call(None, "refund", REFUND, repeat_of=first.ref)
    told = desk.app.call(None, "refund", REFUND | {"repeat_of": first.ref}, repeat_of=second.ref)
    assert told.code == "invalid_argument"
    agreed = desk.app.call(None, "refund", REFUND | {"repeat_of": first.ref}, repeat_of=first.ref)
    assert agreed.ref == second.ref


# ── what stays ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "tool, arguments", [("send_letter", LETTER), ("delete_book", {"book": "b1"})]
)
def test_taken_back_stays_taken_back_whoever_retries(desk, tool, arguments):
    first = desk.app.call(None, tool, arguments)
    desk.app.restore(None, first.ref, principal="dana")
    taken_back_at = desk.app.show(first.ref).entry.intent.settled_at
    desk.shift(timedelta(minutes=5))
    retry = desk.app.call(None, tool, arguments)
    assert (retry.status, retry.ref, retry["replayed"]) == ("taken_back", first.ref, True)
    assert (retry["taken_back_by"], retry["taken_back_at"]) == ("dana", iso(taken_back_at))
    assert retry["again"] == {"repeat_of": first.ref}
    assert retry.restore is None
    desk.shift(timedelta(hours=1))
    desk.work()
    assert desk.world.done == []
    assert desk.book("b1") is not None
    anew = desk.app.call(None, tool, arguments, repeat_of=first.ref)
    assert anew.status in ("scheduled", "done")
    assert anew.ref != first.ref


def test_what_the_provider_refused_stays_refused(desk):
    desk.world.troubles.append(Rejected("over the ceiling", alternatives=[{"amount": 50}]))
    first = desk.app.call(None, "refund", REFUND)
    desk.work()
    for _ in range(2):
        retry = desk.app.call(None, "refund", REFUND)
        assert (retry.status, retry.code, retry.ref) == ("refused", "provider_rejected", first.ref)
        assert retry.error["alternatives"] == [{"amount": 50}]
        assert (retry["effect"], retry["repeat_can_succeed"]) == ("none", False)
    desk.work()
    assert desk.world.done == []


def test_what_nobody_knows_is_not_done_again(desk):
    desk.case("gone", lambda arguments, attempt: 1 / 0)
    first = desk.app.call(None, "deliver", {"case": "gone"})
    desk.work()
    retry = desk.app.call(None, "deliver", {"case": "gone"})
    assert (retry.status, retry.ref, retry["effect"]) == ("in_doubt", first.ref, "unknown")
    assert retry["repeat_can_succeed"] is False
    desk.work()
    assert desk.plays["gone"].performed == 1


def test_what_waits_for_its_provider_is_retried_by_the_engine_and_not_by_the_model(desk):
    desk.world.troubles.append(NotDispatched("refused"))
    first = desk.app.call(None, "refund", REFUND)
    desk.work()
    retry = desk.app.call(None, "refund", REFUND)
    assert (retry.status, retry.ref) == ("scheduled", first.ref)
    desk.shift(timedelta(hours=1))
    desk.work()
    assert desk.app.call(None, "refund", REFUND).status == "done"
    assert desk.world.done == [("refund", 100)]


def test_a_key_that_a_model_mints_is_refused_as_unknown(desk):
    """square-mcp-server #31: the tool's text told the model to mint a fresh key per request."""
    told = desk.app.call(None, "refund", REFUND | {"idempotency_key": "fresh-1"})
    assert told.code == "unknown_argument"
    (violation,) = told.error["violations"]
    assert violation["field"] == "idempotency_key"
    assert violation["received"] == "fresh-1"
    assert desk.is_empty()


@pytest.mark.parametrize("name", ["force", "confirm"])
def test_nothing_confirms_itself(desk, name):
    told = desk.app.call(None, "refund", REFUND | {name: True})
    assert told.code == "unknown_argument"
    assert desk.is_empty()


def test_time_is_in_no_key(desk):
    """flexprice #2488: a timestamp stood inside a derived key."""
    first = desk.app.call(None, "refund", REFUND)
    for span in (timedelta(seconds=1), timedelta(hours=24), timedelta(days=400)):
        desk.shift(span)
        assert desk.app.call(None, "refund", REFUND).ref == first.ref
    assert len(desk.states()) == 1


def test_tenants_do_not_share_keys_or_refs(desk):
    ours = desk.app.call(None, "refund", REFUND)
    other = desk.make_app(tenant="theirs")
    theirs = other.call(None, "refund", REFUND)
    assert theirs["replayed"] is False
    assert theirs.ref != ours.ref
    assert other.status(ours.ref).code == "no_such_ref"
    assert other.restore(None, ours.ref).code == "no_such_ref"
    assert [line["ref"] for line in other.list()] == [theirs.ref]


def test_a_key_secret_keeps_arguments_from_being_guessed_out_of_keys(desk):
    plain = desk.app.call(None, "refund", REFUND)
    secret = desk.make_app(tenant="secret", key_secret="0123456789abcdef")
    first = secret.call(None, "refund", REFUND)
    assert secret.call(None, "refund", REFUND).ref == first.ref != plain.ref
    other = desk.make_app(tenant="secret", key_secret="fedcba9876543210")
    assert other.call(None, "refund", REFUND).ref != first.ref
    keys = [key for (key,) in desk.rows("SELECT key FROM takeback.intents")]
    assert len(set(keys)) == 3
