"""The list of the metrics: what each is called, what it says, and what tells its series apart.

Labels are of few values: tools and connectors are those of the catalog, the rest closed sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from takeback.meter import Count, Span

PREFIX = "takeback_"


class Kind(StrEnum):
    """What may be done with the numbers of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric; its ``name`` as it is fetched."""

    name: str
    kind: Kind
    says: str
    labels: tuple[str, ...] = ()


def _count(what: Count, says: str, *labels: str) -> Family:
    return Family(name=f"{PREFIX}{what}_total", kind=Kind.COUNTER, says=says, labels=labels)


def _gauge(name: str, says: str, *labels: str) -> Family:
    return Family(name=PREFIX + name, kind=Kind.GAUGE, says=says, labels=labels)


def _span(what: Span, says: str) -> Family:
    return Family(name=PREFIX + what, kind=Kind.HISTOGRAM, says=says, labels=("tool",))


COUNTS: Mapping[Count, Family] = {
    Count.ATTEMPTS: _count(
        Count.ATTEMPTS,
        "attempts that this process has ended, by what it has written down of them",
        *("tool", "connector", "outcome"),
    ),
    Count.CLAIMS: _count(Count.CLAIMS, "intents that this process has claimed"),
    Count.LEASES_LOST: _count(
        Count.LEASES_LOST, "leases of this process that others had taken over while it was at work"
    ),
    Count.LEASES_TAKEN_OVER: _count(
        Count.LEASES_TAKEN_OVER, "leases that were over, of others, which this process has ended"
    ),
    Count.CONNECTOR_PAUSES: _count(
        Count.CONNECTOR_PAUSES, "times that this process has paused a connector", "connector"
    ),
    Count.WAKE_UPS_SENT: _count(
        Count.WAKE_UPS_SENT, "wake-ups that this ticker has published", "priority"
    ),
    Count.WAKE_UPS_RECEIVED: _count(
        Count.WAKE_UPS_RECEIVED, "wake-ups that this process has handled", "priority"
    ),
    Count.WAKE_UPS_PASSED_ON: _count(
        Count.WAKE_UPS_PASSED_ON, "wake-ups that it has put back for others", "priority"
    ),
    Count.WAKE_UPS_POISONED: _count(
        Count.WAKE_UPS_POISONED,
        "messages that it has dropped, since they are no wake-up",
        "priority",
    ),
}

SPANS: Mapping[Span, Family] = {
    Span.LATENESS: _span(
        Span.LATENESS, "from the instant that an intent was due to the call of its handler"
    ),
    Span.DURATION: _span(Span.DURATION, "how long a handler took"),
}

INFO = _gauge("info", "always 1: which process of which release this is", "process", "version")
IN_FLIGHT = _gauge("attempts_in_flight", "attempts that run or wait for a thread of this process")
OUTCOMES_OPEN = _gauge("outcomes_open", "outcomes that are known here and not written down yet")
ABANDONED = _gauge("threads_abandoned", "threads that hang in attempts which were given up")
SUCCESS_AGE = _gauge(
    "last_success_age_seconds", "since this process has last looked round without a failure"
)
SUCCEEDED_AGE = _gauge(
    "last_succeeded_age_seconds", "since an attempt of this process has last succeeded"
)

LEDGER_UP = _gauge("ledger_up", "1 where the ledger has answered within two seconds, else 0")
DUE = _gauge("intents_due", "intents that are due and nobody has claimed", "tool")
OLDEST_DUE_AGE = _gauge("oldest_due_age_seconds", "for how long the oldest of them is due")
STOPPED = _gauge(
    "intents_stopped", "intents that wait for somebody or something else", "state", "tool"
)
EXPIRED = _gauge("leases_expired", "leases that are over, and that nobody has taken over")
FREEZES = _gauge("freezes", "freezes in force")
CONNECTOR_STATE = _gauge(
    "connector_state", "1 for the state in which a breaker is, else 0", "connector", "state"
)
CONNECTOR_IN_FLIGHT = _gauge(
    "connector_in_flight", "claims and attempts of a connector, of all workers", "connector"
)
CONNECTOR_DUE = _gauge("connector_due", "intents of a connector that are due", "connector")
CONNECTOR_FAILURES = _gauge(
    "connector_failures", "attempts in a row that its provider did not answer", "connector"
)

OF_PROCESS = (INFO, IN_FLIGHT, OUTCOMES_OPEN, ABANDONED, SUCCESS_AGE, SUCCEEDED_AGE)
OF_LEDGER = (
    *(LEDGER_UP, DUE, OLDEST_DUE_AGE, STOPPED, EXPIRED, FREEZES),
    *(CONNECTOR_STATE, CONNECTOR_IN_FLIGHT, CONNECTOR_DUE, CONNECTOR_FAILURES),
)
FAMILIES = (*COUNTS.values(), *SPANS.values(), *OF_PROCESS, *OF_LEDGER)
