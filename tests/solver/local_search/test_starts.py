"""How long searches are first let each stage last: as the relaxation says, or whole steps of a stage."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.generate import Case, draw, suite
from emplace.solver.budget import Budget
from emplace.solver.local_search.search import RACERS, race
from emplace.solver.local_search.starts import MOST_EITHER_WAY, NEARLY_BEST, start_of, starts_of
from emplace.solver.model.problem import Problem
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bounder

FEW = next(case for case in suite() if case.name == "m1x16-95-k5")
OUTPUTS = 2
"""The stage that columns are sent in."""


def drawn(case: Case) -> tuple[Problem, Bounder]:
    problem = merge_stages(draw(case))
    return problem, Bounder(problem)


def test_the_relaxations_own_comes_first_and_others_last_whole_steps_of_one_stage() -> None:
    problem, bounder = drawn(FEW)
    bound = bounder.bound()
    own, *others = starts_of(problem, bounder, bound)
    assert (own.least_us == start_of(problem, bounder, bound).least_us).all()
    steps_us = problem.unit_time_us[:, 0, OUTPUTS]
    step_us = steps_us[steps_us > 0].min()
    whole = np.array([(start.least_us - problem.stage_base_us)[OUTPUTS] / step_us for start in others])
    assert whole == pytest.approx(np.rint(whole))
    assert len(set(np.rint(whole))) == len(others) >= RACERS
    sums = [float(start.least_us.sum()) for start in others]
    assert sums == sorted(sums)
    assert sums[-1] - sums[0] <= NEARLY_BEST * bound.value_us * 16 / 30 * (1 + 1e-6)
    # A stage that lasts longer leaves the others less to do.
    shortest, longest = others[int(whole.argmin())], others[int(whole.argmax())]
    assert shortest.least_us[0] > longest.least_us[0]


def test_where_steps_are_many_a_few_are_tried() -> None:
    problem, bounder = drawn(Case("two tables", 2, 8, 0.3))
    assert 1 < len(starts_of(problem, bounder, bounder.bound())) <= 1 + 2 * MOST_EITHER_WAY


@pytest.mark.parametrize("case", [Case("one stage", 40, 16, 0.95, stages=1), Case("two kinds", 40, 16, 0.95, kinds=2)])
def test_without_whole_steps_there_is_one_start(case: Case) -> None:
    problem, bounder = drawn(case)
    assert len(starts_of(problem, bounder, bounder.bound())) == 1


def test_searches_of_a_race_start_from_different_ones() -> None:
    problem, bounder = drawn(FEW)
    bound = bounder.bound()
    searches = {id(search): search for search in race(problem, bounder, bound, Budget(seconds=2.0, gap=0.0, seed=0), Monitor())}
    starts = [tuple(search.lanes[0].start.least_us) for search in searches.values()]
    assert len(set(starts)) == len(starts) >= RACERS
