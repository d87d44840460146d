"""Limits of time: kept by a clock that the tests hold, and what is said when it ends."""

from __future__ import annotations

import multiprocessing
import time

import numpy as np
import pytest

from benchmarks.generate import Case, draw
from emplace.placement.audit import audit
from emplace.placement.plan import LimitKind, Plan, PlanStatus, Question
from emplace.solver.clock import Clock
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.progress import Monitor, Progress
from emplace.solver.relaxation.bound import Bounder, bound_at_once
from emplace.solver.solve import solve_question
from tests.solver.brute_force import optimum_us
from tests.solver.driver.test_type_search import best_step_us, drawn, with_costs, with_options
from tests.solver.infeasibility.test_explain import too_many_tables
from tests.solver.questions import gpu_host, question, table
from tests.solver.random_problems import rich_problem
from tests.solver.test_cancel import counted, with_start

ROUNDING = 1e-9
LOOKS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233)


class Ticking:
    """A clock on which a second passes with every look."""

    def __init__(self, last: float = np.inf) -> None:
        self.seen, self.last = 0.0, last

    @property
    def is_stopped(self) -> bool:
        return self.seen > self.last

    def __call__(self) -> float:
        self.seen += 1.0
        return self.seen


def timed(asked: Question, seconds: float, **options: object) -> Question:
    return with_options(asked, time_limit=seconds, work_limit=None, **options)


def ended_after(asked: Question, looks: float) -> tuple[Plan, list[Progress]]:
    told: list[Progress] = []
    return solve_question(timed(asked, looks), Monitor.of(told.append, clock=Clock(Ticking()))), told


@pytest.mark.parametrize(
    "asked",
    [drawn(0, 60.0), drawn(1, 60.0), with_costs(drawn(2, 60.0), ranks_per_core=2.0), with_start(drawn(0, 60.0))],
    ids=["sets", "other sets", "shared cores", "start"],
)
def test_whenever_the_clock_ends_there_is_a_plan_and_no_more_is_claimed_than_holds(asked: Question) -> None:
    best_us = best_step_us(asked)
    for looks in LOOKS:
        plan, _ = ended_after(with_options(asked, gap=0.0), looks)
        assert audit(plan) == []
        assert plan.has_placement
        assert plan.lower_bound_us is not None
        assert 0 < plan.lower_bound_us <= best_us * (1 + ROUNDING)
        assert (plan.solver.limit, plan.solver.limit_kind) == (looks, LimitKind.TIME)
    assert ended_after(with_options(asked, gap=0.0), 1)[0].solver.stopped_by == "time"


def test_from_the_first_plan_on_there_is_an_incumbent_a_bound_and_a_gap() -> None:
    asked = question(gpu_host(3), [table(f"t{index}", 20_000 * (index + 1), pooling=9.5) for index in range(9)], gap=0.0)
    plan, told = ended_after(asked, 500)
    assert told[0].phase == "first plan"
    assert all(progress.incumbent_us is not None and progress.gap is not None for progress in told)
    assert told[-1].incumbent_us == pytest.approx(plan.step_time_us)
    assert [progress.bound_us for progress in told] == sorted(progress.bound_us for progress in told)


def test_the_plan_holds_the_best_bound_that_was_told() -> None:
    tables = [table(f"t{index}", 20_000 * (index + 1), pooling=9.5) for index in range(9)]
    for looks in LOOKS:
        plan, told = ended_after(question(gpu_host(3), tables, gap=0.0), looks)
        assert plan.lower_bound_us == pytest.approx(max(progress.bound_us for progress in told))


