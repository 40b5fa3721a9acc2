"""The indexes of what delivery needs, built beside the work.

Each is built CONCURRENTLY: nobody who reads or writes waits for it, and it waits for whoever was in
the middle of writing. That can't happen inside a transaction, so this revision is one that may stop
halfway: what is there and valid is kept when it runs again, and what was left behind unfinished is
dropped and built anew.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

INDEXES = {
    "intents_in_doubt": """
CREATE INDEX CONCURRENTLY intents_in_doubt ON takeback.intents (ask_at NULLS FIRST)
    WHERE state = 'in_doubt' AND restored_via IS NULL
""",
    "intents_lane": """
CREATE INDEX CONCURRENTLY intents_lane
    ON takeback.intents (lane, tenant, priority, due_at NULLS FIRST)
    WHERE state IN ('held', 'due')
""",
    "intents_priority": """
CREATE INDEX CONCURRENTLY intents_priority
    ON takeback.intents (priority, lane, due_at NULLS FIRST)
    WHERE state IN ('held', 'due') AND version > 0
""",
    "intents_ordering": """
CREATE INDEX CONCURRENTLY intents_ordering ON takeback.intents (tenant, ordering, id)
    WHERE ordering IS NOT NULL
      AND state IN ('held', 'due', 'claimed', 'executing', 'in_doubt')
""",
    "intents_waiting": """
CREATE INDEX CONCURRENTLY intents_waiting ON takeback.intents (look_at) WHERE state = 'waiting'
""",
}

IS_VALID = text("""
SELECT x.indisvalid FROM pg_index AS x
WHERE x.indexrelid = to_regclass('takeback.' || CAST(:name AS text))
""")


def upgrade() -> None:
    """Builds what is not there yet, one after the other."""
    with op.get_context().autocommit_block():
        for name, create in INDEXES.items():
            is_valid = op.get_bind().execute(IS_VALID, {"name": name}).scalar()
            if is_valid is False:
                op.execute(f"DROP INDEX CONCURRENTLY takeback.{name}")
            if not is_valid:
                op.execute(create)


def downgrade() -> None:
    """Refused, as that of the revision before."""
    raise RuntimeError("the ledger is not taken back by a migration; drop the schema by hand")
