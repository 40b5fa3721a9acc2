"""The two streams: stdout has the answer and nothing else, stderr whatever else is said.

With ``--json`` the answer is one document. What others have written (a model's arguments, a note)
is printed with its control characters spelt out, so that no text moves a cursor or hides another.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

PIPED_WIDTH = 10_000
"""A reader that is no terminal gets one line for each row, however long."""


class ReaderGone(Exception):
    """Whoever read stdout has had enough, as ``head`` does."""


class OutputLost(Exception):
    """Stdout can't be written; the message says why."""


class Voice:
    """Says the answer of one command, as a document or as lines."""

    def __init__(self, *, json_wanted: bool) -> None:
        self.json_wanted = json_wanted
        self._kept: list[TextIO] = []

    @property
    def stdout(self) -> TextIO | None:
        """Where the answer goes; None where there is no such stream."""
        return self._kept[0] if self._kept else sys.stdout

    def keep_stdout(self) -> None:
        """What others print from here on, an app's handlers above all, goes to stderr."""
        if not self._kept and sys.stdout is not None:
            self._kept, sys.stdout = [sys.stdout], sys.stderr

    def give_stdout_back(self) -> None:
        """Undoes ``keep_stdout``."""
        if self._kept:
            sys.stdout = self._kept.pop()

    @property
    def on_terminal(self) -> bool:
        """Whether a person reads stdout as it comes."""
        return self.stdout is not None and self.stdout.isatty()

    @property
    def width(self) -> int:
        """How many characters fit beside each other."""
        return shutil.get_terminal_size().columns if self.on_terminal else PIPED_WIDTH

    def document(self, document: Mapping[str, Any] | Sequence[Any]) -> None:
        """The one document of a command that was asked for JSON."""
        text = json.dumps(document, ensure_ascii=False)
        try:
            text.encode(getattr(self.stdout, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            text = json.dumps(document)
        self.line(text)

    def line(self, text: str = "") -> None:
        """A line of the answer."""
        _write(self.stdout, text + "\n")

    def lines(self, lines: Sequence[str]) -> None:
        """Several of them."""
        for line in lines:
            self.line(line)

    def note(self, text: str) -> None:
        """A line beside the answer, for whoever looks on."""
        _write(sys.stderr, text + "\n")

    def flush(self) -> None:
        """Nothing is held back from here on."""
        if self.stdout is not None:
            _guarded(self.stdout.flush)

    def strong(self, word: str, color: str) -> str:
        """The word in a colour, on a terminal that wants it."""
        if not self.on_terminal or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return word
        return f"\x1b[{_COLORS[color]}m{word}\x1b[0m"

    @contextmanager
    def progress(self, label: str) -> Iterator[Callable[[int, int], None] | None]:
        """A bar on stderr while the block runs, when that is a terminal; told (done, total)."""
        if sys.stderr is None or not sys.stderr.isatty():
            yield None
            return
        # A tenth of a second to import, and most commands draw no bar.
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


_COLORS = {"good": "32", "waiting": "36", "doubt": "33", "bad": "31"}


def plain(text: object) -> str:
    r"""The text on one line, with whatever does not print spelt out.

    >>> print(plain("paid\x1b[2J\nnow"))
    paid\x1b[2J\nnow
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )


def use_streams() -> None:
    """What an encoding can't say is spelt out instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def forget_stdout() -> None:
    """Nobody reads it: the interpreter must not try once more when it ends."""
    if sys.stdout is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        _guarded(lambda: stream.write(text))


def _guarded(work: Callable[[], object]) -> None:
    try:
        work()
    except BrokenPipeError as problem:
        raise ReaderGone from problem
    except OSError as problem:
        raise OutputLost(f"the output can't be written: {problem.strerror}") from problem
