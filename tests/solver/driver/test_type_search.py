"""What a sharding type costs a step once, held against every plan of small questions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.exhaustive import best_below
from emplace.placement.audit import audit
from emplace.placement.model import ShardingType
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.solver.budget import Budget
from emplace.solver.driver import type_search as sharding_sets
from emplace.solver.driver.lower_bound import lower_bound
from emplace.solver.driver.solve_variants import solve_types, type_searches
from emplace.solver.driver.type_search import TypeSearch, option_types, with_only
from emplace.solver.heuristics.greedy import pack
from emplace.solver.model.extract import assemble
from emplace.solver.model.one_piece import in_one_piece
from emplace.solver.model.priced import type_cost_us
from emplace.solver.model.problem import loads_of, objective_us
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result
from emplace.solver.solve import solve_question
from tests.solver.questions import cpu_host, gpu_host, question, table

TYPES = (ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE, ShardingType.ROW_WISE, ShardingType.DATA_PARALLEL)


def drawn(seed: int, most_us: float, *, constrained: bool = False) -> Question:
    rng = np.random.default_rng(seed)
    tables = []
    for number in range(3):
        rows, length = 2 * int(np.exp(rng.uniform(2, 9))), float(np.exp(rng.uniform(0, 5)))
        limits = {}
        if constrained and rng.random() < 0.6:
            limits = {"constraints": {"sharding_types": [str(kind) for kind in rng.choice(TYPES, int(rng.integers(1, 3)), replace=False)]}}
        tables.append(table(f"t{number}", rows, int(rng.choice([32, 64, 128])), length, **limits))
    asked = question(cpu_host(), tables)
    costs = {kind: float(rng.uniform(0, most_us)) for kind in TYPES}
    # On one node these do what those do, and here cost as much.
    costs |= {
        ShardingType.TABLE_ROW_WISE: costs[ShardingType.ROW_WISE],
        ShardingType.TABLE_COLUMN_WISE: costs[ShardingType.COLUMN_WISE],
    }
    return with_costs(asked, sharding_type_us=costs)


def with_costs(asked: Question, **changes: Any) -> Question:
    return asked.model_copy(update={"cost_model": asked.cost_model.model_copy(update=changes)})


def sets_of(asked: Question) -> TypeSearch:
    (_, sets), *_ = type_searches(asked, Monitor())
    return sets


def with_options(asked: Question, **changes: Any) -> Question:
    return asked.model_copy(update={"options": asked.options.model_copy(update=changes)})


def best_step_us(asked: Question) -> float:
    """The step time of the best of all plans; it does not depend on the options of the question."""
    return _solved(with_options(asked, work_limit=0.4))[1]


def solved(asked: Question) -> tuple[Plan, float]:
    """A sound plan and the step time of the best of all; no bound is above that."""
    plan, best = _solved(asked)
    assert lower_bound(asked)[0] <= best * (1 + 1e-9)
    return plan, best


def _solved(asked: Question) -> tuple[Plan, float]:
    plan = solve_question(asked)
    assert audit(plan) == []
    assert plan.step_time_us is not None
    assert plan.lower_bound_us is not None
    best = best_below(asked, asked.topology(with_servers=False), plan.step_time_us * (1 + 1e-9))
    assert best is not None
    assert plan.lower_bound_us <= best.step_time_us * (1 + 1e-9)
    return plan, best.step_time_us


@pytest.mark.parametrize("most_us", [5.0, 60.0, 2000.0])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("constrained", [False, True])
def test_plans_are_close_to_the_best_of_all_and_bounds_below_it(seed: int, most_us: float, constrained: bool) -> None:
    plan, best = solved(drawn(seed, most_us, constrained=constrained))
    assert plan.step_time_us == pytest.approx(best, rel=1e-6 if plan.status is PlanStatus.OPTIMAL else 0.002)


@pytest.mark.parametrize("most_bounds", [1, 2, 3])
@pytest.mark.parametrize("most_us", [60.0, 2000.0])
def test_bounds_hold_where_sets_are_taken_as_they_are(most_bounds: int, most_us: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Types that a plan of such a set need not use may not raise its bound, and what it uses is paid for."""
    monkeypatch.setattr(sharding_sets, "FEW_BOUNDS", most_bounds)
    monkeypatch.setattr(sharding_sets, "MANY_BOUNDS", most_bounds)
    for seed in range(3):
        plan, _ = solved(with_options(drawn(seed, most_us), work_limit=0.02))
        assert plan.gap is not None
        assert plan.gap < 1e-6 or plan.solver.stopped_by == "limit"


