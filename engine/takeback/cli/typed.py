"""What people type, as values: arguments as JSON, spans of time, states."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from takeback.cli.failure import SHOWN_MAX, Usage
from takeback.settings import listening

ARGUMENTS_BYTES_MAX = 1_000_000
"""No tool wants more: what is this large is a file by mistake."""

POSITION_MAX = 2**63 - 1
LIMIT_MAX = 1000

_SPAN = re.compile(r"(\d{1,9})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def arguments_of(given: str) -> Mapping[str, Any]:
    """The arguments of a call: JSON, or the file behind ``@``, or stdin behind ``-``.

    Raises Usage when it is no JSON object, or one that says a thing twice.
    """
    text = _text(given)
    try:
        value = json.loads(text, object_pairs_hook=_named_once, parse_constant=_no_number)
    except RecursionError:
        raise Usage(f"--args is nested too deep; {_EXPECTED}") from None
    except ValueError as problem:
        raise Usage(f"--args is no JSON: {problem}; received {_shown(text)}; {_EXPECTED}") from None
    if not isinstance(value, dict):
        kind = _KINDS.get(type(value), "something else")
        raise Usage(f"--args is {kind}, no JSON object; received {_shown(text)}; {_EXPECTED}")
    return value


_EXPECTED = 'expected an object such as \'{"ticket_id": "T-7", "status": "closed"}\''
_KINDS: Mapping[type, str] = {
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def instant_of(given: str) -> datetime:
    """An instant in the form of ISO 8601. Raises Usage.

    >>> instant_of("2026-11-29T14:05:10Z").isoformat()
    '2026-11-29T14:05:10+00:00'
    """
    try:
        return datetime.fromisoformat(given.strip())
    except ValueError:
        raise Usage(
            f"--not-before is {_shown(given)}; expected an instant such as 2026-11-29T14:05:10Z"
        ) from None


def _text(given: str) -> str:
    if given == "-":
        raw, where = sys.stdin.buffer.read(ARGUMENTS_BYTES_MAX + 1), "stdin"
    elif given.startswith("@"):
        where = given[1:]
        try:
            with Path(where).open("rb") as file:
                raw = file.read(ARGUMENTS_BYTES_MAX + 1)
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or "is no path"
            raise Usage(f"--args {_shown(given)} can't be read: {reason}") from None
    else:
        raw, where = given.encode(), "--args"
    if len(raw) > ARGUMENTS_BYTES_MAX:
        raise Usage(f"{where} is larger than {ARGUMENTS_BYTES_MAX:,} bytes; no tool takes as much")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise Usage(
            f"{where} is no UTF-8 at byte {problem.start}; expected JSON in UTF-8"
        ) from None


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"the name {name[:SHOWN_MAX]!r} is given twice")
        fields[name] = value
    return fields


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…")


def span_of(given: str | None) -> timedelta | None:
    """How long ago: a whole number and a unit.

    >>> span_of("2h"), span_of("7d")
    (datetime.timedelta(seconds=7200), datetime.timedelta(days=7))
    """
    if given is None:
        return None
    found = _SPAN.fullmatch(given.strip())
    if found is None:
        raise Usage(
            f"--since is {_shown(given)}; expected a number and a unit (s, m, h, d or w), "
            "such as 30m, 2h or 7d"
        )
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise Usage(f"--since is {_shown(given)}, which is longer ago than time goes") from None


def number_within(option: str, low: int, high: int) -> Callable[[str | int], int]:
    """Reads the number behind an option; raises Usage when it is none, or outside of the bounds.

    >>> number_within("--limit", 1, 1000)("50")
    50
    """

    # What is not said arrives as it is declared: a number.
    def number(given: str | int) -> int:
        text = str(given)
        if re.fullmatch(r"-?[0-9]{1,19}", text) and low <= int(text) <= high:
            return int(text)
        raise Usage(f"{option} is {_shown(text)}; expected a whole number from {low} to {high}")

    return number


def address_of(option: str) -> Callable[[str], str]:
    """Reads the address behind an option; raises Usage when nobody can listen at it.

    >>> address_of("--metrics")("0.0.0.0:9464")
    '0.0.0.0:9464'
    """

    def address(given: str) -> str:
        try:
            listening(given)
        except ValueError:
            raise Usage(
                f"{option} is {_shown(given)}; expected HOST:PORT or a port, such as 127.0.0.1:9464"
            ) from None
        return given

    return address


def one_of(option: str, words: Sequence[str]) -> Callable[[str], str]:
    """Reads the word behind an option; raises Usage when it is none of ``words``.

    >>> one_of("--as", ("succeeded", "failed"))("failed")
    'failed'
    """

    def word(given: str) -> str:
        if given in words:
            return given
        raise Usage(f"{option} is {_shown(given)}; expected one of: {', '.join(words)}")

    return word


def state_of(given: str | None) -> str | None:
    """A state of the lifecycle, spelt as it is stored."""
    if given is None:
        return None
    from takeback.model.intent import State
    from takeback.model.likeness import best_first, folded
    from takeback.model.status import STATUS

    states = [state.value for state in State]
    for state in states:
        if folded(given[:SHOWN_MAX]) == state:
            return state
    of_status = [state.value for state, status in STATUS.items() if status == given]
    if of_status:
        raise Usage(
            f"--state is {given!r}, which is a status; expected one of its states: "
            f"{', '.join(of_status)}"
        )
    nearest = best_first(given[:SHOWN_MAX], states)
    raise Usage(
        f"--state is {_shown(given)}; expected one of: {', '.join(states)}; "
        f"the nearest is {nearest[0]}"
    )
