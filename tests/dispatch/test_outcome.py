"""What a handler answers or raises, and what the ledger says of it then."""

import asyncio
import math
import os
from types import SimpleNamespace
from typing import Any

import pytest

from takeback.declare import BLIND, KEYED, Remote, hours
from takeback.dispatch.outcome import SAID_LENGTH_MAX, wait_before
from takeback.model import command as commands
from takeback.model.errors import (
    DatabaseUnavailable,
    InvalidReference,
    NotDispatched,
    NotRestorable,
    OutcomeUnknown,
    Rejected,
)
from takeback.model.handler import Affected, Handler, Performed
from tests.dispatch.office import ROWS, Called, Office, World, row
from tests.dispatch.test_arguments import in_doubt


def drain(office: Office, clock: Any) -> None:
    office.worker_of("w", sleep=clock.advance).run(drain=True)


def raising(problem: BaseException) -> Any:
    def perform(called: Any) -> None:
        raise problem

    return perform


@pytest.mark.parametrize(
    "problem",
    [
        ValueError("broken"),
        OutcomeUnknown("reset"),
        DatabaseUnavailable("the handler's own"),
        TimeoutError(),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        StopIteration(),
        RecursionError(),
        MemoryError(),
    ],
    ids=lambda p: type(p).__name__,
)
@pytest.mark.parametrize("tool", ["send_letter", "pay"])
def test_whatever_else_ends_an_attempt_leaves_it_in_doubt(tool, problem, office, world, clock):
    """It may have happened: never failed, never tried again unasked, and the worker goes on."""
    world.on[tool] = lambda called: (
        raising(problem)(called) if called.to == "dana" else world.arrive(called)
    )
    ref = office.call(None, tool, {"to": "dana"}).ref
    other = office.call(None, tool, {"to": "robin"}).ref

    drain(office, clock)
    drain(office, clock)

    assert office.state(ref) == "in_doubt" and world.called("dana") == 1
    assert office.state(other) == "succeeded"


@pytest.mark.parametrize("problem", [Rejected("no"), InvalidReference("to", "x", message="no")])
def test_a_refusal_proves_that_nothing_happened(problem, office, world, clock):
    world.on["send_letter"] = raising(problem)
    ref = office.call(None, "send_letter", {"to": "dana"}).ref

    drain(office, clock)
    again = office.call(None, "send_letter", {"to": "dana"})

    assert office.state(ref) == "failed" and world.called("dana") == 1
    assert again.status == "refused" and again.ref == ref


def test_what_never_got_through_is_tried_again_and_given_up_after_so_many(
    database_url, world, clock
):
    """S0.11, S0.2: Attempts that did nothing are the engine's to repeat, and not the model's."""
    rows = [row("send_letter", Remote(upstream=BLIND, attempts_max=3))]
    office = Office(database_url, world, rows=rows, pause=clock.advance)
    world.on["send_letter"] = raising(NotDispatched("refused"))
    ref = office.call(None, "send_letter", {"to": "dana"}).ref

    states = []
    for _ in range(4):
        drain(office, clock)
        states.append(office.state(ref))
        clock.advance(600)

    assert states == ["due", "due", "failed", "failed"] and world.called("dana") == 3
    assert office.status(ref or "").code == "provider_unavailable"
    office.close()


@pytest.mark.parametrize(
    ("problem", "event", "traced"),
    [
        (NotDispatched("refused"), "attempt_refused", False),
        (Rejected("never"), "attempt_refused", False),
        (OutcomeUnknown("cut off"), "attempt_in_doubt", False),
        (RuntimeError("a mistake"), "attempt_broke", True),
        (NotRestorable("a mistake"), "attempt_broke", True),
    ],
    ids=["not dispatched", "rejected", "unknown", "broke", "means nothing here"],
)
def test_what_a_handler_says_is_logged_as_what_it_is_and_only_what_it_did_not_with_a_traceback(
    problem, event, traced, office, world, clock, caplog
):
    caplog.set_level("INFO", "takeback")
    world.on["send_letter"] = raising(problem)
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    drain(office, clock)
    (said,) = [r.getMessage() for r in caplog.records if "'event': 'attempt_" in r.getMessage()]
    assert f"'event': '{event}'" in said and str(problem) in said
    assert ("Traceback" in said) is traced
    reason = office.show(ref or "").reasons[1]
    assert reason.details.startswith(f"{problem}\n\n") and reason.trace_id in said


