"""Processes that play a part in these tests: each is a client of its own, to be told or killed.

A player runs as the account of the tests, or (for root) as an ordinary one. What a server leaves
running is looked for by name in the process table, not by what the library says about itself.
"""

import json
import os
import pwd
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

ENGINE = Path(__file__).resolve().parents[2] / "engine"
PATIENCE_S = 20.0  # far beyond what anything here takes; a test that needs it has failed

CLIENT = """
import sys
from pathlib import Path
from takeback.embedded import acquire
from takeback.model.errors import EmbeddedUnavailable

binaries = Path(sys.argv[2]) if sys.argv[2] else None
try:
    server = acquire(Path(sys.argv[1]), binaries=binaries)
except EmbeddedUnavailable as refusal:
    print("refused", refusal, flush=True)
    sys.exit(1)
print("serving", server.url, flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Persona:
    """As whom players run, and on which Python; None is the account of the tests."""

    uid: int | None = None
    gid: int | None = None
    python: str = sys.executable

    @property
    def options(self) -> dict[str, Any]:
        groups: list[int] | None = None if self.uid is None else []
        return {"user": self.uid, "group": self.gid, "extra_groups": groups}

    def run(self, script: str, *arguments: str) -> None:
        """Run a script of a few lines as this account."""
        command = [self.python, "-c", script, *arguments]
        subprocess.run(command, check=True, cwd="/", env=environment(), **self.options)


def ordinary() -> Persona | None:
    """An account without privileges that any system has; None if no Python here is one it can run.

    It needs no driver, and root's own Python often lies where nobody else may look.
    """
    nobody = pwd.getpwnam("nobody")
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        persona = Persona(uid=nobody.pw_uid, gid=nobody.pw_gid, python=python)
        with suppress(OSError, subprocess.CalledProcessError):
            persona.run("import sys; sys.exit(sys.version_info < (3, 11))")
            return persona
    return None


def environment(**more: str) -> dict[str, str]:
    """What a player gets: the library and the programs that these tests found themselves."""
    path = os.pathsep.join(
        [str(ENGINE), *(entry for entry in sys.path if "site-packages" in entry)]
    )
    return os.environ | {"PYTHONPATH": path} | more


class Player:
    """A client in a process of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        persona: Persona | None = None,
        binaries: Path | None = None,
        secret: str = "",
    ) -> None:
        persona = persona or Persona()
        self.process = subprocess.Popen(
            [persona.python, "-c", CLIENT, str(directory), str(binaries or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd="/",
            env=environment(SECRET=secret),
            **persona.options,
        )

    def url(self) -> str:
        """The address it got; waits for it."""
        kind, _, rest = self.hear().partition(" ")
        assert kind == "serving", rest
        return rest

    def refusal(self) -> str:
        """Why it got none; waits for it."""
        kind, _, rest = self.hear().partition(" ")
        assert kind == "refused", rest
        return rest

    def do(self, statement: str) -> None:
        """Run one line in it, in which ``server`` is its share."""
        self.begin(statement)
        assert self.hear() == "done"

    def begin(self, statement: str) -> None:
        """As ``do``, without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        assert ready, "the player says nothing"
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """As an operator in a hurry does: it gets no chance to tidy up."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        """Let it run to its end, which is no release."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        self.process.wait(PATIENCE_S)


def execute(url: str, statement: str) -> None:
    """Run one statement that gives nothing, outside a transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def value(url: str, query: str) -> Any:
    """What the server answers to one query that gives one value."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return None if row is None else row[0]


def remember(url: str) -> int:
    """Commit a number that nobody else knows."""
    number = secrets.randbelow(10**9)
    execute(url, "CREATE TABLE IF NOT EXISTS remembered (number int)")
    execute(url, f"INSERT INTO remembered VALUES ({number})")
    return number


def knows(url: str, number: int) -> bool:
    """Whether the number is there."""
    return value(url, f"SELECT count(*) FROM remembered WHERE number = {number}") == 1


def place(directory: Path) -> tuple[Path, Path]:
    """Where the data and the socket of a directory's server lie."""
    noted = json.loads((directory / "place.json").read_text())
    return directory / noted["home"], directory / noted["socket"]


def postmaster(directory: Path) -> int:
    """The process that the pid file names."""
    home, _ = place(directory)
    return int((home / "pgdata" / "postmaster.pid").read_text().split()[0])


def keepers(directory: Path) -> list[int]:
    """The processes that keep a directory's server."""
    return [pid for pid, words in _processes() if words[-1:] == [str(directory)] and "-I" in words]


def postmasters(directory: Path) -> list[int]:
    """The processes that were started as a directory's server, however many."""
    data = str(place(directory)[0] / "pgdata")
    return [pid for pid, words in _processes() if data in words and words[0].endswith("postgres")]


def gone(directory: Path) -> bool:
    """Whether neither keeper nor server nor backend is left."""
    data = place(directory)[0] / "pgdata"
    inside = [pid for pid, _ in _processes() if _works_in(pid, data)]
    return not (keepers(directory) or postmasters(directory) or inside)


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it becomes true within the patience of these tests."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)


def _processes() -> list[tuple[int, list[str]]]:
    """Each process with its command line; a zombie has none."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_text(errors="replace").split("\0")[:-1]
            found.append((int(process.name), words))
    return found


def _works_in(pid: int, directory: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == directory
    except OSError:
        return False
