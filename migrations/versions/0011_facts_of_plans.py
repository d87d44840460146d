"""What overviews count of plans, apart from their documents. The application fills it in for plans that are there: it takes its arithmetic."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "plan_facts",
        sa.Column("plan_id", sa.String(32), sa.ForeignKey("plans.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("model_digest", sa.String(80), nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("tables", sa.Text, nullable=False),
    )
    op.create_index("ix_plan_facts_of_model", "plan_facts", ["model_digest", "plan_id"])


def downgrade() -> None:
    op.drop_table("plan_facts")
