"""On whose behalf rows change: two settings of the transaction, read by records and triggers."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import text

from takeback.ledger.statement import Statement
from takeback.ledger.transaction import Tx

ACT = Statement(
    name="act",
    sentence="Names the intent on whose behalf the transaction's next changes are made.",
    index=None,
    lock="none",
    text=text("""
WITH before AS MATERIALIZED (
    SELECT coalesce(current_setting('takeback.tenant', true), '') AS tenant,
           coalesce(current_setting('takeback.intent', true), '') AS intent
)
SELECT before.tenant, before.intent,
       set_config('takeback.tenant', CAST(:tenant AS text), true),
       set_config('takeback.intent', CAST(:intent AS text), true)
FROM before
"""),
)


@dataclass(frozen=True, slots=True)
class Actor:
    """On whose behalf rows change; both are empty where it is nobody's."""

    tenant: str = ""
    intent: str = ""


def act_as(tx: Tx, actor: Actor) -> Actor:
    """Sets both until the transaction ends; answers with whose turn it was before."""
    tenant, intent, *_ = tx.row(ACT, {"tenant": actor.tenant, "intent": actor.intent})
    return Actor(tenant, intent)
