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


def downgrade() -> None:
    op.drop_column("plans", "priority")
