"""Greedy packing: what it returns fits, and it finds a place wherever there is plenty of room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from emplace.solver.heuristics.greedy import pack
from emplace.solver.model.problem import fits, loads_of
from tests.solver.brute_force import optimum_us, random_problem
from tests.solver.plain_problems import plain_problem


@pytest.mark.parametrize("seed", range(60))
def test_a_packed_placement_fits(seed: int) -> None:
    problem = random_problem(seed)
    assignment = pack(problem)
    if assignment is None:
        return
    assert fits(problem, loads_of(problem, assignment))
    assert np.isfinite(optimum_us(problem))
    for table, targets in enumerate(assignment.targets):
        assert len(set(targets)) == len(targets)
        assert problem.option_table[assignment.option[table]] == table


@pytest.mark.parametrize("seed", range(60))
def test_finds_a_place_wherever_there_is_room_for_all(seed: int) -> None:
    problem = random_problem(seed)
    roomy = replace(problem, hbm_capacity=problem.hbm_capacity * 100, ddr_capacity=problem.ddr_capacity * 100)
    assert (pack(roomy) is not None) == np.isfinite(optimum_us(roomy))


def test_finds_most_tight_ones() -> None:
    feasible = [seed for seed in range(60) if np.isfinite(optimum_us(random_problem(seed)))]
    packed = [seed for seed in feasible if pack(random_problem(seed)) is not None]
    assert len(packed) >= 0.8 * len(feasible)


def test_an_option_that_fits_in_part_leaves_nothing_behind() -> None:
    """The first table is faster in two pieces, the second of which fits nowhere. Whole, it leaves room for the other table."""
    problem = plain_problem(
        np.array([0.1, 0.1, 5.0, 0.01]).reshape(4, 1, 1),
        hbm_capacity=[100, 41],
        unit_hbm_bytes=[[60], [60], [40], [60]],
        option_table=np.array([0, 0, 1]),
        option_first_unit=np.array([0, 2, 3, 4]),
    )
    assignment = pack(problem)
    assert assignment is not None
    assert assignment.option.tolist() == [1, 2]
    assert assignment.targets == ((0,), (0,))
