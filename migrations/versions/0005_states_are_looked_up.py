"""What waits is counted for each new job: states are looked up."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TABLES = ("plans", "runs", "profiles")


def upgrade() -> None:
    for table in _TABLES:
        op.create_index(f"ix_{table}_state", table, ["state"])


def downgrade() -> None:
    for table in _TABLES:
        op.drop_index(f"ix_{table}_state", table)
