"""What other tests hold the solver against: every assignment at once, against one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from emplace.solver.model.problem import Problem, fits, loads_of, objective_us
from tests.solver.brute_force import every_assignment, fitting, optimum_us, random_problem
from tests.solver.random_problems import rich_problem


@pytest.mark.parametrize("problem", [draw(seed) for draw in (random_problem, rich_problem) for seed in range(8)])
def test_every_assignment_that_fits_is_found_with_its_time(problem: Problem) -> None:
    loaded = ((assignment, loads_of(problem, assignment)) for assignment in every_assignment(problem))
    expected = [(objective_us(problem, loads), assignment) for assignment, loads in loaded if fits(problem, loads)]
    found = fitting(problem)
    assert [value_us for value_us, _ in found] == pytest.approx([value_us for value_us, _ in expected])
    assert [each.targets for _, each in found] == [each.targets for _, each in expected]
    assert [each.option.tolist() for _, each in found] == [each.option.tolist() for _, each in expected]
    assert optimum_us(problem) == pytest.approx(min((value_us for value_us, _ in expected), default=np.inf))
