"""On whose behalf rows change: two settings of the transaction, read by records and triggers."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text

from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx

ACT = Statement(
    name="act",
    sentence="Names the intent on whose behalf the transaction's next changes are made.",
    index=None,
    lock="none",
    text=text("""
SELECT set_config('takeback.tenant', CAST(:tenant AS text), true),
       set_config('takeback.intent', CAST(:intent AS text), true)
"""),
)


def act_for(tx: Tx, tenant: str, intent: UUID | None) -> None:
    """Sets both until the transaction ends; None clears them again."""
    parameters = {"tenant": tenant if intent else "", "intent": str(intent) if intent else ""}
    tx.rows(ACT, parameters)
