"""The brakes of a person: freeze, so that nothing begins; thaw, so that it goes on without a burst.

Frozen, a remote call is recorded and held, a Local one is refused, and taking back stays open.
"""

from __future__ import annotations

from takeback.client.context import Context
from takeback.ledger import braking
from takeback.ledger.braking import Scope
from takeback.ledger.transaction import Tx
from takeback.model import errors


def require_running(context: Context, tx: Tx, tool: str, run: str | None) -> None:
    """Raises Frozen when a person has stopped ``tool``, ``run``, or the tenant.

    For a Local effect that is about to be performed in ``tx``, which holds the barrier since the
    call was recorded: who freezes from here on waits for ``tx`` to end. A transaction that sees
    the world as it was when it began is answered by a look past its snapshot.
    """
    scope = Scope(tenant=context.tenant, tool=tool, run=run)
    is_frozen, is_last_word = braking.frozen(tx, scope)
    if not is_frozen and not is_last_word:
        with context.database.statements() as fresh:
            is_frozen, _ = braking.frozen(fresh, scope)
    if is_frozen:
        raise errors.Frozen(
            f"a person has stopped {tool!r} for now; it can be called again once that is over"
        )
