"""The step-time model against cases worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from emplace.placement.cost_model import CostModel
from emplace.placement.dense_part import dense_part
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, DataType, Interaction, ModelSpec, Optimizer, ShardingType
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import Stage, rank_stages_us, shard_stages_us, sharding_type_stages_us, stage_lengths_us
from emplace.placement.topology import build_topology
from emplace.placement.workload import ROW_SPLIT, PeakBatch, ShardWorkload
from tests.placement.example_load import LOAD, topology, work
from tests.placement.example_models import gpu_host, gpu_host_data, model
from tests.prices import bandwidth_prices

SHAPE = ShardShape(1000, 16)
"""64 bytes a row, 64,000 bytes of weights."""


def test_a_shard_adds_to_the_stages_it_takes_part_in() -> None:
    cost = bandwidth_prices(gpu_host())
    sharding = TableSharding(ShardingType.TABLE_WISE, ComputeKernel.FUSED, DataType.FP32, Optimizer.ROWWISE_ADAGRAD)
    stages = shard_stages_us(cost, "gpu", sharding, SHAPE, work(ShardingType.TABLE_WISE))
    assert stages[Stage.INPUT_DIST] == pytest.approx(16_896 * 3 / 8 / 1e5 + 16_896 / 2 * 4 / 12_500)
    assert stages[Stage.OUTPUT_DIST] == stages[Stage.GRADIENT_DIST]
    assert stages[Stage.ALL_REDUCE] == 0
    assert Stage.DENSE not in stages


def test_a_cache_costs_between_all_hits_and_all_misses() -> None:
    cost = bandwidth_prices(gpu_host())

    def forward(kernel: ComputeKernel, hit_rate: float = 0.0) -> float:
        sharding = TableSharding(ShardingType.TABLE_WISE, kernel, DataType.FP32, Optimizer.ROWWISE_ADAGRAD, hit_rate=hit_rate)
        stages = shard_stages_us(cost, "gpu", sharding, SHAPE, work(ShardingType.TABLE_WISE))
        return float(stages[Stage.LOOKUP_FORWARD])

    rates = np.linspace(0, 1, 5)
    times = [forward(ComputeKernel.FUSED_UVM_CACHING, rate) for rate in rates]
    assert times == sorted(times, reverse=True)
    fixed = 5.0
    assert times[0] == pytest.approx(forward(ComputeKernel.FUSED_UVM) + fixed)
    assert times[-1] == pytest.approx(forward(ComputeKernel.FUSED) + fixed)


@pytest.mark.parametrize(("optimizer", "per_byte_us"), [(Optimizer.SGD, 1e-4), (Optimizer.ROWWISE_ADAGRAD, 2e-4), (Optimizer.ADAM, 4e-4)])
def test_a_replicated_table_is_updated_whole_on_every_rank(optimizer: Optimizer, per_byte_us: float) -> None:
    """An optimizer that was not measured takes what the costliest does; tables that are not replicated are updated in the backward."""
    updated = {Optimizer.SGD: 1e-4, Optimizer.ROWWISE_ADAGRAD: 2e-4, Optimizer.ADAGRAD: 4e-4}
    plain = bandwidth_prices(gpu_host())
    cost = plain.model_copy(update={"per_updated_byte_us": updated})

    def all_reduce(cost: CostModel, kind: ShardingType) -> float:
        peak, no_bytes = PeakBatch(10, 4, 4), (0.0, 0.0, 0.0)
        work = ShardWorkload(10.0, 5.0, peak, 4.0, 4.0, 4.0, no_bytes, no_bytes, no_bytes, (0.0, 0.0), 0.0, 4, True, (1, 4))
        sharding = TableSharding(kind, ComputeKernel.FUSED, DataType.FP32, optimizer)
        stages = shard_stages_us(cost, "gpu", sharding, SHAPE, work)
        return float(stages[Stage.ALL_REDUCE])

    replicated, whole = ShardingType.DATA_PARALLEL, ShardingType.TABLE_WISE
    assert all_reduce(cost, replicated) == pytest.approx(all_reduce(plain, replicated) + 64_000 * per_byte_us)
    assert all_reduce(cost, whole) == all_reduce(plain, whole)


def test_dense_layers_take_the_element_wise_form_of_the_optimizer() -> None:
    """On one rank too, where nothing is reduced."""
    cost = bandwidth_prices(gpu_host()).model_copy(update={"per_updated_byte_us": {Optimizer.ADAGRAD: 4e-4, Optimizer.SGD: 1e-4}})
    alone = build_topology(gpu_host(), 1, 1, with_servers=False)
    dense_bytes = dense_part(model()).parameters * 4
    for optimizer, per_byte_us in ((Optimizer.ROWWISE_ADAGRAD, 4e-4), (Optimizer.ADAGRAD, 4e-4), (Optimizer.SGD, 1e-4)):
        spec = model().model_copy(update={"optimizer": optimizer})
        assert rank_stages_us(cost, spec, alone)[Stage.ALL_REDUCE] == pytest.approx(dense_bytes * per_byte_us)


def test_every_trainer_pays_dense_layers_and_their_all_reduce() -> None:
    cost, spec = bandwidth_prices(gpu_host()), model()
    base = rank_stages_us(cost, spec, topology())
    dense = dense_part(spec)
    assert base[Stage.DENSE] == pytest.approx(3 * dense.forward_flops * 64 / 7.5e12 * 1e6)
    sent = dense.parameters * 4
    assert base[Stage.ALL_REDUCE] == pytest.approx(20 + max(sent * 2 * 3 / 4 / 1e5, sent * 2 / 2 / 4 * 4 / 12_500))
    alone = build_topology(gpu_host(), 1, 1, with_servers=False)
    assert {stage: us for stage, us in rank_stages_us(cost, spec, alone).items() if us} == {Stage.DENSE: base[Stage.DENSE]}


@pytest.mark.parametrize(
    ("coefficient", "quantity"),
    [
        ("fixed_us", lambda _: 1),
        ("per_layer_us", lambda spec: len(spec.bottom_mlp) + len(spec.top_mlp)),
        ("per_activation_byte_us", lambda spec: dense_part(spec).activation_width * 64 * 4),
        ("per_output_byte_us", lambda spec: dense_part(spec).output_width * 64 * 4),
        ("per_parameter_byte_us", lambda spec: dense_part(spec).parameters * 4),
        ("per_feature_us", lambda spec: spec.num_features),
    ],
)
def test_each_part_of_the_dense_layers_costs(coefficient: str, quantity: Callable[[ModelSpec], float]) -> None:
    cost, spec = bandwidth_prices(gpu_host()), model()
    dense = cost.dense[0].model_copy(update={coefficient: 2e-3})
    slower = rank_stages_us(cost.model_copy(update={"dense": (dense,)}), spec, topology())
    more_us = slower[Stage.DENSE] - rank_stages_us(cost, spec, topology())[Stage.DENSE]
    assert more_us == pytest.approx(2e-3 * quantity(spec))


def test_dot_products_may_cost_more_than_layers() -> None:
    cost = bandwidth_prices(gpu_host())
    spec = model().model_copy(update={"interaction": Interaction.DOT})
    dense = cost.dense[0].model_copy(update={"per_interaction_flop_us": 5 * cost.dense[0].per_flop_us})
    slower = rank_stages_us(cost.model_copy(update={"dense": (dense,)}), spec, topology())
    flops = 3 * 64 * dense_part(spec).interaction_flops
    more_us = slower[Stage.DENSE] - rank_stages_us(cost, spec, topology())[Stage.DENSE]
    assert more_us == pytest.approx(4 * cost.dense[0].per_flop_us * flops)
    assert flops > 0


@pytest.mark.parametrize("kind", list(ShardingType))
def test_pieces_of_columns_are_put_in_order_after_they_arrived(kind: ShardingType) -> None:
    """Each rank puts in order what arrived for its own examples: all ranks together every bag of every piece."""
    cost = bandwidth_prices(gpu_host())
    sorting = cost.model_copy(update={"per_permuted_vector_us": 5.0, "per_permuted_byte_us": 3.0})
    plain, slower = (shard_us(each, kind) for each in (cost, sorting))
    # The four ranks of a node hold a block of rows each of a grid's piece.
    shards = {ShardingType.COLUMN_WISE: 1, ShardingType.TABLE_COLUMN_WISE: 1, ShardingType.GRID_SHARD: 4}.get(kind, 0)
    for stage in Stage:
        both_ways = shards and stage in (Stage.OUTPUT_DIST, Stage.GRADIENT_DIST)
        assert slower[stage] - plain[stage] == pytest.approx(LOAD.global_bags * (5.0 + 3.0 * 16 * 4) / shards if both_ways else 0.0)


@pytest.mark.parametrize("kind", list(ShardingType))
def test_every_bag_that_goes_to_a_shard_costs_on_its_way(kind: ShardingType) -> None:
    """A shard of rows or of columns gets the bags of all trainers; a replica's ids go nowhere."""
    cost = bandwidth_prices(gpu_host())
    plain, slower = (shard_us(each, kind) for each in (cost, cost.model_copy(update={"per_exchanged_bag_us": 2.0})))
    more_us = 0.0 if kind is ShardingType.DATA_PARALLEL else 2.0 * LOAD.global_bags
    for stage in Stage:
        assert slower[stage] - plain[stage] == pytest.approx(more_us if stage is Stage.INPUT_DIST else 0.0)


