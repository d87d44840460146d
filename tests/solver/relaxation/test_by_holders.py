"""The bound by how many trainers hold a table, against every placement that the audit accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.exhaustive import best_below
from benchmarks.small_questions import small_question
from emplace.placement.catalog import builtin_host, builtin_model
from emplace.placement.model import ShardingType, Tier
from emplace.placement.plan import PlanOptions, Question
from emplace.planning import build_question
from emplace.solver.clock import ENDLESS
from emplace.solver.driver.variants import Variant, variants
from emplace.solver.model.build import price
from emplace.solver.model.cover import Cover
from emplace.solver.model.holders import HolderPricer, not_partly_held
from emplace.solver.relaxation.bound import bounder_of
from emplace.solver.relaxation.by_cases import cases_of
from emplace.solver.relaxation.by_holders import bound_by_holders, raised_by_holders
from tests.solver.questions import at_datasheet_prices, cpu_host, gpu_host, question, table

SAME = 1e-9
"""Share by which a step may be below a bound: sums of the same figures in another order."""


def with_large_table(number: int) -> Question:
    """Two to four tables on two to four trainers, the first of which is most of the work."""
    rng = np.random.default_rng([17, number])
    ranks = int(rng.choice([2, 3, 4], p=[0.2, 0.5, 0.3]))
    tables: list[dict[str, Any]] = []
    for index in range(int(rng.integers(2, 5 if ranks < 4 else 4))):
        constraints: list[dict[str, Any]] = [{}, {"sharding_types": ["column_wise"]}, {"sharding_types": ["table_wise", "column_wise"]}]
        tables.append(
            table(
                f"t{index}",
                int(np.exp(rng.uniform(1 if rng.random() < 0.1 else 5, 11))),
                int(rng.choice([16, 24, 32] if ranks < 4 else [8, 16, 20])),
                float(np.exp(rng.uniform(1, 3.5))) * (1 if index else 3),
                access="uniform" if rng.random() < 0.7 else {"zipf": float(rng.uniform(0.7, 1.3))},
                constraints=constraints[int(rng.choice(3, p=[0.6, 0.2, 0.2]))],
            )
        )
    size = sum(each["num_embeddings"] * each["embedding_dim"] * 4 for each in tables)
    hbm = int(size / ranks * rng.uniform(0.7, 3)) + 6_000_000
    if rng.random() < 0.1:
        asked = question(cpu_host(ranks), tables, tiers=["ddr"])
    else:
        tiers, servers = ([["hbm"], ["hbm", "ddr"], ["ddr"]][int(rng.integers(3))], 0) if rng.random() < 0.85 else (["hbm", "remote"], 1)
        asked = question(gpu_host(ranks, hbm=f"{hbm}B", servers=servers), tables, tiers=tiers)
    return without_fixed_costs(at_datasheet_prices(asked) if rng.random() < 0.7 else asked)


def without_fixed_costs(asked: Question) -> Question:
    """Types cost nothing, of which a cover doesn't know: then its bound is close."""
    prices = asked.cost_model
    free = {"fixed_us": 0.0, "per_peer_us": 0.0, "per_doubling_us": 0.0}
    links = {name: getattr(prices, name) for name in ("all_to_all", "reduce_scatter", "all_reduce", "input_dist")}
    update = {name: link.model_copy(update=free) for name, link in links.items() if link is not None}
    return asked.model_copy(update={"cost_model": prices.model_copy(update=update | {"sharding_type_us": {}, "ranks_per_core": 1.0})})


def bounds_that_hold(asked: Question) -> list[tuple[float, float]]:
    """The bound of each cover, and the highest by holders of any table, which no placement is below."""
    found = []
    for variant in variants(asked):
        cover, holders = cover_of(asked, variant)
        if holders is not None and len(np.unique(cover.option_table)) == cover.num_tables:
            highest_us = max(bound_by_holders(cover, holders, table) for table in range(cover.num_tables))
            assert best_below(asked, variant.topology, highest_us * (1 - SAME)) is None
            found.append((bounder_of(cover).bound().value_us, highest_us))
    return found


def cover_of(asked: Question, variant: Variant) -> tuple[Cover, HolderPricer | None]:
    priced = price(asked, variant.topology, variant.tiers, may_be_concrete=False)
    assert priced.cover is not None
    return priced.cover, priced.holders


