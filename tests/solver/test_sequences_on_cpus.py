"""What is planned for sequences on CPUs has the peaks that the audit derives."""

from __future__ import annotations

from typing import Any

from emplace.placement.audit import audit
from emplace.placement.plan import PlanOptions, PlanStatus, Question
from emplace.solver.solve import solve_question
from tests.placement.example_models import model
from tests.prices import bandwidth_prices
from tests.solver.questions import cpu_host, table


def test_ranks_that_hold_no_sequence_peak_in_the_backward() -> None:
    whole: dict[str, Any] = {"constraints": {"sharding_types": ["table_wise"]}}
    tables = [table("a", 2000, pooling=20, **whole), table("b", 1000, pooling=30, **whole)]
    sequences, host = model(modules=[{"path": "history", "pooling": "none"}], tables=tables), cpu_host(4)
    plan = solve_question(Question(model=sequences, host=host, cost_model=bandwidth_prices(host), options=PlanOptions(work_limit=0.2)))
    assert plan.status is not PlanStatus.INFEASIBLE
    assert audit(plan) == []
    assert sum(rank.ddr_bytes for rank in plan.ranks) > plan.nodes[0].ddr_bytes
    idle = [rank.ddr_bytes for rank in plan.ranks if all(shard.rank != rank.rank for each in plan.tables for shard in each.shards)]
    assert len(idle) == 2
    assert min(idle) > 2 * 64 * (20 + 30) * 32 * 4
