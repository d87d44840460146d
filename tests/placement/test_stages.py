"""The step-time model against cases worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.placement.cost_model import (
    CollectiveCost,
    CostModel,
    KernelCost,
    LookupCost,
    OtherBackward,
    cache_lines,
    datasheet_cost_model,
    row_digits,
    touched_pages,
)
from emplace.placement.dense_part import dense_part
from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, DataType, Interaction, ModelSpec, Optimizer, ShardingType
from emplace.placement.stages import Stage, rank_stages_us, shard_stages_us, sharding_type_stages_us, stage_lengths_us
from emplace.placement.topology import Topology, build_topology
from emplace.placement.workload import ROW_SPLIT, Objective, ShardWorkload, TableLoad, model_loads, shard_workload
from tests.placement.example_models import gpu_host, gpu_host_data, model, model_data

LOAD = TableLoad(1600.0, 200.0, 900.0, 180.0, 1700, 220, 512, 64, 256, 32)
"""Eight trainers of 64 examples; half of the bags are uneven."""


def topology(*, with_servers: bool = False) -> Topology:
    return build_topology(gpu_host(), None, None, with_servers=with_servers)


def work(kind: ShardingType, share: float = 1.0, columns: int = 16, *, on_server: bool = False) -> ShardWorkload:
    return shard_workload(LOAD, kind, share, columns, topology(with_servers=on_server), on_server=on_server)


def test_a_table_wise_shard_serves_everyone() -> None:
    """1600 ids and 512 lengths of 8 bytes arrive: 3 of 8 parts from its node, 4 of 8 from the other; 512 vectors of 64 bytes leave."""
    found = work(ShardingType.TABLE_WISE)
    assert (found.lookups, found.unique_rows, found.peak_ids, found.bags, found.uneven_bags) == (1600, 900, 1700, 512, 256)
    assert found.input_bytes == (16_896 * 3 / 8, 16_896 * 4 / 8, 0)
    assert found.output_bytes == (32_768 * 3 / 8, 32_768 * 4 / 8, 0)


def test_a_row_wise_shard_takes_its_share_of_ids_and_makes_every_bag() -> None:
    found = work(ShardingType.ROW_WISE, 1 / 8)
    assert (found.lookups, found.unique_rows, found.peak_ids, found.bags, found.uneven_bags) == (200, 112.5, 213, 512, 512)
    assert found.output_bytes == (32_768 * 3 / 8, 32_768 * 4 / 8, 0)


def test_a_table_row_wise_shard_reduces_inside_its_node_first() -> None:
    assert work(ShardingType.TABLE_ROW_WISE, 1 / 4).output_bytes == (32_768 * 3 / 4, 32_768 / 2 / 4, 0)


def test_a_data_parallel_shard_reduces_its_gradient() -> None:
    found = work(ShardingType.DATA_PARALLEL)
    assert (found.lookups, found.bags, found.uneven_bags) == (200, 64, 32)
    assert found.input_bytes == found.output_bytes == (0, 0, 0)
    assert found.all_reduce_share == (2 * 3 / 4, 2 * 1 / 2 / 4)


def test_a_server_sends_everything_over_the_network() -> None:
    found = work(ShardingType.TABLE_WISE, on_server=True)
    assert found.input_bytes == (0, 16_896 * 2 / 8, 16_896)
    assert found.output_bytes == (0, 32_768 * 2 / 8, 32_768)


def test_lookup_cost_adds_its_terms() -> None:
    cost = LookupCost(
        fixed_us=1,
        per_lookup_us=0.1,
        per_lookup_byte_us=0.01,
        per_unique_line_us=0.2,
        per_overflow_byte_us=0.05,
        per_bag_us=0.3,
        per_bag_byte_us=0.001,
        per_uneven_bag_us=0.4,
        per_page_us=5,
        per_row_digit_us=0.02,
        cache_bytes=1300,
    )
    # rows of two cache lines; working set 50 x 65 = 3250 bytes, of which 1300 stay in the cache; 300 rows are numbers of two digits
    pages = 300 * 65 / 4096 * (1 - (250 / 300) ** (4096 / 65))
    by_terms = 1 + 10 + 65 + 50 * 2 * 0.2 + 100 * 65 * 0.6 * 0.05 + 10 * 0.3 + 10 * 32 * 0.001 + 6 * 0.4 + 5 * pages + 100 * 2 * 0.02
    assert cost.time_us(100, 50, 65, 10, 6, 32, 300) == pytest.approx(by_terms)
    assert cost.time_us(100, 10, 64, 0, 0, 0, 0) == pytest.approx(1 + 10 + 64 + 10 * 0.2)


@pytest.mark.parametrize(("rows", "digits"), [(1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 3)])
def test_a_digit_is_eight_bits_of_the_largest_row_number(rows: int, digits: int) -> None:
    assert row_digits(rows) == digits


@pytest.mark.parametrize(("row_bytes", "lines"), [(16, 1), (64, 1), (65, 2), (1024, 16)])
def test_a_row_lies_on_whole_cache_lines(row_bytes: int, lines: int) -> None:
    assert cache_lines(row_bytes) == lines


@pytest.mark.parametrize(("row_bytes", "pages"), [(64, 1000 / 64), (4096, 1000), (10240, 2500)])
def test_all_rows_of_a_table_lie_on_all_its_pages(row_bytes: int, pages: float) -> None:
    assert touched_pages(1000, row_bytes, 1000) == pytest.approx(pages)


def test_pages_are_counted_as_rows_drawn_at_random_lie_on_them() -> None:
    rng = np.random.default_rng(0)
    drawn = [len({row // 32 for row in rng.choice(6400, 150, replace=False)}) for _ in range(200)]
    assert touched_pages(150, 128, 6400) == pytest.approx(np.mean(drawn), rel=0.01)


SIDES = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(4, 8192), st.integers(1, 10**7))


@given(SIDES, st.floats(0, 1))
def test_a_block_of_a_tables_rows_never_takes_longer_than_the_table(sides: tuple[int, int, int, int], share: float) -> None:
    """Blocks are priced by their shortest, so that bounds hold."""
    cost = LookupCost(
        per_lookup_us=1,
        per_unique_line_us=1,
        per_overflow_byte_us=0.1,
        per_uneven_bag_us=1,
        per_page_us=1,
        per_row_digit_us=1,
        cache_bytes=2**16,
    )
    lookups, unique, row_bytes, rows = sides[0], min(sides[1], sides[3]), sides[2], sides[3]
    table = float(cost.time_us(lookups, unique, row_bytes, 10, 10, row_bytes, rows))
    block = float(cost.time_us(lookups * share, unique * share, row_bytes, 10, 10, row_bytes, rows * share))
    assert block <= table * (1 + 1e-9)


def test_the_datasheet_prices_bytes_by_the_slowest_way() -> None:
    cost = datasheet_cost_model(gpu_host())
    fused, uvm = (cost.kernel("gpu", kernel) for kernel in (ComputeKernel.FUSED, ComputeKernel.FUSED_UVM))
    assert fused is not None
    assert uvm is not None
    assert fused.forward.time_us(1000, 0, 64, 0, 0, 0, 1000) - fused.forward.fixed_us == pytest.approx(64_000 / 900e9 * 1e6)
    assert uvm.backward.time_us(1000, 0, 64, 0, 0, 0, 1000) - uvm.backward.fixed_us == pytest.approx(2 * 64_000 / 16e9 * 1e6)
    # four devices share 100 Gbit/s; a server has 25 Gbit/s of its own
    links = cost.all_to_all
    assert links.per_intra_node_byte_us == pytest.approx(1e6 / 100e9)
    assert links.per_inter_node_byte_us == pytest.approx(4e6 / 12.5e9)
    assert links.per_server_byte_us == pytest.approx(1e6 / 3.125e9)


@pytest.mark.parametrize(("servers", "bytes_per_s"), [(2, 25e9 / 8), (80, 2 * 100e9 / 8 / 80)])
def test_a_server_is_as_fast_as_its_link_or_its_share_of_the_trainers(servers: int, bytes_per_s: float) -> None:
    data = gpu_host_data()
    data["remote_servers"]["count"] = servers
    host = HostSpec.model_validate(data)
    where = build_topology(host, None, None, with_servers=True)
    found = shard_workload(LOAD, ShardingType.TABLE_WISE, 1.0, 16, where, on_server=True)
    assert datasheet_cost_model(host).all_to_all.time_us(*found.output_bytes) == pytest.approx(32_768 / bytes_per_s * 1e6)


def test_a_shard_adds_to_the_stages_it_takes_part_in() -> None:
    cost = datasheet_cost_model(gpu_host())
    stages = shard_stages_us(
        cost,
        "gpu",
        ComputeKernel.FUSED,
        ShardingType.TABLE_WISE,
        work(ShardingType.TABLE_WISE),
        row_bytes=64,
        columns=16,
        weight_bytes=64_000,
        optimizer=Optimizer.ROWWISE_ADAGRAD,
        data_type=DataType.FP32,
    )
    assert stages[Stage.INPUT_DIST] == pytest.approx(16_896 * 3 / 8 / 1e5 + 16_896 / 2 * 4 / 12_500)
    assert stages[Stage.OUTPUT_DIST] == stages[Stage.GRADIENT_DIST]
    assert stages[Stage.ALL_REDUCE] == 0
    assert Stage.DENSE not in stages


def test_a_cache_costs_between_all_hits_and_all_misses() -> None:
    cost = datasheet_cost_model(gpu_host())

    def forward(kernel: ComputeKernel, hit_rate: float = 0.0) -> float:
        stages = shard_stages_us(
            cost,
            "gpu",
            kernel,
            ShardingType.TABLE_WISE,
            work(ShardingType.TABLE_WISE),
            row_bytes=64,
            columns=16,
            weight_bytes=0,
            optimizer=Optimizer.ROWWISE_ADAGRAD,
            data_type=DataType.FP32,
            hit_rate=hit_rate,
        )
        return float(stages[Stage.LOOKUP_FORWARD])

    rates = np.linspace(0, 1, 5)
    times = [forward(ComputeKernel.FUSED_UVM_CACHING, rate) for rate in rates]
    assert times == sorted(times, reverse=True)
    fixed = 5.0
    assert times[0] == pytest.approx(forward(ComputeKernel.FUSED_UVM) + fixed)
    assert times[-1] == pytest.approx(forward(ComputeKernel.FUSED) + fixed)


def test_another_optimizer_or_data_type_has_a_backward_of_its_own_where_it_was_measured() -> None:
    sgd, half = LookupCost(fixed_us=2.0), LookupCost(fixed_us=3.0)
    cost = KernelCost(
        device="gpu",
        kernel=ComputeKernel.FUSED,
        forward=LookupCost(),
        backward=LookupCost(fixed_us=1.0),
        other_backwards=(OtherBackward(optimizer=Optimizer.SGD, backward=sgd), OtherBackward(data_type=DataType.FP16, backward=half)),
    )
    assert cost.backward_of(Optimizer.SGD, DataType.FP32) == cost.backward_of(Optimizer.SGD, DataType.FP16) == sgd
    assert cost.backward_of(Optimizer.ROWWISE_ADAGRAD, DataType.FP16) == half
    assert cost.backward_of(Optimizer.ADAGRAD, DataType.FP32) == cost.backward


@pytest.mark.parametrize(("optimizer", "per_byte_us"), [(Optimizer.SGD, 1e-4), (Optimizer.ROWWISE_ADAGRAD, 2e-4), (Optimizer.ADAM, 4e-4)])
def test_a_replicated_table_is_updated_whole_on_every_rank(optimizer: Optimizer, per_byte_us: float) -> None:
    """An optimizer that was not measured takes what the costliest does; tables that are not replicated are updated in the backward."""
    updated = {Optimizer.SGD: 1e-4, Optimizer.ROWWISE_ADAGRAD: 2e-4, Optimizer.ADAGRAD: 4e-4}
    plain = datasheet_cost_model(gpu_host())
    cost = plain.model_copy(update={"per_updated_byte_us": updated})

    def all_reduce(cost: CostModel, kind: ShardingType) -> float:
        work = ShardWorkload(10.0, 5.0, 10.0, 4.0, 4.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.0, (1.5, 0.0))
        stages = shard_stages_us(
            cost,
            "gpu",
            ComputeKernel.FUSED,
            kind,
            work,
            row_bytes=64,
            columns=16,
            weight_bytes=64_000,
            optimizer=optimizer,
            data_type=DataType.FP32,
        )
        return float(stages[Stage.ALL_REDUCE])

    replicated, whole = ShardingType.DATA_PARALLEL, ShardingType.TABLE_WISE
    assert all_reduce(cost, replicated) == pytest.approx(all_reduce(plain, replicated) + 64_000 * per_byte_us)
    assert all_reduce(cost, whole) == all_reduce(plain, whole)


def test_dense_layers_take_the_element_wise_form_of_the_optimizer() -> None:
    """On one rank too, where nothing is reduced."""
    cost = datasheet_cost_model(gpu_host()).model_copy(update={"per_updated_byte_us": {Optimizer.ADAGRAD: 4e-4, Optimizer.SGD: 1e-4}})
    alone = build_topology(gpu_host(), 1, 1, with_servers=False)
    dense_bytes = dense_part(model()).parameters * 4
    for optimizer, per_byte_us in ((Optimizer.ROWWISE_ADAGRAD, 4e-4), (Optimizer.ADAGRAD, 4e-4), (Optimizer.SGD, 1e-4)):
        spec = model().model_copy(update={"optimizer": optimizer})
        assert rank_stages_us(cost, spec, alone)[Stage.ALL_REDUCE] == pytest.approx(dense_bytes * per_byte_us)


def test_every_trainer_pays_dense_layers_and_their_all_reduce() -> None:
    cost, spec = datasheet_cost_model(gpu_host()), model()
    base = rank_stages_us(cost, spec, topology())
    dense = dense_part(spec)
    assert base[Stage.DENSE] == pytest.approx(3 * dense.forward_flops * 64 / 7.5e12 * 1e6)
    sent = dense.parameters * 4
    assert base[Stage.ALL_REDUCE] == pytest.approx(20 + sent * 2 * 3 / 4 / 1e5 + sent * 2 / 2 / 4 * 4 / 12_500)
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
    cost, spec = datasheet_cost_model(gpu_host()), model()
    dense = cost.dense[0].model_copy(update={coefficient: 2e-3})
    slower = rank_stages_us(cost.model_copy(update={"dense": (dense,)}), spec, topology())
    more_us = slower[Stage.DENSE] - rank_stages_us(cost, spec, topology())[Stage.DENSE]
    assert more_us == pytest.approx(2e-3 * quantity(spec))


def test_dot_products_may_cost_more_than_layers() -> None:
    cost = datasheet_cost_model(gpu_host())
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
    cost = datasheet_cost_model(gpu_host())
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
    cost = datasheet_cost_model(gpu_host())
    plain, slower = (shard_us(each, kind) for each in (cost, cost.model_copy(update={"per_exchanged_bag_us": 2.0})))
    more_us = 0.0 if kind is ShardingType.DATA_PARALLEL else 2.0 * LOAD.global_bags
    for stage in Stage:
        assert slower[stage] - plain[stage] == pytest.approx(more_us if stage is Stage.INPUT_DIST else 0.0)


def shard_us(cost: CostModel, kind: ShardingType) -> dict[Stage, float]:
    """Of 16 columns."""
    kernel = ComputeKernel.DENSE if kind is ShardingType.DATA_PARALLEL else ComputeKernel.FUSED
    found = shard_stages_us(
        cost,
        "gpu",
        kernel,
        kind,
        work(kind),
        row_bytes=64,
        columns=16,
        weight_bytes=64_000,
        optimizer=Optimizer.SGD,
        data_type=DataType.FP32,
    )
    return dict.fromkeys(Stage, 0.0) | {stage: float(time_us) for stage, time_us in found.items()}


@pytest.mark.parametrize("kind", list(ShardingType))
def test_a_sharding_type_in_use_pays_for_its_own_collectives(kind: ShardingType) -> None:
    cost = datasheet_cost_model(gpu_host())
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
    alone = datasheet_cost_model(gpu_host())
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
        cost = datasheet_cost_model(gpu_host()).model_copy(update={"ranks_per_core": float(sharing)})
        beside = [np.mean([loads[slowest], *loads[list(some)]]) for some in combinations(others, sharing - 1)]
        assert stage_lengths_us(loads, cost) == pytest.approx(np.mean(beside))


def test_the_slowest_kind_of_device_sets_the_dense_time() -> None:
    data = gpu_host_data(nodes=1)
    gpu = data["node"]["devices"][0]
    data["node"]["devices"] = [gpu, gpu | {"kind": "slow", "fp32_flops": "3TFLOP/s"}]
    host = HostSpec.model_validate(data)
    mixed = rank_stages_us(datasheet_cost_model(host), model(), build_topology(host, None, None, with_servers=False))
    fast = rank_stages_us(datasheet_cost_model(gpu_host()), model(), topology())
    assert mixed[Stage.DENSE] == pytest.approx(5 * fast[Stage.DENSE])


def test_collectives_without_servers_cost_nothing_for_them() -> None:
    cost = CollectiveCost(fixed_us=1, per_intra_node_byte_us=2, per_inter_node_byte_us=3)
    assert cost.time_us(10, 100) == 320


def test_p95_counts_a_fuller_batch_and_unique_rows_follow() -> None:
    spec, where = model(), topology()
    mean, tail = (model_loads(spec, where, objective) for objective in (Objective.MEAN, Objective.P95))
    for table, low, high in zip(spec.tables, mean, tail, strict=True):
        assert low.global_lookups == pytest.approx(table.pooling_factor * 64 * 8)
        if any(feature.lengths.variance for feature in table.features):
            assert high.global_lookups > low.global_lookups
            assert high.global_unique_rows > low.global_unique_rows
            assert low.global_peak_ids > high.global_lookups
        assert low.global_bags == 64 * 8 * len(table.features)
        assert low.local_unique_rows <= low.global_unique_rows <= table.num_embeddings


def test_dot_interaction_and_cross_layers() -> None:
    tables = [table | {"embedding_dim": 16} for table in model_data()["tables"]]
    dot = dense_part(model(tables=tables, interaction="dot"))
    # 4 features and the bottom MLP's output: 5 vectors of 16, 10 pairs
    assert dot.top[0] == (16 + 10, 32)
    assert dot.interaction_flops == 2 * 5 * 5 * 16
    cross = dense_part(model(tables=tables, interaction="dcn", dcn={"num_layers": 2, "low_rank_dim": 8}))
    assert cross.cross == ((80, 8), (8, 80)) * 2
    assert cross.top[0] == (80, 32)
