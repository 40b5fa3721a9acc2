"""A caller that recovers from refusals by fixed rules, and knows nothing but the answers' fields.

It stands for a model at its most literal. Its rules were fixed before any corpus was run, and they
are all here; nothing of Takeback is imported, so whatever it gets right, the answers told it.

1. An answer that is no refusal ends the conversation: the call was taken.
2. ``class: transient`` is sent again as it was; ``class: terminal`` ends it.
3. ``next_call`` is sent word for word by who doesn't know what is wanted.
4. ``repair: mechanical`` is carried out: the ``suggestion`` is put at ``field``; with the code
   ``unknown_argument`` the suggestion is the name that was meant, and without one the argument is
   left out.
5. Any other ``repair`` needs to know what is wanted. Who knows puts that there, in the spelling
   that ``permitted``, or else the ``lookup``, has for it. Who doesn't asks the ``lookup`` too, and
   takes what it spells like the received value; otherwise it stops, and says that somebody has to
   choose, or that the user has to be asked.
6. A wrong name, of a tool or a ref, is put right from ``alternatives`` by who knows which is meant.
7. A refusal without any such field is sent once more as it was, and then given up.
8. Nothing that was refused is sent a second time, but for 2 and 7, and nothing after the budget.

Messages are never read.
"""

from __future__ import annotations

import copy
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CALLS_MAX = 4
LOOKUPS_MAX = 8

BYTES_PER_TOKEN = 4

Call = dict[str, Any]
Answer = Mapping[str, Any]
Send = Callable[[Call], Answer]

_REFUSALS = frozenset({"refused", "in_progress", "unavailable"})


@dataclass(slots=True, kw_only=True)
class Conversation:
    """What was said: the calls of the tool, the last of them, and why no more were made.

    ``reason`` is ``taken``, or why the caller stopped: ``choice``, ``ask_user``, ``terminal``,
    ``no_candidates``, ``unreadable``, ``stuck`` or ``budget``.
    """

    reason: str = "budget"
    attempts: int = 0
    lookups: int = 0
    tokens: int = 0
    calls: list[Call] = field(default_factory=list)
    answer: Answer = field(default_factory=dict)


class _Stop(Exception):
    """The caller can't go on; its text is the reason."""


def converse(send: Send, call: Call, intent: Call | None) -> Conversation:
    """Sends ``call`` and goes on until it is taken, or the rules say to stop.

    ``intent`` is what is wanted, as {"tool", "arguments"} in the user's words; None for a caller
    that knows nothing but what it has sent.
    """
    talk = Conversation()

    def ask(question: Call) -> Answer:
        answer = send(copy.deepcopy(question))
        talk.tokens += tokens_of(question) + tokens_of(answer)
        return answer

    def look_up(question: Call) -> Answer:
        talk.lookups += 1
        if talk.lookups > LOOKUPS_MAX:
            raise _Stop("budget")
        return ask(question)

    unreadable = 0
    while talk.attempts < CALLS_MAX:
        talk.attempts += 1
        talk.calls.append(call)
        talk.answer = ask(call)
        if talk.answer.get("status") not in _REFUSALS:
            talk.reason = "taken"
            return talk
        try:
            following = _next(call, talk.answer.get("error", {}), intent, look_up)
        except _Stop as stop:
            talk.reason = str(stop)
            return talk
        if following is None:
            unreadable += 1
            if unreadable > 1:
                talk.reason = "unreadable"
                return talk
        elif following in talk.calls and not _is_transient(talk.answer):
            talk.reason = "stuck"
            return talk
        else:
            call = following
    return talk


def tokens_of(document: Any) -> int:
    """An estimate that is the same everywhere: one token for four bytes of compact JSON.

    >>> tokens_of({"status": "refused"})
    5
    """
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def _is_transient(answer: Answer) -> bool:
    return bool(answer.get("error", {}).get("class") == "transient")


def _next(call: Call, error: Mapping[str, Any], intent: Call | None, look_up: Send) -> Call | None:
    """The call to send after a refusal; None when the refusal has no field to go by."""
    if error.get("class") == "transient":
        return call
    if error.get("class") == "terminal":
        raise _Stop("terminal")
    violations = error.get("violations") or []
    next_call = error.get("next_call")
    if intent is None and next_call is not None:
        return dict(next_call)
    if violations:
        return _mended(call, violations, intent, look_up)
    if error.get("alternatives") is not None:
        return _renamed(call, error["alternatives"], intent)
    return None


def _mended(
    call: Call, violations: Sequence[Mapping[str, Any]], intent: Call | None, look_up: Send
) -> Call:
    """The call with every violation put right."""
    if intent is None:
        _stop_unless_mendable(violations)
    arguments = call["arguments"]
    arguments = copy.deepcopy(arguments) if isinstance(arguments, dict) else {}
    words = None if intent is None else intent["arguments"]
    # Names first: what is wrong with a value is told under the name that was meant.
    for violation in violations:
        if violation.get("code") == "unknown_argument":
            _rename(arguments, _path(str(violation["field"]), arguments, words), violation)
    for violation in violations:
        path = _path(str(violation["field"]), arguments, words)
        if violation.get("code") in {"unknown_argument", "too_many_violations"}:
            continue
        if words is not None and violation["field"] == "arguments":
            arguments = copy.deepcopy(words)
        else:
            _put(arguments, path, _value(path, violation, words, look_up))
    return {"tool": call["tool"], "arguments": arguments}


