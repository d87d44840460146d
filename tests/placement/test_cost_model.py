"""The terms of a cost model against cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.placement.cost_model import CollectiveCost, KernelCost, LookupCost, OtherBackward, cache_lines, row_digits, touched_pages
from emplace.placement.host import HostSpec
from emplace.placement.id_order import RowShare
from emplace.placement.model import ComputeKernel, DataType, Optimizer, ShardingType
from emplace.placement.stages import Stage, served_stages_us
from emplace.placement.topology import build_topology
from emplace.placement.workload import shard_workload
from tests.placement.example_load import LOAD
from tests.placement.example_models import gpu_host, gpu_host_data
from tests.prices import bandwidth_prices


def test_lookup_cost_adds_its_terms() -> None:
    cost = LookupCost(
        fixed_us=1,
        per_lookup_us=0.1,
        per_lookup_byte_us=0.01,
        per_unique_row_us=0.7,
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
    by_terms = (
        1 + 10 + 65 + 50 * (0.7 + 2 * 0.2) + 100 * 65 * 0.6 * 0.05 + 10 * 0.3 + 10 * 32 * 0.001 + 6 * 0.4 + 5 * pages + 100 * 2 * 0.02
    )
    assert cost.time_us(100, 50, 65, 10, 6, 32, 300) == pytest.approx(by_terms)
    assert cost.time_us(100, 10, 64, 0, 0, 0, 0) == pytest.approx(1 + 10 + 64 + 10 * (0.7 + 0.2))


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
        per_unique_row_us=1,
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
    cost = bandwidth_prices(gpu_host())
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


@pytest.mark.parametrize("servers", [2, 80])
def test_what_a_server_exchanges_crosses_its_own_link_and_those_of_all_trainers(servers: int) -> None:
    data = gpu_host_data()
    data["remote_servers"]["count"] = servers
    host = HostSpec.model_validate(data)
    where, cost = build_topology(host, None, None, with_servers=True), bandwidth_prices(host)
    found = shard_workload(LOAD, ShardingType.TABLE_WISE, RowShare.even(1.0), 16, where, on_server=True)
    assert cost.all_to_all.time_us(*found.output_bytes) == pytest.approx(32_768 / (25e9 / 8) * 1e6)
    # Two nodes of four trainers; each node has 100 Gbit/s.
    served = served_stages_us(cost, found, where)
    assert served[Stage.OUTPUT_DIST] == served[Stage.GRADIENT_DIST] == pytest.approx(32_768 / (2 * 100e9 / 8) * 1e6)
    assert served[Stage.INPUT_DIST] == pytest.approx((1600 + 512) * 8 / (2 * 100e9 / 8) * 1e6)
    on_trainer = shard_workload(LOAD, ShardingType.TABLE_WISE, RowShare.even(1.0), 16, where, on_server=False)
    assert not any(served_stages_us(cost, on_trainer, where).values())


def test_another_optimizer_or_data_type_has_a_backward_of_its_own_where_it_was_priced() -> None:
    sgd, half, both = (LookupCost(fixed_us=fixed_us) for fixed_us in (2.0, 3.0, 4.0))
    cost = KernelCost(
        device="gpu",
        kernel=ComputeKernel.FUSED,
        forward=LookupCost(),
        backward=LookupCost(fixed_us=1.0),
        other_backwards=(
            OtherBackward(optimizer=Optimizer.SGD, backward=sgd),
            OtherBackward(data_type=DataType.FP16, backward=half),
            OtherBackward(optimizer=Optimizer.ADAM, data_type=DataType.FP16, backward=both),
        ),
    )
    assert cost.backward_of(Optimizer.SGD, DataType.FP32) == cost.backward_of(Optimizer.SGD, DataType.FP16) == sgd
    assert cost.backward_of(Optimizer.ROWWISE_ADAGRAD, DataType.FP16) == half
    assert cost.backward_of(Optimizer.ADAM, DataType.FP16) == both
    assert cost.backward_of(Optimizer.ADAM, DataType.BF16) == cost.backward
    assert cost.backward_of(Optimizer.ADAGRAD, DataType.FP32) == cost.backward


def test_collectives_without_servers_cost_nothing_for_them() -> None:
    cost = CollectiveCost(fixed_us=1, per_intra_node_byte_us=2, per_inter_node_byte_us=3)
    assert cost.time_us(10, 100) == 320
