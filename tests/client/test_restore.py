"""Taking back: what it does to each kind of effect at each stage, or says where it can't."""

import contextlib
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest
from sqlalchemy import text

from takeback import InvalidReference, NotDispatched, Performed, Rejected
from takeback.model import command as commands
from takeback.model.errors import RestoreConflict
from tests.client.desk import in_thread

LETTER = {"to": "dana@example.com", "subject": "hello"}
REFUND = {"charge": "c1", "amount": 100, "currency": "EUR"}
LOST = {"book": "b1", "state": "lost"}

NO_TIME = timedelta(0)


def run(desk, call, **said):
    """The call that an envelope hands back, run verbatim."""
    return desk.app.call(None, call["tool"], call["arguments"], **said)


# ── the table ────────────────────────────────────────────────────────────────────────────────────


def test_what_is_held_is_cancelled_and_never_leaves(desk, holder):
    letter = holder.call(desk.app, "send_letter", LETTER)
    holder.commit()
    assert letter.restore["does"] == "cancels the letter before it leaves"
    restored = holder.restore(desk.app, letter.ref, principal="dana", run="run-2")
    holder.commit()
    assert restored.status == "done"
    assert restored.ref.startswith("restore-")
    assert restored.affected == letter.affected
    assert desk.state(letter.ref) == "cancelled"
    desk.shift(timedelta(hours=1))
    desk.work()
    assert desk.world.done == []
    now = desk.app.status(letter.ref)
    assert (now.status, now["taken_back_by"], now.restore) == ("taken_back", "dana", None)
    assert desk.rows("SELECT run, principal FROM takeback.intents WHERE tool = 'restore'") == [
        ("run-2", "dana")
    ]


def test_what_is_due_and_not_begun_is_cancelled(desk):
    refund = desk.app.call(None, "refund", REFUND)
    assert run(desk, refund.restore).status == "done"
    desk.work()
    assert desk.world.done == []


def test_what_waits_for_approval_is_cancelled(desk):
    refund = desk.app.call(None, "refund", REFUND | {"amount": 60_000})
    assert refund.status == "needs_approval"
    assert run(desk, refund.restore).status == "done"
    assert desk.state(refund.ref) == "cancelled"


def test_what_a_worker_has_claimed_and_not_begun_is_cancelled(desk):
    """A worker with one hand takes more at once after something quick: the rest has to wait."""
    begun, go_on = threading.Event(), threading.Event()

    def perform(arguments, attempt):
        begun.set()
        assert go_on.wait(20)

    desk.case("quick")
    first, second = desk.case("first", perform), desk.case("second", perform)
    _, one, two = [
        desk.app.call(None, "deliver", {"case": case}) for case in ("quick", "first", "second")
    ]
    with in_thread(lambda: desk.work(concurrency=1)):
        assert begun.wait(20)
        claimed = one if desk.state(one.ref) == "claimed" else two
        assert desk.state(claimed.ref) == "claimed"
        told = run(desk, claimed.restore)
        go_on.set()
    assert told.status == "done"
    assert desk.state(claimed.ref) == "cancelled"
    assert first.performed + second.performed == 1


def test_the_returned_call_run_verbatim_brings_back_the_rows_with_their_children(desk, holder):
    """ironclaw #701: an irreversible delete, from a vague prompt."""
    everything = "SELECT * FROM desk.{} ORDER BY id"
    before = [desk.rows(everything.format(table)) for table in ("books", "loans")]
    deleted = holder.call(desk.app, "delete_book", {"book": "b1"})
    holder.commit()
    assert [one["id"] for one in deleted.affected] == ["b1", "l1", "l2"]
    restored = holder.call(desk.app, deleted.restore["tool"], deleted.restore["arguments"])
    holder.commit()
    assert restored.status == "done"
    assert [one["id"] for one in restored.affected] == ["b1", "l1", "l2"]
    assert [desk.rows(everything.format(table)) for table in ("books", "loans")] == before


