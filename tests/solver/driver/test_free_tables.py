"""Tables that take no time: every plan that fits is a best one."""

from __future__ import annotations

from typing import Any

import pytest

from emplace.placement.audit import audit
from emplace.placement.cost_model import CostModel, LaunchCost
from emplace.placement.errors import InvalidDocument
from emplace.placement.plan import PlanStatus
from emplace.placement.workload import Objective
from emplace.solver.solve import solve_question
from tests.solver.driver.test_floor import HIGH_US, asked, tight

OF_TABLES = ("kernels", "all_to_all", "reduce_scatter", "all_reduce", "sharding_type_us")
OF_THE_REST = ("dense",)


def free(cost: CostModel, parts: tuple[str, ...]) -> CostModel:
    data = cost.to_data()
    return CostModel.model_validate(data | {part: _zeroed(data[part]) for part in parts if part in data})


def _zeroed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _zeroed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_zeroed(each) for each in value]
    return 0.0 if isinstance(value, float) else value


@pytest.mark.parametrize("floor_us", [0.0, HIGH_US])
@pytest.mark.parametrize("parts", [OF_TABLES, OF_TABLES + OF_THE_REST])
@pytest.mark.parametrize("of", [tight(), asked(nodes=2), asked(objective=Objective.P95)])
def test_a_plan_that_fits_is_a_best_one(of: Any, parts: tuple[str, ...], floor_us: float) -> None:
    launches = LaunchCost(fixed_us=floor_us) if floor_us else None
    plan = solve_question(of.model_copy(update={"cost_model": free(of.cost_model, parts).model_copy(update={"launches": launches})}))
    assert audit(plan) == []
    assert (plan.status, plan.gap) == (PlanStatus.OPTIMAL, 0.0)
    assert plan.step_time_us == plan.lower_bound_us
    assert plan.throughput_samples_per_s


def test_a_step_that_takes_no_time_is_refused() -> None:
    of = asked()
    nothing = free(of.cost_model, (*OF_TABLES, *OF_THE_REST, "step_overhead_us"))
    elsewhere = nothing.dense[0].model_copy(update={"device": "elsewhere", "fixed_us": 1.0})
    for free_here in (nothing, nothing.model_copy(update={"dense": (*nothing.dense, elsewhere)})):
        with pytest.raises(InvalidDocument, match=r"cost_model: /step_overhead_us: must be at least 0\.001 us"):
            solve_question(of.model_copy(update={"cost_model": free_here}))
    with pytest.raises(InvalidDocument, match=rf"cost_model: /dense: has no dense layers for {nothing.dense[0].device}"):
        solve_question(of.model_copy(update={"cost_model": of.cost_model.model_copy(update={"dense": (elsewhere,)})}))
