"""Taking back what is in the world: recorded at once, carried out by a worker, and never twice."""

import threading
from datetime import timedelta

import pytest

from takeback import NotDispatched, OutcomeUnknown, Rejected
from takeback.model import command as commands
from tests.client.desk import in_thread

REFUND = {"charge": "c1", "amount": 100, "currency": "EUR"}


@pytest.fixture
def refund(desk):
    """A refund that the provider has carried out."""
    envelope = desk.app.call(None, "refund", REFUND)
    desk.work()
    assert desk.state(envelope.ref) == "succeeded"
    return envelope


def kinds(desk):
    return [what for what, _ in desk.world.done]


def test_restoring_becomes_restored_when_the_worker_is_done(desk, refund):
    told = desk.app.restore(None, refund.ref, principal="dana")
    assert (desk.state(refund.ref), desk.state(told.ref)) == ("restoring", "due")
    desk.work()
    assert (desk.state(refund.ref), desk.state(told.ref)) == ("restored", "succeeded")
    now = desk.app.status(refund.ref)
    assert (now.status, now["taken_back_by"]) == ("taken_back", "dana")
    repeat = desk.app.call(None, "refund", REFUND)
    assert (repeat.status, repeat.ref) == ("taken_back", refund.ref)


def test_the_callers_rollback_takes_the_compensation_along(desk, holder, refund):
    holder.restore(desk.app, refund.ref)
    holder.rollback()
    desk.work()
    assert desk.state(refund.ref) == "succeeded"
    assert kinds(desk) == ["refund"]


def test_while_it_is_on_its_way_everybody_is_told_so(desk, refund):
    told = desk.app.restore(None, refund.ref)
    assert told["no_restore"]
    again = desk.app.restore(None, refund.ref)
    assert (again.ref, again.status, again["replayed"]) == (told.ref, "scheduled", True)
    repeat = desk.app.call(None, "refund", REFUND)
    assert (repeat.status, repeat.restore) == ("in_progress", None)
    undo = desk.app.restore(None, told.ref)
    assert undo.code == "not_restorable"
    assert "taken nothing back yet" in undo.error["message"]


def test_while_it_is_being_carried_out_a_second_wish_is_the_same_wish(desk, refund):
    begun, go_on = threading.Event(), threading.Event()

    def stands_at_the_counter():
        begun.set()
        assert go_on.wait(20)

    told = desk.app.restore(None, refund.ref)
    desk.world.meanwhile = stands_at_the_counter
    with in_thread(desk.work):
        assert begun.wait(20)
        again = desk.app.restore(None, refund.ref)
        go_on.set()
    assert (again.ref, again.status) == (told.ref, "in_progress")
    assert kinds(desk) == ["refund", "charge"]


def test_a_compensation_that_the_provider_rejects_leaves_the_effect_and_may_be_asked_again(
    desk, refund
):
    desk.world.troubles.append(Rejected("the card is closed", alternatives=["bank transfer"]))
    first = desk.app.restore(None, refund.ref)
    desk.work()
    assert (desk.state(refund.ref), desk.state(first.ref)) == ("restore_failed", "failed")
    refused = desk.app.status(first.ref)
    assert (refused.status, refused.code) == ("refused", "provider_rejected")
    assert refused.error["message"] == "the card is closed"
    assert refused.error["alternatives"] == ["bank transfer"]
    stands = desk.app.status(refund.ref)
    assert (stands.status, "taken_back_by" in stands) == ("done", False)
    assert stands.restore["arguments"] == {"ref": refund.ref}
    second = desk.app.restore(None, refund.ref)
    assert (second.status, second["replayed"]) == ("scheduled", False)
    assert second.ref != first.ref
    assert desk.app.restore(None, refund.ref).ref == second.ref
    desk.work()
    assert desk.state(refund.ref) == "restored"
    assert kinds(desk) == ["refund", "charge"]
    assert desk.app.restore(None, first.ref).code == "not_restorable"


def test_a_compensation_may_fail_and_be_asked_again_any_number_of_times(desk, refund):
    refs = set()
    for _ in range(3):
        desk.world.troubles.append(Rejected("not now"))
        refs.add(desk.app.restore(None, refund.ref).ref)
        desk.work()
        assert desk.state(refund.ref) == "restore_failed"
    refs.add(desk.app.restore(None, refund.ref).ref)
    desk.work()
    assert len(refs) == 4
    assert desk.state(refund.ref) == "restored"


def test_a_compensation_that_does_not_get_through_is_tried_again_by_the_engine(desk, refund):
    desk.world.troubles.append(NotDispatched("refused"))
    told = desk.app.restore(None, refund.ref)
    desk.work()
    assert (desk.state(refund.ref), desk.state(told.ref)) == ("restoring", "due")
    desk.shift(timedelta(hours=1))
    desk.work()
    assert desk.state(refund.ref) == "restored"
    assert kinds(desk) == ["refund", "charge"]


@pytest.mark.parametrize("trouble", [OutcomeUnknown("lost"), ZeroDivisionError("lost")])
def test_a_compensation_that_nobody_knows_of_is_not_done_again(desk, refund, trouble):
    desk.world.troubles.append(trouble)
    told = desk.app.restore(None, refund.ref)
    desk.work()
    assert desk.state(told.ref) in ("in_doubt", "due")
    again = desk.app.restore(None, refund.ref)
    assert again.ref == told.ref
    if desk.state(told.ref) == "in_doubt":
        assert (again.status, again["effect"]) == ("in_doubt", "unknown")
        assert again.restore is None
    assert desk.app.call(None, "refund", REFUND).ref == refund.ref
    assert desk.app.restore(None, told.ref).code == "not_restorable"


def test_a_compensation_gets_keys_of_its_own_and_the_same_one_for_each_try(desk):
    seen: list = []

    def perform(arguments, attempt):
        seen.append(("perform", attempt.provider_key))

    def restore(original, attempt):
        seen.append(("restore", attempt.provider_key))
        if len(seen) == 2:
            raise NotDispatched("refused")

    desk.case("x", perform, restore=restore)
    first = desk.app.call(None, "deliver", {"case": "x"})
    desk.work()
    desk.app.restore(None, first.ref)
    desk.work()
    desk.shift(timedelta(hours=1))
    desk.work()
    assert [kind for kind, _ in seen] == ["perform", "restore", "restore"]
    assert seen[1][1] == seen[2][1] != seen[0][1]


def test_a_compensation_of_what_a_person_resolved_as_done_is_handed_no_result(desk):
    """Nobody knows what the provider answered: the restore gets None, and says what it can."""
    handed: list = []
    desk.case(
        "x",
        lambda *_: 1 / 0,
        restore=lambda original, attempt: handed.append(original.result),
    )
    first = desk.app.call(None, "deliver", {"case": "x"})
    desk.work()
    desk.command(first.ref, commands.Succeed(result=None, source="person", by="dana"))
    assert desk.app.status(first.ref).status == "done"
    desk.app.restore(None, first.ref)
    desk.work()
    assert handed == [None]
    assert desk.state(first.ref) == "restored"


@pytest.mark.parametrize("awaiting", [False, True], ids=["plain_faces", "async_faces"])
def test_async_faces_are_carried_out_and_compensated_alike(desk, awaiting):
    app = desk.make_app(awaiting=awaiting)
    refund = app.call(None, "refund", REFUND)
    desk.work(app)
    told = app.restore(None, refund.ref)
    desk.work(app)
    assert app.status(told.ref).status == "done"
    assert kinds(desk) == ["refund", "charge"]
