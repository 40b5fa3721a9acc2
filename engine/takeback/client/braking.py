"""The brakes of a person: freeze, so that nothing begins; thaw, so that it goes on without a burst.

Frozen, a remote call is recorded and held, a Local one is refused, and taking back stays open: what
is held can be cancelled, and what has happened is restored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from takeback.client.body import words
from takeback.client.context import Context
from takeback.client.owning import in_own_transaction
from takeback.client.request import identifier_violations
from takeback.client.ruling import REASON_LENGTH_MAX
from takeback.declare import Remote
from takeback.ledger import braking
from takeback.ledger.appending import Change, append
from takeback.ledger.braking import Freeze, FreezeScope, Holding
from takeback.ledger.locking import lock_overdue
from takeback.ledger.transaction import Tx
from takeback.model import command as commands
from takeback.model import errors
from takeback.model.decide import decide
from takeback.model.principal import is_agent
from takeback.model.violation import Violation, shown

LOOK_SECONDS = 0.02
"""Between looks at who may still begin something."""

BATCH_MAX = 500
"""Intents put off in one transaction: a moment's work, so that a restore of one need not wait."""

REST_SECONDS_MIN = 1.0
"""What falls due while frozen rests at least so long after the thaw, and its row's guard if longer:
time to take it back after all."""

RATE = 20.0
RATE_MAX = 1000.0
"""A release rate is below what can be put off in that time, or a thaw would find no end."""

ROUNDS_MAX = 3
TOOL_LENGTH_MAX = 500
TENANT_LENGTH_MAX = 100

