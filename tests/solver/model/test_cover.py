"""What a cover leaves out of account: nothing that the audit accepts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.exhaustive import best_below
from benchmarks.small_questions import small_question
from emplace.placement.access import Access, IcdfAccess, ZipfAccess, access_distribution
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.derived_loads import STAGES, ShardLoads
from emplace.placement.model import ComputeKernel, ShardingType, Tier
from emplace.placement.plan import PlanOptions, Shard, TablePlacement
from emplace.placement.stages import PLACED_STAGES
from emplace.placement.workload import model_loads
from emplace.planning import build_question
from emplace.solver.driver.variants import variants
from emplace.solver.model.build import price
from emplace.solver.model.cache_points import interval_points, mixed_points
from emplace.solver.model.cover import Cover, Way
from emplace.solver.relaxation.bound import bounder_of
from emplace.solver.relaxation.by_cases import cases_of
from emplace.solver.solve import solve_question


@pytest.mark.parametrize("number", range(0, 60, 6))
def test_the_bound_of_a_cover_is_below_every_placement(number: int) -> None:
    """Types' fixed costs apart, of which a cover knows nothing."""
    _, asked = small_question(2, number, 0.1)
    plan = solve_question(asked)
    for variant in variants(asked):
        cover = price(asked, variant.topology, variant.tiers, may_be_concrete=False).cover
        assert cover is not None
        if asked.cost_model.ranks_per_core > 1 or plan.step_time_us is None:
            continue
        bound = bounder_of(cover).bound() if len(np.unique(cover.option_table)) == cover.num_tables else None
        best = best_below(asked, variant.topology, plan.step_time_us * 1.5)
        if best is not None:
            assert bound is not None
            assert bound.value_us <= cases_of(cover)[0].bound_us <= best.step_time_us * (1 + 1e-9)


def beside_servers() -> Cover:
    """Tables that trainers with little memory and servers hold."""
    asked = build_question(builtin_model("dlrm-dcnv2"), builtin_host("big-basin-16g"), PlanOptions())
    [variant] = [variant for variant in variants(asked) if variant.topology.servers]
    cover = price(asked, variant.topology, variant.tiers).cover
    assert cover is not None
    return cover


def test_no_table_is_on_trainers_and_servers_at_once() -> None:
    """The relaxation of a cover puts a part of a table on each; by cases it doesn't."""
    cover = beside_servers()
    assert cases_of(cover)[0].bound_us > 1.02 * bounder_of(cover).bound().value_us


def test_no_table_is_in_few_pieces_and_in_many_at_once() -> None:
    """The relaxation mixes few pieces, which are long, and many, of which each costs something; by cases it doesn't."""
    asked = build_question(builtin_model("dlrm-dcnv2"), builtin_host("zion"), PlanOptions())
    [trainers] = variants(asked)
    cover = price(asked, trainers.topology, trainers.tiers).cover
    assert cover is not None
    cut = [list(ShardingType).index(kind) for kind in (ShardingType.COLUMN_WISE, ShardingType.DATA_PARALLEL)]
    cover = cover.with_cover_options(np.isin(cover.sharding_type, cut))
    assert cases_of(cover)[0].bound_us > 1.007 * bounder_of(cover).bound().value_us


def test_only_the_lowest_of_the_cases_is_raised_and_no_other_would_be_lower() -> None:
    cover = beside_servers()
    lowest, *others = cases_of(cover)
    assert lowest.bounder is None
    assert any(each.bounder is not None for each in others)
    for each in others:
        assert each.bounder is None or each.bounder.bound().value_us >= lowest.bound_us
    assert cases_of(cover, known=bounder_of(cover))[0].bound_us == lowest.bound_us


def test_a_table_too_large_for_one_device_pays_for_two_pieces() -> None:
    """m1 on servers has one such table, whose ids are sent twice in every placement."""
    plan = solve_question(
        build_question(builtin_model("m1"), builtin_host("big-basin-32g"), PlanOptions(tiers=(Tier.REMOTE,), work_limit=1.0))
    )
    assert plan.gap is not None
    assert plan.gap < 1e-3


