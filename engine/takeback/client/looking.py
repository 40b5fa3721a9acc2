"""Looking at intents: one by its ref, a list of them, the log in order. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NoReturn, final

from takeback.client.amendment import Amendment, amendments, said_of, tell
from takeback.client.context import Context
from takeback.client.course import Course
from takeback.client.faulting import as_it_is, guarded
from takeback.client.narrowing import require_narrowing, require_stretch
from takeback.client.owning import in_transaction
from takeback.client.refusing import refuse
from takeback.client.restore_tool import RESTORE
from takeback.declare import Tool, Wording
from takeback.ledger import faults, reading
from takeback.ledger.barrier import Page, read_log
from takeback.ledger.faults import Fault
from takeback.ledger.other import Named
from takeback.ledger.reading import Entry, Stored
from takeback.ledger.transaction import Tx
from takeback.model.approval import Asked, Decided, asked, decided
from takeback.model.attempt import Tried, attempt_trace, attempts_of
from takeback.model.envelope import Envelope, answer
from takeback.model.errors import NoSuchRef, TakebackError, UnknownTool
from takeback.model.intent import Intent
from takeback.model.moment import iso
from takeback.model.ref import beginnings, is_wellformed, nearest, normalise

NEAREST_LOOKED_AT = 200
ATTEMPTS_SHOWN_MAX = 20
"""Of so many of the last attempts it is told what ended them."""

BARRIER_PATIENCE = 40
BARRIER_PAUSE_SECONDS = 0.025
"""Forty looks of 25 ms: a reader waits a second for appenders before it says who holds it back."""


@final
class Shown:
    """One intent whole: its lean envelope, its place in the lifecycle and its timeline.

    For operators. It has the stored bodies, so it can't be turned into text, JSON or a pickle as it
    is; ``envelope.full`` has what may be disclosed at a door. ``reasons`` are what ended the last
    attempts, by number, as far as a handler raised something and it is kept still.
    """

    __slots__ = ("entry", "envelope", "events", "reasons")

    def __init__(
        self,
        *,
        envelope: Envelope,
        entry: Entry,
        events: Sequence[Stored],
        reasons: Mapping[int, Fault],
    ) -> None:
        self.envelope = envelope
        self.entry = entry
        self.events = events
        self.reasons = reasons

    @property
    def asked(self) -> Asked | None:
        """What a person was asked about it last; None where nobody was."""
        return asked([stored.fact() for stored in self.events])

    @property
    def attempts(self) -> Sequence[Tried]:
        """Its attempts, as the log tells them."""
        return attempts_of(stored.fact() for stored in self.events)

    @property
    def decided(self) -> Decided | None:
        """Who decided about that, and how; None while nobody has."""
        return decided([stored.fact() for stored in self.events])

    def __repr__(self) -> str:
        return f"<all about {self.envelope.ref}>"

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("an intent leaves as a lean envelope, or by disclose() at a door")


def find(context: Context, tx: Tx, ref: str) -> Entry:
    """The intent of ``ref``, spelled as people spell it; raises NoSuchRef with look-alikes."""
    wanted = normalise(str(ref))
    entry = reading.read_by_ref(tx, context.tenant, wanted) if is_wellformed(wanted) else None
    if entry is None:
        raise NoSuchRef(str(ref), _nearest(context, tx, wanted))
    return entry


def _nearest(context: Context, tx: Tx, wanted: str) -> Sequence[str]:
    """Look-alikes of what is at least nearly a ref: nothing else is sent to the database."""
    near: set[str] = set()
    for low in beginnings(wanted):
        near.update(reading.refs_between(tx, context.tenant, low, f"{low}~", NEAREST_LOOKED_AT))
    return nearest(wanted, sorted(near))


def row_of(context: Context, entry: Entry) -> Tool:
    """The row behind an intent; a plain one when the catalog no longer has it."""
    if entry.intent.tool == RESTORE.name:
        return RESTORE
    try:
        return context.registry.tool(entry.intent.tool).tool
    except UnknownTool:
        return Tool(
            entry.intent.tool,
            RESTORE.arguments,
            effect=RESTORE.effect,
            description="No longer in the catalog.",
            wording=Wording(subject=f"{entry.intent.tool}"),
        )


def ask_status(context: Context, given: object, ref: str) -> Envelope:
    """What became of a ref, refusals and faults included. Raises RetryTransaction."""
    return guarded(
        context,
        Course(tool="status"),
        lambda inside: _status_for(inside, given, ref),
        as_it_is,
    )


def _status_for(context: Context, given: object, ref: str) -> Envelope:
    trace_id = context.draw_trace_id()
    try:
        return in_transaction(context, given, lambda tx: status(context, tx, ref))
    except TakebackError as problem:
        return refuse(problem, trace_id)


def status(context: Context, tx: Tx, ref: str) -> Envelope:
    """The lean answer about one intent as it is now."""
    entry = find(context, tx, ref)
    return tell(tx, entry, row_of(context, entry))


def show(context: Context, tx: Tx, ref: str) -> Shown:
    """One intent with its timeline."""
    entry = find(context, tx, ref)
    envelope = tell(tx, entry, row_of(context, entry))
    events = reading.history(tx, context.tenant, entry.intent.id)
    return Shown(envelope=envelope, entry=entry, events=events, reasons=_reasons(tx, entry.intent))


def _reasons(tx: Tx, intent: Intent) -> Mapping[int, Fault]:
    last = range(max(intent.attempt - ATTEMPTS_SHOWN_MAX, 0) + 1, intent.attempt + 1)
    traces = {attempt_trace(intent.id, number): number for number in last}
    found = faults.read_faults(tx, intent.tenant, [*traces]) if traces else {}
    return {traces[trace]: fault for trace, fault in found.items()}


def find_fault(context: Context, tx: Tx, trace_id: str) -> Fault:
    """What broke under ``trace_id``; raises NoSuchRef when nothing of it is kept."""
    asked = str(trace_id)
    fault = None
    if is_trace_id(asked):
        fault = faults.read_fault(tx, context.tenant, asked.strip().lower())
    if fault is None:
        raise NoSuchRef(asked)
    return fault


def is_trace_id(text: str) -> bool:
    """Whether it looks like the trace id of an answer or an attempt, and so like no ref.

    >>> is_trace_id("5d2d3aa4dd82c1b8"), is_trace_id("update_ticket-7F3K9QDM")
    (True, False)
    >>> is_trace_id("5d2d3aa4dd82c1b8-2")
    True
    """
    return _TRACE_ID.fullmatch(text.strip()) is not None


_TRACE_ID = re.compile(r"[0-9a-fA-F]{16}(-[1-9][0-9]{0,5})?")


def list_intents(
    context: Context,
    tx: Tx,
    *,
    state: str | None,
    tool: str | None,
    run: str | None,
    since: timedelta | None,
    limit: int,
) -> list[dict[str, Any]]:
    """The newest intents that match, in the shape of CONTRACT's ``list``.

    Raises InvalidArguments.
    """
    age = require_narrowing(state=state, tool=tool, run=run, since=since, limit=limit)
    entries = reading.list_intents(
        tx,
        context.tenant,
        state=state,
        tool=tool,
        run=run,
        age_us=None if age is None else age // timedelta(microseconds=1),
        limit=limit,
    )
    found = amendments(tx, [entry.intent for entry in entries])
    return [_line(context, entry, found) for entry in entries]


def _line(context: Context, entry: Entry, found: Mapping[Named, Amendment]) -> dict[str, Any]:
    intent = entry.intent
    told = answer(intent, row_of(context, entry), entry.bodies, hindrance=entry.hindrance)
    lean = said_of(found, intent, told)
    return {
        "ref": intent.ref,
        "tool": intent.tool,
        "status": lean.status,
        "state": intent.state.value,
        "run": intent.run,
        "principal": intent.principal,
        "recorded_at": iso(intent.recorded_at),
        "due_at": _iso(intent.due_at),
        "summary": lean.summary,
        **({"hindered_by": lean["hindered_by"]} if "hindered_by" in lean else {}),
    }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else iso(at)


def events(context: Context, after: int, limit: int) -> Page:
    """The log behind position ``after`` of every tenant, none skipped; see ``ledger.barrier``.

    Raises InvalidArguments and DatabaseUnavailable.
    """
    require_stretch(after=after, limit=limit)
    with context.database.statements() as tx:
        return read_log(
            tx,
            after,
            limit=limit,
            patience=BARRIER_PATIENCE,
            pause=lambda: context.pause(BARRIER_PAUSE_SECONDS),
        )
