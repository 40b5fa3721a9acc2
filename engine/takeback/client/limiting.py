"""Limits of rows and of the app: what stands is looked at, added to, and says who is let through.

    at record     weigh: advisory for a remote effect; for a Local one the only look there is
    at release    release: in the engine's own transaction, under the locks of the scopes

A limit adds up the calls of every row that has a limit of the same scope; one of the app's counts
as if it stood on each row that writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from takeback.catalog.registry import Bound
from takeback.client.context import Context
from takeback.declare import Limit, LimitScope, Local, Read, Tool
from takeback.ledger import limiting as entries
from takeback.ledger.limiting import LimitEntry, Wanted
from takeback.ledger.transaction import Tx
from takeback.model.intent import Intent, State, may_have_happened, micros
from takeback.model.limit import (
    Counted,
    Excess,
    Load,
    Over,
    Tally,
    bounds_of,
    load_of,
    over_of,
    scope_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A recorded intent, and what its call weighs; ``rows`` None is unknown."""

    bound: Bound
    intent: Intent
    arguments: Mapping[str, Any]
    rows: int | None = None


BUSY: Literal["busy"] = "busy"
"""Somebody else is looking at the same sums at this moment."""

Hindrance = Over | Literal["busy"]


def counted(context: Context, tool: Tool) -> tuple[Limit, ...]:
    """The limits that count a call of ``tool``: its own, then the app's. A read has none."""
    return () if isinstance(tool.effect, Read) else (*tool.limits, *context.limits)


def weigh(
    context: Context,
    tx: Tx,
    bound: Bound,
    canonical_arguments: Mapping[str, Any],
    *,
    run: str | None,
    rows: int | None,
) -> Over | None:
    """Whether a call, on top of what stands, is over a limit; exactly at it is within.

    ``rows`` None counts as one. For a Local effect a ``strict`` limit holds its scope until the
    transaction ends, so that others wait; without it, two at the same moment don't see each other.
    """
    limits = counted(context, bound.tool)
    if not limits:
        return None
    load = load_of(limits, bound.tool, canonical_arguments, run=run, rows=rows)
    wanted = [_wanted(context.tenant, one, bound.name, run, load.currency) for one in limits]
    strict = {
        (one.tenant, one.scope)
        for one, limit in zip(wanted, limits, strict=True)
        if limit.strict and isinstance(bound.tool.effect, Local)
    }
    if strict:
        entries.lock_scopes(tx, strict)
    sums = _sums(context, tx, wanted, behind_lock=bool(strict))
    return over_of(bound.name, limits, load, sums)


def enter(
    context: Context,
    tx: Tx,
    bound: Bound,
    intent: Intent,
    canonical_arguments: Mapping[str, Any],
    *,
    rows: int | None,
) -> None:
    """Writes down what a recorded intent counts; nothing where no limit counts it."""
    one = Entered(bound=bound, intent=intent, arguments=canonical_arguments, rows=rows)
    enter_many(context, tx, [one])


def enter_many(context: Context, tx: Tx, entered: Sequence[Entered]) -> None:
    """``enter`` for many intents, in one statement."""
    written = [entry for one in entered for entry in _entries(context, one)]
    if written:
        entries.enter(tx, written)


def release(context: Context, tx: Tx, candidates: Sequence[Entered]) -> Mapping[UUID, Hindrance]:
    """Which of ``candidates``, whose rows are locked, are not let through, by intent id.

    The first are let through first. One that a person approved passes, and so does one that may be
    in the world already; both count. What is busy is left for another time. Who is let through
    counts from now on, for everybody who looks after this transaction.
    """
    limited = [one for one in candidates if counted(context, one.bound.tool)]
    if not limited:
        return {}
    limited = _with_rows(tx, limited, context)
    loads = {one.intent.id: _load_of(context, one) for one in limited}
    scopes = {(one.intent.tenant, s) for one in limited for s in loads[one.intent.id].scopes}
    held = entries.try_scopes(tx, scopes)
    hindrances: dict[UUID, Hindrance] = {
        one.intent.id: BUSY
        for one in limited
        if any(
            entries.scope_lock(one.intent.tenant, s) in held for s in loads[one.intent.id].scopes
        )
    }
    free = [one for one in limited if one.intent.id not in hindrances]
    wanted = {w for one in free for w in _wanted_by(context, one, loads[one.intent.id])}
    ordered = sorted(wanted, key=repr)
    without = [one.intent.id for one in free]
    sums = entries.usage(tx, ordered, released_only=True, without=without) if ordered else []
    return hindrances | _let_through(
        context, tx, free, loads, dict(zip(ordered, sums, strict=True))
    )


