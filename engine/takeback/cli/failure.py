"""What is said when a command does not do what was asked: one document, or a few lines, and a code.

    0 done · 1 refused, conflict or failed check · 2 usage · 3 no such ref · 4 database unavailable

The document has the shape of a refused envelope at every door; ``code`` is the stable word.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import typer

from takeback.cli.voice import Voice, plain

SHOWN_MAX = 200
"""Of something that was typed wrongly, so many characters are shown."""

SEE_LIST = "see `takeback list`"
"""Where a ref is looked up; what is like the wrong one is in the message."""

PERSON_SECONDS = 60
"""What a person has to mend first is not asked for again every second."""

DONE, REFUSED, USAGE, NO_SUCH_REF, UNAVAILABLE = 0, 1, 2, 3, 4
INTERRUPTED, READER_GONE = 130, 141


class Usage(typer.TyperException):
    """What was typed can't be meant; the message says what was expected."""

    exit_code = USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure: its exit code, what programs read, and what people do."""

    exit: int
    code: str
    class_: str
    message: str
    hints: Sequence[str] = ()
    status: str = "error"
    alternatives: Sequence[Any] = ()
    beside: Mapping[str, Any] = field(default_factory=dict)
    retry_after_s: int = 1

    def document(self) -> dict[str, Any]:
        """The envelope of the failure, after what the command found until then."""
        transient = self.class_ == "transient"
        return {
            **self.beside,
            "status": self.status,
            "effect": "none",
            "repeat_can_succeed": transient,
            "error": {
                "class": self.class_,
                "code": self.code,
                "message": self.message,
                "retry_after_s": self.retry_after_s if transient else None,
                "violations": [],
                "next_call": None,
                "alternatives": list(self.alternatives),
            },
            "trace_id": None,
        }

    def say(self, voice: Voice) -> int:
        """Says it, to programs or to people; answers with the exit code."""
        if voice.json_wanted:
            voice.document(self.document())
        else:
            for line in self.lines():
                voice.note(line)
        return self.exit

    def lines(self) -> list[str]:
        """What went wrong, and then what to do."""
        first, *more = self.message.splitlines() or [""]
        return [
            f"takeback: {plain(first)}",
            *(f"  {plain(line)}" for line in [*more, *self.hints]),
        ]


def exit_of(code: str | None) -> int:
    """The exit code for the stable word of an error; None is no error.

    >>> exit_of(None), exit_of("key_conflict"), exit_of("no_such_ref"), exit_of("usage")
    (0, 1, 3, 2)
    """
    return DONE if code is None else _EXITS.get(code, REFUSED)


_EXITS = {
    "usage": USAGE,
    "invalid_settings": USAGE,
    "invalid_catalog": USAGE,
    "no_such_ref": NO_SUCH_REF,
    "database_unavailable": UNAVAILABLE,
    "broker_unavailable": UNAVAILABLE,
}


def of_usage(problem: typer.TyperException, path: str) -> Failure:
    """A failure to say what was wanted; ``path`` is the command whose help tells more."""
    return Failure(
        exit=problem.exit_code,
        code="usage",
        class_="invalid_request",
        message=problem.format_message(),
        hints=(f"see `{path} --help`",),
    )


def of_interruption() -> Failure:
    """Somebody pressed Ctrl-C."""
    return Failure(exit=INTERRUPTED, code="interrupted", class_="transient", message="interrupted")


def of_error(problem: Exception) -> Failure:
    """A failure that one of our own exceptions tells of."""
    from takeback.model import errors

    code = getattr(problem, "code", "internal_error")
    class_ = "terminal"
    if isinstance(problem, errors.Unavailable):
        class_ = "transient"
    elif isinstance(problem, errors.CallerError):
        class_ = "invalid_request"
    hints: tuple[str, ...] = ()
    if isinstance(problem, errors.NoSuchRef):
        hints = (SEE_LIST,)
    elif isinstance(problem, errors.InvalidSettings):
        hints = ("next: `takeback doctor`",)
    told = isinstance(problem, errors.NoSuchRef | errors.Conflict | errors.PolicyRefusal)
    return Failure(
        exit=exit_of(code),
        code=code,
        class_=class_,
        message=str(problem),
        hints=hints,
        status="refused" if told else "error",
        alternatives=getattr(problem, "nearest", ()),
        retry_after_s=PERSON_SECONDS if isinstance(problem, errors.LedgerClosed) else 1,
    )


def reason_of(problem: BaseException) -> str | None:
    """The driver's own words at the end of a chain of causes, on one line."""
    last = problem
    while last.__cause__ is not None:
        last = last.__cause__
    if last is problem:
        return None
    said = getattr(last, "orig", None) or last
    return " ".join(str(said).split())


def of_fault(problem: BaseException, report: str) -> Failure:
    """A failure that nobody foresaw; ``report`` is where its details are."""
    text = " ".join(str(problem).split())
    shown = text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
    return Failure(
        exit=REFUSED,
        code="internal_error",
        class_="terminal",
        message=f"this should not have happened; the details are in {report}: please report them",
        hints=(f"{type(problem).__name__}: {shown}",),
    )


def keep_report(
    kind: type[BaseException], problem: BaseException, trace: TracebackType | None
) -> str:
    """Writes down the details of a fault, for whoever mends it; answers with the file's name."""
    text = "".join(traceback.format_exception(kind, problem, trace))
    try:
        handle, name = tempfile.mkstemp(prefix="takeback-", suffix=".txt", text=True)
        with os.fdopen(handle, "w", errors="backslashreplace") as file:
            file.write(f"{sys.argv[0]} on Python {sys.version}\n{text}")
    except OSError as unwritable:
        return f"no file ({unwritable.strerror})"
    return name