def test_a_remote_effect_is_compensated_by_a_worker(desk):
    refund = desk.app.call(None, "refund", REFUND)
    desk.work()
    told = run(desk, desk.app.status(refund.ref).restore)
    assert (told.status, told.restore) == ("scheduled", None)
    assert desk.state(refund.ref) == "restoring"
    assert desk.app.status(refund.ref).status == "in_progress"
    assert desk.world.done == [("refund", 100)]
    desk.work()
    assert desk.world.done == [("refund", 100), ("charge", (100, 1))]
    assert desk.app.status(told.ref).status == "done"
    assert desk.app.status(refund.ref).status == "taken_back"


@pytest.mark.parametrize(
    "tool, arguments, state",
    [
        ("send_letter", LETTER, "held"),
        ("delete_book", {"book": "b1"}, "succeeded"),
        ("refund", REFUND, "due"),
    ],
)
def test_a_restore_has_a_restore_of_its_own(desk, tool, arguments, state):
    """zed #28676: restoring was itself destructive."""
    first = desk.app.call(None, tool, arguments)
    restored = run(desk, first.restore)
    assert restored.restore["arguments"] == {"ref": restored.ref}
    redone = run(desk, restored.restore)
    assert redone.status == "done"
    anew = redone["redone"]["ref"]
    assert anew not in (first.ref, restored.ref)
    assert anew in redone.summary
    assert desk.state(anew) == state
    assert desk.state(first.ref) in ("cancelled", "restored")
    assert desk.app.status(restored.ref).status == "taken_back"
    assert redone.restore["arguments"] == {"ref": anew}


# ── again and again ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "tool, arguments",
    [("send_letter", LETTER), ("delete_book", {"book": "b1"}), ("refund", REFUND)],
)
def test_twice_is_once(desk, holder, tool, arguments):
    first = holder.call(desk.app, tool, arguments)
    restored = holder.restore(desk.app, first.ref)
    again = holder.restore(desk.app, first.ref, principal="somebody_else")
    holder.commit()
    more = desk.app.restore(None, first.ref)
    for told in (again, more):
        assert (told.ref, told.status, told["replayed"]) == (restored.ref, "done", True)
        assert told["first_called_at"]
        assert told.restore == restored.restore
    assert len(desk.states()) == 2


def test_a_compensation_asked_for_twice_is_once(desk):
    refund = desk.app.call(None, "refund", REFUND)
    desk.work()
    told = desk.app.restore(None, refund.ref)
    assert desk.app.restore(None, refund.ref).ref == told.ref
    desk.work()
    again = desk.app.restore(None, refund.ref)
    assert (again.ref, again.status, again["replayed"]) == (told.ref, "done", True)
    desk.work()
    assert desk.world.done == [("refund", 100), ("charge", (100, 1))]


def test_asking_the_first_again_after_it_was_redone_hands_the_call_that_takes_that_back(desk):
    letter = desk.app.call(None, "send_letter", LETTER)
    restored = desk.app.restore(None, letter.ref)
    redone = desk.app.restore(None, restored.ref)
    told = desk.app.restore(None, letter.ref)
    assert (told.ref, told["replayed"]) == (restored.ref, True)
    assert told["redone_by"] == redone["redone"]
    assert "no_restore" not in told
    assert run(desk, told.restore).status == "done"
    assert desk.state(redone["redone"]["ref"]) == "cancelled"
    desk.shift(timedelta(hours=1))
    desk.work()
    assert desk.world.done == []


def test_undo_of_redo_of_undo_goes_as_deep_as_asked(desk, holder):
    """Each level takes back the one before; what stands at the end is what the last one did."""
    told = holder.call(desk.app, "set_state", LOST)
    refs = [told.ref]
    for level in range(1, 8):
        told = holder.restore(desk.app, told.ref)
        assert told.status == "done", told.to_json()
        refs.append(told.ref)
        holder.commit()
        assert desk.book("b1")[2] == ("in" if level % 2 else "lost"), f"level {level}"
    assert len(set(refs)) == 8


