"""What hangs on more than the call itself: whom to ask, and whether it is what was expected.

Only for calls that say what they expect, that a person decides about, or whose row counts rows or
has limits; and never for a repeat, which is answered before anything of this is looked at.

    Remote    looked at before it is recorded
    Local     sums before; what it affects once it was performed, inside a savepoint
"""

from __future__ import annotations

from dataclasses import replace

from takeback.client import limiting
from takeback.client.context import Context
from takeback.client.permission import Forbidden, PersonFirst, person_first
from takeback.client.previewing import (
    Foreseen,
    affected_text,
    foresee_call,
    foreseen_of,
    require_expected,
)
from takeback.client.request import Request, to_be_decided
from takeback.declare import REFUSE, Remote
from takeback.ledger.transaction import Tx
from takeback.model import errors
from takeback.model.chain import SALT_BYTES
from takeback.model.handler import Performed


class AskFirst(Exception):
    """It was performed and is over what may be done without a person: undo it, and ask."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.bound.name)
        self.request = request


def look_ahead(context: Context, tx: Tx, request: Request) -> Request:
    """The request as it is to be recorded: with whom to ask, and what it is foreseen to affect.

    Raises PolicyForbids, LimitExceeded, PreviewStale, and what a preview raises.
    """
    tool = request.bound.tool
    if isinstance(request.asked, Forbidden):
        raise errors.PolicyForbids(
            f"the policy of this app does not allow this {tool.name}; ask the user"
        )
    seen = None
    is_remote = isinstance(tool.effect, Remote)
    is_expected = request.expect is not None
    if request.asked is not None or (is_remote and (is_expected or request.counts_rows)):
        seen = foresee_call(context, tx, request.bound, request.arguments)
        _require_expected(context, tx, request, seen)
    person = request.asked or _by_rows(request, seen)
    over = _over(context, tx, request, rows=None if seen is None else seen.affected_count)
    if over is not None and person is None:
        person = over
        seen = seen or foresee_call(context, tx, request.bound, request.arguments)
    if seen is not None:
        request = replace(request, rows=seen.affected_count)
    return request if person is None else _ask(context, request, person, seen)


def judge(context: Context, tx: Tx, request: Request, done: Performed) -> None:
    """Looks at what a Local call has affected, while it can still be undone.

    Raises AskFirst when a person decides about that much, PreviewStale, and LimitExceeded.
    """
    seen = foreseen_of(done, request.bound)
    _require_expected(context, tx, request, seen)
    over = _over(context, tx, request, rows=seen.affected_count)
    person = _by_rows(request, seen) or over
    if person is not None:
        raise AskFirst(_ask(context, replace(request, rows=seen.affected_count), person, seen))


def _require_expected(context: Context, tx: Tx, request: Request, seen: Foreseen) -> None:
    if request.expect is not None:
        require_expected(
            context,
            tx,
            request.bound.name,
            request.arguments.canonical,
            expect=request.expect,
            now=seen,
        )


def _by_rows(request: Request, seen: Foreseen | None) -> PersonFirst | None:
    approval = request.bound.tool.approval
    if seen is None or approval is None or approval.rows_over is None:
        return None
    if seen.affected_count <= approval.rows_over:
        return None
    return person_first(request.bound.tool, "rows")


def _over(context: Context, tx: Tx, request: Request, *, rows: int | None) -> PersonFirst | None:
    """A person to ask about a call that is over a limit; raises LimitExceeded where none is."""
    if not request.is_limited:
        return None
    over = limiting.weigh(
        context,
        tx,
        request.bound,
        request.arguments.canonical,
        run=request.event.run,
        rows=rows,
    )
    if over is None:
        return None
    if over.wants is REFUSE:
        raise over.error()
    return person_first(request.bound.tool, "limit")


def _ask(context: Context, request: Request, person: PersonFirst, seen: Foreseen | None) -> Request:
    sealed = None if seen is None else (context.entropy(SALT_BYTES), affected_text(seen))
    return to_be_decided(request, person, sealed)
