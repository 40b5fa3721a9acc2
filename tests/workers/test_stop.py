"""A second signal to dramatiq's processes: the same stop delivered twice, or an end at once."""

import signal

import pytest

from takeback_workers.shift import KILLED, SAME_SECONDS
from tests.workers.server import eventually
from tests.workers.yard import Yard

pytestmark = pytest.mark.slow


def pid_of(yard: Yard, ref: str) -> int:
    """The process that is at it."""
    (pid,) = [one["pid"] for one in yard.left() if one["ref"] == ref]
    return int(pid)


def test_a_stop_that_is_delivered_twice_is_one_stop(yard: Yard):
    """A process manager tells every process of a group, and dramatiq tells its own once more."""
    import os

    yard.gate.touch()
    ref = yard.call("freight", "dana", how="at_the_gate")
    yard.wake([ref])
    actors = yard.actors(threads=1)
    yard.has_left(ref)
    later = yard.call("send", "later")
    os.kill(pid_of(yard, ref), signal.SIGTERM)
    actors.tell(signal.SIGTERM)
    actors.says("Shutting down")
    yard.wake([later])
    yard.gate.unlink()
    assert actors.ended() == 0
    actors.says_at_the_end("actors_stopped")
    assert (yard.state(ref), yard.state(later)) == ("succeeded", "due")


def test_who_tells_it_once_more_a_while_later_ends_it_at_once(yard: Yard):
    """Whatever it is stuck in: it would have waited for the attempt."""
    ref = yard.call("freight", "dana", how="never")
    yard.wake([ref])
    actors = yard.actors(threads=1)
    yard.has_left(ref)
    actors.tell(signal.SIGTERM)
    actors.says("Shutting down")

    def is_gone() -> bool:
        if actors.child.poll() is None:
            actors.tell(signal.SIGTERM)
        return actors.child.poll() is not None

    eventually(is_gone, "it has ended", SAME_SECONDS + 5)
    # One more that comes while dramatiq itself is leaving ends that by the signal.
    assert actors.ended() in (KILLED, -signal.SIGTERM)
    log = actors.log.read_text()
    assert "stopped_by_force" not in log and "actors_stopped" not in log
    assert yard.state(ref) == "executing", "its lease ends, and then it is in doubt"
