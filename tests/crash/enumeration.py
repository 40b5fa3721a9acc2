"""Playing a workflow: to its end, or struck at some of its points and then taken up again."""

from collections.abc import Mapping
from contextlib import suppress

import psycopg
from sqlalchemy.exc import OperationalError

from takeback.model.errors import RetryTransaction
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
    problems = _finish(workflow, site)
    assert not problems, problems
    return stage.points


def play(workflow: Workflow, site: Site, *, strike: Mapping[int, Fault]) -> list[str]:
    """What is wrong after the workflow was struck and then taken up by others."""
    _prepare(workflow, site)
    problems = _struck(workflow, site, site.stage(strike))
    return problems + _finish(workflow, site)


def _prepare(workflow: Workflow, site: Site) -> None:
    with site.process() as office:
        workflow.prepare(site, office)


def _struck(workflow: Workflow, site: Site, stage: Stage) -> list[str]:
    def once() -> None:
        with site.process(stage) as office:
            workflow.play(site, office, stage)

    with suppress(Died, RetryTransaction, psycopg.OperationalError, OperationalError):
        once()
    if not stage.struck:
        return ["the point did not come"]
    if workflow.atomic:
        return _torn(site)
    return []


def _torn(site: Site) -> list[str]:
    recorded, written = bool(site.rows()), site.has_business_row()
    if recorded == written:
        return []
    return [f"torn: the intent is {'' if recorded else 'not '}there, the row is not so"]


def _finish(workflow: Workflow, site: Site) -> list[str]:
    """Somebody does it again, and when everything that was open is over, nothing is wrong."""
    with site.process() as office:
        workflow.play(site, office, None)
        for _ in range(ROUNDS_MAX):
            if not site.is_anything_open():
                break
            site.clock.advance(LEASE_AND_WINDOW_SECONDS)
            site.work(office, "w2")
    return [*broken(site), *workflow.check(site)]
