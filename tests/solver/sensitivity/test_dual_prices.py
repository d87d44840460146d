"""Dual prices of one question prove bounds of another; where memory binds they say that more of it helps."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from emplace.placement.host import HostSpec
from emplace.placement.model import ShardingType
from emplace.placement.plan import Plan, Question
from emplace.solver.sensitivity.dual_prices import DualPrices
from emplace.solver.sensitivity.hardware_changes import changed, hardware_changes
from tests.solver.questions import at_datasheet_prices, cpu_host, gpu_host, question, solved, table

ROUNDING = 1e-9


def prices_of(asked: Question, plan: Plan) -> DualPrices:
    types = frozenset(placement.sharding_type for placement in plan.tables)
    found = DualPrices.of(asked, types, with_servers=any(rank.is_server for rank in plan.ranks))
    assert found is not None
    return found


def tables(count: int, rows: int = 60_000, **more: Any) -> list[dict[str, Any]]:
    return [table(f"t{index}", rows + 977 * index, dim=64, pooling=6.5 + index % 5, **more) for index in range(count)]


QUESTIONS = [
    at_datasheet_prices(question(gpu_host(3, hbm="48MiB"), tables(14), work_limit=0.04, gap=0.05)),
    at_datasheet_prices(question(gpu_host(4, nodes=2, hbm="48MiB"), tables(9), work_limit=0.04, gap=0.05, tiers=["hbm"])),
    at_datasheet_prices(question(gpu_host(1, hbm="32MiB", ddr="64MiB", servers=2), tables(8), work_limit=0.04, gap=0.05)),
    at_datasheet_prices(
        question(gpu_host(2, hbm="32MiB", other_kind={"hbm_capacity": "64MiB", "count": 1}), tables(5), work_limit=0.04, gap=0.05)
    ),
    at_datasheet_prices(question(cpu_host(2), tables(12), work_limit=0.04, gap=0.05, objective="p95")),
]


def tight(host: HostSpec, **options: Any) -> Question:
    """Tables that are looked up much, more than HBM holds, the rest of them in system memory."""
    only = {"sharding_types": ["table_wise", "column_wise"], "compute_kernels": ["fused", "fused_uvm"]}
    return at_datasheet_prices(question(host, tables(12, rows=100_000, constraints=only), work_limit=0.08, **options))


TIGHT = tight(gpu_host(2, hbm="110MiB", ddr="2GiB"))


@pytest.fixture(scope="module", params=[*QUESTIONS, TIGHT], ids=["large", "two nodes", "servers", "two kinds", "cpu", "tight"])
def plan(request: pytest.FixtureRequest) -> Plan:
    asked: Question = request.param
    return solved(asked)


@pytest.fixture(scope="module")
def prices(plan: Plan) -> DualPrices:
    return prices_of(plan.question, plan)


class Change(NamedTuple):
    said: str
    asked: Question
    bound_us: float | None
    """What the prices of the plan prove of it."""


@pytest.fixture(scope="module")
def changes(plan: Plan, prices: DualPrices) -> list[Change]:
    """Every change of the plan's hardware."""
    found = [(edit.change, changed(plan.question, edit)) for edit in hardware_changes(plan.question, plan)]
    return [Change(said, asked, prices.bound_of(asked)) for said, asked in found]


def test_what_the_prices_prove_of_a_change_holds_for_plans_with_it(plan: Plan, prices: DualPrices, changes: list[Change]) -> None:
    assert prices.bound_us <= (plan.step_time_us or 0.0) * (1 + ROUNDING)
    assert prices.bound_of(plan.question) == pytest.approx(prices.bound_us, rel=ROUNDING)
    proven = 0
    for said, asked, bound_us in changes:
        best = solved(asked)
        of_these = {placement.sharding_type for placement in best.tables} <= prices.types
        if of_these and any(rank.is_server for rank in best.ranks) == prices.with_servers and best.has_placement:
            assert bound_us is not None
            assert bound_us <= (best.step_time_us or 0.0) * (1 + ROUNDING), said
            proven += 1
    assert proven


def test_prices_of_its_own_prove_no_less(prices: DualPrices, changes: list[Change]) -> None:
    for said, asked, bound_us in changes:
        own = DualPrices.of(asked, prices.types, with_servers=prices.with_servers)
        assert own is not None
        assert (bound_us or 0.0) <= own.bound_us * (1 + 1e-6), said


def test_for_a_little_more_memory_they_say_what_the_relaxation_gains() -> None:
    asked, more = (tight(gpu_host(2, hbm=hbm, ddr="2GiB")) for hbm in ("110MiB", "110.5MiB"))
    prices = prices_of(asked, solved(asked))
    own = DualPrices.of(more, prices.types, with_servers=False)
    assert own is not None
    assert own.bound_us < prices.bound_us - 0.5
    assert (prices.bound_of(more) or 0.0) - prices.bound_us == pytest.approx(own.bound_us - prices.bound_us, rel=0.05)


def moved_by(asked: Question, kind: str) -> tuple[float, float]:
    """(by how much the prices expect the step to move, by how much it moves), in microseconds."""
    plan = solved(asked)
    prices = prices_of(asked, plan)
    after = changed(asked, next(edit for edit in hardware_changes(asked, plan) if edit.kind == kind))
    return (prices.bound_of(after) or 0.0) - prices.bound_us, (solved(after).step_time_us or 0.0) - (plan.step_time_us or 0.0)


def test_where_hbm_binds_more_of_it_helps_and_the_prices_say_so() -> None:
    estimated_us, solved_us = moved_by(TIGHT, "hbm")
    assert estimated_us < -10
    assert solved_us < -10


def test_much_more_memory_promises_no_more_than_all_of_it() -> None:
    asked, plan = TIGHT, solved(TIGHT)
    prices, roomy = prices_of(asked, plan), tight(gpu_host(2, hbm="100GiB", ddr="2GiB"))
    bound_us = prices.bound_of(roomy)
    assert bound_us is not None
    assert 0 < bound_us <= (solved(roomy).step_time_us or 0.0) * (1 + ROUNDING)


def test_where_memory_does_not_bind_more_of_it_is_worth_nothing() -> None:
    estimated_us, solved_us = moved_by(tight(gpu_host(2, hbm="2GiB", ddr="2GiB")), "hbm")
    assert estimated_us == pytest.approx(0, abs=1e-6)
    assert solved_us == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(("kind", "hbm"), [("memory_bandwidth", "2GiB"), ("system_link", "110MiB"), ("intra_node_link", "2GiB")])
def test_faster_memories_and_links_shorten_the_step_by_about_what_is_estimated(kind: str, hbm: str) -> None:
    estimated_us, solved_us = moved_by(tight(gpu_host(2, hbm=hbm, ddr="2GiB")), kind)
    assert estimated_us < 0
    assert solved_us == pytest.approx(estimated_us, rel=0.3)


def test_types_that_place_nothing_have_no_prices() -> None:
    asked = question(gpu_host(2), tables(4, constraints={"sharding_types": ["table_wise"]}), work_limit=0.04, gap=0.05)
    impossible = question(gpu_host(2, hbm="4MiB", ddr="4MiB"), tables(4), work_limit=0.04, gap=0.05)
    assert DualPrices.of(asked, frozenset({ShardingType.TABLE_WISE}), with_servers=False) is not None
    assert DualPrices.of(impossible, frozenset({ShardingType.TABLE_WISE}), with_servers=False) is None
