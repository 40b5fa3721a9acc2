"""What goes wrong with a call: one function for each kind of fault, at one place of the arguments.

Each says what it expects of a caller that knows only the answers: that it gets the call right,
since only the spelling was wrong, or that it stops, since somebody has to choose or the user has to
be asked. That was written down before any caller was run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from takeback.declare import Tool
from takeback.model.arguments import validate
from takeback.model.closed_set import Member, closed_set
from takeback.model.errors import InvalidArguments
from takeback.model.likeness import alike
from takeback.model.reading import Path
from takeback.testing.recovery.subject import Subject

Expects = Literal["taken", "choice", "ask_user"]

_CYRILLIC = str.maketrans("aceopxyi", "асеорхуі")
_LATIN = str.maketrans("асеорхуі", "aceopxyi")
_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}

_TYPO_LENGTH_MIN = 4
_MINOR_UNITS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change of the arguments, and the fault that it stands for."""

    fault: str
    path: Path
    change: Literal["put", "drop", "rename", "add"]
    value: Any = None
    expects: Expects = "choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One value of a wanted call, and what may stand there."""

    subject: Subject
    tool: Tool
    arguments: Mapping[str, Any]
    path: Path
    value: Any

    @property
    def members(self) -> tuple[Member, ...]:
        """The closed set that the value is from; empty where there is none."""
        return closed_set(self.tool.arguments, self.path)

    def put(self, fault: str, value: Any, expects: Expects = "choice") -> Edit:
        """Another value in this place."""
        return Edit(fault=fault, path=self.path, change="put", value=value, expects=expects)

    def objection_to(self, value: Any) -> str | None:
        """The code of what is said to another value in this place; None when it is taken."""
        field = ".".join(map(str, self.path))
        edited = applied(self.arguments, self.put("", value))
        return violations(self.tool, edited).get(field)


def violations(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, str]:
    """The code of every violation by its field; empty when the arguments are taken."""
    try:
        validate(tool, arguments)
    except InvalidArguments as problem:
        return {violation.field: violation.code for violation in problem.violations}
    return {}


def applied(arguments: Mapping[str, Any], edit: Edit) -> dict[str, Any]:
    """A copy of the arguments with the edit made."""
    result: Any = copy.deepcopy(dict(arguments))
    holder = result
    for part in edit.path[:-1]:
        holder = holder[part]
    last = edit.path[-1]
    if edit.change == "rename":
        items = [(edit.value if key == last else key, value) for key, value in holder.items()]
        holder.clear()
        holder.update(items)
    elif edit.change == "drop":
        del holder[last]
    else:
        holder[last] = edit.value
    return dict(result)


def edits_at(place: Place) -> Iterator[Edit]:
    """Everything that goes wrong at one place."""
    for fault in _FAULTS:
        yield from fault(place)


def edits_of_the_whole(arguments: Mapping[str, Any]) -> Iterator[Edit]:
    """What is added to a call that has nothing else wrong."""
    for name, value in (("idempotency_key", "3f6c-retry-1"), ("confirm", True), ("force", True)):
        yield Edit(fault="sent along", path=(name,), change="add", value=value, expects="taken")
    for name, value in (("priority", "high"), ("confirm", False), ("примітка", "x")):
        if name not in arguments:
            yield Edit(fault="unknown argument", path=(name,), change="add", value=value)


def _spelling(place: Place) -> Iterator[Edit]:
    if not place.members or not isinstance(place.value, str):
        return
    word = place.value
    spellings = {
        "case": (word.upper(), word.title(), word.lower()),
        "whitespace": (f" {word}\n",),
        "separator": (word.replace("_", "-"), word.replace("_", " "), word.replace("_", " - ")[:0]),
        "full width": (word.translate(_WIDE),),
    }
    for fault, written in spellings.items():
        for one in dict.fromkeys(written):
            if one and one != word:
                yield place.put(fault, one, "taken")


def _name_of_a_member(place: Place) -> Iterator[Edit]:
    for member in place.members:
        if member.value == place.value and member.name is not None:
            yield place.put("member name", member.name.lower().replace("_", " "), "taken")


