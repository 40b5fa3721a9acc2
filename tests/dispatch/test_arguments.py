"""Arguments recorded long ago, or there no more: run as meant, or parked, never guessed."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel, field_validator

from takeback.declare import Text
from takeback.model import command as commands
from takeback.model.handler import Handler
from tests.dispatch.office import ROWS, Office, World
from tests.dispatch.step import step


class Address(BaseModel):
    """What a later release calls the addressee."""

    address: Text
    note: Text = ""


class Fussy(BaseModel):
    """The same arguments, and a rule that came without a new version."""

    to: Text
    note: Text = ""

    @field_validator("to")
    @classmethod
    def whole_names_only(cls, value: str) -> str:
        if value == "dana":
            raise ZeroDivisionError("no ValueError, and not foreseen")
        return value


def renamed(held: dict[str, Any]) -> dict[str, Any]:
    return {"address": held["to"], "note": f"upgraded {held['note']}"}


def raising(problem: Exception) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def upgrade(held: dict[str, Any]) -> dict[str, Any]:
        raise problem

    return upgrade


class Deployed(Office):
    """The office after a deploy that changed the row of one tool; ``seen`` is what it is handed."""

    def __init__(self, url: str, tool: str, **changes: Any) -> None:
        self.seen: list[Any] = []
        rows = [replace(row, **changes) if row.name == tool else row for row in ROWS]

        def face(given: Any, attempt: Any) -> None:
            self.seen.append(getattr(given, "arguments", given))

        handlers = vars(World().handlers(rows)) | {tool: Handler(perform=face, restore=face)}
        if tool == "send_letter":
            handlers[tool] = Handler(perform=face)
        super().__init__(url, World(), rows=rows, handlers=SimpleNamespace(**handlers))


ERROR = logging.ERROR
VERSION_2 = {"version": 2, "arguments": Address, "key": ("address",)}


def drain(office: Office, clock: Any) -> None:
    office.worker_of("w", sleep=clock.advance).run(drain=True)


def causes(office: Office, ref: str | None) -> list[str]:
    events = office.show(ref or "").events
    ends: list[Any] = [e.fact().event for e in events if e.kind == "intent.parked"]
    return [end.cause for end in ends]


def test_what_an_older_release_recorded_runs_through_the_upgrade(database_url, office, clock):
    ref = office.call(None, "send_letter", {"to": "dana", "note": "hello"}).ref
    new = Deployed(database_url, "send_letter", **VERSION_2, upgrades={1: renamed})

    drain(new, clock)

    assert new.state(ref) == "succeeded"
    assert new.seen == [Address(address="dana", note="upgraded hello")]
    new.close()


def test_what_is_in_doubt_across_a_deploy_is_repeated_through_the_upgrade(
    database_url, office, clock
):
    """Held, begun and in doubt under the old row: the same key of the provider's, read anew."""
    ref = in_doubt(office, "pay")
    clock.advance(32)
    new = Deployed(database_url, "pay", **VERSION_2, upgrades={1: renamed})

    drain(new, clock)

    assert new.state(ref) == "succeeded"
    assert new.seen == [Address(address="dana", note="upgraded ")]
    new.close()


def test_what_is_in_doubt_and_can_not_be_read_any_more_is_parked_and_not_asked_about(
    database_url, office, world, clock
):
    ref = in_doubt(office, "pay")
    clock.advance(32)
    upgrades = {1: raising(ValueError("no"))}
    new = Deployed(database_url, "pay", **VERSION_2, upgrades=upgrades)

    drain(new, clock)

    assert (new.state(ref), causes(new, ref), new.seen) == ("parked", ["no_upgrade"], [])
    new.close()


@pytest.mark.parametrize("tool", ["send_letter", "pay"])
@pytest.mark.parametrize(
    "upgrade",
    [
        raising(ValueError("no")),
        raising(RuntimeError("not foreseen")),
        lambda held: held,
        lambda held: None,
    ],
    ids=["raises", "raises what nobody foresaw", "leads nowhere", "answers nothing"],
)
def test_what_no_upgrade_leads_away_from_is_parked_and_never_run(
    upgrade, tool, database_url, office, clock, caplog
):
    """Never run with misread arguments, never failed in silence; the others go on."""
    ref = office.call(None, tool, {"to": "dana"}).ref
    other = office.call(None, "ship", {"to": "robin"}).ref
    new = Deployed(database_url, tool, **VERSION_2, upgrades={1: upgrade})

    drain(new, clock)

    assert (new.state(ref), causes(new, ref), new.seen) == ("parked", ["no_upgrade"], [])
    assert new.kinds(ref) == ["recorded", "claimed", "parked"]
    assert new.state(other) == "succeeded"
    assert any("intent_parked" in r.getMessage() for r in caplog.records if r.levelno >= ERROR)
    new.close()


