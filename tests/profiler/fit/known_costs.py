"""Known costs, and the samples that two ranks would measure under exactly those."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from emplace.hardware.discover import discover_host
from emplace.placement.cost_model import DenseCost, KernelCost, LookupCost, cache_lines
from emplace.placement.dense_part import dense_part
from emplace.placement.model import ComputeKernel, Optimizer, ShardingType
from emplace.profiler.design.experiments import QUICK, Effort, make_design
from emplace.profiler.design.point_models import FEATURES_OF_A_RANK, PIECES, dense_model, exchanged_examples, permuted_examples
from emplace.profiler.design.points import CollectivePoint, Design, Kind, LookupPoint, Operation, Sample, TableCounts
from emplace.profiler.fit.step_fit import COUNTED, READ, Known, StepFit

COST = LookupCost(fixed_us=10.0, per_lookup_us=0.01, per_lookup_byte_us=1e-4, per_unique_line_us=0.02)
SAVED_BY_SGD = 0.5
"""The share of a row's time in the backward that SGD doesn't take."""
TRUE = {
    COUNTED: 0.4,
    READ: 0.2,
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
    "conversion fixed_us": 9.0,
    "per_converted_byte_us": 3e-4,
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


FEW_STEPS = replace(QUICK, step_points=4)
"""To price a step takes most of a fit."""


def design_of(effort: Effort, *kernels: ComputeKernel) -> Design:
    return make_design(effort, 2, 0, kernels, 2**26)


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
    if point.operation is Operation.CONVERSION:
        return TRUE["conversion fixed_us"] + point.sent_bytes // 4 * 12 * TRUE["per_converted_byte_us"]
    name = COLLECTIVES[point.operation]
    bags = exchanged_examples(point.sent_bytes, point.ids_per_bag, 2) * FEATURES_OF_A_RANK * 2 if point.ids_per_bag else 0
    return TRUE[f"{name} fixed_us"] + point.sent_bytes * TRUE[f"{name} per_byte_us"] + bags * TRUE["per_exchanged_bag_us"]


@cache
def exact() -> tuple[Design, list[Sample]]:
    """A quick profile's points, of whole steps fewer, and what each of two ranks measures of them."""
    design = design_of(FEW_STEPS, ComputeKernel.FUSED, ComputeKernel.DENSE)
    return design, samples_of(design)[0]


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
        backward = {Operation.INPUT_ALL_TO_ALL: 0.0, Operation.CONVERSION: 0.0, Operation.ALL_REDUCE: update}.get(
            collective.operation, one_way
        )
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
