"""What a list of intents, or a stretch of the log, may be narrowed by: checked before it is asked.

These are said by programs and people, never by a model; what is wrong is raised, all of it at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from takeback.model.errors import InvalidArguments
from takeback.model.intent import State
from takeback.model.violation import Violation, shown

LIMIT_MAX = 2**31 - 1
POSITION_MAX = 2**63 - 1
AGE_MAX = timedelta(days=365_000)
"""A thousand years: what is as old as that at most is everything there is."""


def require_narrowing(
    *, state: Any, tool: Any, run: Any, since: Any, limit: Any
) -> timedelta | None:
    """The age to look back to, None for every one. Raises InvalidArguments."""
    found = [
        *_word("state", state),
        *_word("tool", tool),
        *_word("run", run),
        *_whole("limit", limit, 1, LIMIT_MAX),
    ]
    if isinstance(state, str) and state not in {one.value for one in State}:
        permitted = tuple(one.value for one in State)
        found.append(
            _wrong("state", "not_permitted", f"must be one of: {', '.join(permitted)}", state)
        )
    if since is not None and not isinstance(since, timedelta):
        found.append(_wrong("since", "wrong_type", "must be a timedelta, or None", since))
    elif since is not None and since < timedelta(0):
        found.append(_wrong("since", "out_of_range", "must not be negative", str(since)))
    if found:
        raise InvalidArguments(found)
    return None if since is None or since > AGE_MAX else since


def require_stretch(*, after: Any, limit: Any) -> None:
    """Raises InvalidArguments for what is no position, or no number of events."""
    found = [*_whole("after", after, 0, POSITION_MAX), *_whole("limit", limit, 1, LIMIT_MAX)]
    if found:
        raise InvalidArguments(found)


def _word(field: str, value: Any) -> Iterator[Violation]:
    if value is None:
        return
    if not isinstance(value, str):
        yield _wrong(field, "wrong_type", "must be text, or None", value)
    elif not value.isprintable():
        yield _wrong(field, "malformed", "must be printable", value)


def _whole(field: str, value: Any, least: int, most: int) -> Iterator[Violation]:
    if isinstance(value, bool) or not isinstance(value, int):
        yield _wrong(field, "wrong_type", "must be a whole number", value)
    elif not least <= value <= most:
        yield _wrong(field, "out_of_range", f"must be {least} to {most}", value)


def _wrong(field: str, code: str, message: str, value: Any) -> Violation:
    return Violation(field=field, code=code, message=message, received=shown(value))