def test_undo_of_redo_of_undo_of_a_refund_is_what_the_provider_did(desk):
    told = desk.app.call(None, "refund", REFUND)
    desk.work()
    for _ in range(4):
        told = desk.app.restore(None, told.ref)
        desk.work()
    kinds = [what for what, _ in desk.world.done]
    assert kinds == ["refund", "charge", "refund", "charge", "refund"]


def test_a_letter_sent_anew_has_a_fresh_window(desk):
    letter = desk.app.call(None, "send_letter", LETTER)
    desk.shift(timedelta(seconds=50))
    restored = desk.app.restore(None, letter.ref)
    desk.shift(timedelta(seconds=50))
    redone = desk.app.restore(None, restored.ref)
    desk.work()
    assert desk.world.done == []
    assert desk.app.status(redone["redone"]["ref"]).status == "scheduled"
    desk.shift(timedelta(seconds=61))
    desk.work()
    assert [what for what, _ in desk.world.done] == ["letter"]


def test_a_letter_sent_anew_leaves_no_earlier_than_was_asked_at_first(desk):
    later = desk.value("SELECT takeback.now() + '7 days'")
    letter = desk.app.call(None, "send_letter", LETTER, not_before=later)
    restored = desk.app.restore(None, letter.ref)
    redone = desk.app.restore(None, restored.ref)
    desk.shift(timedelta(days=6))
    desk.work()
    assert desk.world.done == []
    desk.shift(timedelta(days=1, seconds=1))
    desk.work()
    assert len(desk.world.done) == 1
    assert desk.app.status(redone["redone"]["ref"]).status == "done"


def test_a_call_that_is_once_per_run_is_redone_in_its_run(desk):
    first = desk.app.call(None, "remind", {"who": "dana"}, run="run-1")
    restored = desk.app.restore(None, first.ref, run="run-9")
    redone = desk.app.restore(None, restored.ref)
    assert desk.app.show(redone["redone"]["ref"]).entry.intent.run == "run-1"


def test_a_call_over_its_limit_waits_for_approval_when_it_is_done_anew_too(desk):
    first = desk.app.call(None, "refund", REFUND | {"amount": 60_000})
    restored = desk.app.restore(None, first.ref)
    redone = desk.app.restore(None, restored.ref)
    assert desk.state(redone["redone"]["ref"]) == "awaiting_approval"
    desk.work()
    assert desk.world.done == []


def test_two_at_once_who_take_a_restore_back_do_it_anew_once(desk):
    letter = desk.app.call(None, "send_letter", LETTER)
    restored = desk.app.restore(None, letter.ref)
    start = threading.Barrier(2)

    def redo():
        start.wait()
        return desk.app.restore(None, restored.ref)

    with in_thread(redo) as other:
        mine = redo()
    assert mine["redone"] == other[0]["redone"]
    assert {mine["replayed"], other[0]["replayed"]} == {False, True}
    assert desk.tools().count("send_letter") == 2
    assert len(desk.states()) == 4


def test_what_a_later_release_recorded_is_not_taken_back_by_guessing(desk, caplog):
    """In the middle of a deploy: this release can't read what that one wrote."""
    deleted = desk.app.call(None, "delete_book", {"book": "b1"})
    desk.rows("UPDATE takeback.intents SET tool_version = 99")
    told = desk.app.restore(None, deleted.ref)
    assert told.code == "not_restorable"
    assert "version" not in told.to_json()
    assert "version 99" in caplog.text
    assert told["trace_id"] in caplog.text
    assert desk.book("b1") is None


def test_a_redo_that_can_not_be_done_any_more_is_refused_and_leaves_no_trace(desk):
    deleted = desk.app.call(None, "delete_book", {"book": "b1"})
    restored = desk.app.restore(None, deleted.ref)
    desk.rows("DELETE FROM desk.loans WHERE book = 'b1'")
    desk.rows("DELETE FROM desk.books WHERE id = 'b1'")
    told = desk.app.restore(None, restored.ref)
    assert told.code == "not_restorable"
    assert len(desk.states()) == 2
    assert desk.state(restored.ref) == "succeeded"


