"""Models and hosts are listed with their numbers of plans, which are counted along an index: rows hold whole documents."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for part in ("model", "host"):
        op.create_index(f"ix_plans_of_{part}", "plans", [f"{part}_digest", f"{part}_name"])


def downgrade() -> None:
    for part in ("model", "host"):
        op.drop_index(f"ix_plans_of_{part}", "plans")
