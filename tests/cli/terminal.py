"""A terminal of the tests: a command line is run in this process, or as a process of its own."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from takeback.cli.main import run

FOLDER = Path(__file__).parent / "folder"
PROGRAM = (sys.executable, "-m", "takeback.cli.main")
APPS = ("kiosk", "broken")
PATIENCE_S = 30.0  # far beyond what anything here takes; a test that needs it has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended, and what it said on either stream."""

    exit: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one document on stdout: all of it."""
        return json.loads(self.out)

    @property
    def code(self) -> str | None:
        """The stable word of the error in the document."""
        error = self.document.get("error")
        return error["code"] if error else None


class Terminal:
    """Runs command lines in this process, as the app of the kiosk, in the kiosk's folder."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> Said:
        forget_apps()
        self._capture.readouterr()
        exit_ = run(arguments)
        out, err = self._capture.readouterr()
        return Said(exit=exit_, out=out, err=err)

    def ref(self, *arguments: str) -> str:
        """The ref that a call answers with."""
        said = self(*arguments, "--json")
        assert said.exit == 0, said
        ref: str = said.document["ref"]
        return ref


def forget_apps() -> None:
    """An app reads its settings once: the next command line is to find another one."""
    for name in [name for name in sys.modules if name.split(".")[0] in APPS]:
        del sys.modules[name]


def call(tool: str, *options: str, **arguments: Any) -> list[str]:
    """The command line of a call."""
    return ["call", tool, "--args", json.dumps(arguments), *options]


def environment(**more: str) -> dict[str, str]:
    """This process's own, without what others have set up for the product."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", **more}


def process(
    *arguments: str | bytes,
    environ: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    directory: Path = FOLDER,
    program: Sequence[str] = PROGRAM,
) -> Said:
    """A command line as a process of its own."""
    done = subprocess.run(
        [*program, *arguments],
        cwd=directory,
        env=environment() if environ is None else environ,
        input=stdin,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Said(exit=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


class Running:
    """A command line that goes on, and what comes of it."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self.child = child

    def line(self) -> str:
        """The next line on stdout."""
        return _line(self.child.stdout)

    def error_line(self, holding: str) -> str:
        """The next line on stderr that holds some word."""
        heard = ""
        while holding not in (line := _line(self.child.stderr)):
            assert line, f"ended without a word of {holding!r}, after {heard!r}"
            heard += line
        return line

    def tell(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self.child.send_signal(number)

    def ended(self) -> Said:
        """How it ended, within a while."""
        out, err = self.child.communicate(timeout=PATIENCE_S)
        return Said(exit=self.child.returncode, out=out.decode(), err=err.decode())


def _line(stream: Any) -> str:
    ready, _, _ = select.select([stream], [], [], PATIENCE_S)
    assert ready, "nothing was said in time"
    line: bytes = stream.readline()
    return line.decode()


@contextmanager
def running(
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    directory: Path = FOLDER,
    program: Sequence[str] = PROGRAM,
) -> Iterator[Running]:
    """A command line as a process that goes on until the block ends, at the latest."""
    child = subprocess.Popen(
        [*program, *arguments],
        cwd=directory,
        env=environment() if environ is None else environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield Running(child)
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE_S)


class Bell:
    """The pipe on which the kiosk's bell says that it began to ring."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        # Open for both, so that a ringer never waits for a listener.
        self._pipe = os.open(path, os.O_RDWR)

    def rung(self) -> str:
        """The ref for which it rings next."""
        ready, _, _ = select.select([self._pipe], [], [], PATIENCE_S)
        assert ready, "the bell did not ring in time"
        return os.read(self._pipe, 200).decode().strip()

    def close(self) -> None:
        """Nobody listens any more."""
        os.close(self._pipe)
