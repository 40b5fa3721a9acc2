"""Death at every statement, commit and call, one at a time: nothing lost, nothing doubled."""

from collections.abc import Callable

import pytest

from takeback.testing.crash import Fault
from tests.crash.enumeration import play, points_of
from tests.crash.site import Site
from tests.crash.workflow import WORKFLOWS


@pytest.mark.chaos
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("name", WORKFLOWS)
def test_nothing_is_lost_or_doubled_wherever(name: str, fault: Fault, new_site: Callable[[], Site]):
    """Played to its end, struck once at each point, and taken up again by whoever comes after.

    ``lost`` is a connection that is cut under a process that lives on: a commit that was applied
    and not answered, or not applied.
    """
    workflow = WORKFLOWS[name]
    points = points_of(workflow, new_site())
    print(f"{name}: {len(points)} points, each struck by {fault.value}")
    problems = []
    for number, point in enumerate(points):
        found = play(workflow, new_site(), strike={number: fault})
        problems += [f"{fault.value} {point} ({number}): {problem}" for problem in found]
    with new_site().process() as office:
        problems += [str(problem) for problem in office.verify().problems]
    assert not problems, "\n".join(problems)
    assert any("COMMIT" in point for point in points)
