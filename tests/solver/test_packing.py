"""Greedy packing: what it returns fits, and it finds a place wherever there is plenty of room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solver.packing import pack
from solver.problem import fits, loads_of
from tests.solver.brute_force import optimum_us, random_problem


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
