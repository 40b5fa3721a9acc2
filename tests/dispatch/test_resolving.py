"""A person's word on what nobody else can end: ``retry`` and ``resolve``."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from takeback.cli.asking import can_of, doubt_of
from takeback.dispatch.executor import Ended
from takeback.dispatch.outcome import Outcome, of_answer, of_refusal
from takeback.dispatch.reaper import Reaper
from takeback.dispatch.settler import Settler
from takeback.ledger.database import sqlalchemy_url
from takeback.model import command as commands
from takeback.model.errors import NotDispatched, Rejected
from tests.dispatch.halt import Halt, Lose
from tests.dispatch.office import Office, World
from tests.dispatch.step import step
from tests.dispatch.test_fencing import begin
from tests.dispatch.test_reconciler import (
    RECONCILE_SECONDS,
    causes,
    drain,
    in_doubt,
    left_behind,
    lost,
    reconcile,
)

DANA = "user:dana"


def parked(office: Office, world: World, clock: Any, *, arrived: bool = True) -> str:
    ref = in_doubt(office, world, clock, "send_letter", arrived=arrived)
    assert reconcile(office) == ["parked"]
    return ref


def failed(office: Office, world: World, clock: Any, tool: str = "send_letter") -> str:
    def refuses(called: Any) -> Any:
        raise Rejected("no cover")

    world.on[tool] = refuses
    ref = office.call(None, tool, {"to": "dana"}).ref or ""
    drain(office, clock)
    del world.on[tool]
    assert office.state(ref) == "failed"
    return ref


@pytest.mark.parametrize("state", ["parked", "failed"])
def test_a_retry_is_the_next_attempt_of_the_same_intent(state, office, world, clock):
    make = parked if state == "parked" else failed
    ref = make(office, world, clock)

    told = office.retry(None, ref, principal=DANA)
    drain(office, clock)

    assert (told.ref, told.status) == (ref, "scheduled")
    assert (told["decided"]["how"], told["decided"]["by"]) == ("retried", DANA)
    shown = office.show(ref)
    assert (shown.entry.intent.attempt, office.state(ref)) == (2, "succeeded")
    assert causes(office, ref)[-1] == "person"


def test_what_failed_without_a_trace_is_tried_again_under_a_new_key(office, world, clock):
    """A card topped up later: under the old key the provider would only repeat its refusal."""
    ref = failed(office, world, clock, "pay")

    office.retry(None, ref, principal=DANA)
    drain(office, clock)

    assert len({one.key for one in world.calls}) == 2 and office.state(ref) == "succeeded"


def test_what_may_have_happened_is_tried_again_under_its_old_key(office, world, clock):
    ref = in_doubt(office, world, clock, "pay", arrived=True)
    clock.advance(24 * 3600)
    assert reconcile(office) == ["parked"]

    office.retry(None, ref, principal=DANA)
    drain(office, clock)

    assert (world.called("dana"), world.arrived("dana")) == (2, 1)
    assert office.state(ref) == "succeeded"


@pytest.mark.parametrize("word", ["succeeded", "failed"])
@pytest.mark.parametrize("state", ["in_doubt", "parked"])
def test_a_person_says_what_became_of_it(state, word, office, world, clock):
    make = parked if state == "parked" else doubtful
    ref = make(office, world, clock)

    told = office.resolve(None, ref, word, principal=DANA, note="asked at the counter")

    assert office.state(ref) == word
    assert told.status == ("done" if word == "succeeded" else "refused")
    assert told.code == (None if word == "succeeded" else "resolved_failed")
    assert (told["decided"]["how"], told["decided"]["by"]) == (word, DANA)
    body = office.show(ref).entry.bodies["result" if word == "succeeded" else "error"]
    assert (body["note"], body["by"]) == ("asked at the counter", DANA)
    assert office.verify().problems == ()
    assert "counter" not in told.to_json(), "the note is for persons, and can be forgotten"


def test_the_note_lies_beside_the_log_and_not_in_it(office, world, clock, database_url):
    ref = parked(office, world, clock)
    office.resolve(None, ref, "failed", principal=DANA, note="seen in the post room")

    with psycopg.connect(database_url) as tx:
        payloads = tx.execute("SELECT string_agg(payload, '') FROM takeback.events").fetchone()
        erased = tx.execute("DELETE FROM takeback.bodies WHERE body LIKE '%post room%'").rowcount
    assert payloads is not None and "post room" not in payloads[0]
    assert erased == 1 and office.verify().problems == ()
    assert office.status(ref).code is not None, "it is told all the same"


def test_what_was_resolved_as_failed_can_be_tried_again(office, world, clock):
    ref = parked(office, world, clock, arrived=False)
    office.resolve(None, ref, "failed", principal=DANA)

    office.retry(None, ref, principal="robin")
    drain(office, clock)

    assert office.state(ref) == "succeeded" and world.arrived("dana") == 1


@pytest.mark.parametrize("verb", ["retry", "resolve"])
def test_saying_it_twice_is_once(verb, office, world, clock):
    ref = parked(office, world, clock)

    def say(by: str) -> Any:
        if verb == "retry":
            return office.retry(None, ref, principal=by)
        return office.resolve(None, ref, "succeeded", principal=by)

    first = say(DANA)
    events = len(office.show(ref).events)
    second = say("robin")

    assert len(office.show(ref).events) == events
    assert (first.replayed, second.replayed) == (False, True)
    assert second["decided"] == first["decided"]
    drain(office, clock)
    if verb == "retry":
        assert say(DANA)["decided"] == first["decided"], "it has been carried out since"


def test_a_lost_answer_to_the_commit_is_the_same_ruling(office, world, clock, database_url):
    ref = parked(office, world, clock)
    with psycopg.connect(database_url, autocommit=True) as observer:
        lose = Lose(observer, at="after COMMIT")
        other = Office(database_url, world, pause=clock.advance)
        lose.watch(*other.context.database.engines)
        told = other.retry(None, ref, principal=DANA)

    assert lose.struck == ["after COMMIT"]
    assert (told.replayed, told["decided"]["by"]) == (False, DANA)
    assert office.kinds(ref).count("requeued") == 1
    other.close()


def test_of_two_who_say_opposite_things_at_once_one_is_told_who_was_first(
    office, world, clock, database_url
):
    ref = parked(office, world, clock)
    with psycopg.connect(database_url, autocommit=True) as observer:
        halt = Halt(observer, at="before COMMIT")
        other = Office(database_url, world)
        with ThreadPoolExecutor(1) as thread, halt.watching(other):
            first = thread.submit(other.resolve, None, ref, "succeeded", principal=DANA)
            halt.wait()
            waiting = office.resolve(None, ref, "failed", principal="robin")
            halt.go()
            assert first.result().status == "done"
        second = office.resolve(None, ref, "failed", principal="robin")

    assert waiting.code == "in_progress"
    assert (second.code, office.state(ref)) == ("wrong_state", "succeeded")
    assert DANA in second.error["message"]


@pytest.mark.parametrize("verb", ["retry", "resolve"])
def test_an_agent_may_not(verb, office, world, clock):
    ref = parked(office, world, clock)

    by = {"principal": "agent:support"}
    told = (
        office.retry(None, ref, **by)
        if verb == "retry"
        else office.resolve(None, ref, "succeeded", **by)
    )

    assert told.code == "no_access" and office.state(ref) == "parked"


@pytest.mark.parametrize("verb", ["retry", "resolve"])
def test_what_still_waits_for_approval_is_answered_so(verb, office):
    ref = office.call(None, "grant", {"to": "dana"}).ref or ""

    told = (
        office.retry(None, ref, principal=DANA)
        if verb == "retry"
        else office.resolve(None, ref, "succeeded", principal=DANA)
    )

    assert told.code == "needs_approval" and office.state(ref) == "awaiting_approval"


def held(office: Office, world: World, clock: Any) -> str:
    return office.call(None, "hold_letter", {"to": "dana"}).ref or ""


def cancelled(office: Office, world: World, clock: Any) -> str:
    ref = held(office, world, clock)
    office.restore(None, ref)
    return ref


def executing(office: Office, world: World, clock: Any) -> str:
    office.call(None, "send_letter", {"to": "dana"})
    return begin(office).intent.ref


def succeeded(office: Office, world: World, clock: Any) -> str:
    ref = office.call(None, "send_letter", {"to": "dana"}).ref or ""
    drain(office, clock)
    return ref


def doubtful(office: Office, world: World, clock: Any) -> str:
    return in_doubt(office, world, clock, "wire", arrived=True)


@pytest.mark.parametrize(
    ("make", "verbs", "says"),
    [
        (held, ("retry", "resolve"), "still to be carried out"),
        (cancelled, ("retry", "resolve"), "never happens"),
        (executing, ("retry", "resolve"), "at this moment"),
        (succeeded, ("retry", "resolve"), "has happened"),
        (failed, ("resolve",), "`retry`"),
        (doubtful, ("retry",), "`resolve`"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_elsewhere_it_is_refused_with_what_the_intent_is_and_what_can_be_done(
    make, verbs, says, office, world, clock
):
    ref = make(office, world, clock)
    before = office.kinds(ref)
    for verb in verbs:
        told = (
            office.retry(None, ref, principal=DANA)
            if verb == "retry"
            else office.resolve(None, ref, "succeeded", principal=DANA)
        )
        assert told.code == "wrong_state" and says in told.error["message"]
        assert told["effect"] == "none"
    assert office.kinds(ref) == before


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"as_": "done"}, "as"),
        ({"as_": None}, "as"),
        ({"note": "x" * 2001}, "note"),
        ({"note": 7}, "note"),
        ({"note": "a\0b"}, "note"),
        ({"principal": ""}, "principal"),
    ],
    ids=str,
)
def test_what_can_not_be_meant_is_refused_by_name(said, field, office, world, clock):
    ref = parked(office, world, clock)
    told = office.resolve(None, ref, **({"as_": "succeeded", "principal": DANA} | said))

    assert told.code == "invalid_argument"
    assert told.error["violations"][0]["field"] == field and office.state(ref) == "parked"


def test_an_unknown_ref_is_told_with_what_is_near(office, world, clock):
    ref = parked(office, world, clock)
    wrong = ref[:-1] + ("0" if ref[-1] != "0" else "1")
    assert office.retry(None, wrong, principal=DANA).code == "no_such_ref"
    assert office.resolve(None, "?", "failed", principal=DANA).code == "no_such_ref"


def test_in_a_callers_transaction_it_is_so_when_that_commits(office, world, clock, database_url):
    ref = parked(office, world, clock)
    with psycopg.connect(database_url) as connection:
        office.retry(connection, ref, principal=DANA)
        assert office.state(ref) == "parked"
        connection.rollback()
        assert office.state(ref) == "parked"
        office.resolve(connection, ref, "succeeded", principal=DANA)
    assert office.state(ref) == "succeeded"


def test_the_async_twins_say_the_same(office, world, clock, database_url):
    refs = [parked(office, world, clock)]

    async def say() -> list[Any]:
        engine = create_async_engine(sqlalchemy_url(database_url))
        async with AsyncSession(engine) as session, session.begin():
            answers = [await office.aresolve(session, refs[0], "failed", principal=DANA)]
        await engine.dispose()
        return [*answers, await office.aretry(None, refs[0], principal=DANA)]

    resolved, retried = asyncio.run(say())
    assert (resolved.code, retried.status) == ("resolved_failed", "scheduled")


def test_a_late_answer_against_a_persons_word_is_told_and_flips_nothing(office, world, clock):
    work = left_behind(office, world, clock, "send_letter")
    reconcile(office)
    office.resolve(None, work.intent.ref, "failed", principal=DANA)

    Settler(office.context).settle([Ended(work=work, outcome=of_answer("it went"))])

    assert office.kinds(work.intent.ref)[-3:] == ["failed", "answered_late", "contradicted"]
    assert office.state(work.intent.ref) == "failed"


def denied(office: Office, world: World, clock: Any) -> str:
    """Said to have failed by a person, and a late answer says that it happened."""
    work = left_behind(office, world, clock, "send_letter")
    reconcile(office)
    office.resolve(None, work.intent.ref, "failed", principal=DANA)
    Settler(office.context).settle([Ended(work=work, outcome=of_answer("it went"))])
    return work.intent.ref


def test_what_a_late_answer_denies_is_told_as_in_doubt_and_nothing_is_offered(office, world, clock):
    ref = denied(office, world, clock)

    for told in (office.status(ref), office.call(None, "send_letter", {"to": "dana"})):
        assert (told.ref, told.status, told["effect"]) == (ref, "in_doubt", "unknown")
        assert (told["repeat_can_succeed"], told.error, told.restore) == (False, None, None)
        assert "again" not in told and "failed" in told.summary
        assert told["no_restore"] == "nobody can know yet whether it happened"
    shown = office.show(ref)
    doubt = doubt_of(shown)
    assert doubt is not None and doubt["cause"] == "contradicted"
    assert can_of(shown) == ["resolve"]
    back = office.restore(None, ref)
    assert back.code == "not_restorable" and "may have happened" in back.error["message"]
    amended = office.amend(None, ref, {"note": "x"})
    assert amended.code == "too_late" and "nobody knows" in amended.error["message"]
    differs = office.call(None, "send_letter", {"to": "dana", "note": "other"})
    assert "again" not in differs and differs.status == "in_doubt"


def test_what_a_late_answer_denies_is_tried_again_by_nobody_before_it_is_resolved(
    office, world, clock
):
    ref = denied(office, world, clock)

    told = office.retry(None, ref, principal=DANA)
    drain(office, clock)
    assert (told.code, told["effect"]) == ("wrong_state", "none")
    assert "`resolve`" in told.error["message"] and world.called("dana") == 1

    office.resolve(None, ref, "failed", principal="robin")
    assert office.status(ref).code == "resolved_failed"
    assert office.retry(None, ref, principal=DANA).status == "scheduled"
    assert office.verify().problems == ()


@pytest.mark.parametrize("word", ["succeeded", "failed"])
def test_a_person_decides_again_what_a_late_answer_denies(word, office, world, clock):
    ref = denied(office, world, clock)

    told = office.resolve(None, ref, word, principal="robin", note="it is in the box")
    again = office.resolve(None, ref, word, principal=DANA)

    assert told.status == ("done" if word == "succeeded" else "refused") == again.status
    assert (told["decided"]["by"], told.replayed, again.replayed) == ("robin", False, True)
    assert office.kinds(ref)[-2:] == ["contradicted", word]
    assert doubt_of(office.show(ref)) is None
    assert (office.verify().problems, office.rebuild().differing) == ((), ())


def test_what_has_failed_undenied_is_not_said_to_have_happened(office, world, clock):
    ref = parked(office, world, clock)
    office.resolve(None, ref, "failed", principal=DANA)

    told = office.resolve(None, ref, "succeeded", principal="robin")

    assert told.code == "wrong_state" and DANA in told.error["message"]


def test_that_the_last_attempt_did_nothing_says_nothing_of_the_one_before(office, world, clock):
    """Both are unknown; the second one's proof comes late."""
    ref = parked(office, world, clock)
    office.retry(None, ref, principal=DANA)
    work = begin(office)
    clock.advance(31)
    Reaper(office.context).run_once()
    clock.advance(RECONCILE_SECONDS)
    assert reconcile(office) == ["parked"]

    Settler(office.context).settle([Ended(work=work, outcome=Outcome(kind="deferred"))])

    assert (office.kinds(ref)[-1], office.state(ref)) == ("answered_late", "parked")
    assert office.show(ref).entry.intent.attempts_unknown == (1,)