def shard_us(cost: CostModel, kind: ShardingType) -> dict[Stage, float]:
    kernel = ComputeKernel.DENSE if kind is ShardingType.DATA_PARALLEL else ComputeKernel.FUSED
    sharding = TableSharding(kind, kernel, DataType.FP32, Optimizer.SGD)
    found = shard_stages_us(cost, "gpu", sharding, SHAPE, work(kind))
    return dict.fromkeys(Stage, 0.0) | {stage: float(time_us) for stage, time_us in found.items()}


@pytest.mark.parametrize("kind", list(ShardingType))
def test_a_sharding_type_in_use_pays_for_its_own_collectives(kind: ShardingType) -> None:
    cost = bandwidth_prices(gpu_host())
    cost = cost.model_copy(
        update={"sharding_type_us": {kind: 7.0}, "reduce_scatter": cost.reduce_scatter.model_copy(update={"fixed_us": 33.0})}
    )
    paid = sharding_type_stages_us(cost, kind, topology())
    if kind is ShardingType.DATA_PARALLEL:
        assert paid == {Stage.LOOKUP_FORWARD: 7, Stage.ALL_REDUCE: 20}
    else:
        exchange = 33 if kind in ROW_SPLIT else 20
        assert paid == {Stage.INPUT_DIST: 20, Stage.LOOKUP_FORWARD: 7, Stage.OUTPUT_DIST: exchange, Stage.GRADIENT_DIST: exchange}
    alone = build_topology(gpu_host(), 1, 1, with_servers=False)
    assert sharding_type_stages_us(cost, kind, alone) == {Stage.LOOKUP_FORWARD: 7}


