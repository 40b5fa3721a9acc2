"""Malformed calls by the thousand, made of the calls that are wanted: each with what was wanted.

A call that the engine takes as it is, is not malformed, and is left out. The same subjects give the
same corpus everywhere.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from takeback.declare import Read, Remote, Tool
from takeback.model.closed_set import PERMITTED_MAX, closed_set
from takeback.model.reading import Path
from takeback.testing.recovery.fault import (
    Edit,
    Expects,
    Place,
    applied,
    edits_at,
    edits_of_the_whole,
    violations,
)
from takeback.testing.recovery.subject import Subject

SEED = 7
SEVERAL_PER_CALL = 14
SEVERAL_MAX = 4

# What a trial puts in place of these: the ref of the call before, and that ref misspelt.
REF, MISSPELT = "$ref", "$misspelt"

Call = dict[str, Any]

_SEVERITY: Mapping[Expects, int] = {"taken": 0, "choice": 1, "ask_user": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One malformed call. ``words`` is the wanted call as the user says it.

    ``before`` is a call that was made earlier, whose ref this one is about. ``expects`` is what
    becomes of it in the hands of a caller that knows only the answers.
    """

    subject: str
    number: int
    faults: tuple[str, ...]
    expects: Expects
    sent: Call
    wanted: Call
    words: Call
    before: Call | None = None

    @property
    def id(self) -> str:
        """Its place in the corpus and what is wrong with it."""
        return f"{self.subject}-{self.number}-{'+'.join(self.faults).replace(' ', '_')}"


def cases(subject: Subject) -> list[Case]:
    """Every malformed call of one subject."""
    dice = random.Random(SEED)
    found: list[Case] = []
    seen: set[str] = set()
    for name, arguments in subject.wanted:
        tool = next(row for row in subject.catalog if row.name == name)
        wanted = {"tool": name, "arguments": dict(arguments)}
        words = {"tool": name, "arguments": _in_words(tool, arguments, ())}
        for faults, expects, sent, before in _spoilt(subject, tool, wanted, dice):
            text = json.dumps([sent, before], sort_keys=True)
            if text in seen:
                continue
            seen.add(text)
            found.append(
                Case(
                    subject=subject.name,
                    number=len(found),
                    faults=faults,
                    expects=expects,
                    sent=sent,
                    wanted=_wanted(wanted, sent, before),
                    words=_wanted(words, sent, before),
                    before=before,
                )
            )
    return found


def sample(all_: Sequence[Case], count: int) -> list[Case]:
    """So many of the cases, spread evenly over the corpus; all of them when there are fewer.

    >>> sample(list(range(10)), 3)
    [0, 3, 6]
    """
    if count >= len(all_):
        return list(all_)
    return [all_[place * len(all_) // count] for place in range(count)]


_Spoilt = tuple[tuple[str, ...], Expects, Call, Call | None]


def _spoilt(subject: Subject, tool: Tool, wanted: Call, dice: random.Random) -> Iterator[_Spoilt]:
    edits = list(_edits(subject, tool, wanted["arguments"]))
    for edit in edits:
        sent = {"tool": tool.name, "arguments": applied(wanted["arguments"], edit)}
        yield (edit.fault,), edit.expects, sent, None
    for _ in range(SEVERAL_PER_CALL):
        several = _several(edits, dice)
        if len(several) < 2:
            continue
        arguments = wanted["arguments"]
        for edit in several:
            arguments = applied(arguments, edit)
        if any(edit.fault == "misspelt name" for edit in several) and not violations(
            tool, arguments
        ):
            continue
        expects = max((edit.expects for edit in several), key=_SEVERITY.__getitem__)
        faults = tuple(sorted({edit.fault for edit in several}))
        yield ("several", *faults), expects, {"tool": tool.name, "arguments": arguments}, None
    yield from _misnamed(subject, wanted)
    if not isinstance(tool.effect, Read):
        yield from _about_refs(tool, wanted)


def _edits(subject: Subject, tool: Tool, arguments: Mapping[str, Any]) -> Iterator[Edit]:
    """Every edit that makes the call one that is refused."""
    places = [
        Place(subject=subject, tool=tool, arguments=arguments, path=path, value=value)
        for path, value in _leaves(arguments, ())
    ]
    for place in places:
        for edit in edits_at(place):
            if violations(tool, applied(arguments, edit)):
                yield edit
    for edit in edits_of_the_whole(arguments):
        yield edit


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _several(edits: Sequence[Edit], dice: random.Random) -> list[Edit]:
    """Two to four edits, none within another's place."""
    chosen: list[Edit] = []
    for edit in dice.sample(list(edits), min(len(edits), 12)):
        if len(chosen) < dice.randint(2, SEVERAL_MAX) and all(
            edit.path[: len(other.path)] != other.path for other in chosen
        ):
            chosen.append(edit)
    return chosen


def _misnamed(subject: Subject, wanted: Call) -> Iterator[_Spoilt]:
    """The right arguments for a tool that there is not."""
    name, arguments = wanted["tool"], wanted["arguments"]
    for spelling in (name.upper(), name.replace("_", "-"), name.title().replace("_", "")):
        yield ("tool spelling",), "taken", {"tool": spelling, "arguments": arguments}, None
    middle = len(name) // 2
    typo = name[:middle] + name[middle + 1 :]
    for other in (typo, *subject.misnamed.get(name, ())):
        yield ("unknown tool",), "choice", {"tool": other, "arguments": arguments}, None


def _about_refs(tool: Tool, wanted: Call) -> Iterator[_Spoilt]:
    """A restore, and a second call on purpose, that name their first call nearly right."""
    restore = {"tool": "restore", "arguments": {"ref": MISSPELT}}
    yield ("misspelt ref",), "choice", restore, wanted
    # Rows that are gone can't be deleted once more, so this is wanted of remote effects alone.
    if not isinstance(tool.effect, Remote):
        return
    again = {"tool": wanted["tool"], "arguments": wanted["arguments"] | {"repeat_of": MISSPELT}}
    yield ("misspelt ref",), "choice", again, wanted


def _wanted(wanted: Call, sent: Call, before: Call | None) -> Call:
    if before is None:
        return wanted
    if sent["tool"] == "restore":
        return {"tool": "restore", "arguments": {"ref": REF}}
    return {"tool": wanted["tool"], "arguments": wanted["arguments"] | {"repeat_of": REF}}


def _in_words(tool: Tool, value: Any, path: Path) -> Any:
    """What is wanted as a user says it: Germany, where the argument takes DE."""
    if isinstance(value, Mapping):
        return {key: _in_words(tool, item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_words(tool, item, (*path, index)) for index, item in enumerate(value)]
    members = closed_set(tool.arguments, path)
    if len(members) > PERMITTED_MAX:
        for member in members:
            if member.value == value and member.name is not None:
                return member.name.replace("_", " ").title()
    return value
