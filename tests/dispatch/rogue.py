"""A worker in a process of its own, whose handlers misbehave as the note of a letter says.

    python -m tests.dispatch.rogue URL JOURNAL MEMORY_MB

What has come into the world is a line of the journal: tool, addressee, the provider's key and the
process. A handler misbehaves at its first attempt only.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from takeback import process
from takeback.declare import BLIND, KEYED, LOOKUP, Remote, Tool, hours
from takeback.model.handler import Absent, Attempt, Handler
from tests.dispatch.office import Letter, Office, row

LEASE_SECONDS = 3.0
EATEN_BYTES = 32 * 2**20
EXIT_CODE = 7

ROWS: Sequence[Tool] = (
    row("send_letter", Remote(upstream=BLIND, attempt_seconds_max=1)),
    row("wire", Remote(upstream=LOOKUP, attempt_seconds_max=1)),
    row("pay", Remote(upstream=KEYED(ttl=hours(24)), attempt_seconds_max=1)),
)


class RogueWorld:
    """What has come in, as every process sees it that knows the file."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal

    @property
    def effects(self) -> list[dict[str, Any]]:
        """Each thing that has come in."""
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        return [json.loads(line) for line in lines]

    def handlers(self, rows: Sequence[Tool]) -> object:
        """A handler for each row."""
        return SimpleNamespace(**{tool.name: self._handler(tool.name) for tool in rows})

    def _handler(self, tool: str) -> Handler:
        def perform(arguments: Letter, attempt: Attempt) -> Any:
            if attempt.number == 1 and arguments.note in MISBEHAVIOUR:
                return MISBEHAVIOUR[arguments.note](lambda: self._arrive(tool, arguments, attempt))
            self._arrive(tool, arguments, attempt)
            return "done"

        def find(arguments: Letter, attempt: Attempt) -> Any:
            known = {one["key"] for one in self.effects}
            return "found" if attempt.provider_key in known else Absent()

        return Handler(perform=perform, find=find if tool == "wire" else None)

    def _arrive(self, tool: str, arguments: Letter, attempt: Attempt) -> None:
        key = attempt.provider_key
        if tool == "pay" and any(one["key"] == key for one in self.effects):
            return
        line = {"tool": tool, "to": arguments.to, "key": key, "process": os.getpid()}
        file = os.open(self._journal, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(file, json.dumps(line).encode() + b"\n")
        os.close(file)


Arrive = Callable[[], None]


def cancelled(arrive: Arrive) -> Any:
    """An async handler whose task is cancelled under it."""

    async def handler() -> None:
        arrive()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    return handler()


def interrupted(arrive: Arrive) -> None:
    arrive()
    raise KeyboardInterrupt


def ends_itself(arrive: Arrive) -> None:
    arrive()
    sys.exit(3)


def exits(arrive: Arrive) -> None:
    arrive()
    os._exit(EXIT_CODE)


def hangs(arrive: Arrive) -> None:
    arrive()
    threading.Event().wait()


def eats(arrive: Arrive) -> None:
    arrive()
    eaten = []
    while True:
        eaten.append(bytearray(EATEN_BYTES))


def forks(arrive: Arrive) -> str:
    """Two come back where one was called."""
    if os.fork() != 0:
        arrive()
    return "done"


def forks_and_breaks(arrive: Arrive) -> str:
    """One comes back, and the other with an exception."""
    if os.fork() == 0:
        raise SystemExit(9)
    arrive()
    return "done"


MISBEHAVIOUR: dict[str, Callable[[Arrive], Any]] = {
    one.__name__: one
    for one in (
        *(cancelled, interrupted, ends_itself, exits, hangs, eats),
        *(forks, forks_and_breaks),
    )
}


def rogue_office(url: str, journal: Path) -> Office:
    """The app, with short leases: this is about real time."""
    return Office(url, RogueWorld(journal), rows=ROWS, lease_seconds=LEASE_SECONDS)


if __name__ == "__main__":
    _, where, file, megabytes = sys.argv
    process.work(rogue_office(where, Path(file)), drain=False, memory_mb=int(megabytes) or None)
    process.leave(0)
