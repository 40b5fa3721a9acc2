"""What is not over, for operators: how much waits for what, and who can end that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from takeback.ledger.remainder import Remainder, Waits

_SAID: Mapping[str, str] = {
    "due": "due, and not for this worker or not at this moment: next: `takeback doctor`",
    "held": "held: the first falls due at {at}",
    "frozen": "frozen until a person thaws them: next: `takeback doctor` names the freezes",
    "paused": "behind a paused connector: next: `takeback connectors list`",
    "waiting": "waiting for others: next: `takeback list --state waiting`",
    "awaiting_approval": "waiting for approval: next: `takeback list --state awaiting_approval`",
    "under_way": "under way in other workers",
    "in_doubt": "in doubt: asked about, repeated under the provider's key, or parked, as their "
    "rows say: next: `takeback list --state in_doubt`",
    "parked": "parked until a person resolves or retries them: next: "
    "`takeback list --state parked`",
}


_TO_SEE_TO: Mapping[str, str] = {
    "frozen": "frozen, the first of them due at {at}: they wait for {thaw}",
    "awaiting_approval": "for a person to approve, the oldest called at {at}: "
    "next: `takeback list --state awaiting_approval`",
    "in_doubt": "in doubt, the oldest called at {at}: nobody knows yet whether they happened; "
    "asked about, repeated under the provider's key, or parked, as their rows say: "
    "next: `takeback list --state in_doubt`",
    "parked": "parked, the oldest called at {at}: nobody but a person can say what became of them: "
    "next: `takeback list --state parked`",
}

THAWS_SHOWN_MAX = 3
"""So many are named beside what is frozen; each freeze names its own too."""

OVERDUE_SECONDS_MAX = 60.0
"""A worker takes over within a lease, which is 30 s: what is due for longer has none."""


def to_see_to(remainder: Remainder, thaws: Sequence[str] = ()) -> Iterator[str]:
    """What waits for a person, or may come to: how many, the oldest, the next command.

    ``thaws`` are the commands that end the freezes in force, behind ``takeback``.
    """
    from takeback.model.moment import iso

    named = [f"`takeback {command}`" for command in thaws[:THAWS_SHOWN_MAX]]
    thaw = " and ".join(named) or "a person to thaw them"
    for wait, one in remainder.items():
        if wait in _TO_SEE_TO:
            yield f"{one.count} {_TO_SEE_TO[wait].format(at=iso(one.oldest_at), thaw=thaw)}"


def untaken(
    remainder: Remainder, seen_seconds: float | None, *, by_broker: bool = False
) -> tuple[str | None, bool]:
    """What is due for too long, though nothing keeps it; and whether workers take something.

    Where they are woken ``by_broker`` it names those, too, that a broker wakes.
    """
    due = remainder.get("due")
    if due is None or due.oldest_seconds <= OVERDUE_SECONDS_MAX:
        return None, True
    late = timedelta(seconds=round(due.oldest_seconds))
    said = f"{due.count} due, the oldest for {late}"
    start = "`takeback worker`"
    if by_broker:
        start += ", or `dramatiq takeback_workers.actors` beside a `takeback ticker`"
    if seen_seconds is not None and seen_seconds <= OVERDUE_SECONDS_MAX:
        return f"{said}: workers are behind, or do not serve it: next: more {start}", True
    when = "no worker has claimed anything lately"
    if seen_seconds is not None:
        when = f"a worker last claimed something {timedelta(seconds=round(seen_seconds))} ago"
    return f"{said}, and {when}: expected one that takes them: next: {start}", False


def claimed_text(seen_seconds: float | None) -> str:
    """When a worker last claimed something: an idle one claims nothing.

    >>> claimed_text(64.6), claimed_text(None)
    ('last claimed something 65 s ago', 'none has claimed anything lately')
    """
    if seen_seconds is None:
        return "none has claimed anything lately"
    return f"last claimed something {seen_seconds:.0f} s ago"


def parked_text(count: int) -> str:
    """How many are parked, and for whom.

    >>> parked_text(0), parked_text(2)
    ('0', '2, until a person says what became of them')
    """
    return f"{count}, until a person says what became of them" if count else "0"


def remainder_document(remainder: Remainder) -> dict[str, dict[str, Any]]:
    """The remainder in JSON; a kind of which there is nothing is left out."""
    from takeback.model.moment import iso

    return {
        wait: {"count": one.count, "oldest_at": iso(one.oldest_at)}
        for wait, one in remainder.items()
    }


def remainder_lines(remainder: Remainder) -> list[str]:
    """A line for each kind: how many, and what they wait for."""
    return [_line(wait, one) for wait, one in remainder.items()]


def _line(wait: str, one: Waits) -> str:
    from takeback.model.moment import iso

    return f"{one.count} {_SAID[wait].format(at=iso(one.oldest_at))}"
