"""Two devices trade what they hold: within a node, and between nodes as long as their system memory allows."""

from __future__ import annotations

import numpy as np
import pytest

from emplace.solver.budget import PAIR_WORK, WAY_WORK
from emplace.solver.local_search.state import LoadLimits, SearchState, empty_split, empty_state, limits_of
from emplace.solver.model.flat import FlatProblem, flatten
from emplace.solver.model.problem import Problem, Scope
from emplace.solver.native import recount, resplit_pairs

MOST = 20


def problem_of(times_us: list[float], ddr_bytes: list[int], ddr_capacity: int) -> Problem:
    """Two nodes of one device each; every table has one unit, in system memory, for one device."""
    tables = len(times_us)
    return Problem(
        device_kind=np.zeros(2, dtype=np.int64),
        device_node=np.arange(2),
        device_is_trainer=np.ones(2, dtype=bool),
        device_pool=np.arange(2),
        hbm_capacity=np.full(2, 10),
        ddr_capacity=np.full(2, ddr_capacity),
        constant_us=0.0,
        stage_base_us=np.zeros(1),
        option_table=np.arange(tables),
        option_scope=np.full(tables, Scope.DEVICE, dtype=np.int64),
        option_kind=np.zeros(tables, dtype=np.int64),
        option_first_unit=np.arange(tables + 1),
        unit_time_us=np.array(times_us)[:, None, None],
        unit_hbm_bytes=np.zeros((tables, 1), dtype=np.int64),
        unit_ddr_bytes=np.array(ddr_bytes)[:, None],
    )


def placed(problem: Problem, devices: list[int], makespan_us: float) -> tuple[FlatProblem, LoadLimits, SearchState, float]:
    flat = flatten(problem)
    limits, state = limits_of(problem, np.array([makespan_us])), empty_state(problem, flat, 0)
    state.option[:], state.target[:] = np.arange(problem.num_tables), devices
    return flat, limits, state, recount(flat, limits, state, np.zeros(2))


def test_tables_in_system_memory_go_to_another_node_where_that_has_room() -> None:
    flat, limits, state, before = placed(problem_of([4, 3, 2, 1], [5, 5, 5, 5], 10), [0, 0, 1, 1], 5.0)
    after, _ = resplit_pairs(flat, limits, state, empty_split(state, MOST), 1e5, PAIR_WORK, WAY_WORK)
    assert before > 0.0
    assert after == 0.0
    assert sorted(state.load[:, 0]) == [5, 5]
    assert list(state.ddr) == [10, 10]


def test_nothing_goes_to_a_node_whose_system_memory_is_full() -> None:
    flat, limits, state, before = placed(problem_of([4, 3, 1], [5, 5, 10], 10), [0, 0, 1], 5.0)
    after, _ = resplit_pairs(flat, limits, state, empty_split(state, MOST), 1e5, PAIR_WORK, WAY_WORK)
    assert after == pytest.approx(before)
    assert (state.ddr <= 10).all()


@pytest.mark.parametrize("seed", range(20))
def test_loads_are_those_of_the_placement_and_overload_never_grows(seed: int) -> None:
    random = np.random.default_rng(seed)
    times, ddr = random.uniform(1, 9, 8), random.integers(0, 9, 8)
    problem = problem_of(list(times), list(ddr), int(ddr.sum() * random.uniform(0.4, 0.8)))
    flat, limits, state, before = placed(problem, list(random.integers(0, 2, 8)), float(times.sum() / 2))
    after, _ = resplit_pairs(flat, limits, state, empty_split(state, MOST), 1e4, PAIR_WORK, WAY_WORK)
    load, pools = state.load.copy(), state.ddr.copy()
    assert recount(flat, limits, state, np.zeros(2)) == pytest.approx(after, abs=1e-12)
    assert after <= before
    assert load == pytest.approx(state.load)
    assert list(pools) == list(state.ddr)