def test_a_late_refusal_of_what_is_parked_is_its_end(office, world, clock):
    work = left_behind(office, world, clock, "send_letter")
    assert reconcile(office) == ["parked"]

    Settler(office.context).settle([Ended(work=work, outcome=of_refusal(Rejected("no stamp")))])

    assert office.status(work.intent.ref).code == "provider_rejected"


@pytest.mark.parametrize(
    ("word", "becomes"), [("succeeded", "restored"), ("failed", "restore_failed")]
)
def test_what_is_said_anew_of_a_restore_is_true_of_what_it_takes_back(
    word, becomes, office, world, clock
):
    ref = office.call(None, "ship", {"to": "dana"}).ref or ""
    drain(office, clock)
    restore = office.restore(None, ref).ref or ""
    work = begin(office)
    clock.advance(31)
    Reaper(office.context).run_once()
    clock.advance(RECONCILE_SECONDS)
    assert reconcile(office) == ["parked"]
    office.resolve(None, restore, "failed", principal=DANA)
    Settler(office.context).settle([Ended(work=work, outcome=of_answer("it came back"))])
    assert office.status(restore).status == "in_doubt"

    office.resolve(None, restore, word, principal="robin")

    assert (office.state(restore), office.state(ref)) == (word, becomes)
    assert office.verify().problems == ()


