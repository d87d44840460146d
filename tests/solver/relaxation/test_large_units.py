"""Bounds of placements with large units, against every assignment there is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.generate import draw, suite
from emplace.solver.budget import Budget
from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.engine import solve
from emplace.solver.model.problem import Problem
from emplace.solver.relaxation.bound import Bounder
from emplace.solver.relaxation.large_units import LargeUnits
from emplace.solver.relaxation.region import Region
from emplace.solver.relaxation.stage_boxes import StageBoxes
from tests.solver.brute_force import optimum_us
from tests.solver.plain_problems import plain_problem
from tests.solver.random_problems import large_unit_problem, rich_problem

SEEDS = range(40)
FEW_TABLES = next(case for case in suite() if (case.tables, case.stages) == (127, 5))


def regions_below(bounder: Bounder, value: float) -> list[Region]:
    bound = bounder.bound()
    region = bounder.below(bound.root, value)
    return [] if region is None else bounder.cases_below(bound, region, value)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_raised_bound_never_exceeds_the_optimum(seed: int) -> None:
    for problem in (large_unit_problem(seed), rich_problem(seed)):
        bounder = Bounder(problem)
        bound = bounder.bound()
        assert bound.value_us <= bounder.raised(bound).value_us <= optimum_us(problem) * (1 + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_boxes_of_any_stage_rule_out_the_optimum(seed: int) -> None:
    problem = large_unit_problem(seed)
    optimum = optimum_us(problem)
    if np.isinf(optimum):
        return
    bounder = Bounder(problem)
    for share in (1 + 1e-9, 1.05, 1.3):
        value = optimum * share - bounder.fixed_us
        regions = regions_below(bounder, value)
        for stage in range(problem.num_stages):
            boxes = StageBoxes(LargeUnits(problem, stage), regions, value, ENDLESS)
            boxes.split(20)
            assert bounder.fixed_us + boxes.least <= optimum * (1 + 2e-9)


def test_the_bound_of_many_problems_is_raised() -> None:
    raised = [_rise_of(seed) for seed in SEEDS if np.isfinite(optimum_us(large_unit_problem(seed)))]
    assert np.mean(np.array(raised) > 1e-6) > 0.1


def test_few_tables_with_large_pieces_are_bounded_a_percent_higher() -> None:
    assert _rise(draw(FEW_TABLES)) > 0.01


def test_searches_may_start_from_one_option_of_each_table() -> None:
    problem = draw(FEW_TABLES)
    bounder = Bounder(problem)
    boxes = bounder.raised(bounder.bound()).boxes
    assert boxes is not None
    shares = boxes.proposed(0.003, ENDLESS)
    assert shares is not None
    first = np.searchsorted(problem.option_table, np.arange(problem.num_tables))
    np.testing.assert_allclose(np.add.reduceat(shares, first), 1.0)


def test_a_bound_that_is_not_claimed_is_not_raised() -> None:
    problem, budget = draw(FEW_TABLES), Budget(0.5, 0.0, 0)
    assert solve(problem, budget, is_claimed=False).lower_bound_us < solve(problem, budget).lower_bound_us


def test_boxes_end_with_the_clock_and_what_they_say_till_then_holds() -> None:
    problem = large_unit_problem(0)
    bounder = Bounder(problem)
    value = optimum_us(problem) * 1.05 - bounder.fixed_us
    regions = regions_below(bounder, value)
    over = StageBoxes(LargeUnits(problem, 0), regions, value, Clock(lambda: 1.0, 0.0))
    over.split(20)
    assert over.solved == len(regions)
    assert bounder.fixed_us + over.least <= optimum_us(problem)


@pytest.mark.parametrize("seed", SEEDS)
def test_room_that_no_table_has_is_no_room(seed: int) -> None:
    """A stage that takes no time anywhere changes nothing."""
    problem = large_unit_problem(seed)
    nothing = np.zeros((*problem.unit_time_us.shape[:2], 1))
    longer = replace(
        problem,
        stage_base_us=np.append(problem.stage_base_us, 0.0),
        unit_time_us=np.concatenate([problem.unit_time_us, nothing], axis=2),
    )
    assert _rise(longer) == pytest.approx(_rise_of(seed), abs=1e-4)


def test_units_that_are_not_alike_may_each_be_where_they_fit() -> None:
    """The third table's first unit fits beside the first table, its second beside the second, and the first two tables not on one device."""
    loads = np.array([[90.0, 0.0], [0.0, 60.0], [0.0, 60.0], [90.0, 0.0]])
    problem = plain_problem(
        loads[:, None],
        hbm_capacity=[100, 100],
        unit_hbm_bytes=[[60], [60], [10], [10]],
        option_first_unit=np.array([0, 1, 2, 4]),
    )
    bounder = Bounder(problem)
    assert optimum_us(problem) == 150.0
    assert bounder.raised(bounder.bound()).value_us == pytest.approx(150.0)


@cache
def _rise_of(seed: int) -> float:
    return _rise(large_unit_problem(seed))


def _rise(problem: Problem) -> float:
    """By what share large units raise the bound."""
    bounder = Bounder(problem)
    bound = bounder.bound()
    return bounder.raised(bound).value_us / bound.value_us - 1
