"""Plans, runs, profiles, their progress, idempotency keys and workers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_UNFINISHED_OR_DONE = sa.text("state IN ('queued', 'running', 'done')")


def upgrade() -> None:
    op.create_table(
        "plans",
        *_job_columns(),
        sa.Column("question_digest", sa.String(80), nullable=False),
        sa.Column("model_name", sa.String(200), nullable=False, index=True),
        sa.Column("model_digest", sa.String(80), nullable=False),
        sa.Column("host_name", sa.String(200), nullable=False, index=True),
        sa.Column("host_digest", sa.String(80), nullable=False),
        sa.Column("host_fingerprint", sa.String(200)),
        sa.Column("cost_source", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), index=True),
        *_figures("gap", "step_time_us", "throughput_samples_per_s"),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("document", sa.Text),
    )
    op.create_index(
        "plans_one_per_question",
        "plans",
        ["question_digest"],
        unique=True,
        sqlite_where=_UNFINISHED_OR_DONE,
        postgresql_where=_UNFINISHED_OR_DONE,
    )
    op.create_table(
        "runs",
        *_job_columns(),
        sa.Column("plan_id", sa.String(32), sa.ForeignKey("plans.id", ondelete="CASCADE"), nullable=False, index=True),
        sa.Column("host_fingerprint", sa.String(200), nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("verified", sa.Boolean),
        *_figures("step_time_us", "throughput_samples_per_s"),
        sa.Column("document", sa.Text),
    )
    op.create_table(
        "profiles",
        *_job_columns(),
        sa.Column("host_name", sa.String(200), nullable=False),
        sa.Column("host_fingerprint", sa.String(200), index=True),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("ranks", sa.Integer),
        sa.Column("quick", sa.Boolean),
        sa.Column("seed", sa.Integer),
        sa.Column("digest", sa.String(80), index=True),
        sa.Column("document", sa.Text),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("resource_id", sa.String(32), nullable=False, index=True),
        _time("at", nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.String(300), primary_key=True),
        sa.Column("request_digest", sa.String(80), nullable=False),
        sa.Column("resource_id", sa.String(32), nullable=False, index=True),
        _time("created_at", nullable=False),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.String(200), primary_key=True),
        sa.Column("machine", sa.String(200), nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("host_fingerprint", sa.String(200), index=True),
        sa.Column("beat", sa.Integer, nullable=False),
        _time("started_at", nullable=False),
        _time("seen_at", nullable=False),
    )


def downgrade() -> None:
    for table in ("workers", "idempotency_keys", "events", "profiles", "runs", "plans"):
        op.drop_table(table)


def _job_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        _time("created_at", nullable=False),
        _time("started_at"),
        _time("finished_at"),
        sa.Column("error", sa.Text),
    ]


def _time(name: str, *, nullable: bool = True) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _figures(*names: str) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.Float) for name in names]
