"""The yard from outside: its app in this process, its book, and processes that work for it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from dramatiq import Message

from takeback import Settings, Takeback
from takeback.declare import Priority
from takeback_workers.broker import open_broker
from takeback_workers.wake_up import queue_of, wake_up
from tests.workers.folder import yard as app_of_the_yard
from tests.workers.server import Server, eventually

FOLDER = Path(__file__).parent / "folder"
PATIENCE_SECONDS = 40.0
ACTORS = (sys.executable, "-m", "dramatiq", "takeback_workers.actors")
TICKER = (sys.executable, "-m", "takeback.cli.main", "ticker")
WORKER = (sys.executable, "-m", "takeback.cli.main", "worker")


class Process:
    """A process that works for the yard; its log is a file."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path) -> None:
        self.child = child
        self.log = log

    def says(self, words: str, times: int = 1) -> None:
        """Returns when its log has the words."""

        def is_said() -> bool:
            if self.log.read_text().count(words) >= times:
                return True
            assert self.child.poll() is None, f"ended without {words!r}: {self.log.read_text()}"
            return False

        eventually(is_said, f"{words!r} is said: {self.log.read_text()}", PATIENCE_SECONDS)

    def says_at_the_end(self, words: str) -> None:
        """It has ended, and its log has the words."""
        assert words in self.log.read_text()

    def tell(self, number: signal.Signals) -> None:
        """Sends it a signal."""
        self.child.send_signal(number)

    def ended(self) -> int:
        """Its exit code, within a while."""
        return self.child.wait(PATIENCE_SECONDS)

    def close(self) -> None:
        """It ends, with its children."""
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait(PATIENCE_SECONDS)
                raise


class Yard:
    """One yard, with the database and the broker of a test. ``tenant`` has its own queues."""

    def __init__(self, database_url: str, server: Server, directory: Path, tenant: str) -> None:
        self.server = server
        self.tenant = tenant
        self.database_url = database_url
        self.book = directory / "book"
        self.gate = directory / "gate"
        self.lease_seconds = 30.0
        self._directory = directory
        self._stack = ExitStack()
        self._numbers = iter(range(1000))
        self.app = Takeback(
            app_of_the_yard.CATALOG,
            handlers=app_of_the_yard.HANDLERS,
            settings=Settings(database_url=database_url, tenant=tenant, broker_url=server.url),
        )
        self._connection = psycopg.connect(database_url, autocommit=True)

    def call(self, tool: str, to: str, **arguments: Any) -> str:
        """Records a call; answers with its ref."""
        answer = self.app.call(None, tool, {"to": to, **arguments})
        assert answer.ref is not None, answer
        return answer.ref

    def calls(self, tool: str, count: int, **arguments: Any) -> list[str]:
        """Several, each for somebody else."""
        return [self.call(tool, f"{tool}-{number}", **arguments) for number in range(count)]

    def state(self, ref: str) -> str:
        """Where the intent of ``ref`` stands."""
        return self.app.show(ref).entry.intent.state.value

    def all_are(self, refs: Sequence[str], state: str = "succeeded") -> None:
        """Returns when every one of them stands there."""
        query = "SELECT ref, state FROM takeback.intents WHERE ref = ANY(%s)"

        def is_so() -> bool:
            rows = self._connection.execute(query, [list(refs)]).fetchall()
            found: dict[str, str] = dict(rows)
            return all(found[ref] == state for ref in refs)

        eventually(is_so, f"all are {state}", PATIENCE_SECONDS)

    def left(self) -> list[dict[str, Any]]:
        """The lines of the book: one for each attempt."""
        if not self.book.exists():
            return []
        return [json.loads(line) for line in self.book.read_text().splitlines()]

    def has_left(self, ref: str, times: int = 1) -> None:
        """Returns when so many attempts at ``ref`` are in the book."""
        eventually(
            lambda: sum(one["ref"] == ref for one in self.left()) >= times,
            f"{ref} has left",
            PATIENCE_SECONDS,
        )

    def each_left_once(self, refs: Sequence[str]) -> None:
        """Nothing was attempted twice, and nothing else was."""
        assert sorted(one["ref"] for one in self.left()) == sorted(refs)

    def wake(self, refs: Sequence[str], priority: Priority = Priority.NORMAL) -> None:
        """Publishes a wake-up for each, whatever the ledger says."""
        self.send([self.message(ref, priority) for ref in refs])

    def message(self, ref: str, priority: Priority = Priority.NORMAL) -> Message[None]:
        """The wake-up for an intent."""
        intent = self.app.show(ref).entry.intent
        return wake_up(intent.tenant, intent.id, priority)

    def send(self, messages: Sequence[Message[None]]) -> None:
        """Publishes them."""
        broker = open_broker(self.server.url)
        for message in messages:
            broker.enqueue(message)
        broker.close()

    def reconnect(self) -> None:
        """The database was away."""
        self._connection.close()
        self._connection = psycopg.connect(self.database_url, autocommit=True)

    def queue(self, priority: Priority = Priority.NORMAL) -> str:
        """The name of a queue."""
        return queue_of(self.tenant, priority)

    def environment(self) -> dict[str, str]:
        """Of the processes that work for it."""
        return {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(FOLDER),
            "TAKEBACK_DATABASE_URL": self.database_url,
            "TAKEBACK_APP": "yard:app",
            "TAKEBACK_BROKER_URL": self.server.url,
            "TAKEBACK_TENANT": self.tenant,
            "TAKEBACK_LEASE_SECONDS": str(self.lease_seconds),
            "YARD_BOOK": str(self.book),
            "YARD_GATE": str(self.gate),
        }

    def actors(self, *, processes: int = 1, threads: int = 4, **more: str) -> Process:
        """dramatiq with our actors, ready."""
        counts = ["--processes", str(processes), "--threads", str(threads)]
        actors = self.run([*ACTORS, *counts], more)
        actors.says("actors_started", processes)
        return actors

    def ticker(self, *options: str) -> Process:
        """A ticker that has begun."""
        ticker = self.run([*TICKER, *options])
        ticker.says("ticker_started")
        return ticker

    def run(self, command: Sequence[str], more: Mapping[str, str] | None = None) -> Process:
        """A process that goes on until the yard is closed, at the latest."""
        log = self._directory / f"log-{next(self._numbers)}"
        with log.open("wb") as file:
            child = subprocess.Popen(
                command,
                cwd=FOLDER,
                env={**self.environment(), **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = Process(child, log)
        self._stack.callback(process.close)
        return process

    def close(self) -> None:
        """Everybody goes home."""
        self.gate.unlink(missing_ok=True)
        self._stack.close()
        self._connection.close()
        self.app.close()


@contextmanager
def open_yard(database_url: str, server: Server, directory: Path, tenant: str) -> Iterator[Yard]:
    """A yard that is closed in the end."""
    yard = Yard(database_url, server, directory, tenant)
    try:
        yield yard
    finally:
        yard.close()
