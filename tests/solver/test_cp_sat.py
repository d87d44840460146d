"""CP-SAT against every assignment there is."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas
import pytest

from emplace.solver.branch_and_price import prover as exact
from emplace.solver.branch_and_price.prover import Prover
from emplace.solver.budget import Budget
from emplace.solver.cp_sat import by_cp_sat
from emplace.solver.model.problem import Assignment, Problem, fits, loads_of, objective_us
from emplace.solver.or_tools import cp_model
from emplace.solver.progress import Monitor, Progress
from emplace.solver.relaxation.bound import Bounder
from emplace.solver.result import Limit, Result
from tests.solver.brute_force import every_assignment, optimum_us, random_problem

LIMITS = Budget(seconds=5.0, gap=0.0, seed=1)


@pytest.mark.parametrize("seed", range(40))
def test_finds_the_optimum_or_proves_that_nothing_fits(seed: int) -> None:
    problem = random_problem(seed)
    optimum = optimum_us(problem)
    outcome = _exactly(problem, LIMITS)
    if np.isinf(optimum):
        assert outcome.is_infeasible
        assert outcome.solution is None
        return
    assert outcome.limit is Limit.NONE
    assert outcome.solution is not None
    assert outcome.objective_us == pytest.approx(optimum, rel=1e-6)
    assert outcome.lower_bound_us <= optimum
    assert outcome.lower_bound_us == pytest.approx(optimum, rel=1e-6)
    loads = loads_of(problem, outcome.solution)
    assert fits(problem, loads)
    assert objective_us(problem, loads) == outcome.objective_us


def test_both_outcomes_occur_among_the_random_problems() -> None:
    feasible = [np.isfinite(optimum_us(random_problem(seed))) for seed in range(40)]
    assert 5 < sum(feasible) < 38


@pytest.mark.parametrize("seed", [2, 8, 19])
def test_scaling_all_times_scales_the_answer(seed: int) -> None:
    problem = random_problem(seed)
    scaled = replace(
        problem, constant_us=problem.constant_us * 1e6, stage_base_us=problem.stage_base_us * 1e6, unit_time_us=problem.unit_time_us * 1e6
    )
    small, large = _exactly(problem, LIMITS), _exactly(scaled, LIMITS)
    assert large.objective_us == pytest.approx(small.objective_us * 1e6, rel=1e-6)


def test_ctrl_c_goes_where_it_went_before() -> None:
    """In a process of its own, because it ended one."""
    program = """
import signal
from emplace.solver.budget import Budget
from emplace.solver.cp_sat import by_cp_sat
from emplace.solver.progress import Monitor
from tests.solver.brute_force import random_problem

signal.signal(signal.SIGINT, signal.default_int_handler)
by_cp_sat(random_problem(8), Budget(seconds=1.0, gap=0.0, seed=0), Monitor())
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("heard")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "heard\n"), done.stderr


def test_the_same_twice() -> None:
    problem = random_problem(8)
    first, second = _exactly(problem, LIMITS), _exactly(problem, LIMITS)
    assert first.solution is not None
    assert second.solution is not None
    assert first.solution.targets == second.solution.targets
    assert (first.objective_us, first.lower_bound_us) == (second.objective_us, second.lower_bound_us)


def test_any_assignment_can_be_the_hint() -> None:
    problem = random_problem(8)
    optimum = optimum_us(problem)
    for index, assignment in enumerate(every_assignment(problem)):
        if index % 7 == 0:
            assert _exactly(problem, LIMITS, hint=assignment).objective_us == pytest.approx(optimum, rel=1e-6)
        if index > 40:
            break


