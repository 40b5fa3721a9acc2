"""The times of a worker, checked against each other when it starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from takeback.catalog.registry import Registry
from takeback.declare import Remote
from takeback.model.errors import InvalidSettings

GRACE_SECONDS = 1.0
"""A connector ends by itself at its limit; only what is this much later is given up."""

RECONCILE_AFTER_SECONDS = 1.0
"""A doubt is asked about this long after a lease, where nothing else is set: what a worker that is
gone has left behind is taken over first, and then found out at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a worker paces itself.

    ``lease`` is how long a claim or an attempt belongs to it: what it leaves behind is taken over
    after that. ``reconcile`` is how long after it began an attempt that nobody knows of is asked
    about; None is a second longer than the lease. ``batch_max`` bounds a claim,
    ``idle_seconds_max`` is the longest sleep between two looks, ``stop_seconds_max`` how long a
    stop waits for attempts that are running. It works for the tenant of its app, with
    ``all_tenants`` for every one in the ledger.
    """

    concurrency: int = 4
    lease: timedelta = timedelta(seconds=30)
    reconcile: timedelta | None = None
    batch_max: int = 500
    idle_seconds_max: float = 2.0
    stop_seconds_max: float = 8.0
    all_tenants: bool = False

    @property
    def lease_margin_seconds(self) -> float:
        """So long before its lease is over an attempt is given up that could not be renewed."""
        return min(GRACE_SECONDS, self.lease.total_seconds() / 4)

    @property
    def reconcile_after(self) -> timedelta:
        """How long after it began an attempt in doubt is asked about."""
        if self.reconcile is not None:
            return self.reconcile
        return self.lease + timedelta(seconds=RECONCILE_AFTER_SECONDS)


def check_pace(pace: Pace, registry: Registry) -> None:
    """Raises InvalidSettings, naming every value that can't be used and why.

    A worker gives an attempt up before its lease is over, so that nobody takes over what still
    runs; only after that is anybody asked what became of it. Where the row lets its lease be
    renewed, an attempt may last longer than one.
    """
    problems: list[str] = []
    for name, value in (
        ("lease", pace.lease.total_seconds()),
        ("concurrency", pace.concurrency),
        ("batch_max", pace.batch_max),
        ("idle_seconds_max", pace.idle_seconds_max),
    ):
        if not 0 < value < math.inf:
            problems.append(f"{name} is {value:g}; expected more than 0")
    if not 0 <= pace.stop_seconds_max < math.inf:
        problems.append(f"stop_seconds_max is {pace.stop_seconds_max:g}; expected 0 or more")
    lease_seconds = pace.lease.total_seconds()
    reconcile_seconds = pace.reconcile_after.total_seconds()
    if not lease_seconds < reconcile_seconds < math.inf:
        problems.append(
            f"reconcile is {reconcile_seconds:g} s, and must be longer than the lease of "
            f"{lease_seconds:g} s"
        )
    for bound in registry:
        effect = bound.tool.effect
        if not isinstance(effect, Remote) or effect.renew_lease:
            continue
        if effect.attempt_seconds_max + GRACE_SECONDS >= lease_seconds > 0:
            problems.append(
                f"{bound.name}: attempt_seconds_max is {effect.attempt_seconds_max:g} s, and must "
                f"be more than {GRACE_SECONDS:g} s shorter than the lease of {lease_seconds:g} s, "
                "unless the row says renew_lease=True"
            )
    if problems:
        raise InvalidSettings("; ".join(problems))
