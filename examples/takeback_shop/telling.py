"""The demo's story as text for people, and as one document for programs."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TextIO, assert_never

from takeback import Envelope
from takeback.testing import ReceivedMail
from takeback_shop.agent import Awaited, Beat, Called, Compared, Said, Scene, word_of

WIDTH = 100
"""Wider than this nothing is told, however wide the terminal; a reader that is none gets it all."""

NARROWEST = 40
MARGIN = 12
MATCHES_TOLD = 2


class Teller(Protocol):
    """Tells the story while it happens; two of them, for two kinds of readers."""

    def begin(self, setting: Mapping[str, str]) -> None: ...
    def beat(self, beat: Beat, *, outcome: str = "") -> None: ...
    def end(self, ending: Mapping[str, Any]) -> None: ...
    def fail(self, code: str, message: str) -> None: ...


class TextTeller:
    """Prints each beat as it happens."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._width = width_of(out)
        self._scenes = 0
        self._undo_told: set[str] = set()

    def begin(self, setting: Mapping[str, str]) -> None:
        self._print(
            *textwrap.wrap(
                "Takeback: what an agent does is recorded once, can be taken back for a while, and "
                "is never silently repeated. A scripted support agent shows it, on real things:",
                self._width,
            ),
            "",
            *(f"  {name:<{MARGIN - 2}}{value}" for name, value in setting.items()),
        )

    def beat(self, beat: Beat, *, outcome: str = "") -> None:
        match beat:
            case Scene():
                self._scenes += 1
                self._print("", f"{self._scenes}. {beat.title}")
            case Said():
                self._tell(beat.by, f'"{beat.text}"')
            case Called():
                self._tell("agent", _call(beat.tool, beat.arguments))
                if beat.why:
                    self._tell("", f"({beat.why})")
                first, *more = told(beat.answer)
                self._tell("takeback", first)
                for line in [*more, *self._undo(beat)]:
                    self._tell("", line)
            case Compared() | Awaited():
                self._tell("worker" if isinstance(beat, Awaited) else "database", outcome)
            case _:
                assert_never(beat)

    def end(self, ending: Mapping[str, Any]) -> None:
        mails = ending["mailbox"]
        self._print("", f"The mailbox at the end: these {len(mails)} mails and no other")
        for mail in mails:
            self._tell("sent", f"to {mail['to']}: {mail['subject']}")
        for name, why in ending["absent"].items():
            self._tell("not sent", f"{name}: {why}")
        self._print("", f"The payment provider: {ending['refunds']} refunds so far")
        for why in ending["waiting"].values():
            self._tell("waiting", why)
        self._print("", "The log, as takeback verify checks it")
        self._tell("verify", ending["verify"]["summary"])
        self._print(
            "", "Everything of this run is gone again. To go on: README.md, or takeback --help."
        )

    def fail(self, code: str, message: str) -> None:
        first, *more = textwrap.wrap(message, self._width - MARGIN)
        print(f"takeback demo: {first}", *(f"  {line}" for line in more), sep="\n", file=sys.stderr)

    def _undo(self, beat: Called) -> Iterator[str]:
        """The call that takes it back, once for each tool."""
        call = beat.answer.restore
        if call is None or beat.tool in self._undo_told or beat.tool in ("restore", "status"):
            return
        self._undo_told.add(beat.tool)
        until = f" until {call['until']}" if call["until"] else ""
        yield f"-> {_call(call['tool'], call['arguments'])}{until} {call['does']}"

    def _tell(self, who: str, text: str) -> None:
        lines = textwrap.wrap(
            text, self._width - MARGIN, break_long_words=False, break_on_hyphens=False
        )
        for place, line in enumerate(lines or [""]):
            name = who if place == 0 else ""
            self._print(f"  {name:<{MARGIN - 2}}{line}".rstrip())

    def _print(self, *lines: str) -> None:
        print(*lines, sep="\n", file=self._out, flush=True)


