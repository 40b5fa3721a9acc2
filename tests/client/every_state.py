"""Every state that a call can have got into, each brought about as it comes about."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from takeback import Rejected
from takeback.model import command as commands
from takeback.model.command import Command
from tests.client.desk import Desk

Asked = tuple[str, dict[str, Any]]

CASE = {"case": "x"}
LETTER = {"to": "r1", "subject": "due"}
LARGE = {"charge": "ch", "amount": 60_000, "currency": "EUR"}
LEASE = timedelta(minutes=30)
CLAIM = commands.Claim(worker="other", lease=LEASE)
BEGIN = commands.Begin(lease=LEASE)
LOSE = commands.LoseTrack(cause="interrupted")
FAIL = commands.Fail(code="provider_rejected")


def refuse(*_: object) -> None:
    raise Rejected("over the ceiling", alternatives=[{"amount": 50}])


def call(desk: Desk, tool: str, arguments: dict[str, Any], *steps: Command) -> Asked:
    """The call, and what others made of it."""
    answer = desk.app.call(None, tool, arguments)
    for step in steps:
        desk.command(answer.ref, step)
    return tool, arguments


def delivered(*steps: Command) -> Callable[[Desk], Asked]:
    """A remote call, and what others made of it."""

    def bring(desk: Desk) -> Asked:
        desk.case("x")
        return call(desk, "deliver", CASE, *steps)

    return bring


def decided(word: str) -> Callable[[Desk], Asked]:
    """A call that a person has decided about."""

    def bring(desk: Desk) -> Asked:
        asked = call(desk, "refund", LARGE)
        desk.app.decide(None, next(iter(desk.states())), word, principal="mo")
        return asked

    return bring


def expired(desk: Desk) -> Asked:
    asked = call(desk, "refund", LARGE)
    desk.shift(timedelta(days=2))
    desk.work()
    return asked


def played(tool: str, perform: Any = None, restore: Any = None) -> Callable[[Desk], Asked]:
    """A call whose handler a worker has run, if it was not run at once."""

    def bring(desk: Desk) -> Asked:
        desk.case("x", perform, restore=restore)
        asked = call(desk, tool, CASE)
        desk.work()
        return asked

    return bring


def taken_back(bring: Callable[[Desk], Asked], *, works: bool = True) -> Callable[[Desk], Asked]:
    """What ``bring`` brings about, and then it is taken back; by a worker, where one ``works``."""

    def then(desk: Desk) -> Asked:
        asked = bring(desk)
        desk.app.restore(None, next(iter(desk.states())))
        if works:
            desk.work()
        return asked

    return then


def purged(bring: Callable[[Desk], Asked]) -> Callable[[Desk], Asked]:
    """What ``bring`` brings about, of which no more than a stub is left."""

    def then(desk: Desk) -> Asked:
        asked = bring(desk)
        desk.command(next(iter(desk.states())), commands.Purge())
        desk.rows("DELETE FROM takeback.bodies")
        return asked

    return then


FINAL: Mapping[str, tuple[str, Callable[[Desk], Asked]]] = {
    "succeeded_remote": ("succeeded", played("deliver")),
    "succeeded_local": ("succeeded", played("act")),
    "failed_remote": ("failed", played("deliver", refuse)),
    "failed_local": ("failed", played("act", refuse)),
    "cancelled": ("cancelled", taken_back(lambda desk: call(desk, "send_letter", LETTER))),
    "denied": ("denied", decided("deny")),
    "expired": ("expired", expired),
    "restored_remote": ("restored", taken_back(played("deliver"))),
    "restored_local": ("restored", taken_back(played("act"))),
    "restore_failed": ("restore_failed", taken_back(played("deliver", None, refuse))),
}

STATES: Mapping[str, tuple[str, Callable[[Desk], Asked]]] = {
    "awaiting_approval": ("awaiting_approval", lambda desk: call(desk, "refund", LARGE)),
    "approved": ("due", decided("approve")),
    "held": ("held", lambda desk: call(desk, "send_letter", LETTER)),
    "due": ("due", delivered()),
    "claimed": ("claimed", delivered(CLAIM)),
    "executing": ("executing", delivered(CLAIM, BEGIN)),
    "in_doubt": ("in_doubt", delivered(CLAIM, BEGIN, LOSE)),
    "parked": ("parked", delivered(CLAIM, BEGIN, LOSE, commands.Park())),
    "parked_before_it_began": ("parked", delivered(CLAIM, commands.Park(cause="no_upgrade"))),
    "contradicted": (
        "failed",
        delivered(CLAIM, BEGIN, FAIL, commands.AnswerLate(attempt=1, outcome="succeeded")),
    ),
    "restoring": ("restoring", taken_back(played("deliver"), works=False)),
    **FINAL,
    **{f"purged_{name}": ("purged", purged(bring)) for name, (_, bring) in FINAL.items()},
}
"""By name: the state that is stored, and how it is brought about. The call is the first intent."""