# ── too late, or nothing there ───────────────────────────────────────────────────────────────────


def test_a_letter_is_taken_back_at_the_last_moment_of_its_window(desk):
    """connectonion #1197: agent mail had no undo window."""
    letter = desk.app.call(None, "send_letter", LETTER)
    desk.shift(timedelta(seconds=59))
    assert desk.app.restore(None, letter.ref).status == "done"
    desk.shift(timedelta(hours=1))
    desk.work()
    assert desk.world.done == []


def test_a_letter_that_is_leaving_or_has_left_is_too_late(desk):
    begun, go_on = threading.Event(), threading.Event()
    letter = desk.app.call(None, "send_letter", LETTER)
    desk.shift(timedelta(seconds=61))

    def stands_at_the_counter():
        begun.set()
        assert go_on.wait(20)

    desk.world.meanwhile = stands_at_the_counter
    with in_thread(desk.work):
        assert begun.wait(20)
        leaving = desk.app.restore(None, letter.ref)
        go_on.set()
    left = desk.app.restore(None, letter.ref)
    for told in (leaving, left):
        assert (told.status, told.code) == ("refused", "too_late")
        assert (told.error["class"], told["effect"]) == ("terminal", "none")
        assert told["repeat_can_succeed"] is False
    assert len(desk.world.done) == 1
    assert desk.app.status(letter.ref).restore is None
    assert len(desk.states()) == 1


def test_a_failed_call_has_nothing_to_take_back(desk):
    """rollback tools: undoing a failed create deleted the older page."""
    desk.world.troubles.append(Rejected("over the ceiling"))
    refund = desk.app.call(None, "refund", REFUND)
    desk.work()
    told = desk.app.restore(None, refund.ref)
    assert (told.code, told.error["class"]) == ("not_restorable", "terminal")
    assert "never happened" in told.error["message"]
    desk.case("no", lambda *_: (_ for _ in ()).throw(Rejected("on loan")))
    refused = desk.app.call(None, "act", {"case": "no"})
    assert desk.app.restore(None, refused.ref).code == "not_restorable"
    assert desk.world.done == []
    assert len(desk.states()) == 2


def test_what_was_denied_or_has_expired_has_nothing_to_take_back(desk):
    for command in (commands.Deny(by="dana"), commands.ExpireApproval()):
        refund = desk.app.call(
            None, "refund", REFUND | {"amount": 60_000, "charge": type(command).__name__}
        )
        desk.shift(timedelta(days=2) if isinstance(command, commands.ExpireApproval) else NO_TIME)
        desk.command(refund.ref, command)
        told = desk.app.restore(None, refund.ref)
        assert told.code == "not_restorable"
        assert "never happened" in told.error["message"]


def test_what_nobody_knows_of_is_not_taken_back(desk):
    desk.case("gone", lambda *_: 1 / 0)
    envelope = desk.app.call(None, "deliver", {"case": "gone"})
    desk.work()
    for _ in range(2):
        told = desk.app.restore(None, envelope.ref)
        assert told.code == "not_restorable"
        assert "nobody knows yet" in told.error["message"]
        if desk.state(envelope.ref) == "in_doubt":
            desk.command(envelope.ref, commands.Park())
    assert len(desk.states()) == 1


def test_what_may_have_happened_before_it_is_tried_again_is_not_called_cancelled(desk):
    """Requeued under the provider's key: an undo now would not prove that nothing happens."""
    desk.world.troubles.append(ZeroDivisionError())
    refund = desk.app.call(None, "refund", REFUND)
    desk.work()
    if desk.state(refund.ref) == "in_doubt":
        desk.command(refund.ref, commands.Requeue(cause="provider_key"))
    assert desk.state(refund.ref) == "due"
    told = desk.app.restore(None, refund.ref)
    assert told.code == "not_restorable"
    assert desk.state(refund.ref) == "due"


