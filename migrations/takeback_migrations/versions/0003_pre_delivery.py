"""What carrying out needs: when an intent in doubt may be asked about.

The functions and columns of the revision before stay as they were for the library that uses them.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Not of the projection: no event says it, and whoever asks moves it on so that no other asks
# meanwhile. Null until somebody has looked at the doubt for the first time.
IN_DOUBT = """
ALTER TABLE takeback.intents ADD COLUMN ask_at timestamptz;
CREATE INDEX intents_in_doubt ON takeback.intents (ask_at NULLS FIRST)
    WHERE state = 'in_doubt' AND restored_via IS NULL;
"""


def upgrade() -> None:
    """Adds what this release needs; nothing that the release before uses is changed."""
    for part in (IN_DOUBT,):
        op.execute(part)


def downgrade() -> None:
    """Refused: dropping these would forget what was found out."""
    raise RuntimeError("the ledger is not taken back by a migration; drop the schema by hand")
