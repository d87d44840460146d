"""From samples to a CostModel, with samples made from known costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from emplace.hardware.discover import discover_host
from emplace.placement.cost_model import CostModel, CostSource, LookupCost
from emplace.placement.dense_part import dense_part
from emplace.placement.errors import ToolError
from emplace.placement.model import ComputeKernel, DataType, Optimizer, ShardingType
from emplace.profiler.design.experiments import FULL
from emplace.profiler.design.point_models import dense_model
from emplace.profiler.design.points import Kind, Sample
from emplace.profiler.fit.modelling import fit_cost_model
from emplace.profiler.fit.step_fit import COUNTED, READ
from tests.profiler.fit.known_costs import (
    COLLECTIVES,
    COST,
    FEW_STEPS,
    LIKE,
    SAVED_BY_SGD,
    TRUE,
    UPDATED,
    counts,
    design_of,
    exact,
    samples_of,
    true_dense,
)


def in_step(cost: LookupCost, *counts: int) -> float:
    """Microseconds of lookups in a step."""
    read = cost.model_copy(update={"fixed_us": 0.0, "per_lookup_us": 0.0})
    alone_us, read_us = float(cost.time_us(*counts)), float(read.time_us(*counts))
    return (1 + TRUE[COUNTED]) * (alone_us - read_us) + (1 + TRUE[READ]) * read_us


@pytest.fixture(scope="module")
def fitted() -> CostModel:
    """The fit of samples that are exactly what the known costs say."""
    design, measured = exact()
    return fit_cost_model(design, [measured, measured], discover_host())


def test_known_costs_come_back_with_no_error(fitted: CostModel) -> None:
    model, host = fitted, discover_host()
    assert (model.source, model.fingerprint, model.ranks, model.host_name) == (CostSource.MEASURED, host.fingerprint, 2, "local")
    assert {(cost.device, cost.kernel) for cost in model.kernels} == {
        (host.node.devices[0].kind, kernel) for kernel in (ComputeKernel.FUSED, ComputeKernel.DENSE)
    }
    in_step_us = in_step(COST, 5000, 1000, 256, 500, 500, 256, 10**5)
    for cost in model.kernels:
        assert float(cost.forward.time_us(5000, 1000, 256, 500, 500, 256, 10**5)) == pytest.approx(in_step_us, rel=0.02)
        assert float(cost.backward.time_us(5000, 1000, 256, 500, 500, 256, 10**5)) == pytest.approx(3 * in_step_us, rel=0.02)
    for name in COLLECTIVES.values():
        found = getattr(model, name)
        assert found.fixed_us == pytest.approx(TRUE[f"{name} fixed_us"], rel=0.02)
        assert found.per_intra_node_byte_us == pytest.approx(TRUE[f"{name} per_byte_us"], rel=0.02)
    dense = model.dense[0]
    assert dense.model_dump(exclude={"device", "fixed_us", "per_flop_us_at"}) == pytest.approx(
        true_dense().model_dump(exclude={"device", "fixed_us", "per_flop_us_at"}), rel=0.05
    )
    assert model.per_updated_byte_us == pytest.approx(UPDATED, rel=0.02)
    for name in ("per_exchanged_bag_us", "per_bucketed_id_us", "per_permuted_vector_us", "per_permuted_byte_us"):
        assert getattr(model, name) == pytest.approx(TRUE[name], rel=0.05)
    assert all(one.worst < 0.05 for one in model.residuals)
    assert {one.what for one in model.residuals} >= {
        "fused forward",
        "fused backward",
        "dense forward",
        "whole steps",
        "dense layers",
        "all_to_all",
        "permutation",
    }


def test_the_largest_of_what_was_measured_is_kept(fitted: CostModel) -> None:
    design, largest = exact()[0], fitted.largest
    assert largest is not None
    assert largest.sent_bytes == max(point.sent_bytes for point in design.collectives)
    assert largest.dense_flops == max(3 * dense_part(dense_model(point)).forward_flops * point.batch for point in design.dense)
    assert largest.lookups == max(sum(table.lookups for table in counts(point)) for point in design.lookups)
    assert largest.output_bytes == max(sum(4 * table.columns for table in point.tables) * point.bags for point in design.lookups)


def test_overhead_and_types_are_what_the_stages_do_not_explain(fitted: CostModel) -> None:
    """Only their sums can be told apart in steps that have at least one type each."""
    for kind in ShardingType:
        whole = TRUE["step_overhead_us"] + TRUE[f"type {LIKE.get(kind, kind)}"]
        assert fitted.step_overhead_us + fitted.sharding_type_us[kind] == pytest.approx(whole, rel=0.05)


def test_other_optimizers_and_data_types_have_a_backward_of_their_own() -> None:
    """Too few points of fp16 leave it to the kernel's own backward."""
    effort = replace(FEW_STEPS, lookup_points=300, variants=FULL.variants)
    design = design_of(effort, ComputeKernel.FUSED, ComputeKernel.FUSED, ComputeKernel.DENSE)
    lookups = [
        point.model_copy(update={"data_type": DataType.FP32}) if index % 12 and point.data_type is DataType.FP16 else point
        for index, point in enumerate(design.lookups)
    ]
    design = design.model_copy(update={"lookups": tuple(lookups)})
    model = fit_cost_model(design, samples_of(design), discover_host())
    fused = next(cost for cost in model.kernels if cost.kernel is ComputeKernel.FUSED)
    assert [(other.optimizer, other.data_type) for other in fused.other_backwards] == [(Optimizer.SGD, None), (Optimizer.ADAGRAD, None)]
    arguments = (5000, 1000, 256, 500, 500, 256, 10**5)
    standard = float(fused.backward.time_us(*arguments))
    saved_us = (1 + TRUE[READ]) * 3 * 1000 * 4 * COST.per_unique_line_us * SAVED_BY_SGD
    assert saved_us > standard / 20
    assert float(fused.backward_of(Optimizer.SGD, DataType.FP32).time_us(*arguments)) == pytest.approx(standard - saved_us, rel=0.02)
    assert float(fused.backward_of(Optimizer.ADAGRAD, DataType.FP32).time_us(*arguments)) == pytest.approx(standard, rel=0.02)
    by_name = {one.what: one for one in model.residuals if one.regime is None}
    assert by_name["fused backward"].worst < 0.05
    assert by_name["fused backward with sgd in fp32"].median < 0.05


