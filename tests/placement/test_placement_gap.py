"""The gap over what a placement decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.placement.audit import audit
from emplace.placement.datasheet import datasheet_cost_model
from emplace.placement.model import ShardingType
from emplace.placement.placement_gap import placement_gap
from tests.placement.example_models import gpu_host, model
from tests.placement.naive_plan import naive_plan
from tests.placement.test_audit import PLAN, choice, tampered, where_of

TIMES = st.floats(1e-3, 1e9)


@given(cost_us=TIMES, bound=st.floats(0, 1), constant=st.floats(0, 1))
def test_it_is_a_share_and_no_less_than_the_gap_of_the_step(cost_us: float, bound: float, constant: float) -> None:
    found = placement_gap(cost_us, bound * cost_us, constant * cost_us)
    assert 0 <= found <= 1
    assert constant > 1 - 1e-6 or found >= 1 - max(bound, constant) - 1e-9


@pytest.mark.parametrize(
    ("cost_us", "bound_us", "constant_us", "expected"),
    [
        (1000.0, 996.0, 920.0, 0.05),
        (1000.0, 996.0, 0.0, 0.004),
        (1000.0, 1000.0, 920.0, 0.0),
        (1000.0, 0.0, 920.0, 1.0),  # nothing is known of other plans
        (1000.0, 900.0, 1000.0, 0.0),  # nothing is decided
        (1000.0, 900.0, 1000.0 - 1e-6, 0.0),
        (0.0, 0.0, 0.0, 0.0),
    ],
)
def test_the_constant_part_is_left_out(cost_us: float, bound_us: float, constant_us: float, expected: float) -> None:
    assert placement_gap(cost_us, bound_us, constant_us) == pytest.approx(expected)


def test_the_audit_derives_it_and_a_plan_of_an_earlier_version_has_none() -> None:
    assert where_of(tampered(PLAN, "/placement_gap", 0.5)) == {"/placement_gap"}
    assert audit(PLAN.model_copy(update={"placement_gap": None})) == []


def test_a_plan_whose_placement_decides_nothing_is_no_worse_than_another() -> None:
    plan = naive_plan(model(), gpu_host(), [choice(ShardingType.TABLE_WISE)] * 3, cost_model=datasheet_cost_model(gpu_host()))
    assert (plan.gap, plan.placement_gap, audit(plan)) == (0.0, 0.0, [])
    looser = {"gap": 0.5, "lower_bound_us": (plan.step_time_us or 0.0) / 2}
    assert where_of(plan.model_copy(update=looser)) == {"/placement_gap"}