@pytest.mark.parametrize("problem", [NotDispatched("refused"), RuntimeError("a mistake")])
def test_of_what_a_handler_says_no_long_traceback_is_kept_each_time(problem, office, world, clock):
    """An outage says it again and again; a mistake is looked for in all of its traceback."""

    def deep(called: Called, levels: int = 9) -> Any:
        if levels == 0:
            raise problem
        return shallow(called, levels)

    def shallow(called: Called, levels: int) -> Any:
        return deep(called, levels - 1)

    world.on["send_letter"] = deep
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    drain(office, clock)
    kept = office.show(ref or "").reasons[1].details
    is_said = isinstance(problem, NotDispatched)
    assert (len(kept) <= len(f"{problem}\n\n") + SAID_LENGTH_MAX) is is_said
    assert kept.rstrip().endswith(str(problem)), "the end is what tells"


def test_a_provider_that_sheds_load_is_asked_ever_later_and_no_model_hears_of_it(
    office, world, clock
):
    """S0.11: the waits are drawn from ever longer spans, and whoever asks hears only that it comes.

    Each is drawn from the whole of its span, so a later one may be the shorter of two.
    """
    world.on["send_letter"] = raising(NotDispatched("slow down, says the post"))
    first = office.call(None, "send_letter", {"to": "dana"})
    waits = []
    for tried in range(1, 4):
        drain(office, clock)
        assert world.called("dana") == tried
        entry = office.show(first.ref or "").entry
        waits.append((entry.intent.due_at - entry.now).total_seconds())
        again = office.call(None, "send_letter", {"to": "dana"})
        assert (again.ref, again.status, again.error) == (first.ref, "scheduled", None)
        assert "slow down" not in again.to_json()
        clock.advance(waits[-1] + 1)
    spans = [wait_before(tried, None, 1.0).total_seconds() for tried in range(1, 4)]
    assert spans[0] < spans[1] < spans[2]
    assert all(0 <= wait <= span for wait, span in zip(waits, spans, strict=True))


def test_the_providers_own_word_on_when_to_come_back_is_kept(office, world, clock):
    world.on["send_letter"] = raising(NotDispatched("busy", retry_after_s=100))
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    drain(office, clock)

    clock.advance(99)
    drain(office, clock)
    assert world.called("dana") == 1
    clock.advance(2)
    drain(office, clock)
    assert world.called("dana") == 2 and office.state(ref) == "due"


def test_a_row_says_how_long_the_pauses_between_its_attempts_are(database_url, world, clock):
    effect = Remote(upstream=BLIND, retry_first_seconds=40, retry_seconds_max=60)
    office = Office(
        database_url,
        world,
        rows=[row("send_letter", effect)],
        pause=clock.advance,
        entropy=lambda count: b"\xff" * count if count == 4 else os.urandom(count),
    )
    world.on["send_letter"] = raising(NotDispatched("refused"))
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    waits = []
    for _ in range(4):
        drain(office, clock)
        entry = office.show(ref or "").entry
        assert entry.intent.due_at is not None
        waits.append(round((entry.intent.due_at - entry.now).total_seconds()))
        clock.advance(61)

    assert waits == [40, 60, 60, 60] and world.called("dana") == 4
    office.close()


@pytest.mark.parametrize("wait", [math.inf, -math.inf, math.nan, -5.0, 1e300, "soon"])
def test_a_provider_that_names_no_sensible_time_stops_nobody(wait, office, world, clock):
    world.on["send_letter"] = raising(NotDispatched("busy", retry_after_s=wait))
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    other = office.call(None, "ship", {"to": "dana"}).ref

    drain(office, clock)

    assert (office.state(ref), office.state(other)) == ("due", "succeeded")


def test_giving_up_proves_nothing_while_an_earlier_attempt_is_unknown(database_url, world, clock):
    """The last one never got through; the first one may have: in doubt, and never failed."""
    rows = [row("pay", Remote(upstream=KEYED(ttl=hours(24)), attempts_max=2))]
    office = Office(database_url, world, rows=rows, pause=clock.advance)
    ref = in_doubt(office, "pay")
    from tests.dispatch.step import step

    step(office, ref, commands.Requeue(cause="provider_key"))
    world.on["pay"] = raising(NotDispatched("refused"))

    drain(office, clock)

    assert office.state(ref) == "in_doubt" and world.called("dana") == 1
    office.close()


