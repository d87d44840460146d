"""What is planned for sequences on CPUs has the peaks that the audit derives."""

from __future__ import annotations

from typing import Any

from emplace.placement.audit import audit
from emplace.placement.host import HostSpec
from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanOptions, PlanStatus, Question
from emplace.solver.solve import solve_question
from tests.prices import bandwidth_prices
from tests.solver.questions import gpu_host, table


def test_ranks_that_hold_no_sequence_peak_in_the_backward() -> None:
    data = gpu_host().to_data()
    data["node"]["devices"] = [{"kind": "cpu", "type": "cpu", "count": 4, "memory_bandwidth": "100GB/s", "fp32_flops": "1TFLOP/s"}]
    host = HostSpec.model_validate(data)
    whole: dict[str, Any] = {"constraints": {"sharding_types": ["table_wise"]}}
    model: dict[str, Any] = {
        "schema_version": 1,
        "name": "two",
        "local_batch_size": 64,
        "dense_features": 4,
        "bottom_mlp": [8, 32],
        "top_mlp": [8, 1],
    }
    model |= {"interaction": "cat", "modules": [{"path": "history", "pooling": "none"}]}
    model |= {"tables": [table("a", 2000, pooling=20, **whole), table("b", 1000, pooling=30, **whole)]}
    options = PlanOptions(work_limit=0.2)
    plan = solve_question(Question(model=ModelSpec.model_validate(model), host=host, cost_model=bandwidth_prices(host), options=options))
    assert plan.status is not PlanStatus.INFEASIBLE
    assert audit(plan) == []
    assert sum(rank.ddr_bytes for rank in plan.ranks) > plan.nodes[0].ddr_bytes
    idle = [rank.ddr_bytes for rank in plan.ranks if all(shard.rank != rank.rank for each in plan.tables for shard in each.shards)]
    assert len(idle) == 2
    assert min(idle) > 2 * 64 * (20 + 30) * 32 * 4
