"""The terms of a call that say when it may happen: not before an instant, after others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from takeback.declare import Remote, Tool
from takeback.model import errors
from takeback.model.ref import normalise
from takeback.model.violation import Violation, of_term

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 31, tzinfo=UTC)
"""What Postgres and every reader of an answer can say; a window comes on top of it."""

AFTER_MAX = 16
"""So many others a call may wait for."""


def term_violations(tool: Tool, *, not_before: Any, after: Any) -> Iterator[Violation]:
    """What is wrong with these terms, of a call of ``tool``."""
    if not_before is not None:
        yield from _not_before(tool, not_before)
    if not isinstance(after, Sequence) or isinstance(after, str):
        yield of_term("after", after, "wrong_type", "must be a list of refs")
        return
    if not all(isinstance(ref, str) for ref in after):
        yield of_term("after", list(after), "wrong_type", "must be a list of refs")
    elif len(set(after)) > AFTER_MAX:
        message = f"must be at most {AFTER_MAX} refs"
        yield of_term("after", f"{len(set(after))} refs", "too_long", message)
    if after and not isinstance(tool.effect, Remote):
        message = "only a remote effect can wait; leave it out"
        yield of_term("after", list(after), "unknown_argument", message)


def refs_of(after: Sequence[str]) -> tuple[str, ...]:
    """The refs, each once, spelled as they are stored. Raises NoSuchRef for what is none."""
    for ref in after:
        if not ref.isascii():
            raise errors.NoSuchRef(ref)
    return tuple(dict.fromkeys(normalise(ref) for ref in after))


def _not_before(tool: Tool, not_before: Any) -> Iterator[Violation]:
    if not isinstance(not_before, datetime):
        yield of_term("not_before", not_before, "wrong_type", "must be an instant")
    elif not_before.utcoffset() is None:
        message = "must say its offset from UTC, such as 2026-11-29T14:05:10Z"
        yield of_term("not_before", not_before.isoformat(), "naive_instant", message)
    elif not EARLIEST <= not_before < LATEST:
        message = "must lie between the years 1970 and 9999"
        yield of_term("not_before", not_before.isoformat(), "out_of_range", message)
    if not isinstance(tool.effect, Remote):
        message = "only a remote effect can wait; leave it out"
        yield of_term("not_before", str(not_before), "unknown_argument", message)
