"""The audit accepts every valid plan, and names the place of any change to one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from placement.audit import audit
from placement.model import ComputeKernel, ShardingType
from placement.plan import Plan, PlanOptions
from tests.placement.example_models import gpu_host, model, model_data
from tests.placement.naive_plan import Choice, naive_plan

FUSED, UVM, CACHED, DENSE = (
    (ComputeKernel.FUSED, None),
    (ComputeKernel.FUSED_UVM, None),
    (ComputeKernel.FUSED_UVM_CACHING, 0.2),
    (ComputeKernel.DENSE, None),
)


def choice(kind: ShardingType, kernel: tuple[ComputeKernel, float | None] = FUSED) -> Choice:
    return (kind, *kernel)


def mixed_plan() -> Plan:
    """One table row-wise, one column-wise behind a cache, one on every rank."""
    return naive_plan(
        model(),
        gpu_host(),
        [choice(ShardingType.ROW_WISE), choice(ShardingType.COLUMN_WISE, CACHED), choice(ShardingType.DATA_PARALLEL, DENSE)],
    )


def where_of(plan: Plan) -> set[str]:
    return {violation.where for violation in audit(plan)}


def tampered(plan: Plan, pointer: str, value: Any) -> Plan:
    """The plan with the value at a JSON pointer replaced."""
    data = plan.to_data()
    *parents, last = pointer.strip("/").split("/")
    place: Any = data
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[int(last) if isinstance(place, list) else last] = value
    return Plan.model_validate(data)


@pytest.mark.parametrize("kind", [kind for kind in ShardingType if kind is not ShardingType.DATA_PARALLEL])
@pytest.mark.parametrize("kernel", [FUSED, UVM, CACHED])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad", "adam"])
def test_naive_plans_of_every_sharding_type_are_sound(
    kind: ShardingType, kernel: tuple[ComputeKernel, float | None], optimizer: str
) -> None:
    assert audit(naive_plan(model(optimizer=optimizer), gpu_host(), [choice(kind, kernel)] * 3)) == []


def test_mixed_and_remote_plans_are_sound() -> None:
    assert audit(mixed_plan()) == []
    remote = [choice(ShardingType.TABLE_WISE), choice(ShardingType.COLUMN_WISE), choice(ShardingType.TABLE_WISE)]
    assert audit(naive_plan(model(), gpu_host(), remote, with_servers=True)) == []
