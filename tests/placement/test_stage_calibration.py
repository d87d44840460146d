"""A trace moves the figures of each stage by themselves."""

from __future__ import annotations

import pytest

from emplace.placement.catalog import builtin_stack
from emplace.placement.price_range import stages_under_us, step_under_us
from emplace.placement.stage_calibration import LAUNCHES, calibrated_by_stages
from emplace.placement.stages import Stage
from tests.placement.test_calibration import planned

TRUE = {"memory_share": 0.75, "cache_rate": 1.7, "update_share": 0.7, "network_share": 0.6, "intra_node_share": 0.6, "flops_share": 0.65}
"""What the stack really reaches, all within its ranges: some faster, some slower than typical."""


@pytest.mark.parametrize("batch", [64, 65_536])
def test_each_stage_is_explained_by_figures_of_its_own(batch: int) -> None:
    plan, before = planned(batch), builtin_stack("torchrec-eager")
    real = before.model_copy(update={key: getattr(before, key).model_copy(update={"typical": value}) for key, value in TRUE.items()})
    step_us = step_under_us(plan, real) * (1.2 if batch == 64 else 1.0)
    found = calibrated_by_stages(plan, step_us, stages_under_us(plan, real))
    for fit in found.fits:
        assert fit.explained_us == pytest.approx(fit.measured_us, rel=1e-2), fit.name
    # What this plan says nothing of is found too: the same stages under another placement's weights come out closer than before.
    assert found.stack.update_share.typical > before.update_share.typical
    assert found.stack.memory_share.typical < before.memory_share.typical
    moved = {key for key in LAUNCHES if getattr(found.stack, key) != getattr(before, key)}
    assert bool(moved) is (batch == 64)
    assert found.stack.name == "torchrec-eager-calibrated"


def test_a_step_faster_than_the_range_leaves_launches_at_their_fast_ends() -> None:
    plan = planned(64)
    before = builtin_stack("torchrec-eager")
    found = calibrated_by_stages(plan, 1.0, stages_under_us(plan, before))
    step = found.fits[-1]
    assert 1.0 < step.explained_us < step.predicted_us
    assert found.stack.step_us.typical == pytest.approx(before.step_us.low)


def test_what_ranges_do_not_explain_is_left_over() -> None:
    plan = planned(65_536)
    stages_us = stages_under_us(plan, builtin_stack("torchrec-eager"))
    stages_us[Stage.LOOKUP_FORWARD] *= 10
    found = calibrated_by_stages(plan, (plan.step_time_us or 0.0) * 2, stages_us)
    forward, backward = found.fits[:2]
    assert forward.predicted_us < forward.explained_us < forward.measured_us / 2
    assert backward.explained_us == pytest.approx(backward.measured_us, rel=0.05)
