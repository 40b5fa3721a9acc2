"""Histories in which an intent stands in each of its situations, told in events alone.

All events of a history happened a minute before NOW. Instants are written as seconds from NOW.
"""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from takeback.model import command as commands
from takeback.model import event as events
from takeback.model.decide import decide
from takeback.model.errors import InvalidTransition
from takeback.model.evolve import fold, foresee
from takeback.model.intent import Fact, Intent, micros

NOW = datetime(2026, 11, 29, 14, 5, 10, 123456, tzinfo=UTC)
THEN = NOW - timedelta(seconds=60)
MINUTE = timedelta(seconds=60)
TENANT = "default"
INTENT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
VIA = "restore-4XW2M8PK"
OTHER = "restore-9ABCDEF0"

RECORD = commands.Record(
    ref="send_customer_email-7F3K9QDM",
    tool="send_customer_email",
    tool_version=1,
    effect="remote",
    key="k1:9f86d081",
    generation=0,
    run="run-42",
    principal="agent:support",
    arguments="fd61a03a",
)


def second(count: float) -> datetime:
    """The instant that many seconds after NOW."""
    return NOW + timedelta(seconds=count)


def us(count: float) -> int:
    """The same, as events hold it."""
    return micros(second(count))


def recorded(becomes: events.FirstState = "due", **fields: Any) -> events.Recorded:
    """A recorded email without a window, unless ``fields`` say otherwise."""
    plain: dict[str, Any] = {
        "ref": "send_customer_email-7F3K9QDM",
        "tool": "send_customer_email",
        "tool_version": 1,
        "effect": "remote",
        "key": "k1:9f86d081",
        "generation": 0,
        "run": "run-42",
        "principal": "agent:support",
        "becomes": becomes,
        "window_us": 0,
        "not_before_us": None,
        "arguments": "fd61a03a",
        "restores": None,
        "repeat_of": None,
        "after": (),
        "on_behalf_of": None,
        "approval_cause": None,
        "approval_us": None,
        "affected": None,
    }
    return events.Recorded(**(plain | fields))


def facts(*history: events.Event, at: datetime = THEN) -> list[Fact]:
    """The history as it stands in the log."""
    return [
        Fact(
            tenant=TENANT,
            intent_id=INTENT,
            version=version,
            position=version * 10,
            at=at,
            event=event,
            hash=version.to_bytes(32, "big"),
        )
        for version, event in enumerate(history, 1)
    ]


def given(*history: events.Event, at: datetime = THEN) -> Intent:
    """The intent that a history leads to."""
    intent = fold(facts(*history, at=at))
    assert intent is not None
    return intent


def claimed(lease: float = 30) -> events.Claimed:
    return events.Claimed(worker="w-1", lease_until_us=us(lease))


def began(attempt: int, *, epoch: int = 0, lease: float = 30) -> events.AttemptBegan:
    return events.AttemptBegan(attempt=attempt, epoch=epoch, lease_until_us=us(lease))


def running(attempt: int, *, epoch: int = 0) -> tuple[events.Event, ...]:
    return claimed(), began(attempt, epoch=epoch)


def succeeded(attempt: int, source: Any = "handler") -> events.Succeeded:
    return events.Succeeded(attempt=attempt, source=source, result="5feceb66", affected_count=3)


def failed(attempt: int, source: Any = "handler") -> events.Failed:
    return events.Failed(attempt=attempt, source=source, code="provider_rejected", error="6b86b273")


def doubt(attempt: int) -> events.InDoubt:
    return events.InDoubt(attempt=attempt, cause="exception")


def parked(attempt: int, cause: str = "outcome_unknown") -> events.Parked:
    return events.Parked(attempt=attempt, cause=cause)


def deferred(attempt: int, until: float = 0) -> events.Deferred:
    return events.Deferred(attempt=attempt, cause="not_dispatched", until_us=us(until))


def requeued(cause: Any, *, epoch: int = 0, begin_before: float | None = None) -> events.Requeued:
    before_us = us(begin_before) if begin_before is not None else None
    return events.Requeued(cause=cause, epoch=epoch, until_us=us(0), begin_before_us=before_us)


