"""What was said otherwise: which intent stands in whose place, read from the restore between them.

An amended intent was taken back by a restore whose result names what was recorded in its place;
that one repeats it.
"""

from __future__ import annotations

from takeback.ledger.other import read_amended, read_others
from takeback.ledger.transaction import Tx
from takeback.model.envelope import Envelope
from takeback.model.intent import Intent, State


def amended_by(tx: Tx, intent: Intent) -> str | None:
    """The ref of what was recorded in place of ``intent``, or None."""
    was_cancelled = State.CANCELLED in (intent.state, intent.last_word)
    if not was_cancelled or intent.restored_via is None:
        return None
    via = (intent.tenant, intent.restored_via)
    return read_amended(tx, [via]).get(via)


def amends(tx: Tx, intent: Intent) -> str | None:
    """The ref of the intent in whose place ``intent`` was recorded, or None."""
    if intent.repeat_of is None:
        return None
    first = read_others(tx, [(intent.tenant, intent.repeat_of)]).get(
        (intent.tenant, intent.repeat_of)
    )
    if first is None or first.via is None or first.state is not State.CANCELLED:
        return None
    via = (intent.tenant, first.via)
    return first.ref if read_amended(tx, [via]).get(via) == intent.ref else None


def with_amendment(tx: Tx, intent: Intent, told: Envelope) -> Envelope:
    """The answer about ``intent``, and what stands in its place, or in whose place it stands."""
    later, first = amended_by(tx, intent), amends(tx, intent)
    more = {"amended_by": {"ref": later}} if later else {}
    return told.amended(more | ({"amends": first} if first else {})) if later or first else told
