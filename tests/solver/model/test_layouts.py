"""Which options a table has, on which targets, under which constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emplace.placement.host import HostSpec
from emplace.placement.model import ComputeKernel, ShardingType, Tier
from emplace.placement.topology import build_topology
from emplace.solver.model.build import price, price_bytes
from emplace.solver.model.layouts import CACHE_HITS, Layout, piece_widths, table_columns
from emplace.solver.model.priced import PricedQuestion
from tests.solver.questions import cpu_host, gpu_host, question, table

S, K = ShardingType, ComputeKernel
HBM, DDR, REMOTE = Tier.HBM, Tier.DDR, Tier.REMOTE


def priced(
    host: HostSpec, tiers: set[Tier], with_servers: bool = False, optimizer: str = "rowwise_adagrad", **one_table: Any
) -> PricedQuestion:
    spec = table("t", **({"rows": 100_000, "dim": 64} | one_table))
    return price_bytes(question(host, [spec], optimizer), build_topology(host, None, None, with_servers=with_servers), frozenset(tiers))


def offered(host: HostSpec, tiers: set[Tier], **more: Any) -> list[Layout]:
    found = priced(host, tiers, **more)
    return [found.layouts[index] for index in found.option_layout]


def kinds(layouts: list[Layout]) -> set[tuple[ShardingType, ComputeKernel]]:
    return {(layout.sharding_type, layout.kernel) for layout in layouts}


def test_device_memory_alone_means_fused_and_dense() -> None:
    assert {layout.kernel for layout in offered(gpu_host(4), {HBM})} == {K.FUSED, K.DENSE}


def test_system_memory_alone_means_uvm_without_a_cache() -> None:
    assert {layout.kernel for layout in offered(gpu_host(4), {DDR})} == {K.FUSED_UVM}


def test_a_cache_needs_both_tiers() -> None:
    both = offered(gpu_host(4), {HBM, DDR})
    assert {layout.kernel for layout in both} == {K.FUSED, K.FUSED_UVM, K.FUSED_UVM_CACHING, K.DENSE}


def test_one_node_offers_each_type_once() -> None:
    types = {layout.sharding_type for layout in offered(gpu_host(4), {HBM})}
    assert types == {S.TABLE_WISE, S.COLUMN_WISE, S.ROW_WISE, S.DATA_PARALLEL}


def test_several_nodes_offer_every_type() -> None:
    assert {layout.sharding_type for layout in offered(gpu_host(2, nodes=2), {HBM})} == set(S)


def test_cpu_ranks_keep_everything_in_system_memory() -> None:
    layouts = offered(cpu_host(2), {DDR})
    assert kinds(layouts) == {
        (S.TABLE_WISE, K.FUSED),
        (S.COLUMN_WISE, K.FUSED),
        (S.ROW_WISE, K.FUSED),
        (S.DATA_PARALLEL, K.DENSE),
    }
    assert (priced(cpu_host(2), {DDR}).problem.unit_hbm_bytes == 0).all()


def test_with_servers_only_whole_tables_and_columns() -> None:
    layouts = offered(gpu_host(4, servers=2), {HBM, REMOTE}, with_servers=True)
    assert {layout.sharding_type for layout in layouts} == {S.TABLE_WISE, S.COLUMN_WISE}
    assert {layout.kernel for layout in layouts if layout.on_server} == {K.FUSED}
    assert max(layout.pieces for layout in layouts if layout.on_server) == 2


def test_no_fused_adam_on_cpu_devices() -> None:
    assert kinds(offered(cpu_host(2), {DDR}, optimizer="adam")) == {(S.DATA_PARALLEL, K.DENSE)}
    assert K.FUSED in {layout.kernel for layout in offered(gpu_host(2), {HBM}, optimizer="adam")}


def test_int8_tables_are_not_replicated() -> None:
    assert S.DATA_PARALLEL not in {layout.sharding_type for layout in offered(gpu_host(2), {HBM}, data_type="int8")}


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({"tiers": ["ddr"]}, {K.FUSED_UVM}),
        ({"compute_kernels": ["fused"]}, {K.FUSED}),
        ({"compute_kernels": ["fused_uvm_caching"]}, {K.FUSED_UVM_CACHING}),
        ({"sharding_types": ["data_parallel"]}, {K.DENSE}),
        ({"tiers": ["remote"]}, set()),
    ],
)
def test_constraints_leave_what_they_allow(constraints: dict[str, list[str]], expected: set[ComputeKernel]) -> None:
    assert {layout.kernel for layout in offered(gpu_host(2), {HBM, DDR}, constraints=constraints)} == expected


def test_a_type_that_a_simpler_one_stands_for_is_offered_when_it_is_the_only_one_allowed() -> None:
    only = {"constraints": {"sharding_types": ["table_row_wise"]}}
    assert {layout.sharding_type for layout in offered(gpu_host(4), {HBM}, **only)} == {S.TABLE_ROW_WISE}
    both = {"constraints": {"sharding_types": ["table_row_wise", "row_wise"]}}
    assert {layout.sharding_type for layout in offered(gpu_host(4), {HBM}, **both)} == {S.ROW_WISE}


@pytest.mark.parametrize(("rows", "split"), [(8, True), (4_000_000, True), (9, False), (5, False), (3, False)])
def test_rows_are_split_only_where_every_rank_gets_about_as_many(rows: int, split: bool) -> None:
    assert (S.ROW_WISE in {layout.sharding_type for layout in offered(gpu_host(4), {HBM}, rows=rows)}) == split


@pytest.mark.parametrize(("rows", "split"), [(9, False), (7, True), (3, False)])
def test_a_user_who_asks_for_row_wise_gets_it_wherever_every_rank_gets_a_row(rows: int, split: bool) -> None:
    only = {"constraints": {"sharding_types": ["row_wise"]}}
    assert bool(offered(gpu_host(4), {HBM}, rows=rows, **only)) == split


def test_narrow_tables_are_not_cut_unless_asked() -> None:
    assert S.COLUMN_WISE not in {layout.sharding_type for layout in offered(gpu_host(4), {HBM}, dim=16)}
    asked = offered(gpu_host(4), {HBM}, dim=16, constraints={"sharding_types": ["column_wise"]})
    assert {layout.pieces for layout in asked} == {1, 2, 3, 4}


def test_ranks_are_a_mask() -> None:
    found = priced(gpu_host(4), {HBM}, constraints={"ranks": [1, 3]}).problem.allowed
    assert found is not None
    assert found.tolist() == [[False, True, False, True]]
    assert priced(gpu_host(4), {HBM}).problem.allowed is None


@given(st.integers(1, 300), st.integers(1, 16))
def test_pieces_cover_the_columns_evenly(fours: int, pieces: int) -> None:
    widths = piece_widths(np.array([4 * fours]), pieces)[0]
    assert widths.sum() == 4 * fours
    assert (widths % 4 == 0).all()
    assert widths.max() - widths.min() <= 4


@given(st.integers(1, 10**9), st.one_of(st.just("uniform"), st.floats(0.2, 2).map(lambda zipf: {"zipf": zipf})))
def test_caches_step_through_the_hit_rate(rows: int, access: Any) -> None:
    asked = question(gpu_host(), [table("t", rows, access=access)])
    tables = table_columns(asked.model, asked.topology(with_servers=False))
    factors, hits = tables.load_factors[0], tables.hit_rates[0]
    assert (factors > 0).all()
    assert (factors <= 1).all()
    assert (np.diff(factors) >= 0).all()
    # A cache holds at least one row, which may take more than the step asks for.
    assert ((hits >= CACHE_HITS - 1e-4) | (factors * rows > 1)).all()
    assert (np.abs(hits - CACHE_HITS) < 1e-3)[factors * rows > 1.5].all()


def test_options_too_large_for_every_target_are_left_out() -> None:
    host = gpu_host(2, hbm="64MiB", ddr="256MiB")
    spec = table("t", 500_000, dim=64)
    topology = build_topology(host, None, None, with_servers=False)
    found = price(question(host, [spec]), topology, frozenset({HBM, DDR}), may_be_concrete=False)
    left = {(found.layouts[index].sharding_type, found.layouts[index].kernel) for index in found.option_layout}
    assert (S.TABLE_WISE, K.FUSED) not in left
    assert (S.TABLE_WISE, K.FUSED_UVM) in left