def late(attempt: int, outcome: Any) -> events.AnsweredLate:
    return events.AnsweredLate(attempt=attempt, outcome=outcome, body="d4735e3a")


def contradicted(attempt: int, decided: Any, answered: Any) -> events.Contradicted:
    return events.Contradicted(attempt=attempt, decided=decided, answered=answered)


def asked(stays_open: float | None = 90) -> events.ApprovalAsked:
    """Over a limit: open for that many seconds (None: for ever)."""
    span_us = None if stays_open is None else round(stays_open * 1_000_000)
    return events.ApprovalAsked(cause="limit", approval_us=span_us)


def approved(becomes: Any) -> events.Approved:
    return events.Approved(by="mo", becomes=becomes, saw="ef2d127d")


def refused(attempt: int = 0) -> events.Failed:
    """A limit said no to what was claimed."""
    return events.Failed(attempt=attempt, source="policy", code="limit_exceeded", error="4b227777")


CANCELLED = events.Cancelled(by="dana", via=VIA)
WAIT_FAILED = events.WaitFailed(cause="other_failed", waited_for="ef2d127d")
RESTORE_BEGAN = events.RestoreBegan(by="dana", via=VIA)

_DUE = (recorded(),)
_FIRST = (*_DUE, *running(1))
_DOUBT = (*_FIRST, doubt(1))
_DEFERRED = (*_FIRST, deferred(1))
_KEYED = (*_DOUBT, requeued("provider_key", begin_before=600))
_DENIED_LATER = (late(1, "succeeded"), contradicted(1, "no_trace", "succeeded"))
_DENIED_PROOF = (*_DEFERRED, *_DENIED_LATER)
_DONE = (*_FIRST, succeeded(1))
_FAILED = (*_FIRST, failed(1))