class Odd:
    """Something that can't be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


def circle() -> list[Any]:
    one: list[Any] = []
    one.append(one)
    return one


@pytest.mark.parametrize(
    "answer",
    [
        {1, 2},
        Odd(),
        math.nan,
        circle(),
        "a lone \ud800",
        "a NUL \0",
        10**5000,
        (n for n in "ab"),
        Performed(result={1j}),
        Performed(affected=[Odd()]),  # type: ignore[list-item]
        Performed(affected=7),  # type: ignore[arg-type]
        Performed(affected=[Affected(kind="k\0", id="\ud800")]),
        Performed(affected_count=-1),
        Performed(affected_count=2**70),
        Performed(affected_count="many"),  # type: ignore[arg-type]
        Performed(summary=Odd(), leaves=7),  # type: ignore[arg-type]
    ],
    ids=lambda a: type(a).__name__,
)
def test_an_answer_that_can_not_be_stored_settles_all_the_same(answer, office, world, clock):
    """It has happened, whatever the handler says of it; and nobody else waits for it."""
    world.on["send_letter"] = lambda called: answer if called.to == "dana" else world.arrive(called)
    refs = [office.call(None, "send_letter", {"to": to}).ref for to in ("dana", "robin")]

    drain(office, clock)

    assert [office.state(ref) for ref in refs] == ["succeeded", "succeeded"]
    assert office.call(None, "send_letter", {"to": "dana"}).status == "done"


@pytest.mark.parametrize("answer", [None, 0, "", [], {}, False])
def test_nothing_is_taken_for_no_answer(answer, office, world, clock):
    """powertools-python #4759: a zero was read as None."""
    world.on["send_letter"] = lambda called: answer
    ref = office.call(None, "send_letter", {"to": "dana"}).ref

    drain(office, clock)

    stored = office.show(ref or "").entry.bodies["result"]["result"]
    assert stored == answer and type(stored) is type(answer)


@pytest.mark.parametrize(
    "alternatives", [[{1, 2}], [math.nan], [circle()], [Odd()], ["\ud800"], [{"a": "\0"}]]
)
def test_a_refusal_that_can_not_be_stored_is_one_all_the_same(alternatives, office, world, clock):
    world.on["send_letter"] = raising(Rejected("no \ud800\0", alternatives=alternatives))
    ref = office.call(None, "send_letter", {"to": "dana"}).ref

    drain(office, clock)

    assert office.state(ref) == "failed"
    assert office.status(ref or "").code == "provider_rejected"


class Awaitable:
    """No coroutine, and to be awaited all the same."""

    def __init__(self, world: World, called: Any) -> None:
        self._world, self._called = world, called

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return self._world.arrive(self._called)


async def arrives(world: World, called: Any) -> Any:
    await asyncio.sleep(0)
    return world.arrive(called)


async def breaks(world: World, called: Any) -> Any:
    await asyncio.sleep(0)
    raise ValueError("broken")


async def refuses(world: World, called: Any) -> Any:
    await asyncio.sleep(0)
    raise Rejected("no")


@pytest.mark.parametrize(
    "face, state, effects",
    [
        (arrives, "succeeded", 1),
        (Awaitable, "succeeded", 1),
        (breaks, "in_doubt", 0),
        (refuses, "failed", 0),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_an_async_handler_is_run_to_its_end(face, state, effects, office, world, clock):
    """What is only to be awaited has not happened yet: called done, it would never happen."""
    world.on["send_letter"] = lambda called: face(world, called)
    ref = office.call(None, "send_letter", {"to": "dana"}).ref

    drain(office, clock)

    assert (office.state(ref), world.arrived("dana")) == (state, effects)


def test_an_outcome_that_the_database_refuses_is_kept_without_its_body(
    database_url, office, world, clock
):
    """A rule of the host's own on our table, say: it happened, so it is settled, and alone."""
    import psycopg

    with psycopg.connect(database_url) as connection:
        connection.execute(
            "ALTER TABLE takeback.bodies ADD CONSTRAINT no_secrets CHECK (body NOT LIKE '%secret%')"
        )
    world.on["send_letter"] = lambda called: "secret" if called.to == "dana" else "fine"
    refs = [office.call(None, "send_letter", {"to": to}).ref for to in ("dana", "robin")]

    drain(office, clock)

    assert [office.state(ref) for ref in refs] == ["succeeded", "succeeded"]
    assert "result" not in office.show(refs[0] or "").entry.bodies
    assert office.show(refs[1] or "").entry.bodies["result"]["result"] == "fine"


def test_a_tool_that_lost_its_way_back_is_refused_not_tried(database_url, office, world, clock):
    """A restore recorded before the deploy that took the face away."""
    ref = office.call(None, "ship", {"to": "dana"}).ref
    drain(office, clock)
    restore = office.restore(None, ref).ref
    rows = [r for r in ROWS if r.name != "ship"] + [row("ship", Remote(upstream=BLIND))]
    handlers = vars(world.handlers(rows)) | {"ship": Handler(perform=lambda a, b: None)}
    new = Office(database_url, world, rows=rows, handlers=SimpleNamespace(**handlers))

    drain(new, clock)

    assert (new.state(restore), new.state(ref)) == ("failed", "restore_failed")
    new.close()