def _stop_unless_mendable(violations: Sequence[Mapping[str, Any]]) -> None:
    """Who knows nothing of what is wanted mends what is mechanical, or may look something up."""
    beyond = {
        violation.get("repair")
        for violation in violations
        if violation.get("repair") != "mechanical" and "lookup" not in violation
    }
    if "ask_user" in beyond:
        raise _Stop("ask_user")
    if beyond:
        raise _Stop("choice")


def _rename(arguments: Any, path: Sequence[Any], violation: Mapping[str, Any]) -> None:
    """An argument that there is not goes, and what it held goes to the name that was meant."""
    held = _take(arguments, path)
    meant = violation.get("suggestion")
    if meant is not None:
        _put(arguments, [*path[:-1], meant], held)


def _value(path: Sequence[Any], violation: Mapping[str, Any], words: Any, look_up: Send) -> Any:
    word = _at(words, path)
    if word is _NOTHING:
        if violation.get("suggestion") is not None and violation.get("repair") == "mechanical":
            return violation["suggestion"]
        if violation.get("repair") == "mechanical":
            raise _Stop("no_candidates")
        if "lookup" in violation:
            return _looked_up(violation["lookup"], violation.get("received"), look_up)
        raise _Stop("ask_user" if violation.get("repair") == "ask_user" else "choice")
    if not isinstance(word, str):
        return copy.deepcopy(word)
    for permitted in violation.get("permitted", ()):
        if _alike(permitted, word):
            return permitted
    if "lookup" in violation:
        return _looked_up(violation["lookup"], word, look_up)
    return word


def _looked_up(lookup: Call, word: Any, look_up: Send) -> Any:
    """The one value that is spelt, or called, as the word is."""
    question = {"tool": lookup["tool"], "arguments": lookup["arguments"] | {"query": word}}
    matches = look_up(question).get("matches", ())
    found = [
        match["value"]
        for match in matches
        if _alike(match["value"], word) or _alike(match.get("name"), word)
    ]
    if len(found) != 1:
        raise _Stop("choice")
    return found[0]


def _renamed(call: Call, alternatives: Sequence[Any], intent: Call | None) -> Call:
    """The tool or the ref that is wanted, when it is among the alternatives."""
    if intent is None or not alternatives:
        raise _Stop("choice")
    if intent["tool"] != call["tool"]:
        if intent["tool"] not in alternatives:
            raise _Stop("no_candidates")
        return {"tool": intent["tool"], "arguments": copy.deepcopy(call["arguments"])}
    arguments = copy.deepcopy(call["arguments"])
    wanted = [name for name, word in intent["arguments"].items() if word in alternatives]
    if not wanted:
        raise _Stop("no_candidates")
    return {
        "tool": call["tool"],
        "arguments": arguments | {name: intent["arguments"][name] for name in wanted},
    }


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are the same but for case, width, outer spaces and separators."""
    if isinstance(one, str) and isinstance(other, str):
        return _plain(one) == _plain(other)
    return type(one) is type(other) and bool(one == other)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).strip().casefold()
    return folded.replace("-", "_").replace(" ", "_")


class _Nothing:
    """What stands where there is no value; null is one."""


_NOTHING = _Nothing()


def _path(field_name: str, *containers: Any) -> list[Any]:
    """The parts of a path such as lines.0.amount; a name may have a dot of its own."""
    parts = field_name.split(".")
    path: list[Any] = []
    here = list(containers)
    while parts:
        taken = next(
            (
                size
                for size in range(len(parts), 1, -1)
                if any(isinstance(c, dict) and ".".join(parts[:size]) in c for c in here)
            ),
            1,
        )
        name, parts = ".".join(parts[:taken]), parts[taken:]
        is_index = name.isascii() and name.isdigit() and any(isinstance(c, list) for c in here)
        part: Any = int(name) if is_index else name
        path.append(part)
        here = [inner for inner in (_at(c, [part]) for c in here) if inner is not _NOTHING]
    return path


def _at(container: Any, path: Sequence[Any]) -> Any:
    for part in path:
        if not _has(container, part):
            return _NOTHING
        container = container[part]
    return container


def _has(container: Any, part: Any) -> bool:
    if isinstance(container, list):
        return isinstance(part, int) and part < len(container)
    return isinstance(container, dict) and part in container


def _put(container: Any, path: Sequence[Any], value: Any) -> None:
    for part in path[:-1]:
        inner = _at(container, [part])
        if not isinstance(inner, dict | list):
            raise _Stop("unreadable")
        container = inner
    if isinstance(container, dict) or _has(container, path[-1]):
        container[path[-1]] = value
    else:
        raise _Stop("unreadable")


def _take(container: Any, path: Sequence[Any]) -> Any:
    for part in path[:-1]:
        container = _at(container, [part])
    if not isinstance(container, dict) or path[-1] not in container:
        raise _Stop("unreadable")
    return container.pop(path[-1])
