"""Keys, by which who asks is known, and pipelines of jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_STAGES = ("profile", "plan", "run")


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
    )
    op.create_index("ix_api_keys_digest", "api_keys", ["digest"], unique=True)
    op.create_table(
        "pipelines",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("profile", sa.Text),
        sa.Column("run", sa.Text),
        sa.Column("host_fingerprint", sa.String(200)),
        sa.Column("error", sa.Text),
        *(sa.Column(f"{stage}_id", sa.String(32)) for stage in _STAGES),
    )
    for stage in _STAGES:
        op.create_index(f"ix_pipelines_{stage}_id", "pipelines", [f"{stage}_id"])


def downgrade() -> None:
    op.drop_table("pipelines")
    op.drop_table("api_keys")
