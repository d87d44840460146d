"""Fewer stages, the same question."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from emplace.solver.model.problem import Assignment, Problem, loads_of, objective_us
from emplace.solver.presolve.merge_stages import merge_stages
from tests.solver.brute_force import every_assignment, random_problem


def with_stages_repeated(problem: Problem, factor: float) -> Problem:
    """Every stage once more, `factor` times as long, and one in which nothing happens."""
    time, base = problem.unit_time_us, problem.stage_base_us
    return replace(
        problem,
        unit_time_us=np.concatenate([time, factor * time, 0 * time[:, :, :1]], axis=2),
        stage_base_us=np.concatenate([base, base + 7.0, [3.0]]),
    )


def test_merged_stages_leave_every_objective_as_it_is() -> None:
    checked = 0
    for seed in range(20):
        problem = with_stages_repeated(random_problem(seed), 0.37)
        merged = merge_stages(problem)
        assert merged.num_stages <= problem.num_stages // 2
        for assignment in some(problem):
            expected = objective_us(problem, loads_of(problem, assignment))
            assert objective_us(merged, loads_of(merged, assignment)) == pytest.approx(expected)
            checked += 1
    assert checked > 100


def some(problem: Problem) -> list[Assignment]:
    return list(islice(every_assignment(problem), 50))