def _meaning(place: Place) -> Iterator[Edit]:
    if place.members:
        for word in place.subject.near.get(str(place.value), ()):
            yield place.put("near synonym", word)
        for word in place.subject.foreign.get(str(place.value), ()):
            yield place.put("other language", word)
        if len(place.members) > 100:
            yield place.put("large closed set", "whatever the customer had last time")


def _typo(place: Place) -> Iterator[Edit]:
    if not place.members or not isinstance(place.value, str):
        return
    word, middle = place.value, len(place.value) // 2
    typed = [word[:-1] + word[-1] * 2]
    if len(word) >= _TYPO_LENGTH_MIN:
        typed.append(word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :])
        typed.append(word[:middle] + word[middle + 1 :])
    for one in typed:
        if not any(member.is_spelt(one) for member in place.members):
            yield place.put("typo", one)
    for table in (_CYRILLIC, _LATIN):
        one = word.translate(table)
        if one != word:
            yield place.put("lookalike", one)


def _type(place: Place) -> Iterator[Edit]:
    yield place.put("wrong type", [place.value])
    yield place.put("wrong type", {"value": place.value})
    if isinstance(place.value, int):
        yield place.put("wrong type", "many")
        yield place.put("wrong type", place.value + 0.5)
        yield place.put("number as text", str(place.value), "taken")
    elif not place.members:
        yield place.put("wrong type", 7)


def _money(place: Place) -> Iterator[Edit]:
    if place.objection_to("x") != "not_minor_units":
        return
    yield place.put("wrong unit", place.value / _MINOR_UNITS)
    yield place.put("wrong unit", f"{place.value / _MINOR_UNITS:.2f}")
    yield place.put("wrong unit", f"{place.value / _MINOR_UNITS:.2f} EUR")
    yield place.put("wrong unit", f"{place.value / _MINOR_UNITS:.2f}".replace(".", ","))


def _range(place: Place) -> Iterator[Edit]:
    if isinstance(place.value, int) and not place.members:
        for one in (0, -place.value, 2**60):
            yield place.put("out of range", one)
    elif isinstance(place.value, str) and not place.members:
        yield place.put("out of range", "x" * 5000)
        yield place.put("out of range", "")


def _form(place: Place) -> Iterator[Edit]:
    if not isinstance(place.value, str) or place.members:
        return
    word = place.value
    if "@" in word:
        for one in (word.replace("@", " at "), word.split("@")[0], f"{word}, eve@example.com"):
            yield place.put("bad email", one)
    elif place.objection_to("2026-11-29T14:05:10") == "naive_instant":
        yield place.put("naive instant", word.rstrip("Z"))
        yield place.put("naive instant", "tomorrow at nine")
        yield place.put("wrong type", 1_800_000_000)
    elif place.objection_to("?!") == "malformed":
        yield place.put("malformed", word.lstrip("PIMOЧ-_ch"))
        yield place.put("whitespace", f" {word} ", "taken")


def _missing(place: Place) -> Iterator[Edit]:
    if isinstance(place.path[-1], str):
        expects: Expects = "choice" if place.members else "ask_user"
        yield Edit(fault="missing", path=place.path, change="drop", expects=expects)


def _name(place: Place) -> Iterator[Edit]:
    name = place.path[-1]
    if not isinstance(name, str) or len(name) < _TYPO_LENGTH_MIN:
        return
    middle = len(name) // 2
    swapped = name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :]
    humped = name[:1] + name.title().replace("_", "")[1:]
    for one in (swapped, humped, f"{name}s"):
        if one != name and (one == swapped or alike(one, name) or one == f"{name}s"):
            yield Edit(
                fault="misspelt name",
                path=place.path,
                change="rename",
                value=one,
                expects="taken",
            )


_FAULTS: tuple[Callable[[Place], Iterator[Edit]], ...] = (
    _spelling,
    _name_of_a_member,
    _meaning,
    _typo,
    _type,
    _money,
    _range,
    _form,
    _missing,
    _name,
)