@pytest.mark.parametrize(
    "work", ["emplace.solver.driver.type_search.bounder_of", "emplace.solver.engine.Race", "emplace.solver.infeasibility.fixes.is_feasible"]
)
def test_no_long_work_begins_after_the_clock_ends(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    costly = with_costs(drawn(0, 60.0), sharding_type_us=drawn(0, 60.0).cost_model.sharding_type_us)
    infeasible = too_many_tables(gpu_host(2, hbm="32MiB"), tiers=["hbm"])
    begun = False
    for asked in (costly, infeasible):
        for looks in LOOKS:
            clock = Ticking(looks + 1)
            with monkeypatch.context() as patches:
                calls = counted(patches, work, clock)
                plan = solve_question(timed(asked, looks), Monitor.of(clock=Clock(clock)))
            assert audit(plan) == []
            assert sum(calls) <= 1  # one that was begun with the last look
            begun |= bool(calls)
    assert begun


def test_infeasible_is_said_only_when_proven() -> None:
    asked = too_many_tables(gpu_host(2, hbm="74.25MiB"), tiers=["hbm"])  # the weights alone would fit
    ends = [ended_after(asked, looks)[0] for looks in LOOKS]
    assert {plan.status for plan in ends} == {PlanStatus.INFEASIBLE, PlanStatus.UNDECIDED}
    assert all(audit(plan) == [] and (plan.status is PlanStatus.INFEASIBLE or plan.solver.stopped_by == "time") for plan in ends)
    fits = question(gpu_host(2, hbm="60MiB"), [table(f"t{index}", 200_000, pooling=20) for index in range(4)])
    assert all(ended_after(fits, looks)[0].status is not PlanStatus.INFEASIBLE for looks in LOOKS)


@pytest.mark.parametrize("columns", [32, 65_536])
def test_weights_beyond_all_memory_are_a_proof_without_any_time(columns: int) -> None:
    for rows, is_too_much in ((10**9, True), (10, False)):
        plan, _ = ended_after(question(gpu_host(2), [table("wide", rows, columns), table("small", 100)]), 1)
        assert (plan.status is PlanStatus.INFEASIBLE) is is_too_much
        assert audit(plan) == []


@pytest.mark.parametrize("seed", range(12))
def test_a_bound_that_is_cut_off_holds(seed: int) -> None:
    problem = rich_problem(seed)
    best_us, whole = optimum_us(problem), Bounder(problem).bound()
    cut = [Bounder(problem, Clock(Ticking(), looks)).bound() for looks in (0, 1, 2, 3, 5, 8, 13, 21)]
    for bound in cut:
        assert bound.value_us <= best_us * (1 + ROUNDING)
    assert not whole.feasible or all(np.isfinite(bound.value_us) for bound in cut)


def test_a_bound_that_is_cut_off_is_no_lower_than_the_one_at_once() -> None:
    problem = merge_stages(draw(Case("few large tables", 20, 16, 0.9)))
    for looks in range(0, 150, 5):
        assert Bounder(problem, Clock(Ticking(), looks)).bound().value_us >= bound_at_once(problem) * (1 - ROUNDING)


def test_whichever_limit_is_reached_first_ends_it() -> None:
    asked = question(gpu_host(8), [table(f"t{index}", 1000 * (index + 1), pooling=7.3) for index in range(60)], gap=0.0)
    work = solve_question(with_options(asked, time_limit=3600.0, work_limit=0.2))
    assert (work.solver.stopped_by, work.solver.limit_kind, work.solver.limit) == ("limit", LimitKind.WORK, 0.2)
    at_once = solve_question(with_options(asked, time_limit=0.001, work_limit=3600.0))
    assert (at_once.solver.stopped_by, at_once.solver.limit_kind, at_once.solver.limit) == ("time", LimitKind.TIME, 0.001)
    assert audit(work) == audit(at_once) == []
    assert work.tables == solve_question(with_options(asked, work_limit=0.2)).tables


def _spin() -> None:
    while True:
        pass


def test_time_is_kept_while_others_keep_the_machine_busy() -> None:
    asked = timed(
        question(gpu_host(8, nodes=4), [table(f"t{index}", 1000 * (index + 1), pooling=7.3) for index in range(100)]), 1.0, gap=0.0
    )
    busy = [multiprocessing.get_context("spawn").Process(target=_spin, daemon=True) for _ in range(4)]
    for process in busy:
        process.start()
    try:
        started = time.perf_counter()
        plan = solve_question(asked)
        seconds = time.perf_counter() - started
    finally:
        for process in busy:
            process.kill()
    assert plan.solver.stopped_by == "time"
    assert seconds < 10.0  # work of 1 s takes longer with a fifth of two cores