def test_never_falls_behind_a_hint_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT may take no notice of the hint and find something worse."""
    big = _hard_problem()
    hint = _exactly(big, Budget(1.0, 0.0, 0)).solution
    assert hint is not None
    monkeypatch.setattr(exact, "by_cp_sat", lambda problem, budget, *_, **__: by_cp_sat(problem, budget, Monitor()))
    prover, known = _from_hint(big, Budget(0.15, 0.0, 0), hint)
    assert by_cp_sat(big, Budget(0.15, 0.0, 0), Monitor()).objective_us > known.objective_us
    assert prover.by_cp_sat(known, 0.15).objective_us <= known.objective_us


def test_stops_when_asked_and_says_so() -> None:
    big = _hard_problem()
    outcome = _exactly(big, Budget(60.0, 0.0, 0), monitor=Monitor.of(None, lambda: True))
    assert outcome.limit is Limit.INTERRUPTED
    assert outcome.lower_bound_us <= outcome.objective_us


def test_reports_incumbents_and_bounds() -> None:
    seen: list[Progress] = []
    outcome = _exactly(_hard_problem(), Budget(1.0, 0.0, 0), monitor=Monitor.of(seen.append))
    with_incumbent = [progress for progress in seen if progress.incumbent_us is not None]
    assert with_incumbent
    assert with_incumbent[-1].incumbent_us == pytest.approx(outcome.objective_us, rel=1e-6)
    assert all(progress.bound_us <= outcome.objective_us * (1 + 1e-9) for progress in seen)


def test_what_takes_series_has_pandas() -> None:
    """It is not imported with CP-SAT; tests/app/cli/test_start.py sees to that."""
    series = cp_model.CpModel().new_bool_var_series("x", pandas.Index(["a", "b"]))
    assert list(series.index) == ["a", "b"]
    with pytest.raises(TypeError, match="Non-index"):
        cp_model.CpModel().new_bool_var_series("x", ["a", "b"])


def _exactly(problem: Problem, budget: Budget, hint: Assignment | None = None, monitor: Monitor | None = None) -> Result[Assignment]:
    """By CP-SAT, and from a hint by a third of it and patterns for the rest."""
    if hint is None:
        return by_cp_sat(problem, budget, monitor or Monitor())
    prover, known = _from_hint(problem, budget, hint, monitor)
    first = prover.by_cp_sat(known, budget.seconds / 3)
    return first if first.limit is not Limit.WORK else prover.by_patterns(first, budget.seconds)


def _from_hint(problem: Problem, budget: Budget, hint: Assignment, monitor: Monitor | None = None) -> tuple[Prover, Result[Assignment]]:
    """What proves, and what is known to it by the hint."""
    bounder = Bounder(problem)
    bound = bounder.bound()
    known = Result(hint, objective_us(problem, loads_of(problem, hint)), bound.value_us, bound.name, Limit.WORK)
    if not fits(problem, loads_of(problem, hint)):
        known = replace(known, objective_us=np.inf)
    return Prover(problem, bounder, bound, budget, monitor or Monitor()), known


def _hard_problem() -> Problem:
    """20 tables over 6 devices: seconds of work."""
    rng = np.random.default_rng(0)
    tables, devices = 20, 6
    return replace(
        random_problem(0),
        device_kind=np.zeros(devices, dtype=np.int64),
        device_node=np.zeros(devices, dtype=np.int64),
        device_is_trainer=np.ones(devices, dtype=bool),
        device_pool=np.zeros(devices, dtype=np.int64),
        hbm_capacity=np.full(devices, 1000),
        ddr_capacity=np.array([0]),
        stage_base_us=np.zeros(2),
        option_table=np.arange(tables),
        option_scope=np.zeros(tables, dtype=np.int64),
        option_kind=np.zeros(tables, dtype=np.int64),
        option_first_unit=np.arange(tables + 1),
        unit_time_us=rng.uniform(10, 100, (tables, 1, 2)),
        unit_hbm_bytes=rng.integers(10, 200, (tables, 1)),
        unit_ddr_bytes=np.zeros((tables, 1), dtype=np.int64),
        allowed=None,
    )