def test_stages_wait_for_the_slowest_rank() -> None:
    loads = np.array([[10.0, 4.0], [30.0, 4.0], [10.0, 4.0], [10.0, 4.0]])
    alone = bandwidth_prices(gpu_host())
    assert stage_lengths_us(loads, alone).tolist() == [30, 4]
    # Two ranks to a core: whichever shares the slowest rank's, both are half done when (30 + 10) / 2 have passed.
    assert stage_lengths_us(loads, alone.model_copy(update={"ranks_per_core": 2.0})).tolist() == [20, 4]
    # One core for all four: their mean. More than there are ranks makes no difference.
    for sharing in (4.0, 7.0):
        assert stage_lengths_us(loads, alone.model_copy(update={"ranks_per_core": sharing})).tolist() == [15, 4]
    assert stage_lengths_us(loads[:1], alone.model_copy(update={"ranks_per_core": 2.0})).tolist() == [10, 4]


@pytest.mark.parametrize("seed", range(20))
def test_on_shared_cores_a_stage_waits_for_the_core_of_the_slowest_rank(seed: int) -> None:
    """Over all ways to put six ranks on three cores, or two."""
    loads = np.random.default_rng(seed).uniform(1, 10, (6, 1))
    slowest = int(loads.argmax())
    others = [rank for rank in range(6) if rank != slowest]
    for sharing in (2, 3):
        cost = bandwidth_prices(gpu_host()).model_copy(update={"ranks_per_core": float(sharing)})
        beside = [np.mean([loads[slowest], *loads[list(some)]]) for some in combinations(others, sharing - 1)]
        assert stage_lengths_us(loads, cost) == pytest.approx(np.mean(beside))


def test_the_slowest_kind_of_device_sets_the_dense_time() -> None:
    data = gpu_host_data(nodes=1)
    gpu = data["node"]["devices"][0]
    data["node"]["devices"] = [gpu, gpu | {"kind": "slow", "fp32_flops": "3TFLOP/s"}]
    host = HostSpec.model_validate(data)
    mixed = rank_stages_us(bandwidth_prices(host), model(), build_topology(host, None, None, with_servers=False))
    fast = rank_stages_us(bandwidth_prices(gpu_host()), model(), topology())
    assert mixed[Stage.DENSE] == pytest.approx(5 * fast[Stage.DENSE])