def test_retention_is_counted_by_the_databases_clock(desk):
    deleted = desk.app.call(None, "delete_book", {"book": "b1"})
    other = desk.app.call(None, "delete_book", {"book": "b2"})
    desk.shift(timedelta(days=30, seconds=-5))
    assert desk.app.restore(None, deleted.ref).status == "done"
    desk.shift(timedelta(seconds=10))
    told = desk.app.restore(None, other.ref)
    assert (told.code, told["repeat_can_succeed"]) == ("restore_expired", False)
    assert other.restore["until"].split("T")[1] in told.error["message"]
    assert desk.book("b2") is None
    assert desk.app.restore(None, deleted.ref)["replayed"] is True


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "nothing",
        "restore-",
        "send_letter-",
        "send_letter-00000000",
        "-7F3K9QDM",
        "a\0b-7F3K9QDM",
        "\ud800-7F3K9QDM",
        "send_letter-7F3K9QDM\n",
        "x" * 100_000,
    ],
)
def test_a_ref_that_is_none_is_refused(desk, holder, ref):
    desk.app.call(None, "send_letter", LETTER)
    told = holder.restore(desk.app, ref)
    assert (told.status, told.code) == ("refused", "no_such_ref")
    assert len(told.to_json().encode()) < 1000
    holder.commit()
    assert list(desk.states().values()) == ["held"]


def test_restore_is_called_with_a_ref_and_nothing_else(desk):
    letter = desk.app.call(None, "send_letter", LETTER)
    for arguments, said, field in (
        ({}, {}, "ref"),
        ({"ref": 7}, {}, "ref"),
        ({"ref": letter.ref, "force": True}, {}, "force"),
        ({"ref": letter.ref}, {"repeat_of": letter.ref}, "repeat_of"),
        ([letter.ref], {}, "arguments"),
        ([letter.ref], {"expect": "x"}, "arguments"),
    ):
        told = desk.app.call(None, "restore", arguments, **said)
        assert told.error["class"] == "invalid_request"
        assert [one["field"] for one in told.error["violations"]] == [field]
    assert desk.states() == {letter.ref: "held"}
    assert desk.app.call(None, "restore", {"ref": "send_letter-00000000"}).code == "no_such_ref"


def test_a_ref_with_one_wrong_character_never_takes_another_one_back(desk):
    letters = [
        desk.app.call(None, "send_letter", LETTER | {"to": f"r{number}"}) for number in range(5)
    ]
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    ref = letters[0].ref
    for place in range(len(ref) - 8, len(ref)):
        other = alphabet[(alphabet.index(ref[place]) + 1) % len(alphabet)]
        told = desk.app.restore(None, ref[:place] + other + ref[place + 1 :])
        assert told.code == "no_such_ref"
        assert told.error["alternatives"][0] == ref
        assert ref in told.error["message"]
    assert set(desk.states().values()) == {"held"}


def test_a_ref_read_aloud_is_understood(desk):
    letter = desk.app.call(None, "send_letter", LETTER)
    tool, _, code = letter.ref.rpartition("-")
    assert desk.app.restore(None, f" {tool}-{code.lower()}\n").status == "done"


def test_a_letter_can_be_cancelled_although_its_tool_is_gone(desk):
    """A deploy dropped the tool while a call of it was held: nobody should have to send it."""
    letter = desk.app.call(None, "send_letter", LETTER)
    later = desk.make_app(without=["send_letter", "delete_book"])
    assert later.restore(None, letter.ref).status == "done"
    assert desk.state(letter.ref) == "cancelled"
    deleted = desk.app.call(None, "delete_book", {"book": "b1"})
    told = later.restore(None, deleted.ref)
    assert told.code == "not_restorable"
    assert "delete_book" in told.error["message"]
    assert desk.app.restore(None, deleted.ref).status == "done"


@pytest.mark.parametrize(
    "said", [{"principal": "two words"}, {"principal": "a\0b"}, {"run": ""}, {"run": "x" * 300}]
)
def test_a_restore_by_somebody_who_cannot_be_named_is_refused(desk, said):
    letter = desk.app.call(None, "send_letter", LETTER)
    told = desk.app.restore(None, letter.ref, **said)
    assert told.code == "invalid_argument"
    assert [v["field"] for v in told.error["violations"]] == list(said)
    assert desk.state(letter.ref) == "held"


