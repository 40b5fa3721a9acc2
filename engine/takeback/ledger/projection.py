"""How an intent lies in its row, and comes out of it: one list of columns for every reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any
from uuid import UUID

from takeback.ledger.transaction import Row
from takeback.model.intent import Intent, State, instant, micros

COLUMNS = """
    i.tenant, CAST(i.id AS text), i.ref, i.tool, i.tool_version, i.effect, i.key, i.generation,
    i.run, i.principal, i.state, i.version, takeback.micros(i.recorded_at),
    i.window_us, takeback.micros(i.not_before), takeback.micros(i.due_at), i.attempt, i.epoch,
    takeback.micros(i.lease_until), i.affected_count, CAST(i.restores AS text), i.repeat_of,
    i.restored_via, i.taken_back_by, takeback.micros(i.settled_at), i.last_word, i.contradicted,
    i.head_hash, i.after, i.attempts_unknown, takeback.micros(i.begin_before), i.on_behalf_of,
    takeback.micros(i.expires_at), i.approved_by, i.lane, i.priority,
    i.ordering"""
"""Instants travel as microseconds, so that no DateStyle or TimeZone of a session matters."""

WIDTH = 37

_NAMES = re.findall(r"i\.(\w+)", COLUMNS)

PLACE_OF = {name: place for place, name in enumerate(_NAMES)}
"""Where each column stands in such a row, for who looks at a row before it is made an intent."""

STORED_COLUMNS = ", ".join(f"i.{name}" for name in _NAMES)
"""The same columns as they are stored, for a statement that reads them through a CTE named i."""


def intent_of(row: Row, **changes: Any) -> Intent:
    """The intent in the first ``WIDTH`` columns of a row that was selected with ``COLUMNS``.

    With ``changes`` in place of what stands there. Filled slot by slot, since every row that is
    carried out comes through here, and a dataclass of this width takes twice as long to make.
    """
    intent: Intent = object.__new__(Intent)
    for put, read, value in zip(_PUTS, _READS, row, strict=False):
        put(intent, value if read is None or value is None else read(value))
    for name, value in changes.items():
        _PUT_BY_NAME[name](intent, value)
    return intent


def _span(micros_: int) -> timedelta:
    return timedelta(microseconds=micros_)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("id", "restores"), UUID),
    **dict.fromkeys(("state", "last_word"), State),
    **dict.fromkeys(("after", "attempts_unknown"), tuple),
    **dict.fromkeys(
        ("recorded_at", "not_before", "due_at", "lease_until", "settled_at", "begin_before"),
        instant,
    ),
    "expires_at": instant,
    "window_us": _span,
    "head_hash": bytes,
}
_FIELD_OF = {"window_us": "window"}
_PUT_BY_NAME = {field.name: getattr(Intent, field.name).__set__ for field in fields(Intent)}
_PUTS = [_PUT_BY_NAME[_FIELD_OF.get(name, name)] for name in _NAMES]
_READS = [_READERS.get(name) for name in _NAMES]
assert len(_NAMES) == WIDTH == len(_PUT_BY_NAME), "a column of the projection is not read"


def changed_columns(intent: Intent) -> dict[str, Any]:
    """What an event after the first may change, as the appending statement wants it."""
    return {
        "state": intent.state.value,
        "version": intent.version,
        "due_us": _micros(intent.due_at),
        "attempt": intent.attempt,
        "epoch": intent.epoch,
        "attempts_unknown": list(intent.attempts_unknown),
        "begin_before_us": _micros(intent.begin_before),
        "lease_us": _micros(intent.lease_until),
        "affected_count": intent.affected_count,
        "restored_via": intent.restored_via,
        "taken_back_by": intent.taken_back_by,
        "settled_us": _micros(intent.settled_at),
        "last_word": intent.last_word.value if intent.last_word else None,
        "contradicted": intent.contradicted,
        "head_hash": intent.head_hash.hex(),
        "expires_us": _micros(intent.expires_at),
        "approved_by": intent.approved_by,
    }


def _micros(value: Any) -> int | None:
    return None if value is None else micros(value)
