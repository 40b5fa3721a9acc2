"""Servers of a test's own: for settings, crashes and standbys that nobody else is put through.

Programs of every supported major that is installed are found; a test names what it needs of them.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from takeback.embedded.account import Account, server_account
from takeback.embedded.binaries import SYSTEM, Binaries, find_binaries, reachable_binaries
from takeback.model.errors import EmbeddedUnavailable
from tests.ledger.scribe import until

STOP_SECONDS = 30
QUICK = ("-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "listen_addresses=")
CLEAN = {"LC_ALL": "C", "PATH": os.environ.get("PATH", "")}


@dataclass(slots=True, kw_only=True)
class Server:
    """One cluster on disk, running or not."""

    binaries: Binaries
    account: Account
    directory: Path
    settings: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """As a superuser, through a socket in the server's own directory."""
        return f"postgresql://postgres@/postgres?host={self.directory}&port={self.port}"

    @property
    def port(self) -> str:
        """Where it listens, and what its socket is called after."""
        return self.settings.get("port", "5432")

    def run(self, program: str, *arguments: str) -> str:
        """Runs a program of the installation as the server's account; answers with what it says."""
        return subprocess.run(
            [self.binaries.directory / program, *arguments],
            user=self.account.user,
            group=self.account.group,
            extra_groups=self.account.extra_groups,
            env=CLEAN,
            cwd=self.directory,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    def start(self) -> None:
        """Starts, and waits until it lets us in."""
        options = [
            part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")
        ]
        with (self.directory / "log").open("ab") as log:
            program = [
                str(self.binaries.directory / "postgres"),
                "-D",
                str(self.directory / "data"),
            ]
            self.process = subprocess.Popen(
                [*program, "-k", str(self.directory), *QUICK, *options],
                user=self.account.user,
                group=self.account.group,
                extra_groups=self.account.extra_groups,
                env=CLEAN,
                stdout=log,
                stderr=log,
            )
        until(self._answers, f"the server in {self.directory}: {self._log()}")

    def stop(self, *, hard: bool = False, then: Callable[[], None] = lambda: None) -> None:
        """Ends it; ``hard`` is a crash: nothing is written any more. ``then`` it is waited for."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT if hard else signal.SIGINT)
            then()
            self.process.wait(STOP_SECONDS)
            self.process = None

    def _answers(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            pytest.fail(f"the server did not start: {self._log()}")
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url).close()
            return True
        return False

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-1000:]


def majors() -> list[int]:
    """The supported majors whose programs are on this machine."""
    found = []
    for major in range(15, 19):
        with suppress(EmbeddedUnavailable):
            find_binaries(major=major)
            found.append(major)
    return found


def programs(major: int | None = None, *needed: str) -> Binaries:
    """Programs that the server's account can run, with ``needed`` among them; or skips the test."""
    candidates = [None, *(SYSTEM / str(number) / "bin" for number in range(18, 14, -1))]
    for explicit in candidates:
        with suppress(EmbeddedUnavailable):
            binaries = reachable_binaries(find_binaries(explicit, major=major), server_account())
            if all((binaries.directory / one).exists() for one in needed):
                return binaries
    pytest.skip(f"no programs of Postgres {major or ''} with {', '.join(needed) or 'initdb'} here")


@contextmanager
def server(binaries: Binaries, **settings: str) -> Iterator[Server]:
    """A fresh cluster, running; gone at the end."""
    with directory() as home:
        one = Server(binaries=binaries, account=server_account(), directory=home, settings=settings)
        one.run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8")
        one.start()
        try:
            yield one
        finally:
            one.stop(hard=True)


@contextmanager
def standby(of: Server, **settings: str) -> Iterator[Server]:
    """A replica of a running server, following it; gone at the end."""
    with directory() as home:
        of.run(
            "pg_basebackup",
            *("-h", str(of.directory), "-p", of.port, "-U", "postgres", "-D", f"{home}/data"),
            "--checkpoint=fast",
            "--write-recovery-conf",
        )
        one = Server(binaries=of.binaries, account=of.account, directory=home, settings=settings)
        one.start()
        try:
            yield one
        finally:
            one.stop(hard=True)


def free_port() -> str:
    """A port of this machine that nobody listens on at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


@contextmanager
def directory() -> Iterator[Path]:
    """A short path (a socket lies in it) that the server's account owns."""
    home = Path(tempfile.mkdtemp(prefix="tb-pg-"))
    try:
        server_account().give(home)
        home.chmod(0o711)
        (home / "log").touch()
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)
