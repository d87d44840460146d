"""What a step is made of, against the plan's own stages and against pricing it without a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emplace.placement.audit import audit
from emplace.placement.derived_loads import derive_loads
from emplace.placement.model import ComputeKernel, ShardingType
from emplace.placement.plan import Plan
from emplace.placement.stages import Stage, sharding_type_stages_us, slowest_share
from emplace.placement.step_costs import MOST_TABLES, step_costs
from tests.placement.example_models import gpu_host, model, model_data
from tests.placement.naive_plan import Choice, naive_plan
from tests.placement.test_audit import DATA, mixed_plan, tampered
from tests.prices import bandwidth_prices

WHOLE: Choice = (ShardingType.TABLE_WISE, ComputeKernel.FUSED, None)
PIECES: Choice = (ShardingType.COLUMN_WISE, ComputeKernel.FUSED, None)


def explained(plan: Plan) -> Plan:
    return plan.model_copy(update={"diagnosis": step_costs(plan.question, plan.tables, plan.topology())})


def sharing_cores(plan: Plan) -> Plan:
    """The same placement, where two ranks share a core: only its question counts here."""
    cost = bandwidth_prices(plan.question.host).model_copy(update={"ranks_per_core": 2.0})
    return plan.model_copy(update={"question": plan.question.model_copy(update={"cost_model": cost})})


PLANS = [
    mixed_plan(),
    naive_plan(model(), gpu_host(), [WHOLE] * 3),
    naive_plan(model(), gpu_host(), [WHOLE, PIECES, WHOLE], with_servers=True),
    sharing_cores(naive_plan(model(), gpu_host(), [WHOLE, PIECES, WHOLE])),
]
NAMES = ["mixed", "whole", "servers", "shared cores"]


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_stages_add_up_to_the_step(plan: Plan) -> None:
    found = step_costs(plan.question, plan.tables, plan.topology())
    overhead_us = plan.question.cost_model.step_overhead_us
    step_us = derive_loads(plan.question, plan.tables, plan.topology()).step_time_us
    assert sum(stage.time_us for stage in found.stages) + overhead_us == pytest.approx(step_us)
    assert sum(stage.share for stage in found.stages) + overhead_us / step_us == pytest.approx(1)


@pytest.mark.parametrize("plan", PLANS[:3], ids=NAMES[:3])
def test_stages_are_those_of_the_plans_ranks(plan: Plan) -> None:
    for stage in step_costs(plan.question, plan.tables, plan.topology()).stages:
        loads = [rank.stages_us[stage.stage] for rank in plan.ranks if stage.stage is not Stage.DENSE or not rank.is_server]
        assert stage.time_us == pytest.approx(max(loads))
        assert stage.mean_us == pytest.approx(np.mean(loads))
        assert stage.slowest_ranks == tuple(rank for rank, load in enumerate(loads) if load == pytest.approx(max(loads)))


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_what_tables_add_to_the_slowest_ranks_adds_up_to_the_step(plan: Plan) -> None:
    found = step_costs(plan.question, plan.tables, plan.topology())
    cost, topology = plan.question.cost_model, plan.topology()
    types = {placement.sharding_type for placement in plan.tables}
    of_types = sum(sum(sharding_type_stages_us(cost, each, topology).values()) for each in types)
    step_us = derive_loads(plan.question, plan.tables, topology).step_time_us
    assert len(found.tables) == len(plan.tables) <= MOST_TABLES
    assert found.constant_us + of_types + sum(table.time_us for table in found.tables) == pytest.approx(step_us)
    for table in found.tables:
        assert table.time_us == pytest.approx(sum(table.stages_us.values()))
        assert table.share == pytest.approx(table.time_us / step_us)
    own_us = derive_loads(plan.question, plan.tables, topology).stages_us - derive_loads(plan.question, (), topology).stages_us
    assert sum(table.mean_us for table in found.tables) + of_types == pytest.approx(own_us.sum() / len(topology.ranks))
    assert slowest_share(cost, len(topology.ranks)) == (1 if plan is not PLANS[3] else pytest.approx(6 / 14))


@pytest.mark.parametrize("plan", PLANS, ids=NAMES)
def test_what_is_saved_without_a_table_is_what_pricing_the_others_says(plan: Plan) -> None:
    topology = plan.topology()
    step_us = derive_loads(plan.question, plan.tables, topology).step_time_us
    for table in step_costs(plan.question, plan.tables, topology).tables:
        others = tuple(placement for placement in plan.tables if placement.name != table.name)
        assert table.saved_us == pytest.approx(step_us - derive_loads(plan.question, others, topology).step_time_us, abs=1e-9)


def test_the_dearest_come_first_and_no_more_than_are_named() -> None:
    table = model_data()["tables"][0]
    many = [table | {"name": f"t{index}", "features": [{"name": f"f{index}", "length": {"fixed": 1 + index}}]} for index in range(14)]
    plan = naive_plan(model(tables=many), gpu_host(), [WHOLE] * 14)
    found = step_costs(plan.question, plan.tables, plan.topology()).tables
    assert len(found) == MOST_TABLES
    costs = [max(each.time_us, each.mean_us) for each in found]
    assert costs == sorted(costs, reverse=True)
    assert found[0].name == "t13"


def test_the_audit_derives_a_diagnosis_too() -> None:
    plan = explained(mixed_plan())
    assert audit(plan) == []
    assert Plan.model_validate(plan.to_data()) == plan
    changes: dict[str, Any] = {
        "/diagnosis/constant_us": 1.0,
        "/diagnosis/stages/0/time_us": 1.0,
        "/diagnosis/stages/0/slowest_ranks": [3],
        "/diagnosis/tables/0/saved_us": 1e4,
        "/diagnosis/tables/0/name": "zz",
        "/diagnosis/tables": [],
    }
    for pointer, value in changes.items():
        found = audit(tampered(plan, pointer, value))
        assert [violation.where for violation in found] == ["/".join(pointer.split("/")[:3])], pointer
    assert "diagnosis" not in DATA
