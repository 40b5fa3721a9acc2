"""What a tool does to the world, and what can be known and undone about it.

``Read`` changes nothing. ``Local`` changes rows of the caller's own database, inside the caller's
transaction. ``Remote`` leaves the database: it is held for its window and carried out by a worker.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum


def seconds(count: float) -> timedelta:
    """A span of ``count`` seconds.

    >>> seconds(60)
    datetime.timedelta(seconds=60)
    """
    return timedelta(seconds=count)


def minutes(count: float) -> timedelta:
    """A span of ``count`` minutes.

    >>> minutes(10)
    datetime.timedelta(seconds=600)
    """
    return timedelta(minutes=count)


def hours(count: float) -> timedelta:
    """A span of ``count`` hours.

    >>> hours(24)
    datetime.timedelta(days=1)
    """
    return timedelta(hours=count)


def days(count: float) -> timedelta:
    """A span of ``count`` days.

    >>> days(30)
    datetime.timedelta(days=30)
    """
    return timedelta(days=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """The provider keeps an idempotency key for ``ttl``: a repeat under it is one effect."""

    ttl: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """The provider keeps no key, but the handler's ``find`` can ask what became of an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """The provider keeps no key and can't be asked: what may have arrived is never repeated."""


Upstream = Keyed | Lookup | Blind

KEYED = Keyed
LOOKUP = Lookup()
BLIND = Blind()


class Reversal(StrEnum):
    """How a remote effect is taken back once it is in the world."""

    COMPENSATE = "compensate"
    CANCEL_ONLY = "cancel_only"


COMPENSATE = Reversal.COMPENSATE
CANCEL_ONLY = Reversal.CANCEL_ONLY


class Repeats(StrEnum):
    """What an equal call means when the first one has been carried out."""

    ONCE = "once"
    WHILE_STANDING = "while_standing"


ONCE = Repeats.ONCE
WHILE_STANDING = Repeats.WHILE_STANDING


class IfOtherFails(StrEnum):
    """What becomes of a call that waits for another one (``after``) which comes to nothing."""

    CANCEL = "cancel"
    GO_ON = "go_on"
    ASK = "ask"


CANCEL = IfOtherFails.CANCEL
GO_ON = IfOtherFails.GO_ON
ASK = IfOtherFails.ASK


class OnForbidden(StrEnum):
    """What a read says of something that the caller may not see."""

    OMIT = "omit"
    SAY_NO_ACCESS = "say_no_access"


OMIT = OnForbidden.OMIT
SAY_NO_ACCESS = OnForbidden.SAY_NO_ACCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Changes nothing; never recorded.

    ``on_forbidden`` has no default: a search leaves out what the caller may not see (OMIT), a look
    at one thing says that there is no access (SAY_NO_ACCESS), whether it exists or not.
    """

    on_forbidden: OnForbidden | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Changes rows of the caller's database, inside the caller's transaction.

    ``retention`` is how long what it deletes or overwrites can be brought back; None keeps it for
    ever. ``repeats`` says what an equal call means later: ONCE replays the first for ever,
    WHILE_STANDING (for setting a state) only while the effect still stands; within ``quiet`` the
    same run and principal get a replay even then.
    """

    retention: timedelta | None = None
    repeats: Repeats = ONCE
    quiet: timedelta = timedelta(minutes=10)


class Priority(IntEnum):
    """What is carried out first of all that is due."""

    LOW = -1
    NORMAL = 0
    HIGH = 1


LOW = Priority.LOW
NORMAL = Priority.NORMAL
HIGH = Priority.HIGH


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Leaves the database: held for ``window``, then carried out by a worker.

    ``upstream`` says how the provider treats a repeat; there is no default, since a wrong guess
    sends twice. ``reversal`` says what can be done once it is in the world. ``guard_s`` seconds
    before its release the visible window closes, so that nobody is promised an undo that loses
    by a hair. ``attempt_seconds_max`` bounds one attempt; it must be shorter than a lease, unless
    ``renew_lease`` is said: then a worker renews the lease while the attempt runs, up to that time.
    ``attempts_max`` bounds the attempts of one intent. The pause before another one is drawn from
    ``retry_first_seconds`` at most, then from twice that, up to ``retry_seconds_max``; the
    provider's own word on when to come back is kept.

    ``connector`` names the way to a provider that several tools share. Of equal values of the
    argument ``order_by`` one is carried out at a time, in the order of their calls, among the tools
    of a connector that say so; without a connector, among the calls of the tool. ``priority`` is
    what goes first when much is due.

    ``if_other_fails`` is what becomes of a call that waits for another which fails or is taken
    back: it never happens (CANCEL), it goes on without (GO_ON), or a person decides (ASK).
    """

    window: timedelta = timedelta(0)
    upstream: Upstream | None = None
    reversal: Reversal = CANCEL_ONLY
    guard_s: float = 0.0
    attempt_seconds_max: float = 20.0
    attempts_max: int = 8
    retry_first_seconds: float = 1.0
    retry_seconds_max: float = 300.0
    renew_lease: bool = False
    connector: str | None = None
    order_by: str | None = None
    priority: Priority = NORMAL
    if_other_fails: IfOtherFails = CANCEL


Effect = Read | Local | Remote
