"""Of what is to be carried out one at a time, lets through whose turn it is."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from takeback.dispatch.work import identity
from takeback.ledger.locking import Taken
from takeback.ledger.ordering import out_of_turn, try_orderings
from takeback.ledger.transaction import Tx


def in_turn(tx: Tx, due: Sequence[Taken]) -> list[Taken]:
    """Those of ``due`` that have no ordering, or whose turn it is for as long as ``tx`` lasts.

    Their rows are locked. An ordering whose lock somebody else holds is passed by. Of one ordering
    it may be the turn of several, since a restore waits for none that is still to come: of those
    one is kept, a restore before a call.
    """
    ordered = {
        identity(one.intent): (one.intent.tenant, one.intent.ordering)
        for one in due
        if one.intent.ordering is not None
    }
    if not ordered:
        return list(due)
    held = try_orderings(tx, sorted(set(ordered.values())))
    waiting = {which for which, ordering in ordered.items() if ordering not in held}
    looked_at = [which for which in ordered if which not in waiting]
    if looked_at:
        waiting |= out_of_turn(tx, looked_at)
    first: dict[tuple[str, str], Taken] = {}
    for one in sorted(due, key=_place):
        if (which := identity(one.intent)) in ordered and which not in waiting:
            first.setdefault(ordered[which], one)
    kept = {identity(one.intent) for one in first.values()}
    return [one for one in due if (which := identity(one.intent)) not in ordered or which in kept]


def _place(one: Taken) -> tuple[bool, UUID]:
    return one.intent.restores is None, one.intent.id
