"""Handlers that misbehave in the process of a worker: each has a defined end, and others go on."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from takeback.process import _data_megabytes
from tests.dispatch.office import Office
from tests.dispatch.rogue import EXIT_CODE, RogueWorld, rogue_office
from tests.dispatch.shift import eventually

TOOLS = ("send_letter", "wire", "pay")
ENDS = {"send_letter": "parked", "wire": "succeeded", "pay": "succeeded"}
"""What becomes of an attempt that ends in doubt, by what its provider is."""

SECONDS_MAX = 30
MEMORY_MB = 600


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "world.jsonl"


@pytest.fixture
def office(database_url: str, journal: Path) -> Iterator[Office]:
    office = rogue_office(database_url, journal)
    yield office
    office.close()


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(database_url: str, journal: Path) -> Iterator[Start]:
    """Starts workers; each is told to stop in the end, and does."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(memory_mb: int = 0) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tests.dispatch.rogue", database_url, str(journal)]
        worker = subprocess.Popen([*command, str(memory_mb)])
        started.append(worker)
        return worker

    yield begin
    for worker in started:
        worker.send_signal(signal.SIGTERM)
    for worker in started:
        worker.wait(SECONDS_MAX)


def ended(office: Office, refs: dict[str, str], states: dict[str, str]) -> None:
    """Returns when each tool's intent stands as expected."""
    eventually(
        lambda: {tool: office.state(ref) for tool, ref in refs.items()} == states,
        f"they are {states}",
    )


def called(office: Office, note: str, tools: tuple[str, ...] = TOOLS) -> dict[str, str]:
    return {t: office.call(None, t, {"to": f"{note}-{t}", "note": note}).ref or "" for t in tools}


def carried_out(office: Office) -> bool:
    """Whether another call is carried out, after all that."""
    refs = called(office, "as it should")
    ended(office, refs, dict.fromkeys(TOOLS, "succeeded"))
    return True


@pytest.mark.parametrize("note", ["cancelled", "interrupted", "ends_itself", "hangs"])
def test_an_attempt_that_ends_oddly_is_in_doubt_and_the_worker_goes_on(
    note, office, journal, start
):
    """Cancelled, interrupted, ended by sys.exit or given up: then as its provider allows."""
    worker = start()
    refs = called(office, note)

    ended(office, refs, ENDS)

    assert carried_out(office) and worker.poll() is None
    assert len([one for one in RogueWorld(journal).effects if one["to"].startswith(note)]) == 3
    assert all("in_doubt" in office.kinds(ref) for ref in refs.values())


def test_a_handler_that_ends_the_process_is_taken_over_by_another(office, journal, start):
    """Its own worker is gone without a word; nothing is done twice, whatever the provider."""
    for tool in TOOLS:
        ref = office.call(None, tool, {"to": f"exits-{tool}", "note": "exits"}).ref or ""
        assert start().wait(SECONDS_MAX) == EXIT_CODE
        assert office.state(ref) == "executing"
    refs = called(office, "exits")
    start()

    ended(office, refs, ENDS)

    assert carried_out(office)
    assert len([one for one in RogueWorld(journal).effects if one["to"].startswith("exits")]) == 3


@pytest.mark.parametrize("note", ["forks", "forks_and_breaks"])
def test_what_a_handler_has_forked_ends_where_it_comes_back(note, office, journal, start):
    """It settles nothing, claims nothing and does not go on as a second worker."""
    worker = start()
    refs = called(office, note)

    ended(office, refs, dict.fromkeys(TOOLS, "succeeded"))

    assert carried_out(office)
    assert {one["process"] for one in RogueWorld(journal).effects} == {worker.pid}
    assert len(RogueWorld(journal).effects) == 6
    for ref in refs.values():
        assert office.kinds(ref).count("succeeded") == 1
    eventually(lambda: running_children(worker.pid) == 0, "what was forked has ended")


def running_children(pid: int) -> int:
    """How many children of a process still run; one that has ended may wait to be noticed."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
            count += parent == str(pid) and state != "Z"
    return count


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is bounded on Linux")
def test_a_handler_that_eats_all_memory_is_in_doubt_and_the_worker_goes_on(office, start, journal):
    worker = start(MEMORY_MB)
    refs = called(office, "eats")

    ended(office, refs, ENDS)

    assert carried_out(office) and worker.poll() is None
    assert len([one for one in RogueWorld(journal).effects if one["to"].startswith("eats")]) == 3


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is bounded on Linux")
def test_a_bound_on_memory_that_is_used_already_is_refused_at_start(database_url, journal):
    assert _data_megabytes() > 0
    command = [sys.executable, "-m", "tests.dispatch.rogue", database_url, str(journal), "64"]
    said = subprocess.run(command, capture_output=True, timeout=SECONDS_MAX, check=False)
    assert said.returncode == 1 and b"memory_mb is 64; this process needs" in said.stderr