@pytest.mark.parametrize("part", range(5))
def test_no_placement_beats_a_bound_by_holders(part: int) -> None:
    assert len([bounds for number in range(part, 40, 5) for bounds in bounds_that_hold(with_large_table(number))]) >= 8


@pytest.mark.parametrize("number", [48, 118, 158, 260, 303, 310, 333, 338, 348, 390, 403, 409])
def test_nor_where_pieces_have_one_width_or_rows_are_hot_or_tables_are_in_groups(number: int) -> None:
    _, asked = small_question(5, number, 0.1)
    assert bounds_that_hold(without_fixed_costs(asked))


@pytest.mark.parametrize("number", [7, 23, 26, 58])
def test_the_bound_is_the_best_step_where_no_other_is(number: int) -> None:
    [(cover_us, by_holders_us), *_] = bounds_that_hold(asked := with_large_table(number))
    assert cover_us < by_holders_us
    assert best_below(asked, variants(asked)[0].topology, by_holders_us * (1 + SAME)) is not None


@pytest.fixture(scope="module")
def few_tables() -> tuple[Cover, HolderPricer]:
    """13 tables in columns on 8 devices: one of them is half of the work."""
    model = builtin_model("m2").model_copy(update={"local_batch_size": 1600})
    asked = build_question(model, builtin_host("big-basin-16g"), PlanOptions(tiers=(Tier.HBM, Tier.DDR)))
    [trainers] = variants(asked)
    cover, holders = cover_of(asked, trainers)
    assert holders is not None
    return cover.with_cover_options(cover.sharding_type == list(ShardingType).index(ShardingType.COLUMN_WISE)), holders


def test_the_bound_rises_where_a_table_fills_its_holders(few_tables: tuple[Cover, HolderPricer]) -> None:
    cover, holders = few_tables
    cases = cases_of(cover)
    raised = raised_by_holders(cases, cover, holders)
    assert raised[0].bound_us > 1.01 * cases[0].bound_us
    assert raised[0].bound_us == bound_by_holders(cover, holders, 2)


def test_no_bound_is_raised_that_is_enough_or_of_no_use(few_tables: tuple[Cover, HolderPricer]) -> None:
    cover, holders = few_tables
    cases = cases_of(cover)
    assert raised_by_holders(cases, cover, holders, useless_us=1.1 * cases[0].bound_us) == cases
    assert raised_by_holders(cases, cover, holders, enough_us=cases[0].bound_us) == cases
    assert raised_by_holders(cases, cover, holders, clock=ENDLESS.within(0.1)) == cases


def test_a_bound_that_is_enough_is_no_higher_than_that_of_all_cases(few_tables: tuple[Cover, HolderPricer]) -> None:
    cover, holders = few_tables
    enough_us = 1.005 * bounder_of(cover).bound().value_us
    assert enough_us <= bound_by_holders(cover, holders, 2, enough_us=enough_us) <= bound_by_holders(cover, holders, 2)


def test_every_number_of_holders_is_in_a_case(few_tables: tuple[Cover, HolderPricer]) -> None:
    cover, holders = few_tables
    held = holders.held(2)
    assert held.numbers.tolist() == list(range(1, 8))
    assert 7 in cover.pieces[cover.option_table == 2]  # in seven or eight
    assert not_partly_held(cover, 2).pieces[not_partly_held(cover, 2).option_table == 2].min() == 7


def test_holders_are_apart_only_where_trainers_are_alike() -> None:
    tables = [table("a", 5000, 16), table("b", 5000, 16)]
    pinned = {"constraints": {"pin": {"sharding_type": "table_wise", "ranks": [0]}}}
    some_ranks = {"constraints": {"ranks": [0, 1]}}
    hot = {"ids": "by_frequency", "access": {"zipf": 1.2}}
    asked = {
        "alike": question(gpu_host(3), tables),
        "beside servers": question(gpu_host(3, servers=1), tables),
        "one": question(gpu_host(1), tables),
        "two nodes": question(gpu_host(2, nodes=2), tables),
        "two kinds": question(gpu_host(2, other_kind={"count": 1}), tables),
        "pinned": question(gpu_host(3), [tables[0], tables[1] | pinned]),
        "some ranks": question(gpu_host(3), [tables[0], tables[1] | some_ranks]),
        "a hot place": question(gpu_host(3), [tables[0], tables[1] | hot]),
    }
    are_apart = {name: cover_of(each, variants(each)[-1])[1] is not None for name, each in asked.items()}
    assert are_apart == {name: name in ("alike", "beside servers") for name in asked}
