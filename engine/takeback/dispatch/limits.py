"""The times of a worker, checked against each other when it starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from takeback.catalog.registry import Registry
from takeback.declare import Remote
from takeback.model.errors import InvalidSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How a worker paces itself.

    ``lease`` is how long a claim or an attempt belongs to it: what it leaves behind is taken over
    after that. ``batch_max`` bounds a claim, ``idle_seconds_max`` is the longest sleep between two
    looks, ``stop_seconds_max`` how long a stop waits for attempts that are running.
    """

    concurrency: int = 4
    lease: timedelta = timedelta(seconds=30)
    batch_max: int = 100
    idle_seconds_max: float = 2.0
    stop_seconds_max: float = 8.0


def check_limits(limits: Limits, registry: Registry) -> None:
    """Raises InvalidSettings, naming every value that can't be used and why."""
    problems: list[str] = []
    for name, value in (
        ("lease", limits.lease.total_seconds()),
        ("concurrency", limits.concurrency),
        ("batch_max", limits.batch_max),
        ("idle_seconds_max", limits.idle_seconds_max),
    ):
        if value <= 0:
            problems.append(f"{name} is {value:g}; expected more than 0")
    lease_seconds = limits.lease.total_seconds()
    for bound in registry:
        effect = bound.tool.effect
        if isinstance(effect, Remote) and effect.attempt_seconds_max >= lease_seconds > 0:
            problems.append(
                f"{bound.name}: attempt_seconds_max is {effect.attempt_seconds_max:g} s, and must "
                f"be less than the lease of {lease_seconds:g} s"
            )
    if problems:
        raise InvalidSettings("; ".join(problems))
