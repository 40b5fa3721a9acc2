"""Real processes, killed for real at the same points, with a real mail server: as simulated."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from takeback.testing import MailServer
from takeback.testing.crash import Fault
from tests.crash.enumeration import finish, play
from tests.crash.real_world import RealWorld
from tests.crash.site import Ground, Site
from tests.crash.workflow import WORKFLOWS

pytestmark = pytest.mark.chaos
ROOT = Path(__file__).parents[2]
SAMPLED = (
    "record in the caller's connection",
    "call and carry out",
    "carry out, keyed",
    "restore what is held",
    "restore a Local effect",
    "compensate, blind",
)
STRIDE = 4
"""Every so many points of a workflow; each test begins at another one."""

PATIENCE_S = 20.0  # far beyond what a server takes; a test that needs it has failed
POLL_S = 0.005

OPEN_TRANSACTIONS = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND backend_type = 'client backend' AND xact_start IS NOT NULL LIMIT 1
"""


@dataclass(slots=True)
class Theatre:
    """The mail server, the file of what other providers did, and the process that forks players."""

    ground: Ground
    mail: MailServer
    file: Path
    player: subprocess.Popen[str]
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**6)))

    def site(self) -> Site:
        """A place for one play, in this world of real things."""
        world = RealWorld(self.file, self.mail.url, self.mail)
        return Site(self.ground, world=world, tenant=f"real-{next(self.numbers)}")

    def play(self, name: str, site: Site, at: int | None) -> dict[str, Any]:
        """Plays in a process of its own, which is killed at the point, or plays to the end."""
        order = {
            "workflow": name,
            "at": at,
            "url": self.ground.url,
            "ahead": self.ground.clock.ahead,
            "mail_url": self.mail.url,
            "file": str(self.file),
            "tenant": site.tenant,
            "kept": site.kept,
        }
        assert self.player.stdin is not None and self.player.stdout is not None
        self.player.stdin.write(json.dumps(order) + "\n")
        self.player.stdin.flush()
        answer: dict[str, Any] = json.loads(self.player.stdout.readline())
        self._wait_for_the_server()
        return answer

    def _wait_for_the_server(self) -> None:
        """Until it has noticed the death: before that, what the dead had locked is locked still,
        and whoever comes after would be told that somebody else works on it.
        """
        pause, ends = threading.Event(), time.monotonic() + PATIENCE_S
        while self.ground.observer.execute(OPEN_TRANSACTIONS).fetchone() is not None:
            assert time.monotonic() < ends, "a transaction of the dead stays open"
            pause.wait(POLL_S)


@pytest.fixture
def theatre(ground: Ground, tmp_path: Path) -> Iterator[Theatre]:
    with (
        MailServer() as mail,
        subprocess.Popen(
            [sys.executable, "-m", "tests.crash.player"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as player,
    ):
        yield Theatre(ground=ground, mail=mail, file=tmp_path / "effects", player=player)
        assert player.stdin is not None
        player.stdin.close()


def prepared(theatre: Theatre, name: str) -> Site:
    site = theatre.site()
    with site.process() as office:
        WORKFLOWS[name].prepare(site, office)
    return site


def states(site: Site) -> list[tuple[str, str]]:
    return sorted((row.tool, row.state) for row in site.rows())


@pytest.mark.parametrize("name", SAMPLED)
def test_a_killed_process_leaves_what_a_simulated_death_leaves(name, theatre, new_site):
    """The same points: nothing lost, nothing doubled, and the same states in the end."""
    workflow = WORKFLOWS[name]
    site = prepared(theatre, name)
    whole = theatre.play(name, site, None)
    assert whole["ended"] == 0 and finish(workflow, site) == []
    sample = range(SAMPLED.index(name) % STRIDE, len(whole["points"]), STRIDE)

    problems = []
    for at in sample:
        point = whole["points"][at]
        site, simulated = prepared(theatre, name), new_site()
        ended = theatre.play(name, site, at)["ended"]
        found = [] if ended == -9 else [f"ended {ended}"]
        found += finish(workflow, site)
        play(workflow, simulated, {at: Fault.DEATH})
        if states(site) != states(simulated):
            found.append(f"{states(site)} for real, {states(simulated)} simulated")
        problems += [f"{point} ({at}): {problem}" for problem in found]

    print(f"{name}: killed at {len(sample)} of {len(whole['points'])} points")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "point, state, letters",
    [
        ("after COMMIT", "succeeded", 1),
        ("before call send_letter", "parked", 0),
        ("after call send_letter", "parked", 1),
    ],
    ids=["claimed", "begun", "accepted by the mail server"],
)
def test_a_worker_killed_on_the_way_loses_nothing_and_sends_nothing_twice(
    point, state, letters, theatre
):
    """archestra #5580: killed between claim and send, it is delivered. orbit #407, prosper202 #147:
    committed there and killed before recording, a person has to find out; never sent again."""
    name = "carry out, blind"
    points = theatre.play(name, prepared(theatre, name), None)["points"]
    site = prepared(theatre, name)

    assert theatre.play(name, site, points.index(point))["ended"] == -9
    assert finish(WORKFLOWS[name], site) == []
    assert finish(WORKFLOWS[name], site) == [], "however often a worker comes by"

    assert states(site) == [("send_letter", state)]
    assert site.effects("send_letter") == letters
