"""Two devices trade what they hold: within a node, and between nodes as long as their system memory allows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from emplace.solver.budget import PAIR_WORK, WAY_WORK
from emplace.solver.local_search.state import LoadLimits, SearchState, empty_journal, empty_state, limits_of
from emplace.solver.model.flat import FlatProblem, flatten, restricted, to_assignment
from emplace.solver.model.problem import Problem, Scope
from emplace.solver.native import recount, resplit_pairs
from tests.solver.plain_problems import plain_problem


def problem_of(times_us: list[float], ddr_bytes: list[int], ddr_capacity: int) -> Problem:
    """Two nodes of one device each; every table has one unit, in system memory, for one device."""
    return plain_problem(
        np.array(times_us)[:, None, None],
        hbm_capacity=[10, 10],
        device_node=np.arange(2),
        device_pool=np.arange(2),
        ddr_capacity=np.full(2, ddr_capacity),
        unit_ddr_bytes=np.array(ddr_bytes)[:, None],
    )


def placed(problem: Problem, devices: list[int], makespan_us: float) -> tuple[FlatProblem, LoadLimits, SearchState, float]:
    flat = flatten(problem)
    limits, state = limits_of(problem, np.array([makespan_us])), empty_state(problem, flat, 0)
    state.option[:], state.target[:] = np.arange(problem.num_tables), devices
    return flat, limits, state, recount(flat, limits, state, np.zeros(2))


def _resplit(flat: FlatProblem, limits: LoadLimits, state: SearchState, work: float) -> float:
    after, _ = resplit_pairs(flat, limits, state, empty_journal(flat, state), work, PAIR_WORK, WAY_WORK)
    return after


def test_tables_in_system_memory_go_to_another_node_where_that_has_room() -> None:
    flat, limits, state, before = placed(problem_of([4, 3, 2, 1], [5, 5, 5, 5], 10), [0, 0, 1, 1], 5.0)
    after = _resplit(flat, limits, state, 1e5)
    assert before > 0.0
    assert after == 0.0
    assert sorted(state.load[:, 0]) == [5, 5]
    assert list(state.ddr) == [10, 10]


def test_nothing_goes_to_a_node_whose_system_memory_is_full() -> None:
    flat, limits, state, before = placed(problem_of([4, 3, 1], [5, 5, 10], 10), [0, 0, 1], 5.0)
    after = _resplit(flat, limits, state, 1e5)
    assert after == pytest.approx(before)
    assert (state.ddr <= 10).all()


@pytest.mark.parametrize("seed", range(20))
def test_loads_are_those_of_the_placement_and_overload_never_grows(seed: int) -> None:
    random = np.random.default_rng(seed)
    times, ddr = random.uniform(1, 9, 8), random.integers(0, 9, 8)
    problem = problem_of(list(times), list(ddr), int(ddr.sum() * random.uniform(0.4, 0.8)))
    flat, limits, state, before = placed(problem, list(random.integers(0, 2, 8)), float(times.sum() / 2))
    after = _resplit(flat, limits, state, 1e4)
    load, pools = state.load.copy(), state.ddr.copy()
    assert recount(flat, limits, state, np.zeros(2)) == pytest.approx(after, abs=1e-12)
    assert after <= before
    assert load == pytest.approx(state.load)
    assert list(pools) == list(state.ddr)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("stages", [1, 3, 5, 6])
def test_the_best_split_is_taken(stages: int, squared: bool) -> None:
    random = np.random.default_rng(stages)
    for seed in range(10):
        times, ddr = random.uniform(1, 9, (9, stages)), random.integers(0, 9, 9)
        problem = problem_of(list(times[:, 0]), list(ddr), int(ddr.sum() * random.uniform(0.4, 0.8)))
        hbm = random.integers(0, 4, 9)
        problem = replace(problem, stage_base_us=np.zeros(stages), unit_time_us=times[:, None, :], unit_hbm_bytes=hbm[:, None])
        flat = flatten(problem)
        makespan_us = times.sum(axis=0) * random.uniform(0.4, 0.55, stages)
        limits, state = limits_of(problem, makespan_us, squared=squared), empty_state(problem, flat, seed)
        state.option[:], state.target[:] = np.arange(9), 0
        recount(flat, limits, state, np.zeros(stages + 1))
        while (state.target == 0).all():
            after = _resplit(flat, limits, state, 1e-9)  # one pair: of the same device twice, nothing happens
        assert after == pytest.approx(_least_overload(flat, limits, state), rel=1e-9)


def test_system_memory_that_stays_exceeded_keeps_nothing_from_being_split() -> None:
    problem = problem_of([0, 4, 3, 2, 1], [30, 0, 0, 0, 0], 10)
    problem = replace(problem, allowed=np.array([[True, False], *[[True, True]] * 4]))
    flat, limits, state, _ = placed(problem, [0, 0, 0, 0, 1], 5.0)
    _resplit(flat, limits, state, 1e5)
    assert sorted(state.load[:, 0]) == [5, 5]
    assert list(state.ddr) == [30, 0]


def test_more_stages_than_a_row_of_loads_has_room_for_are_refused() -> None:
    problem = problem_of([1.0, 1.0], [0, 0], 0)
    problem = replace(problem, stage_base_us=np.zeros(7), unit_time_us=np.ones((2, 1, 7)))
    flat, limits, state = flatten(problem), limits_of(problem, np.ones(7)), empty_state(problem, flatten(problem), 0)
    with pytest.raises(ValueError, match="at most six stages"):
        _resplit(flat, limits, state, 1.0)


def _least_overload(flat: FlatProblem, limits: LoadLimits, state: SearchState) -> float:
    """Of all ways to split nine tables between two devices."""
    tried = state._replace(target=state.target.copy())
    overloads = []
    for sides in product((0, 1), repeat=9):
        tried.target[:] = sides
        overloads.append(recount(flat, limits, tried, np.zeros(state.load.shape[1])))
    return min(overloads)


def _with_halves(times_us: list[float], overhead_us: float) -> Problem:
    """Two devices; every table may lie on one, or in halves that take `overhead_us` each besides."""
    tables = len(times_us)
    whole = problem_of(times_us, [0] * tables, 0)
    units = np.array([time for each in times_us for time in (each, each / 2 + overhead_us, each / 2 + overhead_us)])
    return replace(
        whole,
        option_table=np.repeat(np.arange(tables), 2),
        option_scope=np.full(2 * tables, Scope.DEVICE, dtype=np.int64),
        option_kind=np.zeros(2 * tables, dtype=np.int64),
        option_first_unit=np.append(0, np.cumsum(np.tile([1, 2], tables))),
        unit_time_us=units[:, None, None],
        unit_hbm_bytes=np.zeros((3 * tables, 1), dtype=np.int64),
        unit_ddr_bytes=np.zeros((3 * tables, 1), dtype=np.int64),
    )


def _placed_whole(problem: Problem, makespan_us: float, price: float) -> tuple[FlatProblem, LoadLimits, SearchState]:
    """All tables whole on the first device; halves cost `price`."""
    every = np.ones(problem.num_options, dtype=bool)
    flat = restricted(problem, flatten(problem), every, np.tile([0.0, price], problem.num_tables))
    limits, state = limits_of(problem, np.array([makespan_us])), empty_state(problem, flat, 0)
    state.option[:], state.target[flat.slot_first[:-1]] = np.arange(0, problem.num_options, 2), 0
    recount(flat, limits, state, np.zeros(2))
    return flat, limits, state


def test_a_table_is_split_where_only_that_balances_the_pair() -> None:
    problem = _with_halves([6.0, 2.0, 2.0], 0.5)
    flat, limits, state = _placed_whole(problem, 5.5, price=0.0)
    assert _resplit(flat, limits, state, 1e5) == 0.0
    assert list(state.option) == [1, 2, 4]
    assert sorted(state.load[:, 0]) == [5.5, 5.5]


def test_no_table_is_split_for_less_than_its_price() -> None:
    problem = _with_halves([6.0, 2.0, 2.0], 0.5)
    flat, limits, state = _placed_whole(problem, 5.5, price=10.0)
    assert _resplit(flat, limits, state, 1e5) > 0.0
    assert list(state.option) == [0, 2, 4]
    assert sorted(state.load[:, 0]) == [4.0, 6.0]


@pytest.mark.parametrize("seed", range(20))
def test_tables_with_other_options_leave_the_loads_of_their_placement(seed: int) -> None:
    random = np.random.default_rng(seed)
    times = random.uniform(1, 9, 6)
    problem = _with_halves(list(times), 0.3)
    flat, limits, state = _placed_whole(problem, float(times.sum() / 2) * 1.02, price=0.001)
    after = _resplit(flat, limits, state, 1e4)
    load = state.load.copy()
    assert recount(flat, limits, state, np.zeros(2)) == pytest.approx(after, abs=1e-12)
    assert load == pytest.approx(state.load)
    assert all(len(set(units)) == len(units) for units in to_assignment(problem, flat, state.option, state.target).targets)


def late(squared: bool) -> tuple[LoadLimits, SearchState, float]:
    """Three devices, each with a table that may go nowhere else: one is late by 6 us in the first stage, the others by 1 us in the
    second."""
    times = np.array([[16.0, 4.0], [5.0, 11.0], [5.0, 11.0]])
    problem = replace(
        problem_of([0.0, 0.0, 0.0], [0, 0, 0], 10),
        device_kind=np.zeros(3, dtype=np.int64),
        device_node=np.zeros(3, dtype=np.int64),
        device_is_trainer=np.ones(3, dtype=bool),
        device_pool=np.zeros(3, dtype=np.int64),
        hbm_capacity=np.full(3, 10),
        ddr_capacity=np.full(1, 10),
        stage_base_us=np.zeros(2),
        unit_time_us=times[:, None, :],
        allowed=np.eye(3, dtype=bool),
    )
    flat = flatten(problem)
    limits, state = limits_of(problem, np.full(2, 10.0), squared=squared), empty_state(problem, flat, 0)
    state.option[:], state.target[:] = np.arange(3), np.arange(3)
    overload = recount(flat, limits, state, np.zeros(3))
    _resplit(flat, limits, state, 1e-9)
    return limits, state, overload


def test_an_excess_costs_its_share_of_the_target() -> None:
    assert late(squared=False)[2] == pytest.approx((6 + 1 + 1) / 20)


def test_squared_it_costs_the_square_besides_which_weighs_the_same_at_a_five_hundredth() -> None:
    assert late(squared=True)[2] == pytest.approx((6 + 1 + 1) / 20 + 500 * ((6 / 20) ** 2 + 2 * (1 / 20) ** 2))


def test_the_stage_that_most_devices_exceed_gets_longer_and_squared_the_one_that_is_exceeded_most() -> None:
    plain, squared = late(squared=False)[0].load[0], late(squared=True)[0].load[0]
    assert plain[0] < 10.0 < plain[1]
    assert squared[1] < 10.0 < squared[0]
    assert plain[:2].sum() == pytest.approx(20.0) == squared[:2].sum()
