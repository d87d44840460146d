"""What arrives at a shard in one step, against cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emplace.placement.id_order import RowShare
from emplace.placement.model import ShardingType
from emplace.placement.workload import Objective, all_reduce_share, model_loads, ring_share, shard_workload
from tests.placement.example_load import LOAD, topology, work
from tests.placement.example_models import model


def test_a_table_wise_shard_serves_everyone() -> None:
    """1600 ids and 512 lengths of 8 bytes arrive: 3 of 8 parts from its node, 4 of 8 from the other; 512 vectors of 64 bytes leave."""
    found = work(ShardingType.TABLE_WISE)
    assert (found.lookups, found.unique_rows, found.peak.ids, found.bags, found.uneven_bags) == (1600, 900, 1700, 512, 256)
    assert found.input_bytes == (16_896 * 3 / 8, 16_896 * 4 / 8, 0)
    assert found.output_bytes == (32_768 * 3 / 8, 32_768 * 4 / 8, 0)


def test_a_row_wise_shard_takes_its_share_of_ids_and_makes_every_bag() -> None:
    found = work(ShardingType.ROW_WISE, 1 / 8)
    assert (found.lookups, found.unique_rows, found.peak.ids, found.bags, found.uneven_bags) == (200, 112.5, 213, 512, 512)
    assert found.output_bytes == found.gradient_bytes == (32_768 * 7 / 8 * 3 / 4, 32_768 * 7 / 8 / 4, 0)


def test_sums_of_rows_cross_nodes_once_and_sequences_do_so_as_often_as_ranks_ask() -> None:
    """What is reduced on the way leaves a node as often as a node has it, however many of its ranks: no ring is longer than an all-reduce's."""
    assert ring_share(1, 4) == (3 / 4, 0)
    assert ring_share(4, 1) == (0, 3 / 4)
    for nodes, local in ((2, 1), (2, 8), (16, 8)):
        assert all(one <= other for one, other in zip(ring_share(nodes, local), all_reduce_share(nodes, local), strict=True))
    sequence = replace(LOAD, is_pooled=False)
    found = shard_workload(sequence, ShardingType.ROW_WISE, RowShare.even(1 / 8), 16, topology(), on_server=False)
    assert found.output_bytes == (200 * 64 * 3 / 8, 200 * 64 * 4 / 8, 0)


def test_a_table_row_wise_shard_reduces_inside_its_node_first() -> None:
    assert work(ShardingType.TABLE_ROW_WISE, 1 / 4).output_bytes == (32_768 * 3 / 4, 32_768 / 2 / 4, 0)


def test_a_data_parallel_shard_reduces_its_gradient() -> None:
    found = work(ShardingType.DATA_PARALLEL)
    assert (found.lookups, found.bags, found.uneven_bags) == (200, 64, 32)
    assert found.input_bytes == found.output_bytes == (0, 0, 0)
    assert found.copies == (2, 4)
    assert all_reduce_share(*found.copies) == (2 * 3 / 4, 2 * 1 / 2 / 4)


def test_a_server_sends_everything_over_the_network() -> None:
    found = work(ShardingType.TABLE_WISE, on_server=True)
    assert found.input_bytes == (0, 0, 16_896)
    assert found.output_bytes == (0, 0, 32_768)
    assert found.of_each_trainer(topology(with_servers=True)) == (16_896 / 8, 32_768 / 8, 32_768 / 8)


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
