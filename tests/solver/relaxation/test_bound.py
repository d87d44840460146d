"""Every bound against every assignment there is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.generate import Case, draw
from emplace.solver.model.problem import Assignment, Problem, fits, loads_of, objective_us
from emplace.solver.relaxation.aggregate import usable_options
from emplace.solver.relaxation.bound import Bounder, bound_at_once
from emplace.solver.relaxation.column_generation import lagrangian, relax
from emplace.solver.relaxation.reduced_program import ReducedProgram
from emplace.solver.relaxation.region import Region
from emplace.solver.relaxation.single_table_cuts import CUTS_PER_STAGE, ENOUGH_CUTS
from tests.solver.brute_force import every_assignment, optimum_us, random_problem
from tests.solver.plain_problems import plain_problem
from tests.solver.random_problems import rich_problem

SEEDS = range(60)


def _problems(seed: int) -> list[Problem]:
    return [rich_problem(seed), random_problem(1000 + seed)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bound_that_is_there_at_once_is_no_higher_than_the_best(seed: int) -> None:
    for problem in _problems(seed):
        assert problem.constant_us < bound_at_once(problem) <= optimum_us(problem) * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_bound_never_exceeds_the_optimum(seed: int) -> None:
    for problem in _problems(seed):
        optimum = optimum_us(problem)
        assert Bounder(problem).bound().value_us <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_value_leaves_holds_every_assignment_within_it(seed: int) -> None:
    """`below` may refuse a value, or an option, only if no assignment within the value has it."""
    problem = rich_problem(seed)
    bounder = Bounder(problem)
    root = Region(ReducedProgram.of(bounder.program), relax(bounder.program))
    within = sorted((cost, tuple(a.option)) for a in every_assignment(problem) if (cost := _cost(problem, a)) < np.inf)
    if not within:
        return
    for share in (1.0 + 1e-6, 1.05, 1.3):
        value = within[0][0] * share
        left = bounder.below(root, value - bounder.fixed_us)
        assert left is not None
        for cost, options in within:
            if cost <= value:
                kept = left.part.spread(left.part.program.usable.astype(np.float64), 0.0, 1.0) > 0
                assert kept[list(options)].all()
        assert bounder.fixed_us + left.relaxation.bound <= within[0][0] * (1 + 1e-9)


def _cost(problem: Problem, assignment: Assignment) -> float:
    loads = loads_of(problem, assignment)
    return objective_us(problem, loads) if fits(problem, loads) else np.inf


@pytest.mark.parametrize("seed", SEEDS)
def test_options_called_unusable_are_in_no_assignment_that_fits(seed: int) -> None:
    problem = rich_problem(seed)
    usable = usable_options(problem)
    for assignment in every_assignment(problem):
        if fits(problem, loads_of(problem, assignment)):
            assert usable[assignment.option].all()


@pytest.mark.parametrize("seed", range(40))
def test_any_duals_give_a_bound(seed: int) -> None:
    """The proof rests on the Lagrangian function alone: duals that no solver would return are weak, never wrong."""
    problem = rich_problem(seed)
    program = Bounder(problem).program
    rows = program.rows
    rng = np.random.default_rng(seed)
    dual = rng.uniform(0, 1, len(rows.stage) + 1) * np.append(np.where(rows.memory, 50.0, 1.0), 0.0)
    total = np.bincount(rows.stage[~rows.memory], weights=dual[:-1][~rows.memory], minlength=problem.num_stages)
    dual[:-1][~rows.memory] /= total[rows.stage[~rows.memory]]
    fixed = problem.constant_us + problem.stage_base_us.sum()
    assert fixed + lagrangian(program, dual * 0.999).bound <= optimum_us(problem) * (1 + 1e-9)


def test_most_of_the_random_problems_have_a_plan_and_some_have_none() -> None:
    feasible = sum(np.isfinite(optimum_us(rich_problem(seed))) for seed in SEEDS)
    assert 0.3 * len(SEEDS) < feasible < 0.95 * len(SEEDS)


def test_the_bound_is_worth_having() -> None:
    """On tiny problems, where it is at its weakest: more than half of the optimum on average, and exact on some."""
    shares = []
    for seed in SEEDS:
        problem = rich_problem(seed)
        optimum = optimum_us(problem)
        if np.isfinite(optimum):
            shares.append(Bounder(problem).bound().value_us / optimum)
    assert np.mean(shares) > 0.85
    assert np.mean(np.array(shares) > 0.9999) > 0.15


def test_thousands_of_tables_get_no_more_cuts_than_raise_the_bound() -> None:
    problem = draw(Case("many", 2000, 400, 0.95))
    bounder = Bounder(problem)
    plain = len(bounder.program.rows.stage)
    cuts = len(bounder.root.part.program.rows.stage) - plain
    assert ENOUGH_CUTS <= cuts < ENOUGH_CUTS + CUTS_PER_STAGE * (problem.num_stages + 1)


@pytest.mark.parametrize("load", [0.9, 1.05])
def test_two_gigabytes_too_many_are_proven_not_to_fit(load: float) -> None:
    problem = draw(Case("hbm only", 60, 16, load, uvm=False, stages=1))
    bound = Bounder(problem).bound()
    assert bound.feasible == (load < 1)


def test_memory_that_a_kind_of_device_cannot_reach_holds_none_of_its_tables() -> None:
    """Two tables in the system memory of a trainer, which has room for one; a server beside it has room for both."""
    problem = plain_problem(
        np.ones((2, 2, 1)),
        hbm_capacity=[0, 0],
        device_kind=np.arange(2),
        device_node=np.arange(2),
        device_is_trainer=np.array([True, False]),
        device_pool=np.arange(2),
        ddr_capacity=np.array([10, 1000]),
        unit_ddr_bytes=np.array([[8, 0], [8, 0]]),
    )
    assert not Bounder(problem).bound().feasible
    assert Bounder(replace(problem, ddr_capacity=np.array([16, 0]))).bound().feasible


def test_a_single_table_that_cannot_be_split_sets_the_bound() -> None:
    problem = draw(Case("small", 12, 4, 0.5, stages=1))
    slow = problem.unit_time_us.copy()
    slow[problem.option_first_unit[0] : problem.option_first_unit[np.searchsorted(problem.option_table, 1)]] += 1e6
    bound = Bounder(replace(problem, unit_time_us=slow)).bound()
    assert bound.value_us >= 1e6


@pytest.mark.parametrize("seed", [1211, 1746, 1811, 2755, 2760])
def test_every_table_keeps_an_option_where_no_placement_is_that_good(seed: int) -> None:
    """Times over twelve orders: by their longest units, all options of a table are too long. The search draws from what is left."""
    problem = rich_problem(seed)
    spread = 10 ** np.random.default_rng(seed).uniform(-6, 6, (len(problem.unit_time_us), 1, 1))
    bounder = Bounder(replace(problem, unit_time_us=problem.unit_time_us * spread))
    bound = bounder.bound()
    kept, _ = bounder.candidates(bound, bound.value_us * (1 + 1e-7))
    assert np.bincount(problem.option_table[kept], minlength=problem.num_tables).all()


@pytest.mark.parametrize("factor", [2.0**-40, 1e3, 2.0**40])
def test_scaling_times_scales_the_bound(factor: float) -> None:
    """Also where every table has an option that takes no time, as in all of the last six."""
    problems = [draw(Case("scale", 40, 8, 0.9)), *(rich_problem(seed) for seed in (0, 1, 2, 37, 81, 142, 191, 288, 320))]
    for problem in problems:
        scaled = replace(
            problem,
            constant_us=problem.constant_us * factor,
            stage_base_us=problem.stage_base_us * factor,
            unit_time_us=problem.unit_time_us * factor,
        )
        bound_us = Bounder(scaled).bound().value_us / factor
        assert bound_us == pytest.approx(Bounder(problem).bound().value_us, rel=1e-3 if factor == 1e3 else 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_a_starting_point_changes_no_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    program = Bounder(draw(Case("start", 40, 8, 0.9, seed=seed))).program
    found = relax(program)
    assert found.feasible
    keep = (random.random(len(program.usable)) < 0.7) | (found.reduced_cost == 0)
    fewer = replace(program, usable=program.usable & keep)
    assert relax(fewer, found.starting_point).bound == pytest.approx(relax(fewer).bound, rel=1e-5)
