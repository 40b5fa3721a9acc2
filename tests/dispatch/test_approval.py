"""A Local call that a person has approved: carried out by the engine, whole or not at all."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import text

from takeback.client.previewing import affected_text, foreseen_of
from takeback.declare import Approval, Local
from takeback.dispatch.pace import Pace
from takeback.dispatch.performer import ATTEMPTS_MAX
from takeback.dispatch.reaper import Reaper
from takeback.ledger.recording import record
from takeback.model import command as commands
from takeback.model.chain import body_digest
from takeback.model.decide import record as decide_recording
from takeback.model.errors import InvalidReference, NotDispatched, Rejected
from takeback.model.handler import Affected, Handler, Performed
from takeback.model.key import canonical_bytes
from takeback.model.ref import make_ref
from tests.dispatch.halt import Halt, Lose
from tests.dispatch.office import Office, World, file_case, row, unfile_case
from tests.dispatch.shift import Door, Shift, eventually

ROWS = (row("open_case", Local(), approval=Approval()),)
TO = {"to": "dana"}


class Bureau(Office):
    """An office with one Local tool that needs approval; ``does`` is what its handler does."""

    def __init__(self, url: str, **options: Any) -> None:
        self.does: Callable[..., Any] = file_case
        self.performed = 0
        handler = Handler(perform=self._perform, restore=unfile_case)
        handlers = SimpleNamespace(open_case=handler)
        super().__init__(url, World(), rows=ROWS, handlers=handlers, **options)

    def _perform(self, session: Any, arguments: Any) -> Any:
        self.performed += 1
        return self.does(session, arguments)

    def asked(self) -> str:
        """A call that waits for a person."""
        answer = self.call(None, "open_case", TO, principal="agent:clerk")
        assert answer.status == "needs_approval"
        self.performed = 0  # it was rehearsed, to tell the person what it would affect
        return answer.ref or ""

    def approved(self) -> str:
        """A call that a person has approved."""
        ref = self.asked()
        assert self.approve(None, ref, principal="robin").status == "scheduled"
        return ref

    def drain(self, name: str = "w") -> int:
        """Carries out what is due; waits move the clock. Answers with how much that was."""
        worker = self.worker_of(name, sleep=self._wait, pace=Pace(concurrency=1))
        return worker.run(drain=True).attempts


@pytest.fixture
def bureau(office: Office, database_url: str, clock: Any) -> Iterator[Bureau]:
    bureau = Bureau(database_url, pause=clock.advance)
    yield bureau
    bureau.close()


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def cases(observer: psycopg.Connection[Any]) -> int:
    found = observer.execute("SELECT count(*) FROM public.cases").fetchone()
    return found[0] if found else 0


def test_it_is_performed_by_the_engine_once_it_is_approved(bureau, observer):
    ref = bureau.asked()
    assert bureau.drain() == 0 and cases(observer) == 0
    bureau.approve(None, ref, principal="robin")
    assert cases(observer) == 0, "approving performs nothing"
    assert bureau.drain() == 1
    assert cases(observer) == 1 and bureau.status(ref).status == "done"
    assert bureau.kinds(ref) == ["recorded", "approved", "claimed", "attempt_began", "succeeded"]
    assert bureau.drain() == 0 and bureau.performed == 1
    assert bureau.verify().problems == ()


def test_effect_and_outcome_are_one_commit(bureau, observer, database_url):
    """Looked at from outside in the middle of it: neither is there."""
    seen: list[Any] = []

    def look(session: Any, arguments: Any) -> Any:
        done = file_case(session, arguments)
        seen.append((cases(observer), bureau.state(ref)))
        return done

    ref = bureau.approved()
    bureau.does = look
    bureau.drain()
    assert seen == [(0, "claimed")] and cases(observer) == 1


def test_it_is_done_on_behalf_of_its_intent(bureau, observer):
    said: list[str] = []

    def whose(session: Any, arguments: Any) -> None:
        said.append(session.scalar(text("SELECT current_setting('takeback.intent')")))

    ref = bureau.approved()
    bureau.does = whose
    bureau.drain()
    assert said == [str(bureau.show(ref).entry.intent.id)]


def test_taking_it_back_is_as_of_any_local_effect(bureau, observer):
    ref = bureau.approved()
    bureau.drain()
    assert bureau.restore(None, ref, principal="agent:clerk").status == "done"
    assert cases(observer) == 0 and bureau.state(ref) == "restored"


def test_it_can_be_taken_back_between_the_yes_and_the_deed(bureau, observer):
    ref = bureau.approved()
    assert bureau.restore(None, ref, principal="agent:clerk").status == "done"
    assert bureau.drain() == 0 and cases(observer) == 0


# ── How it may end ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "problem, code",
    [
        (Rejected("the file is closed", alternatives=["next year"]), "provider_rejected"),
        (InvalidReference("to", "dana", message="is nobody"), "invalid_argument"),
    ],
)
def test_what_its_handler_refuses_is_undone_and_remembered(bureau, observer, problem, code):
    def refuse(session: Any, arguments: Any) -> None:
        file_case(session, arguments)
        raise problem

    ref = bureau.approved()
    bureau.does = refuse
    assert bureau.drain() == 1
    assert cases(observer) == 0
    told = bureau.status(ref)
    assert (told.status, told.code, told["effect"]) == ("refused", code, "none")
    assert bureau.drain() == 0 and bureau.performed == 1
    assert bureau.call(None, "open_case", TO).code == code


def serialization_failure(session: Any, arguments: Any) -> None:
    file_case(session, arguments)
    session.execute(text("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$"))


def not_dispatched(session: Any, arguments: Any) -> None:
    file_case(session, arguments)
    raise NotDispatched("the register is locked")


def broken(session: Any, arguments: Any) -> None:
    file_case(session, arguments)
    raise ZeroDivisionError("the secret of the till")


def refused_at_commit(session: Any, arguments: Any) -> None:
    file_case(session, arguments)
    session.execute(text("INSERT INTO public.late (name) VALUES ('nobody')"))


DEFERRED = """
CREATE TABLE IF NOT EXISTS public.late (
    name text REFERENCES public.cases DEFERRABLE INITIALLY DEFERRED)
