"""Which options the search tries at a target: none whose units alone would make several stages last too long together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.generate import Case, draw
from emplace.solver.local_search.lane import PAIRS, Goal
from emplace.solver.local_search.search import LONG, LONG_OF_ROOM, Search
from emplace.solver.local_search.starts import LONG_AT_FIRST, first_start
from emplace.solver.model.flat import restricted, to_assignment
from emplace.solver.model.indexing import or_all
from emplace.solver.model.problem import Problem, Scope
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
