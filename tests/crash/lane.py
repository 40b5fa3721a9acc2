"""Telexes: one cable for all, at a rate, with a breaker, and in turn."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from takeback.catalog.registry import Registry
from takeback.declare import Breaker, Connector, seconds
from takeback.model.errors import NotDispatched
from takeback.testing.crash import Stage
from tests.crash.site import Site, expect
from tests.dispatch.office import Office

BREAKER = Breaker(failures=1, pause=seconds(10), pause_max=seconds(20))
ROUNDS = 2


def governed(office: Office, **bounds: Any) -> Office:
    """The same process, whose catalog says this of the cable."""
    connectors = (Connector("cable", **{"breaker": None} | bounds),)
    registry = Registry({bound.name: bound for bound in office.context.registry}, connectors)
    office.context = replace(office.context, registry=registry)
    return office


def carry_out_at_a_rate(site: Site, office: Office, stage: Stage | None) -> None:
    """One at once, and one a second."""
    site.work(governed(office, concurrency=1, rate=1.0))


def probe(site: Site, office: Office, stage: Stage | None) -> None:
    """The pause is over, and the provider is back."""
    site.work(governed(office, breaker=BREAKER))


def carry_out_in_turn(site: Site, office: Office, stage: Stage | None) -> None:
    """What is parked holds up nobody; what is in doubt does until then."""
    for _ in range(ROUNDS):
        site.work(office)
        site.clock.advance(60)


def telexes(count: int, *, in_turn: bool = False) -> Callable[[Site, Office], None]:
    """So many are to go, over a cable that nobody has used."""

    def prepare(site: Site, office: Office) -> None:
        site.forget_connectors()
        for number in range(count):
            to = f"{site.to}-{number}"
            office.call(None, "telex", {"to": to, "note": site.to if in_turn else to})

    return prepare


def paused(site: Site, office: Office) -> None:
    """Nobody has answered the first call, and that pauses the cable for ten seconds."""

    def answer(called: Any) -> Any:
        if not site.world.refused:
            raise NotDispatched("nobody answers")
        return site.world.arrive(called)

    site.world.on["telex"] = answer
    telexes(1)(site, office)
    site.work(governed(office, breaker=BREAKER))
    site.clock.advance(10)


def sent(count: int) -> Callable[[Site], list[str]]:
    """All have gone, or are in doubt, in the order in which they were called."""

    def check(site: Site) -> list[str]:
        problems = expect(
            site, tool="telex", count=count, states=("succeeded", "in_doubt", "parked")
        )
        gone = [one.to for one in site.world.effects if one.tool == "telex"]
        return problems if gone == sorted(gone) else [*problems, f"they went as {gone}"]

    return check


def sent_in_any_order(count: int) -> Callable[[Site], list[str]]:
    """All have gone, or are in doubt."""
    states = ("succeeded", "in_doubt", "parked")
    return lambda site: expect(site, tool="telex", count=count, states=states)
