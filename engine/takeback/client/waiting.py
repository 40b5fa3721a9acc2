"""Calls that come after others: whether they have to wait, and what became of the others.

What a call comes after is looked at before it is recorded, in its own transaction:

    all have happened         it does not wait; their rows are held, shared, until the transaction
                              ends, so that none of them is taken back before the call is there
    one came to nothing       refused, unless its row says to go on or to ask
    anything else             recorded as waiting: see ``dispatch.waker``

Only what is in the ledger has a ref, so a call can't come after one that comes after it. A repeat
that would add such a turn is refused. An intent that was amended counts as what stands in its
place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from takeback.client.context import Context
from takeback.client.looking import find
from takeback.client.request import Request
from takeback.declare import CANCEL, GO_ON, Remote, Tool
from takeback.declare.effect import IfOtherFails
from takeback.ledger.other import Named, Other, hold_others, read_amended, read_others
from takeback.ledger.reading import Entry
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.decide import record as decide_recording
from takeback.model.violation import Violation, of_term
from takeback.model.wording import BECAME

AMENDMENTS_MAX = 16
"""So many amendments of one intent are followed; who amends it more often is waited for no more."""

TURNS_MAX = 64
"""So many others are looked at for a cycle. None can be recorded; this is for the answer."""


def stand(tx: Tx, wanted: Collection[Named]) -> Mapping[Named, Other]:
    """How each of ``wanted`` stands, or what was recorded in its place by an amendment."""
    now = dict(read_others(tx, wanted))
    for _ in range(AMENDMENTS_MAX):
        vias = {
            (tenant, other.via): (tenant, ref)
            for (tenant, ref), other in now.items()
            if other.via is not None and other.fate == "taken_back"
        }
        amended = read_amended(tx, vias)
        if not amended:
            break
        later = read_others(tx, [(tenant, ref) for (tenant, _), ref in amended.items()])
        for (tenant, via), ref in amended.items():
            if (tenant, ref) in later:
                now[vias[tenant, via]] = later[tenant, ref]
    return now


def said_of(tool: Tool) -> IfOtherFails:
    """What the row says of others that come to nothing."""
    return tool.effect.if_other_fails if isinstance(tool.effect, Remote) else CANCEL


def look_at_others(context: Context, tx: Tx, request: Request) -> Request:
    """The request as it is to be recorded: ready, or as one that waits.

    Raises NoSuchRef, and InvalidArguments where it would never happen.
    """
    wanted = request.command.after
    if not wanted:
        return request
    found = stand(tx, [(context.tenant, ref) for ref in wanted])
    for ref in wanted:
        if (context.tenant, ref) not in found:
            find(context, tx, ref)
    others = {ref: found[context.tenant, ref] for ref in wanted}
    fates = {ref: other.fate for ref, other in others.items()}
    said = said_of(request.bound.tool)
    lost = [ref for ref, fate in fates.items() if fate in BECAME]
    if lost and said is CANCEL:
        raise errors.InvalidArguments([_came_to_nothing(ref, others[ref]) for ref in lost])
    left = [others[ref].ref for ref in wanted if not (fates[ref] in BECAME and said is GO_ON)]
    if "open" in fates.values() or not hold_others(tx, context.tenant, left):
        return request
    command = replace(
        request.command,
        ref=request.event.ref,
        generation=request.event.generation,
        is_ready=True,
    )
    return replace(request, command=command, event=decide_recording(command))


def require_no_cycle(context: Context, tx: Tx, request: Request, twin: Entry) -> None:
    """Raises InvalidArguments when this repeat would have its own intent wait for itself, and
    NoSuchRef where it names what there never was: refs stay, so a true repeat names none.
    """
    own, wanted = twin.intent.ref, request.command.after
    for ref in wanted:
        if ref not in twin.intent.after:
            find(context, tx, ref)
    if own in wanted:
        raise errors.InvalidArguments([_cycle(own, f"{own} is this very call")])
    seen: set[str] = set()
    ahead: Sequence[str] = wanted
    while ahead and len(seen) < TURNS_MAX:
        seen.update(ahead)
        found = read_others(tx, [(context.tenant, ref) for ref in ahead]).values()
        for other in found:
            if own in other.after:
                raise errors.InvalidArguments(
                    [_cycle(other.ref, f"{other.ref} waits for {own}, which is this very call")]
                )
        ahead = sorted({ref for other in found for ref in other.after} - seen)


def _cycle(received: str, why: str) -> Violation:
    return of_term("after", received, "invalid_value", f"must not go round in a circle: {why}")


def _came_to_nothing(ref: str, other: Other) -> Violation:
    amended = "" if other.ref == ref else f" was amended to {other.ref}, which"
    message = (
        f"{ref}{amended} {BECAME[other.fate]}, so this would never happen; leave it out to call "
        "anyway"
    )
    return of_term("after", ref, "invalid_value", message)
