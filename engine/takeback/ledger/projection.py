"""How an intent lies in its row, and comes out of it: one list of columns for every reader."""

from __future__ import annotations

import re
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

STORED_COLUMNS = ", ".join(f"i.{name}" for name in re.findall(r"i\.(\w+)", COLUMNS))
"""The same columns as they are stored, for a statement that reads them through a CTE named i."""


def intent_of(row: Row) -> Intent:
    """The intent in the first ``WIDTH`` columns of a row that was selected with ``COLUMNS``."""
    return Intent(
        tenant=row[0],
        id=UUID(row[1]),
        ref=row[2],
        tool=row[3],
        tool_version=row[4],
        effect=row[5],
        key=row[6],
        generation=row[7],
        run=row[8],
        principal=row[9],
        state=State(row[10]),
        version=row[11],
        recorded_at=instant(row[12]),
        window=timedelta(microseconds=row[13]),
        not_before=_instant(row[14]),
        due_at=_instant(row[15]),
        attempt=row[16],
        epoch=row[17],
        lease_until=_instant(row[18]),
        affected_count=row[19],
        restores=UUID(row[20]) if row[20] else None,
        repeat_of=row[21],
        restored_via=row[22],
        taken_back_by=row[23],
        settled_at=_instant(row[24]),
        last_word=State(row[25]) if row[25] else None,
        contradicted=row[26],
        head_hash=bytes(row[27]),
        after=tuple(row[28]),
        attempts_unknown=tuple(row[29]),
        begin_before=_instant(row[30]),
        on_behalf_of=row[31],
        expires_at=_instant(row[32]),
        approved_by=row[33],
        lane=row[34],
        priority=row[35],
        ordering=row[36],
    )


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


def _instant(value: int | None) -> Any:
    return None if value is None else instant(value)


def _micros(value: Any) -> int | None:
    return None if value is None else micros(value)
