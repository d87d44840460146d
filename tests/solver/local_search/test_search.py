"""What the search aims for at a target: which options it tries, what they cost, and how long stages of whole steps last."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.generate import Case, draw
from emplace.solver.local_search.lane import PAIRS, Goal
from emplace.solver.local_search.search import LONG, LONG_OF_ROOM, LOOSEST, Search
from emplace.solver.local_search.starts import LONG_AT_FIRST, first_start
from emplace.solver.model.flat import restricted, to_assignment
from emplace.solver.model.indexing import or_all
from emplace.solver.model.problem import Ints, Problem, Scope
from emplace.solver.presolve.merge_stages import merge_stages
from emplace.solver.relaxation.bound import Bounder


def search_of(stages: int) -> Search:
    problem = merge_stages(draw(Case("tight", 60, 16, 0.95, stages=stages)))
    bounder = Bounder(problem)
    bound = bounder.bound()
    return Search(problem, bounder, bound, first_start(problem, bounder, bound), seed=0)


def excess_us(problem: Problem, option: int, least_us: list[float]) -> float:
    """Over the unit that is longest in each stage; devices are all alike."""
    units = range(problem.option_first_unit[option], problem.option_first_unit[option + 1])
    longest = [max(problem.unit_time_us[unit, 0, stage] for unit in units) for stage in range(problem.num_stages)]
    return sum(max(0.0, float(base + time - least)) for base, time, least in zip(problem.stage_base_us, longest, least_us, strict=True))


@pytest.mark.parametrize("looser", [1.1, 2.0])
def test_options_too_long_for_the_stages_are_left_to_tables_without_others(looser: float) -> None:
    search = search_of(stages=5)
    problem, bound_us = search.problem, search.bound.value_us
    allowed, _ = search.bounder.candidates(search.bound, bound_us * looser)
    goal = search._goal(bound_us * looser, 1.0)
    least_us, most_us = list(search.lanes[0].start.least_us), max(LONG, LONG_OF_ROOM * (looser - 1)) * bound_us
    first = np.searchsorted(problem.option_table, np.arange(problem.num_tables + 1))
    left_out = 0
    for table, (begin, end) in enumerate(pairwise(first)):
        options = [option for option in range(begin, end) if allowed[option]]
        short = [option for option in options if excess_us(problem, option, least_us) <= most_us]
        tried = goal.flat.candidate[goal.flat.candidate_first[table] : goal.flat.candidate_first[table + 1]]
        assert list(tried) == (short or options)
        left_out += len(options) - len(tried)
    assert left_out > 0


@pytest.mark.parametrize(("stages", "power"), [(5, 2), (1, 0)])
@pytest.mark.parametrize("further", [1.0, 2.0, 4.0])
def test_prices_of_options_weigh_less_the_further_a_target_is_above_the_bound(further: float, stages: int, power: int) -> None:
    """With several stages: with one they stay."""
    search = search_of(stages)
    bound_us, constant_us = search.bound.value_us, search.problem.constant_us
    search.best = replace(search.best, assignment=to_assignment(search.problem, search.flat, *placed(search)))
    target_us = bound_us * (1 + LOOSEST * further)
    kept, price = search.bounder.candidates(search.bound, target_us)
    own = search._goal(target_us, 1.0).flat.option_price
    assert (price[kept] > 0).any()
    np.testing.assert_allclose(own, price * search.problem.num_devices / (target_us - constant_us) / further**power)


def placed(search: Search) -> tuple[Ints, Ints]:
    """The first placement that the search begins with."""
    lane = search.lanes[0]
    lane.begin(search._goal(search.bound.value_us * 1.1, 1.0), [])
    return lane.state.option, lane.state.target


@pytest.mark.parametrize(
    ("late", "room", "added"),
    [((1.0, 0.3), 3.0, 1), ((0.3, 1.0), 3.0, 0), ((1.0, 0.4), 3.0, 0), ((1.0, 0.3), 0.5, 0), ((0.0, 0.0), 3.0, 0)],
    ids=["that stage is late", "others are", "by less than others together", "no room", "none is"],
)
@pytest.mark.parametrize("part", [0.0, 0.3])
def test_a_stage_of_whole_steps_lasts_one_more_where_that_is_what_a_run_lacked(
    late: tuple[float, float], room: float, added: int, part: float
) -> None:
    search = search_of(stages=5)
    lane, constant_us = search.lanes[0], search.problem.constant_us
    stage = int(np.argmax(lane.steps.step_us))
    step_us = float(lane.steps.step_us[stage])
    whole_us = float(search.problem.stage_base_us[stage] + lane.steps.least_us[stage])
    lane.least_us = np.where(np.arange(5) == stage, whole_us + part * step_us, lane.least_us)
    before = lane.least_us.copy()
    lane.begin(search._goal(constant_us + before.sum() + room * step_us, 1.0), [])
    lane.limits.load[:, :-1] = np.inf
    for column in range(4):
        lane.limits.load[:, column] = lane.state.load[:, column] - late[column != stage] * step_us
    lane.end(success=False)
    expected = before.copy()
    expected[stage] = whole_us + step_us if added else before[stage]
    np.testing.assert_allclose(lane.least_us, expected, rtol=1e-6)


def test_first_options_are_short_where_the_relaxation_leaves_a_short_one() -> None:
    search = search_of(stages=5)
    problem, near = search.problem, search.bound.near
    least_us = list(problem.stage_base_us + near.relaxation.makespan)
    first = np.searchsorted(problem.option_table, np.arange(problem.num_tables + 1))
    long = [excess_us(problem, option, least_us) > LONG_AT_FIRST * search.bound.value_us for option in range(problem.num_options)]
    left = set(near.part.left)
    for proposed, (begin, end) in zip(search.lanes[0].start.options, pairwise(first), strict=True):
        assert not long[proposed] or all(long[option] for option in range(begin, end) if option in left)


def test_with_one_stage_the_bound_alone_says_which_are_too_long() -> None:
    search = search_of(stages=1)
    target_us = search.bound.value_us * 1.5
    allowed, _ = search.bounder.candidates(search.bound, target_us)
    assert list(search._goal(target_us, 1.0).flat.candidate) == list(np.flatnonzero(allowed))


def test_no_unit_is_left_without_a_target_where_a_tables_node_is_chosen() -> None:
    search = search_of(stages=5)
    problem, lane = search.problem, search.lanes[0]
    units = np.diff(problem.option_first_unit)
    nodes = slice(problem.num_devices, search.flat.allowed.shape[1] - 1)
    chosen = np.flatnonzero(search.flat.allowed[:, nodes].sum(axis=1) == 1)
    on_two_nodes = (problem.option_scope == Scope.NODE) & (units > 1)
    assert np.isin(problem.option_table[on_two_nodes], chosen).any()
    for candidates in (on_two_nodes, on_two_nodes | (problem.option_scope == Scope.WORLD)):
        kept = or_all(search.bound.root.part.whole.first, candidates, np.ones(problem.num_options, dtype=bool))
        flat = restricted(problem, search.flat, kept, np.zeros(problem.num_options))
        lane.state.option[:] = -1
        lane.begin(Goal(flat, search.bound.value_us * 1.1, 1.0, any_time=False, pairs=PAIRS), [])
        for option, targets in zip(
            lane.state.option, to_assignment(problem, flat, lane.state.option, lane.state.target).targets, strict=True
        ):
            assert len(targets) == units[option]
            assert problem.option_scope[option] == Scope.WORLD or min(targets) >= 0