"""

TROUBLES = [
    (serialization_failure, "provider_unavailable"),
    (not_dispatched, "provider_unavailable"),
    (broken, "internal_error"),
    (refused_at_commit, "internal_error"),
]


@pytest.mark.parametrize("trouble, code", TROUBLES, ids=[one.__name__ for one, _ in TROUBLES])
def test_a_trouble_that_passes_is_waited_out(bureau, observer, clock, trouble, code):
    observer.execute(DEFERRED)
    ref = bureau.approved()
    bureau.does = trouble
    bureau.drain()
    assert (bureau.state(ref), cases(observer)) == ("due", 0)
    assert bureau.kinds(ref)[-2:] == ["attempt_began", "deferred"]
    bureau.does = file_case
    clock.advance(600)
    bureau.drain()
    assert (bureau.state(ref), cases(observer)) == ("succeeded", 1)


@pytest.mark.parametrize("trouble, code", TROUBLES, ids=[one.__name__ for one, _ in TROUBLES])
def test_a_trouble_that_stays_is_given_up_and_never_in_doubt(
    bureau, observer, clock, trouble, code
):
    observer.execute(DEFERRED)
    ref = bureau.approved()
    bureau.does = trouble
    for _ in range(ATTEMPTS_MAX):
        bureau.drain()
        clock.advance(600)
    told = bureau.status(ref)
    assert (told.status, told.code, told["effect"]) == ("refused", code, "none")
    assert bureau.performed == ATTEMPTS_MAX and cases(observer) == 0
    assert "secret" not in told.to_json()
    assert "in_doubt" not in bureau.kinds(ref)
    assert bureau.verify().problems == ()


# ── What it was foreseen to affect ────────────────────────────────────────────────────────────────


def files(*names: str) -> Callable[..., Any]:
    """A handler that files these cases."""

    def perform(session: Any, arguments: Any) -> Performed:
        for name in names:
            session.execute(text("INSERT INTO public.cases VALUES (:name)"), {"name": name})
        return Performed(affected=[Affected(kind="case", id=name) for name in names])

    return perform


def asked_with(bureau: Bureau, *names: str) -> str:
    """A call that waits for a person, who is told that it affects the cases of these names."""
    done = Performed(affected=[Affected(kind="case", id=name) for name in names])
    foreseen = affected_text(foreseen_of(done, bureau.registry.tool("open_case")))
    arguments = canonical_bytes({**TO, "note": ""}).decode()
    command = commands.Record(
        ref=make_ref("open_case", bytes(5)),
        tool="open_case",
        tool_version=1,
        effect="local",
        key="k1:foreseen",
        generation=0,
        run=None,
        principal="agent:clerk",
        arguments=body_digest(bytes(32), arguments),
        needs_approval=True,
        approval_cause="rows",
        approval_for=timedelta(days=1),
        affected=body_digest(bytes(32), foreseen),
    )
    with bureau.context.database.transaction() as tx:
        record(
            tx,
            bureau.context.tenant,
            decide_recording(command),
            arguments=arguments,
            salt=bytes(32),
            affected=(bytes(32), foreseen),
        )
    return command.ref


def test_what_still_affects_what_was_foreseen_is_done(bureau, observer):
    ref = asked_with(bureau, "b", "a")
    bureau.does = files("a", "b")
    assert bureau.approve(None, ref, principal="robin").status == "scheduled"
    bureau.drain()
    assert (bureau.state(ref), cases(observer)) == ("succeeded", 2)
    assert bureau.verify().problems == ()


@pytest.mark.parametrize("now, named", [(("a", "c"), "case c"), (("a",), "case b")])
def test_what_affects_something_else_by_now_is_undone_and_named(bureau, observer, now, named):
    ref = asked_with(bureau, "a", "b")
    bureau.approve(None, ref, principal="robin")
    bureau.does = files(*now)
    bureau.drain()
    told = bureau.status(ref)
    assert (told.status, told.code, cases(observer)) == ("refused", "preview_stale", 0)
    assert named in told.error["message"]
    assert bureau.drain() == 0 and bureau.performed == 1


def test_what_was_undone_since_it_would_affect_something_else_can_be_called_anew(bureau, observer):
    """Its key is not kept for ever: what was foreseen then says nothing of today."""
    first = bureau.asked()
    bureau.approve(None, first, principal="robin")
    bureau.does = files("a", "b")
    bureau.drain()
    assert bureau.status(first).code == "preview_stale"

    anew = bureau.call(None, "open_case", TO, principal="agent:clerk")
    assert (anew.status, anew["replayed"]) == ("needs_approval", False)
    assert bureau.call(None, "open_case", TO, principal="agent:clerk").ref == anew.ref
    assert bureau.retry(None, first, principal="robin").code == "wrong_state"
    bureau.approve(None, anew.ref, principal="robin")
    bureau.drain()

    assert (bureau.state(anew.ref), bureau.state(first)) == ("succeeded", "failed")
    assert cases(observer) == 2
    assert bureau.call(None, "open_case", TO, principal="agent:clerk").ref == anew.ref
    assert bureau.verify().problems == ()


@pytest.mark.parametrize("name", ["arguments", "affected"])
def test_a_body_that_is_altered_is_not_approved_and_not_performed(bureau, observer, name):
    ref = asked_with(bureau, "a")
    expect = bureau.show(ref).asked.expect
    alter = "UPDATE takeback.bodies SET body = replace(body, %s, %s) WHERE name = %s"
    observer.execute(alter, ['"', ' "', name])
    refused = bureau.approve(None, ref, principal="robin")
    assert (refused.code, [v["field"] for v in refused.error["violations"]]) == (
        "approval_mismatch",
        [name],
    )
    observer.execute(alter, [' "', '"', name])
    assert bureau.approve(None, ref, principal="robin", expect=expect).status == "scheduled"
    observer.execute(alter, ['"', ' "', name])
    bureau.drain()
    assert (bureau.state(ref), bureau.performed) == ("parked", 0)
    cause = json.loads(bureau.show(ref).events[-1].payload)["cause"]
    assert cause == "altered"


# ── Deaths, and others at the same moment ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("at", ["before COMMIT", "after COMMIT"])
def test_a_commit_whose_answer_is_lost_is_looked_up_and_not_repeated(
    bureau, observer, database_url, clock, at
):
    """The second transaction of the worker is the one that performs; the first claims."""
    ref = bureau.approved()
    cut = Bureau(database_url, pause=clock.advance)
    stage = Lose(observer, at=at, nth=2)
    stage.watch(*cut.context.database.engines)
    assert cut.drain() == 1
    assert stage.struck == [at]
    assert (bureau.state(ref), cases(observer)) == ("succeeded", 1)
    assert cut.performed == (2 if at == "before COMMIT" else 1)
    cut.close()


def test_while_it_is_performed_nobody_takes_it_over_or_back_however_late(
    bureau, observer, database_url, clock
):
    """Its row is locked until its commit, also when its lease is over."""
    door = Door()
    ref = bureau.approved()

    def wait(session: Any, arguments: Any) -> Any:
        door.wait()
        return file_case(session, arguments)

    bureau.does = wait
    other = Bureau(database_url, pause=clock.advance)
    with Shift(bureau):
        door.knocked()
        clock.advance(31)
        assert Reaper(other.context).run_once() == []
        assert other.worker_of("w")._dispatcher.run_once(1).count == 0
        assert other.restore(None, ref, principal="robin").status == "in_progress"
        door.open()
        eventually(lambda: bureau.state(ref) == "succeeded", "it is done")
    assert (other.performed, cases(observer)) == (0, 1)
    assert other.restore(None, ref, principal="robin").status == "done"
    other.close()


def test_two_workers_that_wake_up_at_once_perform_it_once(bureau, observer, database_url, clock):
    """Both hold the same claim: the lease of the first was over before it began."""
    ref = bureau.approved()
    halted = Bureau(database_url, pause=clock.advance)
    halt = Halt(observer, at="after COMMIT")
    with halt.watching(halted), Shift(halted):
        halt.wait()
        clock.advance(31)
        assert bureau.drain() == 1
        halt.go()
        eventually(lambda: "after lock_free" in halt.points[2:], "it has looked at its row")
    assert (bureau.performed, halted.performed, cases(observer)) == (1, 0, 1)
    assert bureau.state(ref) == "succeeded"


def test_what_is_frozen_meanwhile_is_not_performed(bureau, observer, clock):
    ref = bureau.approved()
    bureau.freeze(tool="open_case", reason="we look at it first", principal="robin")
    assert bureau.drain() == 0 and bureau.performed == 0
    bureau.thaw(tool="open_case", reason="seen", principal="robin")
    clock.advance(600)
    bureau.drain()
    assert (bureau.state(ref), cases(observer)) == ("succeeded", 1)
