"""From samples to a CostModel, with samples made from known costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emplace.hardware.discover import discover_host
from emplace.placement.cost_model import CostModel, CostSource, DenseCost, KernelCost, LookupCost, cache_lines
from emplace.placement.dense_part import dense_part
from emplace.placement.errors import ToolError
from emplace.placement.model import ComputeKernel, DataType, Optimizer, ShardingType
from emplace.profiler.design.experiments import FULL, QUICK, make_design
from emplace.profiler.design.point_models import FEATURES_OF_A_RANK, PIECES, dense_model, exchanged_examples, permuted_examples
from emplace.profiler.design.points import CollectivePoint, Design, Kind, LookupPoint, Operation, Sample, TableCounts
from emplace.profiler.fit.modelling import fit_cost_model
from emplace.profiler.fit.samples import drift, keep_common, rank_path, read_samples, repeat_noise, together
from emplace.profiler.fit.step_fit import Known, StepFit, effective_ranks_per_core

COST = LookupCost(fixed_us=10.0, per_lookup_us=0.01, per_lookup_byte_us=1e-4, per_unique_line_us=0.02)
SAVED_BY_SGD = 0.5
"""Of what a row takes in the backward."""
TRUE = {
    "step_overhead_us": 3000.0,
    "dense fixed_us": 30.0,
    "dense per_layer_us": 20.0,
    "dense per_flop_us": 2e-5,
    "dense per_interaction_flop_us": 6e-5,
    "dense per_activation_byte_us": 1e-4,
    "dense per_output_byte_us": 2e-4,
    "dense per_parameter_byte_us": 2e-4,
    "dense per_feature_us": 40.0,
    "input_dist fixed_us": 500.0,
    "input_dist per_byte_us": 2e-3,
    "all_to_all fixed_us": 200.0,
    "all_to_all per_byte_us": 1e-3,
    "reduce_scatter fixed_us": 300.0,
    "reduce_scatter per_byte_us": 3e-3,
    "all_reduce fixed_us": 400.0,
    "all_reduce per_byte_us": 2e-3,
    "per_exchanged_bag_us": 0.04,
    "per_bucketed_id_us": 0.05,
    "permutation fixed_us": 70.0,
    "per_permuted_vector_us": 0.02,
    "per_permuted_byte_us": 2e-3,
    **{f"type {kind}": 100.0 * (1 + number) for number, kind in enumerate(ShardingType)},
}
# Pieces of tables are exchanged as whole tables are.
LIKE = {ShardingType.COLUMN_WISE: ShardingType.TABLE_WISE, ShardingType.TABLE_COLUMN_WISE: ShardingType.TABLE_WISE}
COLLECTIVES = {
    Operation.INPUT_ALL_TO_ALL: "input_dist",
    Operation.OUTPUT_ALL_TO_ALL: "all_to_all",
    Operation.REDUCE_SCATTER: "reduce_scatter",
    Operation.ALL_REDUCE: "all_reduce",
}


UPDATED = {Optimizer.SGD: 1e-4, Optimizer.ADAGRAD: 4e-4, Optimizer.ROWWISE_ADAGRAD: 2e-4}


def design_of(**change: object) -> Design:
    return make_design(QUICK, 2, 0, (ComputeKernel.FUSED, ComputeKernel.DENSE), 2**26).model_copy(update=change)


def counts(point: LookupPoint) -> tuple[TableCounts, ...]:
    return tuple(
        TableCounts(
            lookups=point.bags * table.lookups_per_bag,
            unique_rows=min(table.rows, point.bags),
            row_bytes=4 * table.columns,
            bags=point.bags,
            uneven_bags=point.bags,
            bag_bytes=4 * table.columns,
            rows=table.rows,
        )
        for table in point.tables
    )


def rows_us(tables: tuple[TableCounts, ...]) -> float:
    return sum(t.unique_rows * float(cache_lines(t.row_bytes)) * COST.per_unique_line_us for t in tables)


def lookup_us(tables: tuple[TableCounts, ...]) -> float:
    return sum(float(COST.time_us(t.lookups, t.unique_rows, t.row_bytes, t.bags, t.uneven_bags, t.bag_bytes, t.rows)) for t in tables)


def true_known() -> Known:
    backward = LookupCost(fixed_us=30.0, per_lookup_us=0.03, per_lookup_byte_us=3e-4, per_unique_line_us=0.06)
    device = discover_host().node.devices[0].kind
    kernels = (ComputeKernel.FUSED, ComputeKernel.DENSE)
    return Known(tuple(KernelCost(device=device, kernel=kernel, forward=COST, backward=backward) for kernel in kernels), UPDATED)


def true_dense() -> DenseCost:
    parts = {name.removeprefix("dense "): value for name, value in TRUE.items() if name.startswith("dense ")}
    return DenseCost.model_validate(parts | {"device": "any"})


def one_way_us(point: CollectivePoint) -> float:
    """Between two ranks."""
    if point.operation is Operation.PERMUTATION:
        assert point.columns is not None
        vectors = permuted_examples(point.sent_bytes, point.columns) * PIECES
        of_vector_us = TRUE["per_permuted_vector_us"] + 4 * point.columns * TRUE["per_permuted_byte_us"]
        return TRUE["permutation fixed_us"] + vectors * of_vector_us
    name = COLLECTIVES[point.operation]
    bags = exchanged_examples(point.sent_bytes, point.ids_per_bag, 2) * FEATURES_OF_A_RANK * 2 if point.ids_per_bag else 0
    return TRUE[f"{name} fixed_us"] + point.sent_bytes * TRUE[f"{name} per_byte_us"] + bags * TRUE["per_exchanged_bag_us"]


def samples_of(design: Design) -> list[list[Sample]]:
    """Two ranks that measured exactly what the known costs say; backward takes three times as long, with SGD less for each row."""

    def sample(kind: Kind, index: int, forward: float, backward: float, tables: tuple[TableCounts, ...] = ()) -> Sample:
        return Sample(kind=kind, index=index, forward_us=(forward,) * 4, backward_us=(backward,) * 4, tables=tables)

    fit = StepFit(discover_host(), 2, true_known())
    found = [sample(Kind.STEP, index, fit.step_us(point, TRUE, true_known()), 0.0) for index, point in enumerate(design.steps)]
    for index, collective in enumerate(design.collectives):
        one_way = one_way_us(collective)
        # What two ranks send of a gradient is as large as the parameter; an exchange of vectors goes both ways.
        update = 0.0 if collective.optimizer is None else 50.0 + collective.sent_bytes * UPDATED[collective.optimizer]
        backward = {Operation.INPUT_ALL_TO_ALL: 0.0, Operation.ALL_REDUCE: update}.get(collective.operation, one_way)
        # To sum vectors takes longer than to gather their gradients.
        more = one_way / 4 if collective.operation is Operation.REDUCE_SCATTER else 0.0
        found.append(sample(Kind.COLLECTIVE, index, one_way + more, backward - more))
    for index, point in enumerate(design.dense):
        time_us = true_dense().time_us(dense_part(dense_model(point)), point.batch, 0)
        found.append(sample(Kind.DENSE, index, time_us / 3, time_us * 2 / 3))
    for index, lookup in enumerate(design.lookups):
        tables = counts(lookup)
        saved_us = 3 * rows_us(tables) * SAVED_BY_SGD if lookup.optimizer is Optimizer.SGD else 0.0
        found.append(sample(Kind.LOOKUP, index, lookup_us(tables), 3 * lookup_us(tables) - saved_us, tables))
    return [found, found]


@pytest.fixture(scope="module")
def fitted() -> CostModel:
    """Of exactly what the known costs say."""
    return fit_cost_model(design_of(), samples_of(design_of()), discover_host())


def test_known_costs_come_back_with_no_error(fitted: CostModel) -> None:
    model, host = fitted, discover_host()
    assert (model.source, model.fingerprint, model.ranks, model.host_name) == (CostSource.MEASURED, host.fingerprint, 2, "local")
    assert {(cost.device, cost.kernel) for cost in model.kernels} == {
        (host.node.devices[0].kind, kernel) for kernel in (ComputeKernel.FUSED, ComputeKernel.DENSE)
    }
    for cost in model.kernels:
        assert float(cost.forward.time_us(5000, 1000, 256, 500, 500, 256, 10**5)) == pytest.approx(
            float(COST.time_us(5000, 1000, 256, 500, 500, 256, 10**5)), rel=0.02
        )
        assert float(cost.backward.time_us(5000, 1000, 256, 500, 500, 256, 10**5)) == pytest.approx(
            3 * float(COST.time_us(5000, 1000, 256, 500, 500, 256, 10**5)), rel=0.02
        )
    for name in COLLECTIVES.values():
        found = getattr(model, name)
        assert found.fixed_us == pytest.approx(TRUE[f"{name} fixed_us"], rel=0.02)
        assert found.per_intra_node_byte_us == pytest.approx(TRUE[f"{name} per_byte_us"], rel=0.02)
    dense = model.dense[0]
    assert dense.model_dump(exclude={"device", "fixed_us"}) == pytest.approx(
        true_dense().model_dump(exclude={"device", "fixed_us"}), rel=0.05
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


@pytest.mark.parametrize(("ranks", "on_cores"), [(1, 1.0), (2, 1.2), (4, 1.2), (8, 2.4), (64, 19.2)])
def test_a_rank_gains_from_others_that_wait_as_if_more_of_them_shared_its_core(ranks: int, on_cores: float) -> None:
    host = discover_host()
    cpu = host.node.devices[0].model_copy(update={"count": 4})
    node = host.node.model_copy(update={"devices": (cpu,)})
    assert effective_ranks_per_core(host.model_copy(update={"node": node}), ranks) == pytest.approx(on_cores)


def test_the_largest_of_what_was_measured_is_kept(fitted: CostModel) -> None:
    design, largest = design_of(), fitted.largest
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
    kernels = (ComputeKernel.FUSED, ComputeKernel.FUSED, ComputeKernel.DENSE)
    design = make_design(replace(QUICK, lookup_points=300, variants=FULL.variants), 2, 0, kernels, 2**26)
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
    saved_us = 3 * 1000 * 4 * COST.per_unique_line_us * SAVED_BY_SGD
    assert saved_us > standard / 20
    assert float(fused.backward_of(Optimizer.SGD, DataType.FP32).time_us(*arguments)) == pytest.approx(standard - saved_us, rel=0.02)
    assert float(fused.backward_of(Optimizer.ADAGRAD, DataType.FP32).time_us(*arguments)) == pytest.approx(standard, rel=0.02)
    by_name = {one.what: one for one in model.residuals if one.regime is None}
    assert by_name["fused backward"].worst < 0.05
    assert by_name["fused backward with sgd in fp32"].median < 0.05


def test_a_point_that_one_rank_lacks_does_not_count() -> None:
    first, second = samples_of(design_of())
    assert set(together([first, second[:-3]])) == {(sample.kind, sample.index) for sample in first[:-3]}


def test_work_on_a_shared_core_takes_as_long_as_all_ranks_on_it() -> None:
    first, second = samples_of(design_of())
    alone, shared = together([first, second]), together([first, second], ranks_per_core=2.0)
    for (kind, index), one in alone.items():
        share = 2.0 if kind in (Kind.DENSE, Kind.LOOKUP) else 1.0
        assert (shared[kind, index].forward_us, shared[kind, index].backward_us) == (share * one.forward_us, share * one.backward_us)


def test_a_slow_moment_of_the_machine_is_noticed_and_can_be_taken_out() -> None:
    """The third of three points was measured while everything of its kind took half as long again."""
    moments = [(100.0, 40.0), (200.0, 40.0), (450.0, 60.0)]
    for kind in (Kind.DENSE, Kind.STEP):
        of_rank = [
            Sample(kind=kind, index=index, forward_us=(time_us,) * 4, backward_us=(time_us,) * 4, reference_us=(reference_us,) * 4)
            for index, (time_us, reference_us) in enumerate(moments)
        ]
        timed = together([of_rank, of_rank])
        assert [timed[kind, index].slowness for index in range(3)] == pytest.approx([1, 1, 1.5])
        assert [timed[kind, index].forward_us for index in range(3)] == pytest.approx([100, 200, 450])
        usual = [timed[kind, index].at_usual_speed() for index in range(3)]
        assert [one.forward_us for one in usual] == pytest.approx([100, 200, 300])
        assert [one.backward_us for one in usual] == pytest.approx([100, 200, 300])
        assert 0.2 < drift([of_rank, of_rank]) <= 0.5


def test_a_point_of_two_sweeps_is_their_mean_each_at_its_speed() -> None:
    """The second sweep found the machine slower by half. What one rank alone measured of it does not count."""

    def sample(index: int, sweep: int, time_us: float, reference_us: float) -> Sample:
        times = {"forward_us": (time_us,) * 4, "backward_us": (3 * time_us,) * 4, "reference_us": (reference_us,) * 4}
        return Sample.model_validate({"kind": Kind.LOOKUP, "index": index, "sweep": sweep} | times)

    first = [sample(0, 0, 100.0, 40.0), sample(1, 0, 200.0, 40.0), sample(2, 0, 300.0, 40.0)]
    again = [sample(0, 1, 150.0, 60.0), sample(1, 1, 300.0, 60.0)]
    timed = together([first + again, first + again[:1]])
    found = [timed[Kind.LOOKUP, index] for index in range(3)]
    assert [one.forward_us for one in found] == pytest.approx([125, 200, 300])
    assert [one.backward_us for one in found] == pytest.approx([375, 600, 900])
    assert [one.slowness for one in found] == pytest.approx([1.25, 1, 1])


@pytest.mark.parametrize("machine_was_slow", [True, False])
def test_steps_are_corrected_only_where_that_helps(machine_was_slow: bool) -> None:
    """The reference step varies: with the machine, and so do the others, or by itself."""
    design, rng = design_of(), np.random.default_rng(0)

    def disturbed(sample: Sample) -> Sample:
        slow = float(rng.lognormal(0, 0.3)) if sample.kind is Kind.STEP else 1.0
        time_us = sample.forward_us[0] * (slow if machine_was_slow else 1.0)
        return sample.model_copy(update={"forward_us": (time_us,) * 4, "reference_us": (1000.0 * slow,) * 4})

    measured = [disturbed(sample) for sample in samples_of(design)[0]]
    model = fit_cost_model(design, [measured, measured], discover_host())
    error = next(one.mape for one in model.residuals if one.what == "whole steps")
    # Where the machine was slow, "usual" is the median of a few dozen rounds.
    assert error < 0.03


def test_too_few_points_are_an_error_that_names_the_part() -> None:
    design = design_of()
    first, _ = samples_of(design)
    few = [sample for sample in first if sample.kind is not Kind.LOOKUP or sample.index < 4]
    with pytest.raises(ToolError, match="fused lookups"):
        fit_cost_model(design, [few, few], discover_host())


def test_noise_is_what_equal_measurements_differ_by() -> None:
    steady = Sample(kind=Kind.DENSE, index=0, forward_us=(100.0,) * 6, backward_us=(0.1, 0.2, 0.3, 5.0))
    drifting = steady.model_copy(update={"forward_us": (100.0, 100.0, 100.0, 120.0, 120.0, 120.0)})
    assert repeat_noise([[steady], [steady]]) == 0.0
    assert repeat_noise([[drifting], [drifting]]) == pytest.approx(20 / 110)


def test_a_line_that_was_cut_off_is_ignored(tmp_path: Path) -> None:
    sample = Sample(kind=Kind.STEP, index=0, forward_us=(1.0,), backward_us=(0.0,))
    (tmp_path / "rank-0.jsonl").write_text(sample.canonical_json() + "\n" + json.dumps({"kind": "st"})[:-3])
    assert read_samples(tmp_path, 1) == [[sample]]


def test_after_an_interruption_all_ranks_go_on_from_the_same_sweep(tmp_path: Path) -> None:
    """A point that one rank has measured again and the other has not is measured again by both, or they would wait for each other."""

    def sample(sweep: int) -> Sample:
        return Sample(kind=Kind.STEP, index=0, sweep=sweep, forward_us=(1.0,), backward_us=(0.0,))

    for rank, sweeps in enumerate((2, 1)):
        rank_path(tmp_path, rank).write_text("".join(sample(sweep).canonical_json() + "\n" for sweep in range(sweeps)))
    assert keep_common(tmp_path, 2) == 1
    assert read_samples(tmp_path, 2) == [[sample(0)], [sample(0)]]


def test_bytes_across_nodes_never_cost_less_than_inside_one() -> None:
    """Only links inside the node are measured; the host document says what its network does."""
    host = discover_host()
    slow = StepFit(host, 2, true_known()).cost_model(TRUE | {"all_to_all per_byte_us": 1e3}, true_known()).all_to_all
    fast = StepFit(host, 2, true_known()).cost_model(TRUE | {"all_to_all per_byte_us": 1e-9}, true_known()).all_to_all
    assert slow.per_inter_node_byte_us == 1e3
    assert fast.per_inter_node_byte_us == pytest.approx(1e6 * 2 / host.node.network)
