"""Every assignment of a tiny problem, and random tiny problems to try them on."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import astuple
from itertools import permutations, product
from operator import itemgetter

import numpy as np

from emplace.solver.model.problem import Assignment, Problem, Scope, fits, loads_of, objective_us, target_devices


def every_assignment(problem: Problem) -> Iterator[Assignment]:
    choices = [
        [(option, targets) for option in np.flatnonzero(problem.option_table == table) for targets in _targets(problem, int(option))]
        for table in range(problem.num_tables)
    ]
    for chosen in product(*choices):
        yield Assignment(np.array([option for option, _ in chosen], dtype=np.int64), tuple(targets for _, targets in chosen))


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
    loaded = ((assignment, loads_of(problem, assignment)) for assignment in every_assignment(problem))
    return [(objective_us(problem, loads), assignment) for assignment, loads in loaded if fits(problem, loads)]


_OPTIMA: dict[bytes, float] = {}


def optimum_us(problem: Problem) -> float:
    """Infinity where nothing fits. Several tests try the same problems: each is enumerated once."""
    key = pickle.dumps(astuple(problem))
    if key not in _OPTIMA:
        _OPTIMA[key] = min((value for value, _ in fitting(problem)), default=np.inf)
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