def in_use(context: Context) -> list[tuple[str, Excess]]:
    """What stands under each limit that is not of one run, with its scope: nothing is asked."""
    found: dict[tuple[Wanted, Counted, int], Excess] = {}
    for bound in context.registry:
        for limit in counted(context, bound.tool):
            if limit.scope is LimitScope.RUN:
                continue
            key = _wanted(context.tenant, limit, bound.name, None, limit.currency or "")
            for of, most in bounds_of(limit):
                named = key.currency if of == "money" else ""
                found[key, of, most] = Excess(
                    limit=limit, of=of, bound=most, used=0, asked=0, currency=named
                )
    keys = list(dict.fromkeys(key for key, _, _ in found))
    if not keys:
        return []
    with context.database.statements() as tx:
        sums = dict(zip(keys, entries.usage(tx, keys), strict=True))
    return [
        (key.scope, replace(one, used=getattr(sums[key], of)))
        for (key, of, _), one in found.items()
    ]


def _let_through(
    context: Context,
    tx: Tx,
    free: Sequence[Entered],
    loads: Mapping[UUID, Load],
    sums: dict[Wanted, Tally],
) -> dict[UUID, Hindrance]:
    hindrances: dict[UUID, Hindrance] = {}
    written: list[LimitEntry] = []
    for one in free:
        load = loads[one.intent.id]
        wanted = _wanted_by(context, one, load)
        limits = counted(context, one.bound.tool)
        over = over_of(one.bound.name, limits, load, [sums[key] for key in wanted])
        passes = over is None or _passes(one.intent)
        if over is not None and not passes:
            hindrances[one.intent.id] = over
        else:
            _add(sums, one.intent.tenant, load)
        written += _entries(context, one, released=passes, at_us=None)
    entries.enter(tx, written)
    return hindrances


def _passes(intent: Intent) -> bool:
    """A person said yes, or it may be in the world: holding it back would undo nothing."""
    return intent.approved_by is not None or may_have_happened(intent)


def _add(sums: dict[Wanted, Tally], tenant: str, load: Load) -> None:
    for key, stands in sums.items():
        if key.tenant == tenant and key.scope in load.scopes:
            same_money = key.currency == load.currency
            sums[key] = stands.plus(load.usage if same_money else replace(load.usage, money=0))


def _with_rows(tx: Tx, limited: Sequence[Entered], context: Context) -> list[Entered]:
    """With the rows that each was recorded with, where a limit counts rows."""
    by_rows = [
        one
        for one in limited
        if any(limit.rows is not None for limit in counted(context, one.bound.tool))
    ]
    if not by_rows:
        return list(limited)
    rows = entries.rows_foreseen(tx, [(one.intent.tenant, one.intent.id) for one in by_rows])
    return [replace(one, rows=rows.get(one.intent.id, one.rows)) for one in limited]


def _sums(context: Context, tx: Tx, wanted: Sequence[Wanted], *, behind_lock: bool) -> list[Tally]:
    """What stands. Behind a lock everything that is committed is seen, by whatever isolation."""
    if not behind_lock or tx.owned or entries.sees_past_its_start(tx):
        return entries.usage(tx, wanted)
    own = entries.standing(tx, wanted)
    with context.database.statements() as fresh:
        committed = entries.standing(fresh, wanted)
    sums = []
    for mine, others in zip(own, committed, strict=True):
        total = Tally()
        for one in (mine | others).values():
            total = total.plus(one)
        sums.append(total)
    return sums


def _entries(
    context: Context, one: Entered, *, released: bool | None = None, at_us: int | None = 0
) -> list[LimitEntry]:
    """One for each scope. What happens in the caller's transaction is released by that."""
    load, intent = _load_of(context, one), one.intent
    if released is None:
        released = intent.state in (State.RECORDED, State.SUCCEEDED)
        at_us = None if intent.due_at is None else micros(intent.due_at)
    return [
        LimitEntry(
            tenant=intent.tenant,
            scope=scope,
            intent_id=intent.id,
            at_us=at_us,
            released=released,
            money=load.usage.money,
            currency=load.currency,
            rows=load.usage.rows,
        )
        for scope in load.scopes
    ]


def _load_of(context: Context, one: Entered) -> Load:
    limits = counted(context, one.bound.tool)
    return load_of(limits, one.bound.tool, one.arguments, run=one.intent.run, rows=one.rows)


def _wanted_by(context: Context, one: Entered, load: Load) -> list[Wanted]:
    """What is summed up for each limit, in their order."""
    intent = one.intent
    return [
        _wanted(intent.tenant, limit, one.bound.name, intent.run, load.currency)
        for limit in counted(context, one.bound.tool)
    ]


def _wanted(tenant: str, limit: Limit, tool: str, run: str | None, currency: str) -> Wanted:
    return Wanted(
        tenant=tenant,
        scope=scope_of(limit, tool, run),
        per_us=None if limit.per is None else limit.per // timedelta(microseconds=1),
        currency=currency,
    )