# ── somebody else was there ──────────────────────────────────────────────────────────────────────


def test_a_later_edit_by_a_person_is_not_overwritten(desk, holder):
    """intent #5095, karaoke #6: a stale undo overwrote a person's later edit."""
    agent = holder.call(desk.app, "set_state", LOST, principal="agent:a")
    holder.commit()
    desk.rows("UPDATE desk.books SET state = 'out', version = 9 WHERE id = 'b1'")
    told = holder.restore(desk.app, agent.ref, principal="dana")
    assert (told.status, told.code) == ("refused", "restore_conflict")
    (violation,) = told.error["violations"]
    assert violation["field"] == "state"
    assert (violation["first"], violation["now"]) == ("lost", "out")
    assert "state" in told.error["message"]
    holder.commit()
    assert desk.book("b1") == ("b1", "Emma", "out", 9)
    assert len(desk.states()) == 1


def test_a_person_may_force_a_restore_and_an_agent_may_not(desk, holder):
    agent = holder.call(desk.app, "set_state", LOST)
    holder.commit()
    desk.rows("UPDATE desk.books SET state = 'out' WHERE id = 'b1'")
    for principal in ("agent:a", None):
        told = holder.restore(desk.app, agent.ref, force=True, principal=principal)
        assert (told.code, told.error["class"]) == ("no_access", "terminal")
    assert desk.book("b1")[2] == "out"
    told = holder.restore(desk.app, agent.ref, force=True, principal="user:dana")
    holder.commit()
    assert told.status == "done"
    assert desk.book("b1")[2] == "in"


def test_a_live_twin_of_a_deleted_row_is_a_conflict(desk):
    """superset #40130: a restore collided with a live twin."""
    deleted = desk.app.call(None, "delete_book", {"book": "b1"})
    desk.rows("INSERT INTO desk.books (id, title) VALUES ('b9', 'Emma')")
    told = desk.app.restore(None, deleted.ref)
    assert told.code == "restore_conflict"
    assert told.error["violations"][0]["now"] == "b9"
    forced = desk.app.restore(None, deleted.ref, force=True, principal="dana")
    assert forced.code == "internal_error", "the constraint holds against persons too"
    assert desk.book("b1") is None


DRIFTS = {
    "instants": [{"field": "at", "first": datetime(2026, 1, 1, tzinfo=UTC), "now": Decimal("1.5")}],
    "texts": ["title", "state"],
    "a_text": "title",
    "true": True,
    "an_object": {"field": "title", "now": "\ud800"},
    "no_field": [{"now": 1}],
    "long": [{"field": "title", "now": "x" * 100_000}],
}


@pytest.mark.parametrize("name", list(DRIFTS))
def test_whatever_a_drift_check_says_is_told(desk, name):
    desk.case(name, drift=lambda session, original: DRIFTS[name])
    first = desk.app.call(None, "act", {"case": name})
    told = desk.app.restore(None, first.ref)
    assert told.code == "restore_conflict"
    assert told.error["violations"]
    assert len(told.to_json().encode()) < 3000
    for violation in told.error["violations"]:
        assert {"field", "code", "message", "repair"} <= set(violation)
    assert desk.app.restore(None, first.ref, force=True, principal="dana").status == "done"


REFUSALS = {
    "rejected": (Rejected("the page is locked"), "not_restorable", "the page is locked"),
    "reference": (
        InvalidReference("page", 1, message="the page is gone"),
        "not_restorable",
        "the page is gone",
    ),
    "conflict": (RestoreConflict("a twin lives", [{"field": "x"}]), "restore_conflict", "a twin"),
    "not_dispatched": (NotDispatched("secret"), "provider_unavailable", ""),
    "exception": (ZeroDivisionError("secret"), "internal_error", ""),
}


