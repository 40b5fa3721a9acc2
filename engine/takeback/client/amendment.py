"""What stands in whose place: what was said otherwise, or taken back and done anew.

An amended intent was taken back by a restore whose result names what was recorded in its place;
that one repeats it. Where a restore was itself taken back, the result of what did that names what
was done anew. Either may be taken back in turn: so the links are followed to the last one. None of
this is a new version of the first intent: it is read beside it, as it stands then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from takeback.client.restore_tool import RESTORE
from takeback.declare import Tool
from takeback.ledger.other import Link, Named, read_amended, read_others, read_successors
from takeback.ledger.reading import Entry
from takeback.ledger.transaction import Tx
from takeback.model.brevity import brief
from takeback.model.envelope import Envelope, Replay, answer
from takeback.model.intent import Intent, State
from takeback.model.waiting import fate_of
from takeback.model.wording import REFS_SHOWN_MAX, SUMMARY_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Amendment:
    """What was recorded in place of an intent, one after the other; what it was recorded in place
    of (``first``), or None; and of those that it waits for, what stands in their place.
    """

    links: Sequence[Link] = ()
    first: str | None = None
    waits: Mapping[str, str]


def amendments(tx: Tx, intents: Sequence[Intent]) -> Mapping[Named, Amendment]:
    """Those of ``intents``, by tenant and ref, in whose place something was recorded, or which
    stand in another's place, or wait for such.
    """
    waiting = {(i.tenant, ref) for i in intents if i.state is State.WAITING for ref in i.after}
    back = {_named(i) for i in intents if _is_taken_back(i)}
    links = read_successors(tx, back | waiting)
    firsts = _firsts(tx, intents)
    found = {}
    for intent in intents:
        named = _named(intent)
        waits = {
            ref: amended[-1].ref
            for ref in (intent.after if intent.state is State.WAITING else ())
            if (amended := _amended(links.get((intent.tenant, ref), ())))
        }
        own = links.get(named, ()) if named in back else ()
        if own or waits or named in firsts:
            found[named] = Amendment(links=own, first=firsts.get(named), waits=waits)
    return found


def _firsts(tx: Tx, intents: Sequence[Intent]) -> Mapping[Named, str]:
    """For those of ``intents`` that amend another: the ref of that one."""
    firsts = {_named(i): (i.tenant, i.repeat_of) for i in intents if i.repeat_of is not None}
    others = read_others(tx, [*firsts.values()])
    vias = {
        named: (first[0], via)
        for named, first in firsts.items()
        if first in others and others[first].state is State.CANCELLED
        if (via := others[first].via) is not None
    }
    amended = read_amended(tx, {*vias.values()})
    return {named: firsts[named][1] for named, via in vias.items() if amended.get(via) == named[1]}


def _amended(links: Sequence[Link]) -> Sequence[Link]:
    """Those that say it otherwise, up to one that was taken back and done anew as it was: who waits
    for others waits for these.
    """
    for number, link in enumerate(links):
        if not link.is_amended:
            return links[:number]
    return links


def amended_by(tx: Tx, intent: Intent) -> str | None:
    """The ref of what was recorded in place of ``intent`` by its own amendment, or None."""
    if not _is_taken_back(intent) or intent.restored_via is None:
        return None
    via = (intent.tenant, intent.restored_via)
    return read_amended(tx, [via]).get(via)


def successor(tx: Tx, intent: Intent) -> Link | None:
    """The last that was recorded in place of ``intent``, or None."""
    if not _is_taken_back(intent):
        return None
    links = read_successors(tx, [_named(intent)]).get(_named(intent))
    return links[-1] if links else None


def tell(
    tx: Tx, entry: Entry, tool: Tool, *, trace_id: str = "", replay: Replay | None = None
) -> Envelope:
    """The answer about an intent that was read: with what keeps it from beginning, and what stands
    in its place.
    """
    told = answer(
        entry.intent,
        tool,
        entry.bodies,
        trace_id=trace_id,
        replay=replay,
        hindrance=entry.hindrance,
    )
    return with_amendment(tx, entry.intent, told)


def with_amendment(tx: Tx, intent: Intent, told: Envelope) -> Envelope:
    """The answer about ``intent``, and what stands in its place, or in whose place it stands."""
    return said_of(amendments(tx, [intent]), intent, told)


def said_of(found: Mapping[Named, Amendment], intent: Intent, told: Envelope) -> Envelope:
    """The same, of what was found of many."""
    one = found.get(_named(intent))
    if one is None:
        return told
    more: dict[str, Any] = {}
    without: list[str] = []
    tail = ""
    if one.links:
        last = one.links[-1]
        is_amended = one.links[0].is_amended
        more |= {"amended_by": named_of(last)} if is_amended else {"redone_by": named_of(last)}
        subject = "What it took back" if intent.tool == RESTORE.name else "It"
        if last.stands:
            without.append("again")
            tail += f" {subject} stands anew as {last.ref}."
        else:
            tail += f" {subject} was called anew as {last.ref}, which does not stand either."
    if one.first is not None:
        more |= {"amends": one.first}
        is_over = fate_of(intent.last_word or intent.state, intent.restored_via) in _OVER
        tail += f" It {'was called' if is_over else 'stands'} in place of {one.first}."
    if one.waits:
        more["waits_for"] = [one.waits.get(ref, ref) for ref in told["waits_for"]]
        for ref, later in [*one.waits.items()][:REFS_SHOWN_MAX]:
            tail += f" {ref} was amended to {later}."
    more["summary"] = brief(told.summary, SUMMARY_BYTES_MAX - len(tail)) + tail
    return told.amended(more, without=without)


_OVER = ("failed", "taken_back")


def named_of(last: Link) -> dict[str, Any]:
    """What an answer says of the last that was recorded in an intent's place."""
    return {"ref": last.ref} if last.stands else {"ref": last.ref, "stands": False}


def _named(intent: Intent) -> Named:
    return intent.tenant, intent.ref


def _is_taken_back(intent: Intent) -> bool:
    word = intent.last_word or intent.state
    return intent.restored_via is not None and word in (State.CANCELLED, State.RESTORED)
