"""The points to measure: repeatable, within the limits, and spread over the ranges."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from emplace.placement.dense_part import dense_part
from emplace.placement.model import ComputeKernel, DataType, Optimizer, ShardingType
from emplace.profiler.design.experiments import FULL, FULL_ON_CUDA, QUICK, QUICK_ON_CUDA, Effort, make_design
from emplace.profiler.design.point_models import dense_model, step_model
from emplace.profiler.design.points import Operation

KERNELS = (ComputeKernel.FUSED, ComputeKernel.FUSED, ComputeKernel.FUSED, ComputeKernel.DENSE)
MIB = 2**20


def test_same_seed_same_points() -> None:
    assert make_design(QUICK, 2, 7, KERNELS, 64 * MIB) == make_design(QUICK, 2, 7, KERNELS, 64 * MIB)
    assert make_design(QUICK, 2, 7, KERNELS, 64 * MIB) != make_design(QUICK, 2, 8, KERNELS, 64 * MIB)


@pytest.mark.parametrize("effort", [QUICK, FULL, QUICK_ON_CUDA, FULL_ON_CUDA])
def test_no_point_is_larger_than_allowed(effort: Effort) -> None:
    design = make_design(effort, 2, 0, KERNELS, 64 * MIB)
    for point in design.lookups:
        assert sum(table.rows * table.columns * 4 for table in point.tables) <= 64 * MIB
        assert point.bags * sum(table.lookups_per_bag for table in point.tables) <= effort.max_lookups
        assert point.bags * sum(table.columns for table in point.tables) * 4 <= effort.max_output_bytes
    for dense in design.dense:
        part = dense_part(dense_model(dense))
        assert 3 * dense.batch * part.forward_flops <= effort.max_dense_flops or dense.batch == 32
        assert 4 * dense.batch * part.activation_width <= effort.max_activation_bytes or dense.batch == 32
    assert all(point.sent_bytes <= effort.max_collective_bytes for point in design.collectives)


@pytest.mark.parametrize("effort", [QUICK, FULL])
def test_half_of_the_collectives_has_the_largest_and_the_smallest(effort: Effort) -> None:
    """A deadline may leave no more than half, and what a byte costs is told by the largest."""
    for seed in range(10):
        points = make_design(effort, 2, seed, KERNELS, 64 * MIB).collectives
        sizes = {point.sent_bytes for point in points}
        assert len(sizes) == effort.collective_sizes
        for operation in Operation:
            half = {point.sent_bytes for point in points[: len(points) // 2] if point.operation is operation}
            assert {min(sizes), max(sizes)} < half


def test_points_reach_every_regime() -> None:
    points = make_design(QUICK, 2, 0, KERNELS, 128 * MIB).lookups
    tables = [table for point in points for table in point.tables]
    assert {len(point.tables) for point in points} == {1, 2, 8, 24}  # what a table takes by itself shows where they are many
    assert {table.zipf for table in tables} == {0.0, 0.8, 1.05, 1.2}
    assert {table.columns for table in tables} == {4, 8, 16, 32, 64, 128, 256}
    assert min(table.rows for table in tables) < 100
    assert max(table.rows for table in tables) > 1e6
    assert {table.lookups_per_bag == 1 for table in tables} == {True, False}


def test_the_overhead_of_every_sharding_type_is_measured_all_through_a_full_profile() -> None:
    """A machine that was slow in the first minute must not make one type look dearer than another."""
    steps = make_design(FULL, 2, 0, KERNELS, 64 * MIB).steps
    for start in range(0, len(steps), len(steps) // 4):
        part = steps[start : start + len(steps) // 4]
        small = {step.types for step in part if step.batch <= 128 and step.width == 16 and step.lookups_per_bag == 1}
        assert {(kind,) for kind in ShardingType} | {tuple(ShardingType)} <= small


@pytest.mark.parametrize("effort", [QUICK, FULL])
def test_a_deadline_leaves_small_steps_and_others(effort: Effort) -> None:
    """A quick profile gets to two thirds of its steps. Small ones alone say nothing of what a model's steps take."""
    steps = make_design(effort, 2, 0, KERNELS, 64 * MIB).steps
    first = [step.rows == 1024 and step.lookups_per_bag == 1 for step in steps[:14]]
    assert sum(first) == 7


