"""Playing a workflow: to its end, or struck at some of its points and then taken up again."""

from collections.abc import Mapping
from contextlib import suppress

import psycopg
from sqlalchemy.exc import OperationalError

from takeback.model.errors import Unavailable
from takeback.testing.crash import Died, Fault, Stage
from tests.crash.site import Site, broken
from tests.crash.workflow import Workflow

LEASE_AND_WINDOW_SECONDS = 700
"""Longer than every lease, every window and every wait before another attempt."""

ROUNDS_MAX = 4
"""What is left behind is due again, then carried out, then perhaps deferred once."""


def points_of(workflow: Workflow, site: Site) -> list[str]:
    """The points that the workflow comes to when nothing strikes; it has to end well."""
    stage = site.stage()
    _prepare(workflow, site)
    with site.process(stage) as office:
        workflow.play(site, office, stage)
    problems = finish(workflow, site)
    assert not problems, problems
    return stage.points


def play(workflow: Workflow, site: Site, *strikes: Mapping[int, Fault]) -> list[str] | None:
    """What is wrong after the workflow was struck in one process after the other, and then taken up
    by one that lives. None when a process came to its end before it was struck.
    """
    _prepare(workflow, site)
    problems = []
    for strike in strikes:
        stage = site.stage(strike)
        _struck(workflow, site, stage)
        if not stage.struck:
            return None
        if workflow.atomic:
            problems += _torn(site)
    return problems + finish(workflow, site)


def _prepare(workflow: Workflow, site: Site) -> None:
    with site.process() as office:
        workflow.prepare(site, office)


def _struck(workflow: Workflow, site: Site, stage: Stage) -> None:
    """Plays until the end or until death; whoever lost a connection may have given up."""
    with (
        suppress(Died, Unavailable, psycopg.OperationalError, OperationalError),
        site.process(stage) as office,
    ):
        workflow.play(site, office, stage)


def _torn(site: Site) -> list[str]:
    recorded, written = bool(site.rows()), site.has_business_row()
    if recorded == written:
        return []
    return [f"torn: the intent is {'' if recorded else 'not '}there, the row is not so"]


def finish(workflow: Workflow, site: Site) -> list[str]:
    """Somebody does it again, and when everything that was open is over, nothing is wrong."""
    with site.process() as office:
        workflow.play(site, office, None)
        for _ in range(ROUNDS_MAX):
            if not site.is_anything_open():
                break
            site.clock.advance(LEASE_AND_WINDOW_SECONDS)
            site.work(office, "w2")
    return [*broken(site), *workflow.check(site)]
