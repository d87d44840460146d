"""Every assignment of a tiny problem, and random tiny problems to try them on."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from itertools import permutations, product
from operator import itemgetter

import numpy as np

from emplace.solver.model.problem import Assignment, Floats, Ints, Problem, Scope, loads_of, target_devices

Way = tuple[int, tuple[int, ...]]
"""An option and the targets of its units."""


def every_assignment(problem: Problem) -> Iterator[Assignment]:
    for chosen in product(*_ways(problem)):
        yield _assignment(chosen)


def _ways(problem: Problem) -> list[list[Way]]:
    """[T] the ways to place each table."""
    return [
        [(int(option), targets) for option in np.flatnonzero(problem.option_table == table) for targets in _targets(problem, int(option))]
        for table in range(problem.num_tables)
    ]


def _assignment(chosen: Sequence[Way]) -> Assignment:
    return Assignment(np.array([option for option, _ in chosen], dtype=np.int64), tuple(targets for _, targets in chosen))


def _targets(problem: Problem, option: int) -> Iterator[tuple[int, ...]]:
    scope = Scope(problem.option_scope[option])
    if scope is Scope.DEVICE:
        pool = np.flatnonzero(problem.device_kind == problem.option_kind[option]).tolist()
    else:
        pool = sorted(set(problem.device_node[problem.device_is_trainer].tolist())) if scope is Scope.NODE else [-1]
    if problem.allowed is not None:
        allowed = problem.allowed[problem.option_table[option]]
        pool = [target for target in pool if allowed[target_devices(problem, scope, target)].all()]
    return permutations(pool, int(problem.option_first_unit[option + 1] - problem.option_first_unit[option]))


def fitting(problem: Problem) -> list[tuple[float, Assignment]]:
    """Every assignment that fits, with its objective in microseconds."""
    values_us, chosen = _fitting(problem)
    ways = _ways(problem)
    return [
        (value_us, _assignment([of_table[way] for of_table, way in zip(ways, numbers, strict=True)]))
        for value_us, numbers in zip(values_us.tolist(), chosen.tolist(), strict=True)
    ]


def _fitting(problem: Problem) -> tuple[Floats, Ints]:
    """[N] microseconds and [N, T] the number of each table's way, table after table, without those that no longer fit."""
    every = _ways(problem)
    if not all(every):
        return np.empty(0), np.empty((0, len(every)), dtype=np.int64)
    unloaded = replace(problem, stage_base_us=np.zeros(problem.num_stages))
    pool = np.arange(len(problem.ddr_capacity))[:, None] == problem.device_pool
    chosen = np.zeros((1, 0), dtype=np.int64)
    time_us = np.repeat(problem.stage_base_us[None, None, :], problem.num_devices, axis=1)
    hbm, ddr = np.zeros((1, problem.num_devices), dtype=np.int64), np.zeros((1, len(pool)), dtype=np.int64)
    for ways in every:
        added = [loads_of(unloaded, _assignment([way])) for way in ways]
        before, way = (number.ravel() for number in np.indices((len(chosen), len(ways))))
        hbm = hbm[before] + np.array([loads.hbm_bytes for loads in added])[way]
        ddr = ddr[before] + np.array([pool @ loads.ddr_bytes for loads in added])[way]
        held = (hbm <= problem.hbm_capacity).all(axis=1) & (ddr <= problem.ddr_capacity).all(axis=1)
        before, way, hbm, ddr = before[held], way[held], hbm[held], ddr[held]
        time_us = time_us[before] + np.array([loads.time_us for loads in added])[way]
        chosen = np.column_stack([chosen[before], way])
    return problem.constant_us + time_us.max(axis=1).sum(axis=1), chosen


_OPTIMA: dict[bytes, float] = {}


def optimum_us(problem: Problem) -> float:
    """Infinity where nothing fits. Several tests try the same problems: each is enumerated once."""
    key = pickle.dumps(astuple(problem))
    if key not in _OPTIMA:
        _OPTIMA[key] = float(_fitting(problem)[0].min(initial=np.inf))
    return _OPTIMA[key]


def worst(problem: Problem) -> Assignment | None:
    """The slowest that fits, if any does."""
    return max(fitting(problem), key=itemgetter(0), default=(0.0, None))[1]


def random_problem(seed: int) -> Problem:
    """2-4 trainers of one or two kinds on one or two nodes, 1-3 tables, 1-3 options each, often short of memory."""
    rng = np.random.default_rng(seed)
    nodes, kinds, stages = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(1, 4))
    kind = np.tile(np.arange(2) % kinds, nodes)
    scopes, tables, units, option_kind = [], [], [0], []
    for table in range(int(rng.integers(1, 4))):
        for _ in range(int(rng.integers(1, 4))):
            scope = Scope(int(rng.integers(0, 3)))
            room = {Scope.DEVICE: int((kind == 0).sum()), Scope.NODE: nodes, Scope.WORLD: 1}[scope]
            scopes.append(scope)
            tables.append(table)
            option_kind.append(0 if scope is Scope.DEVICE else -1)
            units.append(units[-1] + int(rng.integers(1, min(room, 2) + 1)))
    hbm, ddr = rng.integers(0, 60, (units[-1], kinds)), rng.integers(0, 60, (units[-1], kinds))
    return Problem(
        device_kind=kind,
        device_node=np.repeat(np.arange(nodes), 2),
        device_is_trainer=np.ones(2 * nodes, dtype=bool),
        device_pool=np.repeat(np.arange(nodes), 2),
        hbm_capacity=rng.integers(40, 120, 2 * nodes),
        ddr_capacity=rng.integers(60, 250, nodes),
        constant_us=float(rng.uniform(0, 50)),
        stage_base_us=rng.uniform(0, 10, stages),
        option_table=np.array(tables),
        option_scope=np.array(scopes, dtype=np.int64),
        option_kind=np.array(option_kind),
        option_first_unit=np.array(units),
        unit_time_us=rng.uniform(0, 100, (units[-1], kinds, stages)),
        unit_hbm_bytes=hbm,
        unit_ddr_bytes=ddr,
        allowed=rng.random((max(tables) + 1, 2 * nodes)) < 0.8 if rng.random() < 0.3 else None,
    )