def test_the_largest_shard_of_a_row_split_is_that_of_the_hottest_block() -> None:
    """Three tables of dlrmv4 whose hot rows lie in blocks of different ranks."""
    asked = build_question(builtin_model("dlrmv4"), builtin_host("gb200-nvl72"), PlanOptions())
    [trainers] = variants(asked)
    cover = price(asked, trainers.topology, trainers.tiers).cover
    assert cover is not None
    loads = model_loads(asked.model, trainers.topology, asked.options.objective)
    row_wise = cover.ways.index(Way(ShardingType.ROW_WISE, ComputeKernel.FUSED, False))
    ranks = range(len(trainers.topology.trainers))
    for number, table in enumerate(asked.model.tables[:3]):
        rows, width = table.num_embeddings, table.embedding_dim
        block = -(-rows // len(ranks))
        shards = tuple(
            Shard(rank=rank, rows=(rank * block, min((rank + 1) * block, rows)), columns=(0, width), hbm_bytes=0, ddr_bytes=0)
            for rank in ranks
        )
        placed = TablePlacement(name=table.name, sharding_type=ShardingType.ROW_WISE, compute_kernel=ComputeKernel.FUSED, shards=shards)
        on_ranks = np.zeros((len(ranks), len(STAGES)))
        ShardLoads.of(asked, placed, table, loads[number], trainers.topology).add_times(on_ranks, trainers.topology)
        exact_us = on_ranks[:, [STAGES.index(stage) for stage in PLACED_STAGES]]
        [option] = np.flatnonzero((cover.option_table == number) & (cover.way == row_wise))
        assert cover.largest_us[option] == pytest.approx(exact_us.max(axis=0))
        assert exact_us.max(axis=0).sum() > 3 * exact_us.mean(axis=0).sum()


def test_a_job_whose_hot_blocks_are_of_different_ranks_is_solved() -> None:
    plan = solve_question(build_question(builtin_model("dlrmv4"), builtin_host("gb200-nvl72"), PlanOptions(work_limit=0.5)))
    assert plan.gap is not None
    assert plan.gap < 0.01


def test_where_a_cover_has_no_solution_nothing_fits() -> None:
    proven = 0
    for number in range(40):
        _, asked = small_question(3, number, 0.1)
        for variant in variants(asked):
            priced = price(asked, variant.topology, variant.tiers, may_be_concrete=False)
            assert priced.cover is not None
            if priced.may_have_a_plan and not bounder_of(priced.cover).bound().feasible:
                proven += 1
                assert best_below(asked, variant.topology, np.inf) is None
    assert proven > 3


ACCESS = st.one_of(
    st.just("uniform"),
    st.floats(0.2, 2).map(lambda zipf: ZipfAccess(zipf=zipf)),
    st.just(IcdfAccess(icdf=((0.1, 0.5), (0.3, 0.8)))),
)


@given(ACCESS, st.integers(1, 10**8), st.floats(1e-9, 1))
def test_every_cache_has_the_rows_of_a_mix_with_as_many_hits(access: Access, rows: int, factor: float) -> None:
    points = mixed_points(access, rows)
    charged = np.ceil(rows * points[:, 0])
    hit = float(access_distribution(access, rows).hit_rate(factor))
    assert (np.diff(points[:, 1]) >= 0).all()
    assert np.interp(hit, points[:, 1], charged) <= np.ceil(rows * factor) + 1e-6 * rows * factor + 1e-9


@given(ACCESS, st.integers(1, 10**8), st.floats(1e-9, 1))
def test_every_cache_is_in_an_interval(access: Access, rows: int, factor: float) -> None:
    hit = float(access_distribution(access, rows).hit_rate(factor))
    least = interval_points(access, rows)
    within = (np.ceil(rows * least[:, 0]) <= np.ceil(rows * factor)) & (least[:, 1] <= hit + 1e-12) & (least[:, 2] <= 1 - hit + 1e-12)
    assert within.any()


def test_a_question_that_is_not_small_has_a_cover() -> None:
    _, asked = small_question(1, 0, 0.1)
    variant = variants(asked)[0]
    assert price(asked, variant.topology, variant.tiers).cover is None
    assert price(asked, variant.topology, variant.tiers, may_be_concrete=False).cover is not None
