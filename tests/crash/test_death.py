"""Death at every statement, commit and call: nothing lost, nothing doubled.

One death at a time in every run. Two, the second one in whoever takes over, with

    TAKEBACK_TEST_EXHAUSTIVE=1 make test ARGS="tests/crash -k two"
"""

import itertools
import os
from collections.abc import Callable

import pytest

from takeback.testing.crash import Fault
from tests.crash.enumeration import play, points_of
from tests.crash.site import Site
from tests.crash.workflow import WORKFLOWS

EXHAUSTIVE = pytest.mark.skipif(
    not os.environ.get("TAKEBACK_TEST_EXHAUSTIVE"), reason="wants TAKEBACK_TEST_EXHAUSTIVE=1"
)
PAIRS_SECONDS_MAX = 3600


@pytest.mark.chaos
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("name", WORKFLOWS)
def test_nothing_is_lost_or_doubled_wherever(name: str, fault: Fault, new_site: Callable[[], Site]):
    """S2.7: Played to its end, struck once at each point, taken up again by whoever comes after.

    ``lost`` is a connection that is cut under a process that lives on: a commit that was applied
    and not answered, or not applied.
    """
    workflow = WORKFLOWS[name]
    points = points_of(workflow, new_site())
    print(f"{name}: {len(points)} points, each struck by {fault.value}")
    problems = []
    for number, point in enumerate(points):
        found = play(workflow, new_site(), {number: fault})
        assert found is not None, f"the point did not come again: {point} ({number})"
        problems += [f"{fault.value} {point} ({number}): {problem}" for problem in found]
    with new_site().process() as office:
        problems += [str(problem) for problem in office.verify().problems]
    assert not problems, "\n".join(problems)
    assert any("COMMIT" in point for point in points)


@EXHAUSTIVE
@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(PAIRS_SECONDS_MAX)
@pytest.mark.parametrize("name", WORKFLOWS)
def test_two_deaths_lose_and_double_no_more_than_one(name: str, new_site: Callable[[], Site]):
    """Each point of the first process, with each point of the one that takes over."""
    workflow = WORKFLOWS[name]
    pairs = 0
    problems = []
    for first in range(len(points_of(workflow, new_site()))):
        for second in itertools.count():
            deaths = ({first: Fault.DEATH}, {second: Fault.DEATH})
            found = play(workflow, new_site(), *deaths)
            if found is None:
                break
            pairs += 1
            problems += [f"death at {first}, then at {second}: {problem}" for problem in found]
    with new_site().process() as office:
        problems += [str(problem) for problem in office.verify().problems]
    print(f"{name}: {pairs} pairs")
    assert pairs > 0 and not problems, "\n".join(problems[:50])
