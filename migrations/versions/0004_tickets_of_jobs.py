"""Jobs count how often they were put on their queue, so that a worker that was given up can't change them any more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TABLES = ("plans", "runs", "profiles")


def upgrade() -> None:
    # 0: what an earlier version queued has a message without a number.
    for table in _TABLES:
        op.add_column(table, sa.Column("ticket", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "ticket")
