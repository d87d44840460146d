"""Placements near a given one: always such that fit and are better, down to the optimum where everything is freed."""

from __future__ import annotations

from itertools import pairwise
from operator import itemgetter

import numpy as np
import pytest

from emplace.solver.heuristics.large_neighbourhood import BETTER, LargeNeighbourhood
from emplace.solver.model.problem import Assignment, Problem, fits, loads_of, objective_us
from emplace.solver.relaxation.bound import Bounder
from tests.solver.brute_force import fitting, random_problem, worst

TRIES = 20


def improved(problem: Problem, plan: Assignment) -> tuple[Assignment, list[float]]:
    """After many tries, which have the time to free all that there is."""
    bounder = Bounder(problem)
    nearby, values = LargeNeighbourhood(problem, bounder, bounder.bound(), 0), []
    for _ in range(TRIES):
        better = nearby.improve(plan)
        if better is not None:
            plan = better
            loads = loads_of(problem, plan)
            assert fits(problem, loads)
            values.append(objective_us(problem, loads))
    assert nearby.counted_s > 0
    return plan, values


@pytest.mark.parametrize("seed", range(60))
def test_every_step_is_better_and_the_last_is_optimal(seed: int) -> None:
    problem = random_problem(seed)
    plans = fitting(problem)
    if not plans:
        return
    (first_us, start), (optimum_us, _) = max(plans, key=itemgetter(0)), min(plans, key=itemgetter(0))
    plan, values = improved(problem, start)
    assert all(b < a for a, b in pairwise([first_us, *values]))
    assert optimum_us * (1 - 1e-9) <= objective_us(problem, loads_of(problem, plan)) <= optimum_us / (1 - BETTER) * (1 + 1e-9)


def test_the_same_seed_finds_the_same() -> None:
    problem = random_problem(next(seed for seed in range(60) if worst(random_problem(seed)) is not None))
    start = worst(problem)
    assert start is not None
    one, other = improved(problem, start)[0], improved(problem, start)[0]
    assert np.array_equal(one.option, other.option)
    assert one.targets == other.targets
