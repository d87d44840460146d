"""Which of the plans that wait goes first; those that are there are of the middle rank."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("priority", sa.Integer, nullable=False, server_default="2"))
    op.create_index("ix_plans_waiting", "plans", ["state", "priority", "id"])


def downgrade() -> None:
    op.drop_index("ix_plans_waiting", "plans")
    op.drop_column("plans", "priority")
