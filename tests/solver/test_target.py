"""Solves that end as soon as what was asked is certain: any plan, or one that takes at most so long."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from emplace.placement.audit import audit
from emplace.placement.model import ModelSpec
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.placement.workload import Objective
from emplace.solver.budget import Budget
from emplace.solver.driver.packing import pack_apart, quick_placement
from emplace.solver.driver.solve_program import solve_program
from emplace.solver.driver.variants import variants
from emplace.solver.model.build import price
from emplace.solver.model.conflicts import Groups
from emplace.solver.model.problem import Assignment, Problem
from emplace.solver.progress import Monitor, Progress
from emplace.solver.result import Limit, Result
from emplace.solver.solve import solve_question
from tests.solver.driver.test_type_search import drawn, with_costs, with_options
from tests.solver.questions import gpu_host, question, table
from tests.solver.test_cancel import Watch, counted, with_start

WHOLE_LIMIT_S = 3600.0
"""Counted work that no test waits for: a solve that goes on to its limit runs into the test's timeout."""


def aimed(asked: Question, target_us: float) -> Plan:
    """The plan that a solve with a target ends with; what it says of its end is true."""
    plan = solve_question(asked, Monitor().wanting(target_us))
    assert audit(plan) == []
    reached = plan.step_time_us is not None and plan.step_time_us <= target_us
    ruled_out = plan.lower_bound_us is not None and plan.lower_bound_us > target_us
    assert (plan.solver.stopped_by == "target") <= (reached or ruled_out)
    return plan


def test_any_plan_is_a_packed_one() -> None:
    asked = question(gpu_host(4), [table(f"t{index}", 20_000 * (index + 1)) for index in range(8)], work_limit=WHOLE_LIMIT_S)
    plan = aimed(asked, math.inf)
    assert (plan.status, plan.solver.stopped_by, plan.solver.moves) == (PlanStatus.FEASIBLE, "target", 0)