@pytest.mark.parametrize("exponent", [1.0, 0.5, 0.0])
def test_steps_are_corrected_as_far_as_that_helps(exponent: float) -> None:
    """The reference step varies: with the machine, and so do the others, more than they do, or by itself."""
    design, samples = exact()
    rng = np.random.default_rng(0)

    def disturbed(sample: Sample) -> Sample:
        slow = float(rng.lognormal(0, 0.3)) if sample.kind is Kind.STEP else 1.0
        time_us = sample.forward_us[0] * slow**exponent
        return sample.model_copy(update={"forward_us": (time_us,) * 4, "reference_us": (1000.0 * slow,) * 4})

    measured = [disturbed(sample) for sample in samples]
    model = fit_cost_model(design, [measured, measured], discover_host())
    error = next(one.mape for one in model.residuals if one.what == "whole steps")
    assert model.reference_exponent == exponent
    # Where the machine was slow, "usual" is the median of a few dozen rounds.
    assert error < 0.03


def test_lookups_may_slow_down_more_than_their_reference() -> None:
    design, samples = exact()
    rng = np.random.default_rng(0)

    def disturbed(sample: Sample) -> Sample:
        if sample.kind is not Kind.LOOKUP:
            return sample
        slow = float(rng.lognormal(0, 0.15))
        times = {name: (getattr(sample, name)[0] * slow**2,) * 4 for name in ("forward_us", "backward_us")}
        return sample.model_copy(update=times | {"reference_us": (1000.0 * slow,) * 4})

    measured = [disturbed(sample) for sample in samples]
    model = fit_cost_model(design, [measured, measured], discover_host())
    errors = {one.what: one.mape for one in model.residuals if one.regime is None}
    assert max(errors["fused forward"], errors["fused backward"]) < 0.03


def test_too_few_points_are_an_error_that_names_the_part() -> None:
    design, samples = exact()
    few = [sample for sample in samples if sample.kind is not Kind.LOOKUP or sample.index < 4]
    with pytest.raises(ToolError, match="fused lookups"):
        fit_cost_model(design, [few, few], discover_host())
