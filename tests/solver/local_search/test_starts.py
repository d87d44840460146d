"""Where searches start: one option of each table, from several balances between the stages."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.generate import Case, draw, suite
from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.local_search.starts import LESS_NEAR, NEAR, first_start, other_starts, shorter_starts
from emplace.solver.model.problem import Problem, Scope
from emplace.solver.presolve.granularity import common_divisor
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.relaxation.region import Region

IDS, OUTPUTS = 0, 2
FEW = next(case for case in suite() if case.name == "m3x64-95-k5")


@pytest.fixture(scope="module")
def bounded() -> tuple[Problem, Bounder, Bound]:
    problem = merge_stages(draw(Case("steps", 400, 32, 0.85)))
    bounder = Bounder(problem)
    return problem, bounder, bounder.raised(bounder.bound())


def step_us(problem: Problem) -> float:
    option = np.repeat(np.arange(problem.num_options), np.diff(problem.option_first_unit))
    single = problem.option_scope[option] == Scope.DEVICE
    return common_divisor(problem.unit_time_us[single, 0, OUTPUTS], 1e4)


def below(bounder: Bounder, bound: Bound, value_us: float) -> tuple[Region, float]:
    region = bounder.below(bound.root, value_us - bound.fixed_us)
    assert region is not None
    return region, value_us - bound.fixed_us


def test_the_stage_of_whole_steps_lasts_one_more_and_others_get_back_what_they_were_longer(bounded: tuple[Problem, Bounder, Bound]) -> None:
    problem, bounder, bound = bounded
    first = first_start(problem, bounder, bound)
    base_us, whole_us = problem.stage_base_us, step_us(problem)
    assert ((first.least_us - base_us)[OUTPUTS] / whole_us) % 1 == pytest.approx(0.75)
    others = [start.least_us - base_us for start in other_starts(problem, bounder, bound, first, ENDLESS)]
    stepped = [least_us for least_us in others if least_us[OUTPUTS] > first.least_us[OUTPUTS]]
    assert [least_us[OUTPUTS] / whole_us for least_us in stepped] == pytest.approx(
        [np.ceil(first.least_us[OUTPUTS] / whole_us)] * 5, abs=1e-4
    )
    (region,) = bounder.cases_below(bound, *below(bounder, bound, bound.value_us * (1 + NEAR)))
    shortest_us = region.relaxation.makespan[IDS]
    given_back = [(least_us[IDS] - shortest_us) / ((first.least_us - base_us)[IDS] - shortest_us) for least_us in stepped]
    assert given_back == pytest.approx([0.75, 0.0, 0.5, 1.0, 0.25], abs=0.02)


def test_where_no_near_case_has_a_step_more_one_less_near_does(
    bounded: tuple[Problem, Bounder, Bound], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, bounder, bound = bounded
    longer, asked = Bounder.with_a_step_more, []

    def not_near(bounder: Bounder, bound: Bound, region: Region, value: float) -> Region | None:
        asked.append((value + bound.fixed_us) / bound.value_us - 1)
        return longer(bounder, bound, region, value) if len(asked) > 1 else None

    monkeypatch.setattr(Bounder, "with_a_step_more", not_near)
    first = first_start(problem, bounder, bound)
    others = list(other_starts(problem, bounder, bound, first, ENDLESS))
    assert asked == pytest.approx([NEAR, LESS_NEAR])
    assert sum(start.least_us[OUTPUTS] > first.least_us[OUTPUTS] for start in others) == 5


def test_a_step_more_is_looked_for_up_to_a_value(bounded: tuple[Problem, Bounder, Bound]) -> None:
    problem, bounder, bound = bounded
    whole_us = step_us(problem)
    whole, value = below(bounder, bound, bound.value_us * (1 + NEAR))
    region = bounder.with_a_step_more(bound, whole, value)
    assert region is not None
    near = bound.near.relaxation.makespan[OUTPUTS] / whole_us
    assert region.relaxation.makespan[OUTPUTS] / whole_us == pytest.approx(np.ceil(near), abs=1e-4)
    assert bounder.with_a_step_more(bound, whole, region.relaxation.bound * (1 - 1e-3)) is None


def test_with_few_tables_the_stage_of_whole_steps_lasts_fewer_and_fewer() -> None:
    problem = merge_stages(draw(FEW))
    bounder = Bounder(problem)
    bound = bounder.bound()
    base_us, whole_us = problem.stage_base_us, step_us(problem)
    shorter = [start.least_us - base_us for start in shorter_starts(problem, bounder, bound, ENDLESS)]
    steps = [least_us[OUTPUTS] / whole_us for least_us in shorter]
    root = bound.root.relaxation.makespan[OUTPUTS] / whole_us
    assert steps == pytest.approx([root, *(np.ceil(root) - fewer for fewer in range(1, len(steps)))], abs=1e-4)
    near = first_start(problem, bounder, bound).least_us - base_us
    assert len(steps) > 2
    assert steps[-1] < near[OUTPUTS] / whole_us - 2
    assert all(later[IDS] > sooner[IDS] for sooner, later in pairwise(shorter))
    assert all(problem.constant_us + (least_us + base_us).sum() <= bound.value_us for least_us in shorter)


def test_each_start_has_one_option_of_each_table(bounded: tuple[Problem, Bounder, Bound]) -> None:
    problem, bounder, bound = bounded
    first = first_start(problem, bounder, bound)
    starts = [first, *other_starts(problem, bounder, bound, first, ENDLESS)]
    assert len(starts) > 3
    for start in starts:
        assert list(problem.option_table[start.options]) == list(range(problem.num_tables))
    assert len({tuple(start.options) for start in starts}) > 1


def test_there_are_no_others_where_the_clock_is_over(bounded: tuple[Problem, Bounder, Bound]) -> None:
    problem, bounder, bound = bounded
    first = first_start(problem, bounder, bound)
    over = Clock(lambda: 1.0, 0.0)
    assert all(list(start.least_us) == list(first.least_us) for start in other_starts(problem, bounder, bound, first, over))
    assert list(shorter_starts(problem, bounder, bound, over)) == []