def test_what_is_no_call_of_its_row_any_more_is_parked(database_url, office, clock):
    """A validator of the tool author's, which raises something that pydantic passes on."""
    ref = office.call(None, "send_letter", {"to": "dana"}).ref
    other = office.call(None, "send_letter", {"to": "robin"}).ref
    new = Deployed(database_url, "send_letter", arguments=Fussy)

    drain(new, clock)

    assert (new.state(ref), causes(new, ref)) == ("parked", ["unreadable"])
    assert [one.to for one in new.seen] == ["robin"] and new.state(other) == "succeeded"
    new.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM takeback.bodies WHERE intent_id = %s",
        "UPDATE takeback.bodies SET body = '{' WHERE intent_id = %s",
        "UPDATE takeback.bodies SET body = '[1]' WHERE intent_id = %s",
        "UPDATE takeback.bodies SET body = repeat('[', 200000) WHERE intent_id = %s",
    ],
    ids=["erased", "cut off", "no object", "nested without end"],
)
@pytest.mark.parametrize("tool", ["send_letter", "pay"])
def test_one_intent_whose_arguments_are_gone_stops_nobody(
    tool, damage, database_url, office, world, clock
):
    """The rest of its batch is carried out; it waits for a person."""
    refs = [office.call(None, tool, {"to": name}).ref for name in ("dana", "robin", "alex")]
    with psycopg.connect(database_url) as connection:
        connection.execute(damage, [office.show(refs[1]).entry.intent.id])

    drain(office, clock)

    with psycopg.connect(database_url) as connection:
        states = connection.execute("SELECT ref, state FROM takeback.intents").fetchall()
    assert dict(states) == dict(zip(refs, ("succeeded", "parked", "succeeded"), strict=True))
    assert world.called("robin") == 0


def test_a_restore_whose_original_can_not_be_read_is_parked(database_url, office, world, clock):
    ref = office.call(None, "pay", {"to": "dana"}).ref
    drain(office, clock)
    restore = office.restore(None, ref).ref
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "DELETE FROM takeback.bodies WHERE intent_id = %s",
            [office.show(ref).entry.intent.id],
        )

    drain(office, clock)

    assert (office.state(restore), office.state(ref)) == ("parked", "restoring")
    assert world.called("dana", tool="unpay") == 0


def in_doubt(office: Office, tool: str) -> str | None:
    """An intent whose first attempt is unknown, and which may be tried again."""
    ref = office.call(None, tool, {"to": "dana"}).ref
    lease = timedelta(seconds=30)
    claim, begin = commands.Claim(worker="w", lease=lease), commands.Begin(lease=lease)
    step(office, ref, claim, begin)
    step(office, ref, commands.LoseTrack(cause="exception"))
    return ref


@pytest.mark.parametrize("tool", ["pay", "ship"])
def test_what_the_provider_keeps_no_key_for_any_more_is_parked(tool, office, world, clock):
    """Begun by the claim or on its own: behind ``begin_before`` a repeat could be a second one."""
    ref = in_doubt(office, tool)
    soon = office.show(ref or "").entry.now + timedelta(minutes=1)
    step(office, ref, commands.Requeue(cause="provider_key", begin_before=soon))
    clock.advance(61)

    drain(office, clock)

    assert (office.state(ref), causes(office, ref)) == ("parked", ["key_expired"])
    assert world.called("dana") == 0


def test_a_key_that_runs_out_between_claim_and_begin_is_not_used(office, world, clock):
    ref = in_doubt(office, "ship")
    soon = office.show(ref or "").entry.now + timedelta(minutes=1)
    step(office, ref, commands.Requeue(cause="provider_key", begin_before=soon))
    worker = office.worker_of("w")
    claimed = worker._dispatcher.run_once(1)
    clock.advance(61)

    worker._crew.take_on(claimed.works, float("inf"))
    worker._crew.look(5.0)

    assert (office.state(ref), causes(office, ref)) == ("parked", ["key_expired"])
    assert world.called("dana") == 0


def test_what_a_late_answer_has_contradicted_is_not_begun(office, world, clock):
    """Its first attempt says that it did it, after find had said that it never arrived."""
    ref = in_doubt(office, "pay")
    step(office, ref, commands.Requeue(cause="absent"))
    step(office, ref, commands.AnswerLate(attempt=1, outcome="succeeded"))

    drain(office, clock)

    assert (office.state(ref), causes(office, ref)) == ("parked", ["contradicted"])
    assert world.called("dana") == 0