def test_every_kernel_and_variant_fills_the_range() -> None:
    """What alternates must not take every fourth point of one sequence: that has only half of the columns."""
    found = defaultdict(list)
    for point in make_design(FULL, 2, 0, KERNELS, 128 * MIB).lookups:
        found[point.kernel, point.optimizer, point.data_type].append(point.tables[0])
    for tables in found.values():
        assert {4, 8, 128, 256} < {table.columns for table in tables}
        assert min(table.rows for table in tables) < 100
        assert max(table.rows for table in tables) > 50_000
        assert {table.zipf for table in tables} == {0.0, 0.8, 1.05, 1.2}


@pytest.mark.parametrize("effort", [QUICK, FULL])
def test_tables_beyond_the_caches_are_looked_up_again_and_again(effort: Effort) -> None:
    """In every kernel and variant: chance draws next to none."""
    found: Counter[tuple[ComputeKernel, Optimizer, DataType]] = Counter()
    points: Counter[tuple[ComputeKernel, Optimizer, DataType]] = Counter()
    for point in make_design(effort, 2, 0, KERNELS, 512 * MIB).lookups:
        table = point.tables[0]
        is_large = table.rows * table.columns * 4 > 7 * MIB and table.columns >= 32
        points[point.kernel, point.optimizer, point.data_type] += 1
        found[point.kernel, point.optimizer, point.data_type] += (
            len(point.tables) == 1 and is_large and point.bags * table.lookups_per_bag > table.rows / 4
        )
    assert all(found[each] >= count // 8 >= 1 for each, count in points.items())


def test_a_full_profile_has_other_optimizers_and_data_types() -> None:
    points = make_design(FULL, 2, 0, KERNELS, 128 * MIB).lookups
    kinds = Counter((point.optimizer, point.data_type) for point in points)
    others = {(Optimizer.SGD, DataType.FP32), (Optimizer.ADAGRAD, DataType.FP32), (Optimizer.ROWWISE_ADAGRAD, DataType.FP16)}
    assert set(kinds) == others | {(Optimizer.ROWWISE_ADAGRAD, DataType.FP32)}
    assert kinds[Optimizer.ROWWISE_ADAGRAD, DataType.FP32] > 0.6 * len(points)
    assert min(kinds.values()) >= 40


def test_a_quick_profile_has_element_wise_adagrad_besides() -> None:
    """Its rows take up to five times as long to update as row-wise Adagrad's; ten points, which a backward of its own needs, are left of
    sixteen where a deadline cuts off a third."""
    points = make_design(QUICK, 2, 0, KERNELS, 128 * MIB).lookups
    kinds = Counter((point.optimizer, point.data_type) for point in points)
    assert kinds == {(Optimizer.ROWWISE_ADAGRAD, DataType.FP32): 80, (Optimizer.ADAGRAD, DataType.FP32): 16}


def test_one_rank_exchanges_nothing_but_has_replicated_parameters() -> None:
    alone = make_design(QUICK, 1, 0, KERNELS, 64 * MIB)
    assert {point.operation for point in (*alone.collectives, alone.reference.collective)} == {Operation.ALL_REDUCE}
    assert {point.operation for point in make_design(QUICK, 2, 0, KERNELS, 64 * MIB).collectives} == set(Operation)


def test_steps_of_a_gpu_differ_in_depth_and_some_keep_it_busy_for_longer_than_launching_takes() -> None:
    steps = make_design(FULL_ON_CUDA, 1, 0, KERNELS, 2048 * MIB).steps
    assert {point.depth for point in steps} == set(range(9))
    flops = [point.batch * dense_part(step_model(point, 1)).training_flops for point in steps]
    assert sum(each > 3e11 for each in flops) >= 5  # 6 ms at 50 TFLOP/s
    assert {point.depth for point in make_design(FULL, 1, 0, KERNELS, 2048 * MIB).steps} == {0}
