"""A run that is asked for without a number of steps takes as many as are enough."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs") as runs:
        runs.alter_column("steps", existing_type=sa.Integer(), nullable=True)


def downgrade() -> None:
    op.execute("UPDATE runs SET steps = 30 WHERE steps IS NULL")
    with op.batch_alter_table("runs") as runs:
        runs.alter_column("steps", existing_type=sa.Integer(), nullable=False)