def test_what_was_not_begun_when_a_solve_was_cancelled_keeps_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = drawn(0, 60.0)
    monkeypatch.setattr(
        "emplace.solver.driver.solve_program.solve_apart", lambda *_, **__: Result(None, np.inf, 1e9, "none", Limit.INTERRUPTED)
    )
    monkeypatch.setattr("emplace.solver.driver.solve_program.quick_placement", lambda _: None)
    found = solve_types(sets_of(asked), Budget(1.0, 0.0, 0), Monitor())
    sets = sets_of(asked)
    assert sets.next_below(np.inf) is not None
    assert (found.lower_bound_us, found.limit) == (sets.others_us, Limit.INTERRUPTED)


@pytest.mark.parametrize("ranks_per_core", [1.2, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_where_ranks_share_cores_likewise(seed: int, ranks_per_core: float) -> None:
    plan, best = solved(with_costs(drawn(seed, 60.0), ranks_per_core=ranks_per_core))
    assert plan.step_time_us == pytest.approx(best, rel=0.005)


@pytest.mark.parametrize("ranks_per_core", [1.2, 2.0])
def test_where_ranks_share_cores_the_slowest_counts_in_the_bound(ranks_per_core: float) -> None:
    """One table that must be whole: the work of its rank is not the mean's."""
    whole = {"sharding_types": ["table_wise"]}
    asked = question(cpu_host(), [table("giant", 10_000, 64, 60, constraints=whole)])
    plan = solve_question(with_costs(asked, ranks_per_core=ranks_per_core))
    assert plan.status is PlanStatus.OPTIMAL


@pytest.mark.parametrize("per_permuted_vector_us", [0.0, 1e-4])
@pytest.mark.parametrize("small", [4, 12])
def test_a_dear_type_is_left_out_and_a_free_one_is_used(small: int, per_permuted_vector_us: float) -> None:
    """One giant to split and small tables beside it, few enough to list every placement or not: as pieces of columns all in one type,
    when types are dear."""
    tables = [table("giant", 10_000, 128, 60), *(table(f"t{number}", 1000, 32, 4) for number in range(small))]
    asked = with_costs(question(cpu_host(), tables), per_permuted_vector_us=per_permuted_vector_us)
    plan = solve_question(with_costs(asked, sharding_type_us=dict.fromkeys(ShardingType, 5000.0)))
    assert audit(plan) == []
    assert {placement.sharding_type for placement in plan.tables} == {ShardingType.COLUMN_WISE}
    assert any(len(placement.shards) == 1 for placement in plan.tables)


def test_whole_tables_in_the_only_type_are_searched_at_what_they_cost() -> None:
    """Vectors of column_wise are put in order, those of whole tables in one piece too."""
    tables = [table("giant", 10_000, 128, 60), *(table(f"t{number}", 1000, 32, 4) for number in range(12))]
    asked = with_costs(question(cpu_host(), tables), per_permuted_vector_us=1e-3, per_permuted_byte_us=1e-4)
    only = in_one_piece(sets_of(asked).priced, [ShardingType.COLUMN_WISE])
    is_column = np.array([types == {ShardingType.COLUMN_WISE} for types in option_types(only)])
    pieces = np.where(only.problem.option_table == 0, 2, 1)
    split = with_only(only, is_column & (np.diff(only.problem.option_first_unit) == pieces))
    assignment = pack(split.problem)
    assert assignment is not None
    program_us = objective_us(split.problem, loads_of(split.problem, assignment)) + type_cost_us(split, ShardingType.COLUMN_WISE).sum()
    assert assemble(split, assignment).step_time_us == pytest.approx(program_us, rel=1e-9)


@pytest.mark.parametrize("whole", [{"sharding_types": ["table_wise"]}, {"pin": {"sharding_type": "table_wise", "ranks": [0]}}])
def test_whole_and_split_tables_are_planned_where_the_whole_ones_may_not_be_columns(whole: dict[str, Any]) -> None:
    tables = [table("whole", 1000, constraints=whole), table("split", 1000, 64, constraints={"sharding_types": ["column_wise"]})]
    plan = solve_question(question(cpu_host(), tables, work_limit=0.04))
    assert [placement.sharding_type for placement in plan.tables] == [ShardingType.TABLE_WISE, ShardingType.COLUMN_WISE]


def test_infeasible_is_proven_whatever_types_cost() -> None:
    asked = question(gpu_host(hbm="2MiB", ddr="4MiB"), [table("t", 1_000_000)])
    assert solve_question(with_costs(asked, sharding_type_us=dict.fromkeys(ShardingType, 500.0))).status is PlanStatus.INFEASIBLE