SITUATIONS: dict[str, tuple[events.Event, ...]] = {
    "absent": (),
    "recorded": (recorded("recorded", effect="local"),),
    "awaiting_approval": (recorded("awaiting_approval", window_us=90_000_000),),
    "awaiting_approval, no window": (recorded("awaiting_approval"),),
    "awaiting_approval, after another": (recorded("awaiting_approval", after=("a-1",)),),
    "awaiting_approval, open": (
        recorded("awaiting_approval", window_us=90_000_000, approval_us=60_000_001),
    ),
    "awaiting_approval, lapsed": (
        recorded("awaiting_approval", window_us=90_000_000, approval_us=60_000_000),
    ),
    "awaiting_approval, limit": (*_DUE, claimed(), asked()),
    "awaiting_approval, limit, lapsed": (*_DUE, claimed(), asked(60)),
    "awaiting_approval, limit, first deferred": (*_DEFERRED, claimed(), asked()),
    "awaiting_approval, contradicted": (*_DEFERRED, claimed(), asked(), *_DENIED_LATER),
    "awaiting_approval, other failed": (
        recorded("waiting", after=("a-1",), window_us=90_000_000),
        events.ApprovalAsked(cause="other_failed", approval_us=90_000_000),
    ),
    "waiting": (recorded("waiting", after=("a-1",)),),
    "waiting, with a window": (recorded("waiting", after=("a-1",), window_us=90_000_000),),
    "waiting, contradicted": (
        *(recorded("waiting", after=("a-1",)), events.Awoken(becomes="due"), *running(1)),
        *(deferred(1), claimed(), asked(), approved("waiting"), *_DENIED_LATER),
    ),
    "held": (recorded("held", window_us=90_000_000),),
    "held, window over": (recorded("held", window_us=60_000_000),),
    "held, contradicted": (
        *(recorded("held", window_us=90_000_000), events.Due(), *running(1), deferred(1)),
        *(claimed(), asked(), approved("held"), *_DENIED_LATER),
    ),
    "due": _DUE,
    "due, later": (*_FIRST, deferred(1, until=5)),
    "due, first deferred": _DEFERRED,
    "due, first unknown": _KEYED,
    "due, first absent": (*_DOUBT, requeued("absent")),
    "due, contradicted": _DENIED_PROOF,
    "claimed": (*_DUE, claimed()),
    "claimed, lease over": (*_DUE, claimed(lease=0)),
    "claimed, approved before": (
        *(recorded("awaiting_approval", approval_us=120_000_000),),
        *(approved("due"), claimed()),
    ),
    "claimed, first deferred": (*_DEFERRED, claimed()),
    "claimed, first unknown": (*_KEYED, claimed()),
    "claimed, key expired": (*_DOUBT, requeued("provider_key", begin_before=0), claimed()),
    "claimed, contradicted": (*_DENIED_PROOF, claimed()),
    "executing": _FIRST,
    "executing, lease over": (*_DUE, claimed(), began(1, lease=0)),
    "executing, first deferred": (*_DEFERRED, *running(2)),
    "executing, first unknown": (*_KEYED, *running(2)),
    "in_doubt": _DOUBT,
    "in_doubt, first unknown": (*_KEYED, *running(2), doubt(2)),
    "in_doubt, first deferred": (*_DEFERRED, *running(2), doubt(2)),
    "in_doubt, contradicted": (
        *(*_DEFERRED, *running(2), doubt(2)),
        *_DENIED_LATER,
    ),
    "in_doubt, restore": (
        *(*_DONE, RESTORE_BEGAN),
        events.RestoreInDoubt(via=VIA),
    ),
    "parked": (*_DOUBT, parked(1)),
    "parked, never begun": (*_DUE, claimed(), parked(0, "no_upgrade")),
    "parked, first deferred": (*_DEFERRED, claimed(), parked(1, "no_upgrade")),
    "parked, first unknown": (*_KEYED, claimed(), parked(1, "key_expired")),
    "succeeded": _DONE,
    "succeeded, local": (recorded("recorded", effect="local"), succeeded(0)),
    "succeeded, first deferred": (*_DEFERRED, *running(2), succeeded(2)),
    "succeeded, first unknown": (*_KEYED, *running(2), succeeded(2)),
    "failed": _FAILED,
    "failed, first unknown": (*_KEYED, *running(2), failed(2)),
    "failed, contradicted": (
        *(*_FAILED, late(1, "succeeded")),
        contradicted(1, "failed", "succeeded"),
    ),
    "failed, over a limit": (*_DUE, claimed(), refused()),
    "failed, over a limit, first deferred": (*_DEFERRED, claimed(), refused(1)),
    "cancelled": (*_DUE, CANCELLED),
    "cancelled, first deferred": (*_DEFERRED, CANCELLED),
    "cancelled, waited in vain": (recorded("waiting", after=("a-1",)), WAIT_FAILED),
    "denied": (recorded("awaiting_approval"), events.Denied(by="dana", reason="4e074085")),
    "expired": (recorded("awaiting_approval"), events.ApprovalExpired()),
    "restoring": (*_DONE, RESTORE_BEGAN),
    "restored": (*_DONE, RESTORE_BEGAN, events.Restored(via=VIA)),
    "restore_failed": (*_DONE, RESTORE_BEGAN, events.RestoreFailed(via=VIA)),
    "purged": (*_DONE, events.Purged()),
    "purged, failed": (*_FAILED, events.Purged()),
    "purged, cancelled": (*_DUE, CANCELLED, events.Purged()),
}
"""A name begins with the state that the history ends in."""


def situation(name: str) -> Intent | None:
    """The intent of a named situation; None for the one before it is recorded."""
    return fold(facts(*SITUATIONS[name]))


def after(intent: Intent | None, command: commands.Command) -> Intent:
    """The intent once the command's events are stored."""
    following = decide(intent, command, NOW)
    return given(*following, at=NOW) if intent is None else foresee(intent, following, NOW)


def refuses(intent: Intent | None, command: commands.Command) -> bool:
    """Whether the intent's state does not allow the command."""
    try:
        decide(intent, command, NOW)
    except InvalidTransition:
        return True
    return False