class JsonTeller:
    """Keeps everything, and prints one document at the end."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._document: dict[str, Any] = {"scenes": []}

    def begin(self, setting: Mapping[str, str]) -> None:
        self._document = {"status": "done", "setting": dict(setting), "scenes": []}

    def beat(self, beat: Beat, *, outcome: str = "") -> None:
        if isinstance(beat, Scene):
            self._document["scenes"].append({"title": beat.title, "steps": []})
        else:
            self._document["scenes"][-1]["steps"].append(_step(beat, outcome))

    def end(self, ending: Mapping[str, Any]) -> None:
        print(json.dumps(self._document | dict(ending), ensure_ascii=False), file=self._out)

    def fail(self, code: str, message: str) -> None:
        transient = code == "database_unavailable"
        error: dict[str, Any] = {
            "class": "transient" if transient else "invalid_request",
            "code": code,
            "message": message,
            "retry_after_s": 1 if transient else None,
            "violations": [],
            "next_call": None,
            "alternatives": [],
        }
        document = {
            "status": "error",
            "effect": "none",
            "repeat_can_succeed": transient,
            "error": error,
            "trace_id": None,
        }
        print(json.dumps(document, ensure_ascii=False), file=self._out)


def width_of(out: TextIO) -> int:
    """How wide the story is told: as wide as the terminal, within bounds."""
    columns = shutil.get_terminal_size((WIDTH, 24)).columns if out.isatty() else WIDTH
    return max(NARROWEST, min(WIDTH, columns))


def told(answer: Envelope) -> list[str]:
    """An answer in a few lines: the status word and the ref first, then what it says.

    >>> told(Envelope({"status": "taken_back", "ref": "t-00000000", "summary": "Undone.",
    ...                "replayed": True}))
    ['taken back, replayed: t-00000000', 'Undone.']
    """
    if answer.error is not None:
        return [f"{word_of(answer)}: {answer.code}", *_problems(answer.error)]
    if answer.ref is None:
        return [f"{word_of(answer)}: {_matches(answer.get('matches', ()))}"]
    return [f"{word_of(answer)}: {answer.ref}", answer.summary]


def mail_told(mail: ReceivedMail) -> dict[str, str]:
    """What the mailbox shows of a mail."""
    return {
        "to": ", ".join(mail.recipients),
        "subject": mail.subject,
        "message_id": mail.message_id,
        "text": mail.text,
    }


def _call(tool: str, arguments: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"{tool}({given})"


def _problems(error: Mapping[str, Any]) -> list[str]:
    lines = [error["message"]]
    if error["violations"]:
        lines = [_problem(violation) for violation in error["violations"]]
    if error["next_call"] is not None:
        offered = error["next_call"]
        lines.append(f"next_call: {_call(offered['tool'], offered['arguments'])}")
    return lines


def _problem(violation: Mapping[str, Any]) -> str:
    line = f"{violation['field']} {violation['message']}"
    if "first" in violation:
        line += f": {violation['first']!r}, now {violation['received']!r}"
    return line


def _matches(matches: Sequence[Mapping[str, Any]]) -> str:
    shown = [f"{match['ref']} {match['label']}" for match in matches[:MATCHES_TOLD]]
    return "; ".join(shown) + ("; …" if len(matches) > MATCHES_TOLD else "")


def _step(beat: Beat, outcome: str) -> dict[str, Any]:
    match beat:
        case Said():
            return {"by": beat.by, "said": beat.text}
        case Called():
            return {
                "by": "agent",
                "tool": beat.tool,
                "arguments": dict(beat.arguments),
                "why": beat.why or None,
                "answer": beat.answer.to_dict(),
            }
        case Awaited():
            return {"by": "worker", "ref": beat.ref, "outcome": outcome}
        case Compared():
            return {"by": "database", "before": beat.before, "outcome": outcome}
        case Scene():
            return {"title": beat.title}
        case _:
            assert_never(beat)
