"""Cuts that count whole tables, against every placement that the audit accepts."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from benchmarks.exhaustive import best_below
from benchmarks.small_questions import small_question
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.model import ShardingType
from emplace.placement.plan import PlanOptions, Question
from emplace.planning import build_question
from emplace.solver.driver.variants import variants
from emplace.solver.model.build import price
from emplace.solver.model.cover import Cover
from emplace.solver.model.problem import Floats
from emplace.solver.relaxation.bound import bounder_of
from emplace.solver.relaxation.by_cases import cases_of
from emplace.solver.relaxation.packing_cuts import PackingCuts
from emplace.solver.relaxation.program import Relaxation
from tests.solver.questions import at_datasheet_prices, cpu_host, gpu_host, question, table
from tests.solver.relaxation.test_by_holders import without_fixed_costs

SAME = 1e-9
"""Share by which a step may be below a bound: sums of the same figures in another order."""


def more_tables_than_ranks(number: int) -> Question:
    """Three to five tables on two or three trainers, some alike, mostly such that stay whole."""
    rng = np.random.default_rng([39, number])
    ranks = int(rng.integers(2, 4))
    first: dict[str, Any] = {}
    tables = []
    for index in range(ranks + int(rng.integers(1, 3))):
        if not first or rng.random() < 0.4:
            first = {"rows": int(rng.integers(1000, 50_000)), "dim": int(rng.choice([8, 16])), "pooling": float(rng.uniform(2, 30))}
        kinds = {} if rng.random() < 0.3 else {"sharding_types": ["table_wise"]}
        tables.append(table(f"t{index}", first["rows"], first["dim"], first["pooling"], constraints=kinds))
    asked = question(cpu_host(ranks), tables, tiers=["ddr"]) if rng.random() < 0.3 else question(gpu_host(ranks), tables, tiers=["hbm"])
    return without_fixed_costs(at_datasheet_prices(asked))


def covers(asked: Question) -> list[Cover]:
    found = [price(asked, each.topology, each.tiers, may_be_concrete=False).cover for each in variants(asked)]
    return [cover for cover in found if cover is not None and len(np.unique(cover.option_table)) == cover.num_tables]


@pytest.mark.parametrize("part", range(4))
def test_no_placement_beats_a_bound_with_cuts(part: int) -> None:
    raised = 0
    for number in range(part, 60, 4):
        asked = more_tables_than_ranks(number)
        [trainers] = variants(asked)
        for cover in covers(asked):
            assert best_below(asked, trainers.topology, bound_us(cover) * (1 - SAME)) is None
            raised += bound_us(cover) > 1.01 * bound_us(cover, packing_rounds=0)
    assert raised >= 4


@pytest.mark.parametrize("number", range(3, 60, 8))
def test_nor_on_servers_or_several_kinds(number: int) -> None:
    _, asked = small_question(6, number, 0.1)
    asked = without_fixed_costs(asked)
    for variant, cover in zip(variants(asked), covers(asked), strict=False):
        assert best_below(asked, variant.topology, bound_us(cover) * (1 - SAME)) is None


@pytest.mark.parametrize("number", range(40))
def test_every_cut_holds_for_every_division_among_devices(number: int) -> None:
    """Whatever shares it is made from. Tables that are not whole are on no single device, such as those on all."""
    rng = np.random.default_rng([40, number])
    ranks, count = (2, 5) if number % 2 else (3, 5)
    tables = [table(f"t{index}", 10_000, pooling=float(rng.choice([4, 5, 9]))) for index in range(count)]
    [cover] = covers(without_fixed_costs(at_datasheet_prices(question(gpu_host(ranks), tables, tiers=["hbm"]))))
    cuts = PackingCuts(cover)
    share = rng.dirichlet(np.ones(4), count)[:, 0] if number % 3 else np.ones(count)
    coefficient, capacity, stage = cuts.violated(relaxation_with(cover, cuts, share))
    assert len(stage) or number % 3
    first = [int(np.flatnonzero(cuts.whole.table == place)[0]) for place in range(count)]
    for devices in product(range(-1, ranks), repeat=count):  # -1 where a table is not whole
        loads_us = np.zeros((ranks, cover.num_stages))
        for place, device in enumerate(devices):
            if device >= 0:
                loads_us[device] += cuts.whole.load_us[first[place]]
        whole = [cuts.whole.option[first[place]] for place, device in enumerate(devices) if device >= 0]
        assert (coefficient[whole].sum(axis=0) - capacity <= loads_us.max(axis=0)[stage] * (1 + SAME) + SAME).all()


def relaxation_with(cover: Cover, cuts: PackingCuts, share: Floats) -> Relaxation:
    """A solution in which so much of each table ([T]) is whole, in which stages last no time."""
    x = np.zeros(cover.num_options)
    for place, each in enumerate(share.tolist()):
        x[cuts.whole.option[np.flatnonzero(cuts.whole.table == place)[0]]] = each
    return Relaxation(0.0, np.zeros(cover.num_stages), x, np.zeros(cover.num_options), np.zeros(0), 1.0)


def bound_us(cover: Cover, packing_rounds: int = 4) -> float:
    return bounder_of(cover, packing_rounds=packing_rounds).bound().value_us


def test_of_three_equal_tables_two_are_on_one_of_two_trainers() -> None:
    tables = [table(f"t{index}", 10_000, constraints={"sharding_types": ["table_wise"]}) for index in range(3)]
    asked = without_fixed_costs(at_datasheet_prices(question(cpu_host(2), tables, tiers=["ddr"])))
    [cover], [trainers] = covers(asked), variants(asked)
    assert best_below(asked, trainers.topology, bound_us(cover) * (1 + 1e-6)) is not None
    assert bound_us(cover) > 1.1 * bound_us(cover, packing_rounds=0)


def test_large_tables_that_stay_whole_are_counted_by_cases() -> None:
    """Three of dlrmv4 on two trainers of a host without GPUs."""
    asked = build_question(builtin_model("dlrmv4"), builtin_host("cpu-dual-socket"), PlanOptions(work_limit=1.0))
    [beside_servers] = [variant for variant in variants(asked) if variant.topology.servers]
    cover = price(asked, beside_servers.topology, beside_servers.tiers).cover
    assert cover is not None
    whole = cover.with_cover_options(cover.sharding_type == list(ShardingType).index(ShardingType.TABLE_WISE))
    assert cases_of(whole)[0].bound_us > 1.2 * bound_us(whole, packing_rounds=0)
