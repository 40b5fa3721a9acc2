"""A process that forks others, each of which plays a workflow and is killed at a point of it.

    python -m tests.crash.player   <- {"workflow": "carry out, blind", "at": 7, ...}
                                   -> {"ended": -9, "points": null}

It has imported everything and has no threads, so a child is there in a few milliseconds.
"""

import json
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from takeback.ledger.database import Database
from takeback.testing.crash import Fault, Stage
from tests.crash.real_world import RealWorld
from tests.crash.site import Ground, Site
from tests.crash.workflow import WORKFLOWS
from tests.dispatch.clock import Clock


def die() -> None:
    """As ``kill -9`` does it: in the middle of a line, whatever is open."""
    os.kill(os.getpid(), signal.SIGKILL)


def play(order: Mapping[str, Any]) -> list[str]:
    """The points of a workflow, played until its end or until death."""
    clock = Clock(order["url"])
    clock.ahead = order["ahead"]
    observer = psycopg.connect(order["url"], autocommit=True)
    ground = Ground(
        url=order["url"], clock=clock, observer=observer, database=Database(order["url"])
    )
    world = RealWorld(Path(order["file"]), order["mail_url"])
    site = Site(ground, world=world, tenant=order["tenant"])
    site.kept |= order["kept"]
    at = order["at"]
    stage = Stage(observer, strike={} if at is None else {at: Fault.DEATH}, die=die)
    with site.process(stage) as office:
        WORKFLOWS[order["workflow"]].play(site, office, stage)
    return stage.points


def main() -> None:
    """Forks a child for each line, and says how it ended."""
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            status = 1
            try:
                points = play(json.loads(line))
                os.write(writing, json.dumps(points).encode())
                status = 0
            except BaseException:  # noqa: BLE001
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        _, status = os.waitpid(child, 0)
        ended = os.waitstatus_to_exitcode(status)
        answer = {"ended": ended, "points": json.loads(said) if said else None}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
