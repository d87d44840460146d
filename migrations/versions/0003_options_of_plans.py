"""Plans say in a line which options were set; those asked before say nothing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plans", sa.Column("options", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("plans", "options")