@pytest.mark.parametrize(
    ("word", "becomes"), [("succeeded", "restored"), ("failed", "restore_failed")]
)
def test_what_is_said_of_a_restore_is_true_of_what_it_takes_back(
    word, becomes, office, world, clock
):
    ref, restore = doubtful_restore(office, world, clock)

    office.resolve(None, restore, word, principal=DANA)

    assert (office.state(restore), office.state(ref)) == (word, becomes)
    assert office.verify().problems == ()


def doubtful_restore(office: Office, world: World, clock: Any) -> tuple[str, str]:
    """A shipment whose compensation is parked."""
    ref = office.call(None, "ship", {"to": "dana"}).ref or ""
    drain(office, clock)
    world.on["unship"] = lost(world, arrived=False)
    restore = office.restore(None, ref).ref or ""
    drain(office, clock)
    clock.advance(RECONCILE_SECONDS)
    assert reconcile(office) == ["parked"]
    del world.on["unship"]
    return ref, restore


def test_a_doubt_about_a_restore_is_ended_at_the_restore(office, world, clock):
    ref, restore = doubtful_restore(office, world, clock)

    told = office.resolve(None, ref, "succeeded", principal=DANA)

    assert told.code == "wrong_state" and restore in told.error["message"]


def test_a_restore_is_tried_again_from_parked_and_from_failed(office, world, clock):
    ref, restore = doubtful_restore(office, world, clock)

    def refuses(called: Any) -> Any:
        raise Rejected("the van has left")

    world.on["unship"] = refuses
    office.retry(None, restore, principal=DANA)
    drain(office, clock)
    clock.advance(RECONCILE_SECONDS)
    reconcile(office)
    assert (office.state(restore), office.state(ref)) == ("parked", "in_doubt")
    office.resolve(None, restore, "failed", principal=DANA)
    assert office.state(ref) == "restore_failed"
    del world.on["unship"]

    office.retry(None, restore, principal=DANA)
    assert office.state(ref) == "restoring"
    drain(office, clock)

    assert (office.state(restore), office.state(ref)) == ("succeeded", "restored")