HELD_LOOKS = 10
HELD_SECONDS = 0.05
"""How often, and after which pause, what somebody holds is looked at once more before a thaw."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A freeze that is in force.

    ``begun`` are the refs of what was executing when nothing more could begin. ``waits_for`` are
    the transactions that may have begun something before, and had not ended in time: once they
    have, nothing begins.
    """

    freeze: Freeze
    begun: tuple[str, ...]
    waits_for: tuple[Holding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Thawed:
    """What goes on: the freezes that ended, and how many overdue intents were put off.

    ``in_force`` are other freezes that still stop the same, or a part of it.
    """

    thawed: tuple[Freeze, ...]
    postponed: int
    in_force: tuple[Freeze, ...]


def require_running(context: Context, tx: Tx, tool: str, run: str | None) -> None:
    """Raises Frozen when a person has stopped ``tool``, ``run``, or the tenant.

    For a Local effect that is about to be performed in ``tx``, which holds the barrier since the
    call was recorded: who freezes from here on waits for ``tx`` to end. A transaction that sees
    the world as it was when it began is answered by a look past its snapshot.
    """
    scope = FreezeScope(tenant=context.tenant, tool=tool, run=run)
    is_frozen, is_last_word = braking.frozen(tx, scope)
    if not is_frozen and not is_last_word:
        with context.database.statements() as fresh:
            is_frozen, _ = braking.frozen(fresh, scope)
    if is_frozen:
        raise errors.Frozen(
            f"a person has stopped {tool!r} for now; it can be called again once that is over"
        )


def freeze(
    context: Context, scope: FreezeScope, *, reason: str, principal: str, patience_seconds: float
) -> Stopped:
    """Stops ``scope``: when this has answered, nothing of it begins.

    The freeze is committed first, and in force from then on. Whoever may have looked before that
    is waited for, at most ``patience_seconds``. Raises PersonRequired, InvalidArguments,
    UnknownTool and DatabaseUnavailable.
    """
    violations = [] if _is_number(patience_seconds) else [_patience(patience_seconds)]
    require_sound(scope, reason=reason, principal=principal, more=violations)
    _require_tool(context, scope)
    made = in_own_transaction(
        context, lambda tx: braking.freeze(tx, scope, reason=reason, by=principal)
    )
    with context.database.statements() as tx:
        waiting = braking.holders(tx)
        ends = context.monotonic() + patience_seconds
        while waiting and context.monotonic() < ends:
            context.pause(LOOK_SECONDS)
            now = braking.holders(tx)
            waiting = {who: now[who] for who in waiting if who in now}
        begun = braking.begun(tx, scope)
    oldest_first = sorted(waiting.values(), key=lambda one: -one.age_seconds)
    return Stopped(freeze=made, begun=tuple(begun), waits_for=tuple(oldest_first))


def thaw(
    context: Context,
    scope: FreezeScope,
    *,
    reason: str,
    principal: str,
    rate: float = RATE,
    progress: Progress | None = None,
) -> Thawed:
    """Lets ``scope`` go on, ``rate`` overdue intents a second, the longest due first.

    Each of them rests a while first, in which it can still be taken back. That is written while
    all is still frozen; interrupted, it is done again. Ends the freezes of exactly ``scope``, also
    of a tool that the catalog no longer has. Raises as ``freeze`` does.
    """
    violations = [_violation("rate", shown(rate), f"must be more than 0, and {RATE_MAX:g} at most")]
    require_sound(
        scope,
        reason=reason,
        principal=principal,
        more=() if _is_rate(rate) else violations,
    )
    with context.database.statements() as tx:
        is_frozen = any(one.scope == scope for one in braking.in_force(tx))
    if not is_frozen:
        _require_tool(context, scope)
    postponed = _put_off(context, scope, rate, progress) if is_frozen else 0
    thawed = in_own_transaction(
        context, lambda tx: braking.thaw(tx, scope, reason=reason, by=principal)
    )
    with context.database.statements() as tx:
        others = [one for one in braking.in_force(tx) if one.scope.overlaps(scope)]
    return Thawed(thawed=tuple(thawed), postponed=postponed, in_force=tuple(others))


def freezes(context: Context) -> Sequence[Freeze]:
    """The freezes in force, the oldest first."""
    with context.database.statements() as tx:
        return braking.in_force(tx)


def scope_of(
    context: Context,
    *,
    tool: str | None,
    run: str | None,
    tenant: str | None,
    everything: bool,
) -> FreezeScope:
    """What is meant: one of the four. A tool or a run is one of the app's own tenant.

    Raises InvalidArguments.
    """
    given = (("tool", tool), ("run", run), ("tenant", tenant))
    said = [name for name, value in given if value is not None]
    if everything:
        said.append("everything")
    if len(said) != 1:
        message = "say one of tool, run, tenant and everything"
        raise errors.InvalidArguments([_violation("scope", ", ".join(said) or None, message)])
    if everything:
        return FreezeScope()
    return FreezeScope(tenant=context.tenant if tenant is None else tenant, tool=tool, run=run)


def require_sound(
    scope: FreezeScope, *, reason: str, principal: str, more: Sequence[Violation] = ()
) -> None:
    """Raises InvalidArguments for what can't be meant, and PersonRequired for an agent.

    For who asks a person before they freeze or thaw: a refusal comes before the question.
    """
    violations = [*identifier_violations(run=scope.run, principal=principal), *more]
    if not _is_text(reason, REASON_LENGTH_MAX):
        message = f"must be text of 1 to {REASON_LENGTH_MAX} characters"
        violations.append(_violation("reason", shown(reason), message))
    if scope.tenant is not None and not _is_tenant(scope.tenant):
        message = f"must be 1 to {TENANT_LENGTH_MAX} printable characters without white space"
        violations.append(_violation("tenant", shown(scope.tenant), message))
    if scope.tool is not None and not _is_text(scope.tool, TOOL_LENGTH_MAX):
        violations.append(_violation("tool", shown(scope.tool), "must be the name of a tool"))
    if violations:
        raise errors.InvalidArguments(violations)
    if is_agent(principal):
        raise errors.PersonRequired("only a person may freeze and thaw")


def _require_tool(context: Context, scope: FreezeScope) -> None:
    """A name that is mistyped stops nothing, and nobody would know."""
    if scope.tool is not None and len(context.registry):
        context.registry.tool(scope.tool)


def _is_text(value: Any, length_max: int) -> bool:
    """Whether it says something, and can be stored as it is."""
    is_short = isinstance(value, str) and len(value) <= length_max
    return is_short and value.strip() != "" and words(value) == value


def _is_tenant(value: Any) -> bool:
    is_usable = _is_text(value, TENANT_LENGTH_MAX) and value.isprintable()
    return is_usable and not any(character.isspace() for character in value)


def _patience(value: object) -> Violation:
    return _violation("patience_seconds", shown(value), "must be a number of seconds")


def _violation(field: str, received: object, message: str) -> Violation:
    return Violation(field=field, code="malformed", message=message, received=received)


def _is_rate(rate: Any) -> bool:
    return _is_number(rate) and 0 < rate <= RATE_MAX


def _is_number(value: Any) -> bool:
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return is_one and not math.isnan(value)


def _put_off(context: Context, scope: FreezeScope, rate: float, progress: Progress | None) -> int:
    """Gives each overdue intent an instant of its own; answers with how many times.

    What falls due again meanwhile, since there are so many, gets a place at the end.
    """
    with context.database.statements() as tx:
        total = braking.overdue(tx, scope)
    plan = _Plan(gap=timedelta(seconds=1 / rate), rest=_rest(context, scope))
    done, looks = 0, HELD_LOOKS
    while done < total * ROUNDS_MAX + BATCH_MAX:
        count, plan = in_own_transaction(context, partial(_put_off_batch, scope, plan))
        done += count
        if progress is not None and total:
            progress(done, max(total, done))
        if count:
            continue
        with context.database.statements() as tx:
            left = braking.overdue(tx, scope)
        if not left or looks == 0:
            break
        looks -= 1
        context.pause(HELD_SECONDS)
    return done


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """When the next one may be claimed: ``gap`` after the last, and not before a ``rest``."""

    gap: timedelta
    rest: timedelta
    last: datetime | None = None

    def after(self, now: datetime) -> tuple[datetime, _Plan]:
        earliest = now + self.rest
        instant = earliest if self.last is None else max(self.last + self.gap, earliest)
        return instant, replace(self, last=instant)


def _put_off_batch(scope: FreezeScope, plan: _Plan, tx: Tx) -> tuple[int, _Plan]:
    changes = []
    for one in lock_overdue(
        tx, tenant=scope.tenant, tool=scope.tool, run=scope.run, limit=BATCH_MAX
    ):
        until, plan = plan.after(one.now)
        events = decide(one.intent, commands.Postpone(until=until), one.now)
        changes.append(Change(taken=one, events=events))
    append(tx, changes)
    return len(changes), plan


def _rest(context: Context, scope: FreezeScope) -> timedelta:
    """The longest guard of any row in the scope: one for all, so that they keep their distance."""
    guards = [
        bound.tool.effect.guard_s
        for bound in context.registry
        if isinstance(bound.tool.effect, Remote) and scope.tool in (None, bound.name)
    ]
    return timedelta(seconds=max([REST_SECONDS_MIN, *guards]))
