"""Processes that call tools of the desk's app at the same moment, each under another locale.

    python -m tests.client.player URL

Says that it is ready; for each line that asks for calls it makes them at once, each in a
transaction of its own, and prints the answers.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

ENVIRONMENTS: Sequence[Mapping[str, str]] = (
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONHASHSEED": "1", "TZ": "Pacific/Auckland"},
    {"LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "2", "TZ": "America/Los_Angeles"},
    {"LC_ALL": "de_DE.UTF-8", "PYTHONHASHSEED": "3", "TZ": "Europe/Berlin"},
    {},
)


def play(url: str) -> None:
    """What a process does until nobody asks it any more."""
    from takeback import Settings, Takeback
    from tests.client.catalog import CATALOG
    from tests.client.desk import Handlers, World

    app = Takeback(
        CATALOG,
        handlers=Handlers(World(), {}).bound(),
        settings=Settings(database_url=url),
    )
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answers(app, **json.loads(line))), flush=True)
    app.close()


def answers(app: Any, *, count: int, batch: list[Any], said: dict[str, Any]) -> list[Any]:
    """What ``count`` threads are answered that make the calls of ``batch`` at once."""
    from takeback import Call

    calls = [Call(tool=tool, arguments=arguments) for tool, arguments in batch]
    found: list[Any] = []
    together = threading.Barrier(count)

    def once() -> None:
        together.wait()
        if len(calls) == 1:
            found.append(app.call(None, calls[0].tool, calls[0].arguments, **said).to_dict())
        else:
            found.append([one.to_dict() for one in app.call_many(None, calls, **said)])

    threads = [threading.Thread(target=once) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class Players:
    """Four processes on one database."""

    def __init__(self, url: str) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.client.player", url],
                cwd=ROOT,
                env=os.environ | dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
            for environment in ENVIRONMENTS
        ]
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def call(
        self, counts: Sequence[int], tool: str, arguments: Mapping[str, Any], **said: Any
    ) -> list[dict[str, Any]]:
        """The answers to so many calls of each process, all at once."""
        return self.call_many(counts, [[(tool, arguments)]] * len(counts), **said)

    def call_many(
        self, counts: Sequence[int], batches: Sequence[Sequence[Any]], **said: Any
    ) -> list[Any]:
        """The same, where each process has a batch of its own."""
        asked = self._processes[: len(counts)]
        for process, count, batch in zip(asked, counts, batches, strict=True):
            assert process.stdin is not None
            asking = {"count": count, "batch": list(batch), "said": said}
            process.stdin.write(json.dumps(asking) + "\n")
            process.stdin.flush()
        found: list[Any] = []
        for process in asked:
            assert process.stdout is not None
            found += json.loads(process.stdout.readline())
        return found

    def leave(self) -> None:
        """Ends them."""
        for process in self._processes:
            process.communicate()


if __name__ == "__main__":
    play(sys.argv[1])