def test_what_could_not_be_read_is_tried_again_after_the_next_deploy(office, world, clock):
    """Parked before it began: nothing has happened, and a person lets it go on."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref or ""
    step(office, ref, *_claimed_and_parked())

    office.retry(None, ref, principal=DANA)
    drain(office, clock)

    assert office.state(ref) == "succeeded" and world.called("dana") == 1


def _claimed_and_parked() -> tuple[commands.Command, ...]:
    from datetime import timedelta

    claim = commands.Claim(worker="w", lease=timedelta(seconds=30))
    return claim, commands.Park(cause="no_upgrade")


def held_back(office: Office, world: World, clock: Any) -> str:
    ref = office.call(None, "send_letter", {"to": "dana"}).ref or ""
    step(office, ref, *_claimed_and_parked())
    return ref


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (executing, "is being carried out at this moment"),
        (doubtful, "has begun, and nobody knows yet whether it happened"),
        (parked, "has begun, and nobody knows yet whether it happened"),
        (held_back, "has not begun, and can't be changed before a person has looked"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_who_amends_too_late_is_told_whether_it_has_begun(make, says, office, world, clock):
    ref = make(office, world, clock)

    told = office.amend(None, ref, {"note": "other"})

    assert told.code == "too_late" and says in told.error["message"]


def test_what_ran_out_of_attempts_has_failed_and_is_tried_again_by_a_person(office, world, clock):
    def down(called: Any) -> Any:
        raise NotDispatched("refused")

    world.on["send_letter"] = down
    ref = office.call(None, "send_letter", {"to": "dana"}).ref or ""
    for _ in range(9):
        drain(office, clock)
        clock.advance(600)
    assert (office.state(ref), world.called("dana")) == ("failed", 8)
    del world.on["send_letter"]

    office.retry(None, ref, principal=DANA)
    drain(office, clock)

    assert office.state(ref) == "succeeded" and world.arrived("dana") == 1


def test_a_repeat_on_purpose_is_not_offered_while_nobody_knows(office, world, clock):
    ref = parked(office, world, clock)
    again = office.call(None, "send_letter", {"to": "dana"})

    assert again.ref == ref and again.replayed and "again" not in again
    office.resolve(None, ref, "failed", principal=DANA)

    assert office.call(None, "send_letter", {"to": "dana"})["again"] == {"repeat_of": ref}


def test_while_an_earlier_attempt_is_unknown_nobody_is_offered_to_do_it_once_more(
    office, world, clock
):
    """A person has it tried again: until that is over, it may have happened already."""
    ref = parked(office, world, clock)
    office.retry(None, ref, principal=DANA)

    told = office.call(None, "send_letter", {"to": "dana"})
    assert told.replayed and told.status == "scheduled" and "again" not in told

    drain(office, clock)
    assert office.call(None, "send_letter", {"to": "dana"})["again"] == {"repeat_of": ref}
