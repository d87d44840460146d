"""Patterns and the tree over them against every assignment there is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from emplace.solver.branch_and_price.prover import Prover
from emplace.solver.branch_and_price.tree import Tree
from emplace.solver.budget import NODE_STEPS, Budget
from emplace.solver.cp_sat import by_cp_sat
from emplace.solver.model.problem import Assignment, Problem, Scope, fits, loads_of, objective_us
from emplace.solver.patterns.device_classes import MakespanBox, device_classes
from emplace.solver.patterns.master import PatternMaster
from emplace.solver.patterns.node_bound import PatternBound
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bounder
from emplace.solver.result import Limit, Result
from tests.solver.brute_force import optimum_us, random_problem
from tests.solver.plain_problems import plain_problem

SEEDS = range(300)


@cache
def known(seed: int) -> tuple[Problem, float]:
    problem = random_problem(seed) if seed % 2 else alike(seed)
    return problem, optimum_us(problem)


def alike(seed: int) -> Problem:
    """With devices of one kind and size, one stage, and units of an option equal: where patterns can be all there is."""
    rng = np.random.default_rng(seed)
    problem = random_problem(seed)
    devices = problem.num_devices
    first = np.repeat(problem.option_first_unit[:-1], np.diff(problem.option_first_unit))
    return replace(
        problem,
        device_kind=np.zeros(devices, dtype=np.int64),
        hbm_capacity=np.full(devices, int(rng.integers(60, 130))),
        ddr_capacity=np.full(len(problem.ddr_capacity), 10_000),
        stage_base_us=problem.stage_base_us[:1],
        unit_time_us=np.ascontiguousarray(problem.unit_time_us[first][:, :1, :1]),
        unit_hbm_bytes=problem.unit_hbm_bytes[first][:, :1],
        unit_ddr_bytes=problem.unit_ddr_bytes[first][:, :1],
        allowed=None,
    )


def refuted(problem: Problem, value_us: float) -> bool:
    value = value_us - problem.constant_us - float(problem.stage_base_us.sum())
    stages = problem.num_stages
    window = MakespanBox(np.zeros(stages), np.full(stages, max(value, 0.0)), max(value, 0.0))
    return value < 0 or PatternBound(problem).bound(np.ones(problem.num_options, dtype=bool), window).is_infeasible


@pytest.mark.parametrize("seed", SEEDS)
def test_patterns_never_refute_what_exists(seed: int) -> None:
    problem, optimum = known(seed)
    if np.isfinite(optimum):
        assert not refuted(problem, optimum * (1 + 1e-9))
        assert not refuted(problem, optimum * 1.1)


def test_patterns_refute_most_values_below_the_optimum() -> None:
    feasible = [known(seed) for seed in SEEDS if np.isfinite(known(seed)[1])]
    assert sum(refuted(problem, optimum * 0.97) for problem, optimum in feasible) > 0.8 * len(feasible)


def planted(problem: Problem) -> Tree:
    bounder = Bounder(problem)

    def settle(part: Problem, below_us: float, effort: int) -> Result[Assignment]:
        return by_cp_sat(part, Budget(5.0 * effort, 0.0, 0), Monitor(), below_us=below_us)

    return Tree(problem, bounder, bounder.bound(), settle, 1)


def closed(problem: Problem, start_us: float) -> Tree:
    tree = planted(problem)
    for _ in tree.raise_bound(start_us, 1e-7, 10**9):
        pass
    return tree


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tree_ends_at_the_optimum(seed: int) -> None:
    problem, optimum = known(seed)
    if np.isinf(optimum):
        return
    tree = closed(problem, optimum * 1.2)
    assert tree.bound_us == pytest.approx(optimum, rel=1e-6)
    assert tree.bound_us <= optimum * (1 + 1e-9)
    assert tree.best is not None
    loads = loads_of(problem, tree.best)
    assert fits(problem, loads)
    assert objective_us(problem, loads) == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("seed", range(0, 300, 6))
def test_the_tree_proves_an_optimum_that_was_given(seed: int) -> None:
    problem, optimum = known(seed)
    if np.isfinite(optimum):
        tree = closed(problem, optimum)
        assert tree.best is None
        assert tree.bound_us == pytest.approx(optimum, rel=1e-6)


def test_where_a_program_is_not_solved_the_tree_goes_on_and_nothing_is_printed(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    solve, calls = PatternMaster.solve, 0

    def gives_up_at_times(master: PatternMaster) -> bool:
        nonlocal calls
        calls += 1
        master.is_solved = solve(master) and calls % 3 > 0
        return master.is_solved

    monkeypatch.setattr(PatternMaster, "solve", gives_up_at_times)
    for problem, optimum in (known(seed) for seed in range(0, 300, 6)):
        if np.isfinite(optimum):
            assert closed(problem, optimum * 1.2).bound_us == pytest.approx(optimum, rel=1e-6)
    assert calls > 100
    assert capfd.readouterr().err == ""


def packing() -> Problem:
    """10 tables in whole, in halves or on all of 6 devices, short of memory."""
    rng = np.random.default_rng(3)
    tables, devices = 10, 6
    time, hbm = rng.uniform(10, 60, tables), rng.integers(100, 900, tables)
    shares = ((Scope.DEVICE, 1, 1.0, 1.0), (Scope.DEVICE, 2, 0.7, 0.5), (Scope.WORLD, 1, 0.4, 0.125))
    units = [(t, s, n, time[t] * ts, int(hbm[t] * hs)) for t in range(tables) for s, n, ts, hs in shares]
    per_unit = [unit for unit in units for _ in range(unit[2])]
    return plain_problem(
        np.array([unit[3] for unit in per_unit])[:, None, None],
        hbm_capacity=np.full(devices, int(hbm.sum() / devices / 0.9)),
        unit_hbm_bytes=np.array([unit[4] for unit in per_unit])[:, None],
        option_table=np.array([unit[0] for unit in units]),
        option_scope=np.array([unit[1] for unit in units]),
        option_first_unit=np.append(0, np.cumsum([unit[2] for unit in units])),
    )


def test_closes_a_packing_and_says_the_same_twice() -> None:
    problem = packing()
    start = replace(by_cp_sat(problem, Budget(0.3, 0.0, 0), Monitor()), lower_bound_us=0.0, limit=Limit.WORK)
    bounder = Bounder(problem)
    bound = bounder.bound()
    first, second = (Prover(problem, bounder, bound, Budget(4.0, 0.0, 0), Monitor()).by_patterns(start, 4.0) for _ in range(2))
    assert first.limit is Limit.NONE
    assert (first.objective_us, first.lower_bound_us) == (second.objective_us, second.lower_bound_us)
    assert first.solution is not None
    assert second.solution is not None
    assert first.solution.targets == second.solution.targets


@pytest.mark.parametrize("most_steps", [1, 20_000, 1_000_000])
def test_a_tree_that_runs_out_of_steps_stops_there_and_loses_no_part(most_steps: int) -> None:
    """In the middle of a node too, which alone may take many times the steps."""
    problem = packing()
    optimum = closed(problem, 1e9).best_us
    tree = planted(problem)
    for _ in tree.raise_bound(optimum * 1.2, 1e-7, most_steps):
        pass
    assert most_steps <= tree.steps < most_steps + 2 * NODE_STEPS
    assert tree.open
    assert tree.bound_us < optimum
    for _ in tree.raise_bound(tree.best_us, 1e-7, 10**9):
        pass
    assert tree.best_us == pytest.approx(optimum, rel=1e-6)


def test_devices_that_differ_in_anything_are_of_different_classes() -> None:
    problem = alike(2)
    assert len(device_classes(problem)) == 1
    assert len(device_classes(replace(problem, hbm_capacity=np.arange(problem.num_devices) + 100))) == problem.num_devices
    allowed = np.ones((problem.num_tables, problem.num_devices), dtype=bool)
    allowed[0, 0] = False
    assert len(device_classes(replace(problem, allowed=allowed))) == 2
