"""Compiled code takes arrays as they are or not at all: it works in them, so a copy would be lost."""

from __future__ import annotations

import numpy as np
import pytest

from emplace.solver.local_search.state import LoadLimits, SearchState, empty_state, limits_of
from emplace.solver.model.flat import FlatProblem, flatten
from emplace.solver.model.problem import Problem
from emplace.solver.native import greedy, recount
from tests.solver.plain_problems import plain_problem

LOAD_COLUMNS = 2


def two_units_on_two_devices(may_use: list[bool]) -> Problem:
    """One table with one option, of two units, on the devices that it may use."""
    return plain_problem(
        np.ones((2, 1, 1)),
        hbm_capacity=[10, 10],
        unit_hbm_bytes=1,
        ddr_capacity=np.full(1, 10),
        option_first_unit=np.array([0, 2]),
        allowed=np.array([may_use]),
    )


def records(problem: Problem) -> tuple[FlatProblem, LoadLimits, SearchState]:
    flat = flatten(problem)
    return flat, limits_of(problem, np.array([5.0])), empty_state(problem, flat, 0)


def test_a_record_with_another_array_is_refused_by_its_name() -> None:
    flat, limits, state = records(two_units_on_two_devices([True, True]))
    read_only = state.cost.copy()
    read_only.flags.writeable = False
    refused: list[tuple[SearchState, type[Exception], str]] = [
        (state._replace(option=state.option.astype(np.int32)), TypeError, "SearchState.option must be an array of int64"),
        (state._replace(head=[0, 0]), TypeError, "SearchState.head must be an array of int64"),  # type: ignore[arg-type]
        (state._replace(load=state.load[0]), ValueError, "SearchState.load must have 2 dimensions, not 1"),
        (state._replace(load=np.asfortranarray(state.load)), ValueError, "SearchState.load must be contiguous in C order"),
        (state._replace(cost=read_only), ValueError, "SearchState.cost must be writable"),
    ]
    for broken, error, message in refused:
        with pytest.raises(error, match=message):
            recount(flat, limits, broken, np.zeros(LOAD_COLUMNS))


def test_what_is_only_read_may_be_read_only() -> None:
    flat, limits, state = records(two_units_on_two_devices([True, True]))
    base = np.zeros(LOAD_COLUMNS)
    base.flags.writeable = False
    assert recount(flat, limits, state, base) == 0.0


@pytest.mark.parametrize(("may_use", "targets", "overload"), [([True, True], [0, 1], 0.0), ([False, True], [1, -1], np.inf)])
def test_a_unit_without_a_place_is_no_plan(may_use: list[bool], targets: list[int], overload: float) -> None:
    flat, limits, state = records(two_units_on_two_devices(may_use))
    greedy(flat, limits, state, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), np.full(3, -1))
    assert list(state.target) == targets
    assert recount(flat, limits, state, np.zeros(LOAD_COLUMNS)) == overload
