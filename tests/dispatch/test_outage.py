"""The database goes away under a worker, in the middle of it, and comes back: it goes on."""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from takeback import embedded
from takeback.client.batching import Call
from takeback.dispatch.reaper import Reaper
from takeback.model.errors import DatabaseUnavailable
from tests import database
from tests.dispatch.clock import Clock
from tests.dispatch.halt import Halt
from tests.dispatch.office import Office, World
from tests.dispatch.shift import Door, Shift, eventually
from tests.dispatch.test_reconciler import lost, reconciler
from tests.ledger import cluster

pytestmark = pytest.mark.chaos

AWAY_SECONDS = 45.0


class Server:
    """A Postgres of our own, which is killed; its keeper begins it anew."""

    def __init__(self, url: str) -> None:
        self.url = url

    def kill(self) -> None:
        """As a power cut does: no goodbye, and nothing is written any more."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            (text,) = admin.execute("SELECT pg_read_file('postmaster.pid')").fetchone() or ("",)
            pids = [pid for (pid,) in admin.execute("SELECT pid FROM pg_stat_activity")]
        for pid in (int(text.split()[0]), *pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def answers(self) -> bool:
        """Whether it is back."""
        with suppress(psycopg.OperationalError), psycopg.connect(self.url):
            return True
        return False


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    directory = Path(tempfile.mkdtemp(prefix="tb-"))
    # Root's server runs as somebody else, who has to get through to its data.
    directory.chmod(0o711)
    with embedded.acquire(directory / "pg") as running:
        database.migrate(running.url)
        yield Server(running.url)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def office(server: Server, world: World) -> Iterator[Office]:
    office = Office(server.url, world)
    yield office
    office.close()


def test_a_worker_goes_on_when_the_database_was_killed_under_it(server, office, world, caplog):
    """FINDINGS: Postgres away for 3 s, two peers' workers exit; a job that ends meanwhile is lost
    by four. Here it ends while nobody can write it down, and is written down later."""
    door = Door()
    with Shift(office):
        world.on["send_letter"] = behind(door, world)
        ref = office.call(None, "send_letter", {"to": "dana"}).ref
        door.knocked()
        server.kill()
        door.open()
        eventually(lambda: waits(caplog) > 0, "it waits")
        eventually(server.answers, "the database is back")
        eventually(lambda: settled(office, ref) == "succeeded", "the outcome is written")
        later = office.call(None, "send_letter", {"to": "robin"}).ref
        eventually(lambda: settled(office, later) == "succeeded", "it goes on")

    print(f"the worker waited {waits(caplog)} times")
    assert world.called("dana") == 1
    assert office.kinds(ref) == ["recorded", "claimed", "attempt_began", "succeeded"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_letter_that_arrives_while_the_database_is_away_for_45_seconds_is_sent_once(world):
    """For real, beyond the lease: no clock is moved, and no keeper brings the server back."""
    door = Door()
    with cluster.server(cluster.programs()) as own:
        database.migrate(own.url)
        office = Office(own.url, world)
        world.on["send_letter"] = behind(door, world)
        with Shift(office):
            ref = office.call(None, "send_letter", {"to": "dana"}).ref
            door.knocked()
            own.stop(hard=True)
            door.open()
            threading.Event().wait(AWAY_SECONDS)
            assert settled(office, ref) == "away"
            own.start()
            eventually(lambda: settled(office, ref) == "succeeded", "the outcome is written")
            later = office.call(None, "send_letter", {"to": "robin"}).ref
            eventually(lambda: settled(office, later) == "succeeded", "it goes on")
        kinds = office.kinds(ref)
        proved = office.verify().problems
        office.close()

    print(f"what the log tells of it: {kinds}")
    assert world.called("dana") == world.called("robin") == 1
    assert kinds[:3] == ["recorded", "claimed", "attempt_began"] and "parked" not in kinds
    assert proved == ()


def behind(door: Door, world: World) -> Callable[[Any], Any]:
    """A handler that waits at ``door`` before its letter arrives."""

    def handler(called: Any) -> Any:
        door.wait()
        return world.arrive(called)

    return handler


def waits(caplog: pytest.LogCaptureFixture) -> int:
    return sum("worker_waits" in record.getMessage() for record in caplog.records)


def settled(office: Office, ref: str | None) -> str:
    with suppress(DatabaseUnavailable):
        return office.state(ref)
    return "away"


def test_what_a_sweep_had_not_finished_the_next_one_does(server, office, world):
    """dbos-transact-py #716: Postgres was stopped hard during recovery, and work was stranded."""
    clock = Clock(server.url)
    names = [f"left-{n}" for n in range(20)]
    calls = [Call(tool=t, arguments={"to": name}) for t in ("ship", "pay") for name in names]
    refs = [answer.ref for answer in office.call_many(None, calls)]
    dispatcher = office.worker_of("gone")._dispatcher
    while dispatcher.run_once(100).count:
        pass
    clock.advance(31)
    with psycopg.connect(server.url, autocommit=True) as observer:
        halt = Halt(observer, at="before COMMIT")
        other = Office(server.url, world)
        with ThreadPoolExecutor(1) as thread, halt.watching(other):
            sweeping = thread.submit(Reaper(other.context).run_once)
            halt.wait()
            server.kill()
            halt.go()
            with pytest.raises(DatabaseUnavailable):
                sweeping.result()
    clock.close()
    eventually(server.answers, "the database is back")
    clock = Clock(server.url)
    clock.advance(31)

    office.worker_of("w", sleep=clock.advance).run(drain=True)

    states = {office.state(ref) for ref in refs}
    assert states == {"succeeded"}, "blind ones had only been claimed, keyed ones were repeated"
    assert [world.called(name, tool="ship") for name in names] == [1] * 20
    assert office.verify().problems == ()
    clock.close()


@pytest.mark.parametrize("at", ["before move_asks", "before append_many", "before COMMIT"])
def test_what_was_asked_about_as_the_server_died_is_found_out_later(at, server, office, world):
    """dbos-transact-py #716, once more: it stops hard under whoever ends a doubt."""
    clock = Clock(server.url)
    clock.advance(0)
    world.on["wire"] = lost(world, arrived=True)
    names = [f"{at} {n}" for n in range(3)]
    refs = [office.call(None, "wire", {"to": name}).ref for name in names]
    office.worker_of("gone", sleep=clock.advance).run(drain=True)
    del world.on["wire"]
    clock.advance(32)
    with psycopg.connect(server.url, autocommit=True) as observer:
        halt = Halt(observer, at=at)
        other = Office(server.url, world)
        with ThreadPoolExecutor(1) as thread, halt.watching(other):
            asking = thread.submit(reconciler(other).run_once)
            halt.wait()
            server.kill()
            halt.go()
            with pytest.raises(DatabaseUnavailable):
                asking.result()
    clock.close()
    eventually(server.answers, "the database is back")
    clock = Clock(server.url)
    clock.advance(120)

    office.worker_of("w", sleep=clock.advance).run(drain=True)

    assert {office.state(ref) for ref in refs} == {"succeeded"}
    assert [world.called(name) for name in names] == [1, 1, 1]
    assert office.verify().problems == ()
    clock.close()