def test_nothing_is_packed_at_once_where_a_packed_plan_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small question is priced once."""
    asked = question(gpu_host(2), [table("t", 20_000)], work_limit=0.04)
    priced = counted(monkeypatch, "emplace.solver.driver.at_once.price", Watch())
    assert solve_question(asked).has_placement
    assert priced == []
    aimed(asked, math.inf)
    assert len(priced) == 1


def test_where_packing_fails_a_search_ends_with_its_first_plan() -> None:
    rng = np.random.default_rng(4)
    only: dict[str, Any] = {"constraints": {"sharding_types": ["table_wise"], "tiers": ["hbm"]}}
    sizes = rng.integers(20_000, 60_000, 18)
    spec = [table(f"t{i}", int(size), pooling=int(rng.integers(1, 60)), **only) for i, size in enumerate(sizes)]
    total = float(sizes.sum()) * 33 * 4 / 6
    asked = question(gpu_host(6, hbm=f"{int(total / 0.85 / 2**20) + 2}MiB"), spec, work_limit=WHOLE_LIMIT_S)
    told: list[Progress] = []
    plan = solve_question(asked, Monitor.of(told.append).wanting(math.inf))
    assert audit(plan) == []
    assert plan.solver.stopped_by == "target"
    assert len({progress.incumbent_us for progress in told} - {None}) == 1
    assert plan.gap is not None
    assert plan.gap > 0


def test_what_fits_nowhere_is_proven_and_explained() -> None:
    plan = aimed(question(gpu_host(2, hbm="24MiB"), [table("big", 500_000, dim=64)], tiers=["hbm"]), math.inf)
    assert (plan.status, plan.solver.stopped_by) == (PlanStatus.INFEASIBLE, "proof")
    assert plan.explanation is not None


QUESTIONS: dict[str, Question] = {
    "sets": drawn(0, 60.0),
    "dear sets": drawn(1, 2000.0),
    "shared cores": with_costs(drawn(2, 60.0), ranks_per_core=2.0),
    "nodes": question(gpu_host(2, nodes=2, hbm="4MiB"), [table("a", 1001, dim=36, pooling=20), table("b", 777, dim=64, pooling=7)]),
    "servers": question(gpu_host(2, servers=2, hbm="16MiB"), [table(f"t{index}", 200_000, pooling=200) for index in range(4)]),
    "many": question(gpu_host(6), [table(f"t{index}", 1001 * (index + 1), pooling=3 + 5 * index) for index in range(5)], work_limit=0.12),
}


@cache
def best_of(name: str) -> Plan:
    return solve_question(QUESTIONS[name])


@pytest.mark.parametrize("limit", ["work", "time"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_target_above_the_best_is_reached_and_one_below_is_ruled_out(name: str, limit: str) -> None:
    best = best_of(name)
    assert best.step_time_us is not None
    assert best.lower_bound_us is not None
    limits: dict[str, Any] = {"work_limit": 20.0} if limit == "work" else {"work_limit": None, "time_limit": 20.0}
    asked = with_options(QUESTIONS[name], **limits)
    for target_us in (best.lower_bound_us * 0.3, best.lower_bound_us * 0.99):
        plan = aimed(asked, target_us)
        assert plan.lower_bound_us is not None
        assert target_us < plan.lower_bound_us <= best.step_time_us * (1 + 1e-9)
        assert plan.solver.stopped_by in ("target", "exact", "gap")
    for target_us in (best.step_time_us * 1.0001, best.step_time_us * 1.5):
        plan = aimed(asked, target_us)
        assert plan.step_time_us is not None
        assert plan.step_time_us <= target_us
        assert plan.solver.stopped_by in ("target", "exact", "gap")


def test_after_a_plan_that_takes_longer_than_its_program_knew_the_search_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """By 30 us here: as much is then left below the target."""
    asked = question(gpu_host(6), [table(f"t{index}", 1001 * (index + 1)) for index in range(7)])
    (variant,) = variants(asked)
    priced = price(asked, variant.topology, variant.tiers)
    exact = quick_placement(priced)
    assert exact is not None
    wanted: list[float] = []

    def search(problem: Problem, groups: Groups, _budget: Budget, monitor: Monitor, *_: object, **__: object) -> Result[Assignment]:
        wanted.append(monitor.enough_us)
        limit = Limit.TARGET if len(wanted) < 3 else Limit.WORK
        return Result(pack_apart(problem, groups), exact.step_time_us - 30.0, 0.0, "none", limit, moves=1)

    monkeypatch.setattr("emplace.solver.driver.solve_program.solve_apart", search)
    target_us = exact.step_time_us - 10.0
    found = solve_program(priced, Budget(1.0, 0.0, 0), Monitor().wanting(target_us))
    assert wanted == pytest.approx([target_us, target_us - 30.0, target_us - 60.0])
    assert (found.limit, found.moves, found.objective_us) == (Limit.WORK, 3, exact.step_time_us)
    wanted.clear()
    assert solve_program(priced, Budget(1.0, 0.0, 0), Monitor().wanting(exact.step_time_us)).limit is Limit.TARGET
    assert len(wanted) == 1


def test_tables_kept_apart_are_no_plan_before_they_are() -> None:
    spec = [table(f"t{index}", 2000 * (index + 1), pooling=2 + 3 * index) for index in range(5)]
    plain = question(gpu_host(3), spec, work_limit=0.4)
    apart = plain.model_copy(update={"model": ModelSpec.model_validate(plain.model.to_data() | {"apart": [["t0", "t4"], ["t1", "t2"]]})})
    best_us = solve_question(apart).step_time_us
    assert best_us is not None
    for target_us in (math.inf, best_us * 1.01):
        plan = aimed(apart, target_us)
        assert plan.step_time_us is not None
        assert plan.step_time_us <= target_us


def test_a_job_that_runs_is_replanned_as_without_a_target() -> None:
    asked = with_start(drawn(0, 60.0))
    aimed_at, whole = aimed(asked, 1e9), solve_question(asked)
    assert (aimed_at.tables, aimed_at.gap) == (whole.tables, whole.gap)


def test_the_fewest_devices_with_any_plan_on_them() -> None:
    spec = [table(f"t{index}", 100_000, dim=64) for index in range(4)]
    asked = question(gpu_host(4, hbm="64MiB"), spec, tiers=["hbm"], objective=Objective.DEVICES, work_limit=WHOLE_LIMIT_S)
    plan = aimed(asked, math.inf)
    assert plan.fewest is not None
    assert plan.fewest.size is not None
    assert plan.fewest.size.ranks == 2
    assert plan.solver.stopped_by == "target"


def test_the_same_target_gives_the_same_plan() -> None:
    target_us = (solve_question(QUESTIONS["many"]).step_time_us or 0.0) * 1.01
    first, second = (aimed(QUESTIONS["many"], target_us) for _ in range(2))
    assert first.tables == second.tables
