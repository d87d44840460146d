"""Lists sort by any column: plans say how full the fullest memory is, how uneven ranks are and how many, and every such column has an index.

An index ends with the id, so a page of it is found without reading a row: rows hold whole documents.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NEW = {"imbalance": sa.Float, "memory_bytes": sa.BigInteger, "memory_share": sa.Float, "trainers": sa.Integer}
_SORTED = (
    "model_name",
    "host_name",
    "status",
    "gap",
    "step_time_us",
    "throughput_samples_per_s",
    "cost_source",
    "imbalance",
    "memory_share",
)
_MEASURED = ("state", "emulate", "plan_id", "id", "step_time_us")
_BATCH = 100


def upgrade() -> None:
    for name, kind in _NEW.items():
        op.add_column("plans", sa.Column(name, kind))
    _fill_in(op.get_bind())
    for name in _SORTED:
        op.create_index(f"ix_plans_by_{name}", "plans", [name, "id"])
    op.create_index("ix_runs_measured", "runs", list(_MEASURED))


def downgrade() -> None:
    op.drop_index("ix_runs_measured", "runs")
    for name in _SORTED:
        op.drop_index(f"ix_plans_by_{name}", "plans")
    for name in _NEW:
        op.drop_column("plans", name)


def _fill_in(connection: sa.Connection) -> None:
    """From the documents of the plans that are stored."""
    plans = sa.table("plans", sa.column("id"), sa.column("document"), *(sa.column(name) for name in _NEW))
    ids = list(connection.scalars(sa.select(plans.c.id).where(plans.c.document.is_not(None))))
    for start in range(0, len(ids), _BATCH):
        rows = connection.execute(sa.select(plans.c.id, plans.c.document).where(plans.c.id.in_(ids[start : start + _BATCH]))).all()
        for row in rows:
            connection.execute(plans.update().where(plans.c.id == row.id).values(_figures(json.loads(row.document))))


def _figures(plan: dict[str, Any]) -> dict[str, Any]:
    memories = [(rank["hbm_bytes"], rank["hbm_capacity_bytes"]) for rank in plan.get("ranks", ())]
    memories += [(node["ddr_bytes"], node["ddr_capacity_bytes"]) for node in plan.get("nodes", ())]
    share, used = max(((used / capacity, used) for used, capacity in memories if capacity), default=(None, None))
    trainers = sum(not rank.get("is_server") for rank in plan.get("ranks", ()))
    return {"imbalance": plan.get("imbalance"), "memory_bytes": used, "memory_share": share, "trainers": trainers or None}
