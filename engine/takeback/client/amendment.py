"""What was said otherwise: which intent stands in whose place, read from the restore between them.

An amended intent was taken back by a restore whose result names what was recorded in its place;
that one repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from takeback.ledger.other import Named, read_amended, read_others
from takeback.ledger.transaction import Tx
from takeback.model.brevity import brief
from takeback.model.envelope import Envelope
from takeback.model.intent import Intent, State
from takeback.model.wording import SUMMARY_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """The ref of what was recorded in place of an intent, and of what it was recorded in place of;
    None where there is none.
    """

    later: str | None
    first: str | None


def amendments(tx: Tx, intents: Sequence[Intent]) -> Mapping[Named, Amendment]:
    """Those of ``intents``, by tenant and ref, that were amended or amend another."""
    vias = {_named(i): (i.tenant, i.restored_via) for i in intents if _may_be_amended(i)}
    firsts = {_named(i): (i.tenant, i.repeat_of) for i in intents if i.repeat_of is not None}
    others = read_others(tx, [*firsts.values()])
    firsts_via = {
        named: (others[first].ref, (first[0], others[first].via))
        for named, first in firsts.items()
        if first in others and others[first].state is State.CANCELLED
    }
    wanted = {*vias.values(), *(via for _, via in firsts_via.values())}
    amended = read_amended(tx, [(tenant, via) for tenant, via in wanted if via is not None])
    found = {}
    for intent in intents:
        named = _named(intent)
        later = _in(amended, vias.get(named))
        first, via = firsts_via.get(named, (None, None))
        is_in_place = first is not None and _in(amended, via) == intent.ref
        if later is not None or is_in_place:
            found[named] = Amendment(later=later, first=first if is_in_place else None)
    return found


def amended_by(tx: Tx, intent: Intent) -> str | None:
    """The ref of what was recorded in place of ``intent``, or None."""
    found = amendments(tx, [intent]).get(_named(intent)) if _may_be_amended(intent) else None
    return found.later if found else None


def with_amendment(tx: Tx, intent: Intent, told: Envelope) -> Envelope:
    """The answer about ``intent``, and what stands in its place, or in whose place it stands."""
    return said_of(amendments(tx, [intent]), intent, told)


def said_of(found: Mapping[Named, Amendment], intent: Intent, told: Envelope) -> Envelope:
    """The same, of what was found of many."""
    one = found.get(_named(intent))
    if one is None:
        return told
    more: dict[str, object] = {}
    tail = ""
    if one.later is not None:
        more |= {"amended_by": {"ref": one.later}}
        tail += f" It stands anew as {one.later}."
    if one.first is not None:
        more |= {"amends": one.first}
        tail += f" It stands in place of {one.first}."
    return told.amended(
        more | {"summary": brief(told.summary, SUMMARY_BYTES_MAX - len(tail)) + tail}
    )


def _named(intent: Intent) -> Named:
    return intent.tenant, intent.ref


def _may_be_amended(intent: Intent) -> bool:
    was_cancelled = State.CANCELLED in (intent.state, intent.last_word)
    return was_cancelled and intent.restored_via is not None


def _in(amended: Mapping[Named, str], via: tuple[str, str | None] | None) -> str | None:
    return None if via is None or via[1] is None else amended.get((via[0], via[1]))
