"""What a solve reports on its way: of the whole, whatever part of it is being solved."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from emplace.placement.model import ModelSpec
from emplace.placement.plan import PlanStatus, Question
from emplace.solver.budget import Budget
from emplace.solver.driver.solve_variants import solve_types
from emplace.solver.model.conflicts import Groups
from emplace.solver.model.problem import Assignment, Problem
from emplace.solver.progress import Monitor, Progress
from emplace.solver.result import Limit, Result
from emplace.solver.solve import solve_question
from tests.solver.driver.test_type_search import best_step_us, drawn, sets_of, with_costs, with_options
from tests.solver.questions import gpu_host, question, table

ROUNDING = 1e-7
"""Plans of CP-SAT are reported in whole ticks."""


def _reported(asked: Question) -> list[Progress]:
    """Raises AssertionError where one report contradicts another or the answer."""
    seen: list[Progress] = []
    plan = solve_question(asked, Monitor.of(seen.append))
    assert plan.step_time_us is not None
    assert plan.lower_bound_us is not None
    bounds = [progress.bound_us for progress in seen]
    incumbents = [progress.incumbent_us for progress in seen if progress.incumbent_us is not None]
    assert all(later >= earlier for earlier, later in pairwise(bounds))
    assert all(later <= earlier for earlier, later in pairwise(incumbents))
    assert max(bounds) <= min([plan.step_time_us, *incumbents]) * (1 + ROUNDING)
    assert max(bounds) <= plan.lower_bound_us * (1 + ROUNDING)
    assert plan.step_time_us <= min(incumbents, default=math.inf) * (1 + ROUNDING)
    return seen


def test_a_target_is_that_of_the_whole() -> None:
    whole = Monitor().wanting(100.0)
    dear = whole.part(unpaid_us=10.0).part(unpaid_us=5.0)
    assert [part.is_answered(85.5, 0.0) for part in (whole, dear, whole.part(has_incumbents=False), Monitor())] == [
        True,
        False,
        False,
        False,
    ]
    assert dear.is_answered(85.0, 0.0)
    assert not whole.is_answered(math.inf, 100.0)
    assert whole.is_answered(math.inf, 100.1)
    assert not whole.part(others_bound_us=90.0).part().is_answered(math.inf, 200.0)
    assert whole.part(others_bound_us=110.0, least_bound_us=105.0).is_answered(math.inf, 0.0)
    assert not Monitor().is_answered(1.0, math.inf)


def test_any_solution_is_enough_whatever_it_costs_besides() -> None:
    whole = Monitor().wanting(math.inf)
    assert whole.part(unpaid_us=math.inf).is_answered(1e9, 0.0)
    assert not whole.part(has_incumbents=False).part().is_answered(1e9, 0.0)
    assert not whole.is_answered(math.inf, 1e9)


@pytest.mark.parametrize("most_us", [5.0, 60.0, 2000.0])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_rise_to_the_answer_and_plans_fall_to_it(seed: int, most_us: float) -> None:
    asked = with_options(drawn(seed, most_us), work_limit=0.08)
    assert max(progress.bound_us for progress in _reported(asked)) <= best_step_us(asked) * (1 + ROUNDING)


def test_where_nothing_fits_no_bound_is_reported_that_is_no_number() -> None:
    """A service sends reports on as JSON, which has no infinity."""
    seen: list[Progress] = []
    plan = solve_question(question(gpu_host(2, hbm="4MiB"), [table("t", 4_000_000, dim=64)], tiers=["hbm"]), Monitor.of(seen.append))
    assert plan.status is PlanStatus.INFEASIBLE
    assert all(math.isfinite(progress.bound_us) for progress in seen)


def test_also_where_sets_are_taken_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emplace.solver.driver.type_search.MANY_BOUNDS", 1)
    for seed in range(2):
        assert any(progress.incumbent_us is not None for progress in _reported(with_options(drawn(seed, 60.0), work_limit=0.08)))


@pytest.mark.parametrize("servers", [0, 1])
def test_also_with_servers_groups_and_tables_apart(servers: int) -> None:
    spec = [table(f"t{index}", 2000 * (index + 1), pooling=2 + 3 * index) for index in range(5)]
    plain = question(gpu_host(3, servers=servers), spec, work_limit=0.08)
    groups = {"together": [["t1", "t2"]], "apart": [["t0", "t4"]]}
    _reported(plain.model_copy(update={"model": ModelSpec.model_validate(plain.model.to_data() | groups)}))


def test_also_where_ranks_share_cores() -> None:
    assert any(
        progress.bound_us > 0 for progress in _reported(with_options(with_costs(drawn(1, 60.0), ranks_per_core=2.0), work_limit=0.12))
    )


@pytest.mark.parametrize(("rows", "is_searched"), [(2000, False), (200_000, True)])
def test_servers_are_searched_only_where_they_may_be_better(rows: int, is_searched: bool) -> None:
    """Small tables train faster on the GPUs, and a bound says so. Large ones that GPUs would read over a slow link do not."""
    asked = question(gpu_host(2, servers=2, hbm="16MiB"), [table(f"t{index}", rows, pooling=200) for index in range(4)], work_limit=0.08)
    reports = _reported(asked)
    assert is_searched == any(progress.phase.startswith("trainers and servers") for progress in reports)


def test_a_bound_of_one_set_does_not_pass_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Progress] = []

    def search(_problem: Problem, _groups: Groups, _budget: Budget, monitor: Monitor, *_: object, **__: object) -> Result[Assignment]:
        if not seen:
            monitor.tell(math.inf, 1e9, "search")
        return Result(None, math.inf, 0.0, "none", Limit.WORK)

    monkeypatch.setattr("emplace.solver.driver.solve_program.solve_apart", search)
    monkeypatch.setattr("emplace.solver.driver.solve_program.quick_placement", lambda _: None)
    sets = sets_of(drawn(0, 60.0))
    solve_types(sets_of(drawn(0, 60.0)), Budget(1.0, 0.0, 0), Monitor.of(seen.append))
    first = sets.next_below(math.inf)
    assert first is not None
    assert first.bound_us < sets.others_us
    assert [progress.bound_us for progress in seen] == [sets.others_us]
