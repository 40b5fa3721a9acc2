"""How long a transaction of our own may hang: the server ends what its owner can't end any more."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import text

from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx

BOUND = Statement(
    name="bound",
    sentence="Bounds each statement of this transaction, and how long it may sit idle.",
    index=None,
    lock="none",
    text=text("""
SELECT set_config('statement_timeout', CAST(:milliseconds AS text), true),
       set_config('idle_in_transaction_session_timeout', CAST(:milliseconds AS text), true)
"""),
)


def bound(tx: Tx, span: timedelta) -> None:
    """Until the transaction ends, no statement and no pause between two takes longer than ``span``.

    Only for a transaction that is ours: on a caller's connection we set nothing.
    """
    assert tx.owned, "the transaction is the caller's"
    tx.rows(BOUND, {"milliseconds": str(max(span // timedelta(milliseconds=1), 1))})