@pytest.mark.parametrize("face", ["restore", "drift"])
@pytest.mark.parametrize("name", list(REFUSALS))
def test_a_restore_that_its_handler_refuses_leaves_no_trace_and_may_be_asked_again(
    desk, holder, name, face
):
    problem, code, words = REFUSALS[name]

    def refuses(session, original):
        session.execute(text("UPDATE desk.books SET state = 'lost' WHERE id = 'b1'"))
        raise problem

    play = desk.case(name)
    setattr(play, face, refuses)
    first = holder.call(desk.app, "act", {"case": name})
    told = holder.restore(desk.app, first.ref)
    assert (told.status, told.code) == ("refused", code)
    assert words in told.error["message"]
    assert "secret" not in told.to_json()
    assert told["effect"] == "none"
    holder.commit()
    assert desk.book("b1")[2] == "in"
    assert list(desk.states().values()) == ["succeeded"]
    setattr(play, face, None)
    assert holder.restore(desk.app, first.ref).status == "done"


def test_two_restores_of_one_held_letter_at_once_are_one_and_both_hear_of_it(desk):
    """undo consoles: two operators at once, and the mail was sent or undone twice."""
    letter = desk.app.call(None, "send_letter", LETTER)
    start = threading.Barrier(4)

    def restore():
        start.wait()
        return desk.app.restore(None, letter.ref)

    with (
        in_thread(restore) as one,
        in_thread(restore) as two,
        in_thread(restore) as three,
    ):
        four = restore()
    answers = [one[0], two[0], three[0], four]
    assert len({answer.ref for answer in answers}) == 1
    assert {answer.status for answer in answers} == {"done"}
    assert sorted(answer["replayed"] for answer in answers) == [False, True, True, True]
    assert sorted(desk.states().values()) == ["cancelled", "succeeded"]


def test_when_the_first_of_two_operators_is_killed_midway_the_second_takes_it_back(desk, callers):
    letter = desk.app.call(None, "send_letter", LETTER)
    killed, other = callers(), callers()
    killed.restore(desk.app, letter.ref)
    desk.rows("SELECT pg_terminate_backend(%s, 5000)", killed.pid)
    told = other.restore(desk.app, letter.ref)
    other.commit()
    assert (told.status, told["replayed"]) == ("done", False)
    assert desk.state(letter.ref) == "cancelled"


def test_a_restore_inside_a_transaction_that_also_calls_sees_its_own_call(desk, holder):
    first = holder.call(desk.app, "set_state", LOST)
    assert holder.restore(desk.app, first.ref).status == "done"
    again = holder.call(desk.app, "set_state", LOST)
    assert (again.ref, again.status) == (first.ref, "taken_back")
    holder.commit()
    assert desk.book("b1")[2] == "in"


def test_a_restore_is_handed_what_was_asked_and_what_came_of_it(desk):
    handed: list = []
    desk.case(
        "x",
        lambda session, arguments: Performed(result={"n": 1}, affected=[]),
        restore=lambda session, original: handed.append(original),
    )
    first = desk.app.call(None, "act", {"case": "x", "note": "why"})
    desk.app.restore(None, first.ref)
    (original,) = handed
    assert (original.arguments.case, original.arguments.note) == ("x", "why")
    assert (original.result, original.ref, original.tenant) == ({"n": 1}, first.ref, "default")
    assert original.intent_id == str(desk.app.show(first.ref).entry.intent.id)


def test_a_restore_in_a_psycopg_transaction_block_that_fails_takes_nothing_back(desk):
    letter = desk.app.call(None, "send_letter", LETTER)
    with psycopg.connect(desk.url, autocommit=True) as connection:
        with contextlib.suppress(ZeroDivisionError), connection.transaction():
            desk.app.restore(connection, letter.ref)
            raise ZeroDivisionError
        assert desk.state(letter.ref) == "held"
        with connection.transaction():
            told = desk.app.restore(connection, letter.ref)
    assert told["replayed"] is False
    assert desk.state(letter.ref) == "cancelled"
