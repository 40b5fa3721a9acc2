"""Attempts that nobody knows of, and persons who say what became of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from takeback.model import command as commands
from takeback.model.errors import OutcomeUnknown
from takeback.testing.crash import Stage
from tests.crash.site import Site, expect
from tests.dispatch.office import Office
from tests.dispatch.step import step

RECONCILE_SECONDS = 32


def retry(site: Site, office: Office, stage: Stage | None) -> None:
    """A person has it tried again, and a worker does so."""
    office.retry(None, site.kept["ref"], principal="dana")
    site.work(office)


def resolve(site: Site, office: Office, stage: Stage | None) -> None:
    """A person has found out."""
    office.resolve(None, site.kept["ref"], "succeeded", principal="dana", note="seen there")


def stop(site: Site, office: Office, stage: Stage | None) -> None:
    """A person stops what is tried again, and doesn't know whether it has happened."""
    office.resolve(None, site.kept["ref"], "unknown", principal="dana")


def retried(site: Site, office: Office) -> None:
    """It is parked, and a person has it tried again."""
    lost("send_letter", arrived=True, parked=True)(site, office)
    office.retry(None, site.kept["ref"], principal="robin")


def lost(tool: str, *, arrived: bool, parked: bool = False) -> Callable[[Site, Office], None]:
    """The answer of the only attempt was lost, and it is time to ask, or past it."""

    def prepare(site: Site, office: Office) -> None:
        with _answers_lost(site, tool, arrived=arrived):
            site.kept["ref"] = office.call(None, tool, {"to": site.to}).ref
            site.work(office)
        site.clock.advance(RECONCILE_SECONDS)
        if parked:
            site.work(office)

    return prepare


def lost_restore(site: Site, office: Office) -> None:
    """A shipment was taken back, and nobody knows whether the van has turned round."""
    ref = office.call(None, "ship", {"to": site.to}).ref
    site.work(office)
    with _answers_lost(site, "unship", arrived=True):
        site.kept["ref"] = office.restore(None, ref or "").ref
        site.work(office)
    site.clock.advance(RECONCILE_SECONDS)
    site.work(office)


def not_begun(site: Site, office: Office) -> None:
    """It is parked before it could begin."""
    ref = site.kept["ref"] = office.call(None, "send_letter", {"to": site.to}).ref
    claim = commands.Claim(worker="w1", lease=timedelta(seconds=30))
    step(office, ref, claim, commands.Park(cause="no_upgrade"))


def parked(site: Site) -> list[str]:
    """Nobody but a person can say more, and it was not called again."""
    problems = expect(site, tool="send_letter", count=1, states=("parked",))
    return problems if site.effects("send_letter") == 1 else [*problems, "it was sent again"]


def resolved(site: Site) -> list[str]:
    """It is as the person has said, and happened once."""
    problems = expect(site, tool="send_letter", count=1, states=("succeeded",))
    return problems if site.effects("send_letter") == 1 else [*problems, "it was sent again"]


def restored(site: Site) -> list[str]:
    """What the person has said of the restore is true of what it takes back."""
    return expect(site, tool="ship", count=1, states=("restored",))


@contextmanager
def _answers_lost(site: Site, tool: str, *, arrived: bool) -> Iterator[None]:
    """Within the block the provider of ``tool`` answers nobody."""

    def handle(called: Any) -> Any:
        if arrived:
            site.world.arrive(called)
        raise OutcomeUnknown("the connection was cut")

    site.world.on[tool] = handle
    yield
    del site.world.on[tool]
