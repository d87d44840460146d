"""Nodes for tables that load whole ones, where single devices' loads come in equal steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from emplace.solver.local_search.node_assignment import nodes_chosen
from emplace.solver.model.flat import flatten
from emplace.solver.model.problem import Floats, Ints, Problem, Scope
from tests.solver.plain_problems import plain_problem

NODES, PER_NODE, QUANTUM = 3, 2, 10.0


def problem_of(on_node: list[float], on_device: list[float], kinds: int = 1) -> Problem:
    """One stage and one option a table: first the tables that load a whole node, then those on single devices."""
    devices = NODES * PER_NODE
    time = np.array([*on_node, *on_device])[:, None, None]
    scope = np.array([Scope.NODE] * len(on_node) + [Scope.DEVICE] * len(on_device), dtype=np.int64)
    return plain_problem(
        np.repeat(time, kinds, axis=1),
        hbm_capacity=np.full(devices, 1000),
        unit_hbm_bytes=1,
        device_kind=np.arange(devices) % kinds,
        device_node=np.repeat(np.arange(NODES), PER_NODE),
        option_scope=scope,
    )


def chosen(problem: Problem) -> tuple[list[int], Floats]:
    options: Ints = np.arange(problem.num_tables)
    flat, steps = nodes_chosen(problem, flatten(problem), options, 0)
    assert steps.step_us == pytest.approx([QUANTUM])
    on_nodes = flat.allowed[problem.option_scope == Scope.NODE, problem.num_devices : problem.num_devices + NODES]
    assert (on_nodes.sum(axis=1) == 1).all()
    return [int(np.argmax(row)) for row in on_nodes], steps.least_us


def loads_of_nodes(node: Sequence[int], on_node: list[float]) -> Floats:
    return np.bincount(node, weights=on_node, minlength=NODES).astype(np.float64)


def least_makespan(on_node: Floats, steps: int) -> float:
    """By trying one makespan after the other."""
    return next(
        makespan
        for makespan in sorted({float(taken + QUANTUM * n) for taken, n in product([0.0, *on_node], range(steps + 1))})
        if makespan >= on_node.max() and PER_NODE * np.floor((makespan - on_node) / QUANTUM + 1e-9).sum() >= steps
    )


def with_room(on_node: Floats) -> float:
    """18 steps, and twice as important 20, one more for each device of a node: there is to be a little room."""
    return least_makespan(on_node, 18) + 2 * least_makespan(on_node, 20)


@pytest.mark.parametrize("on_node", [[4.0, 6.0], [4.0, 6.0, 3.0, 7.0], [5.0, 5.0, 2.0]])
def test_no_other_nodes_lose_fewer_steps(on_node: list[float]) -> None:
    problem = problem_of(on_node, [QUANTUM] * 8 + [2 * QUANTUM] * 5)
    node, least_us = chosen(problem)
    load = loads_of_nodes(node, on_node)
    every = [loads_of_nodes(nodes, on_node) for nodes in product(range(NODES), repeat=len(on_node))]
    assert least_us[0] == pytest.approx(least_makespan(load, 18))
    assert with_room(load) == pytest.approx(min(with_room(each) for each in every))


def test_chooses_nothing_where_loads_have_no_common_step() -> None:
    problem = problem_of([4.0, 6.0], [10.0, 11.3, 12.71, 9.123])
    flat, steps = nodes_chosen(problem, flatten(problem), np.arange(problem.num_tables), 0)
    assert flat.allowed.all()
    assert not steps.least_us.any()
    assert not steps.step_us.any()


def test_chooses_nothing_for_devices_of_several_kinds() -> None:
    problem = problem_of([4.0, 6.0], [QUANTUM] * 8, kinds=2)
    flat, steps = nodes_chosen(problem, flatten(problem), np.arange(problem.num_tables), 0)
    assert flat.allowed.all()
    assert not steps.least_us.any()
    assert not steps.step_us.any()


def test_whole_steps_bound_the_makespan_without_tables_on_nodes() -> None:
    _, least_us = chosen(problem_of([], [QUANTUM] * 13))
    assert least_us[0] == pytest.approx(3 * QUANTUM)
