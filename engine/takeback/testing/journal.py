"""A file of JSON lines that several processes append to, each seeing all lines in one order.

A lock of the operating system covers reading and appending together, and ends with the process
that holds it. A line that a killed process left unfinished counts as never written.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

Entry = Mapping[str, Any]


class Journal:
    """The lines of ``path``, read as far as they are new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._entries: list[Entry] = []
        self._bytes_read = 0

    @contextmanager
    def exclusive(self) -> Iterator[tuple[Sequence[Entry], Callable[[Entry], None]]]:
        """All entries and a function that appends one; nobody else reads or writes meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._turn, self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._read(file)

            def append(entry: Entry) -> None:
                line = json.dumps(entry, sort_keys=True).encode() + b"\n"
                file.write(line)
                file.flush()
                self._entries.append(json.loads(line))
                self._bytes_read += len(line)

            yield self._entries, append

    def _read(self, file: BinaryIO) -> None:
        if os.fstat(file.fileno()).st_size < self._bytes_read:
            # Another file by now: its directory was emptied.
            self._entries, self._bytes_read = [], 0
        file.seek(self._bytes_read)
        whole, _, unfinished = file.read().rpartition(b"\n")
        self._entries.extend(json.loads(line) for line in whole.splitlines())
        self._bytes_read += len(whole) + 1 if whole else 0
        if unfinished:
            file.truncate(self._bytes_read)


@contextmanager
def only_one(path: Path) -> Iterator[bool]:
    """Whether this is the only one to hold ``path``; it never waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
