"""Which node takes each table that loads a whole one, where a stage's loads come in equal steps.

The time to send a table's output is in proportion to its columns, so what single devices take in that stage are multiples of
a quantum. Tables that spread over a node add other amounts to all its devices, and what is then left below the makespan is
seldom a multiple: the rest is lost on every device of the node. Moving such a table later would shift all of them at once,
which hardly any placement survives; so their nodes are chosen first, to lose as little as possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from emplace.placement.sums import add_up
from emplace.solver.model.flat import FlatProblem
from emplace.solver.model.indexing import sum_by_option
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope
from emplace.solver.presolve.granularity import FINEST, LEAST_QUANTUM, common_divisor

ROOM = 0.75
"""Share of a stage's mean load that tables on whole nodes may take without penalty: the rest is for single devices."""
CROWDING, UNEVEN = 10.0, 1e-3
"""Weights of what exceeds it, and of the fullest node, beside makespans."""
SPARE = (0.0, 0.003, 0.006)
"""What there may be room for beyond what is there: no other stage would balance if every step had to be filled."""
TRIALS, MOST_TRIALS = 100, 4_000
"""Moves to another node that are tried for each table, and for all: up to a tenth of a second."""
HOT, COLD = 0.1, 1e-3
"""Temperatures, in quanta."""


@dataclass(frozen=True)
class _Stages:
    """Stages in which single devices' loads are multiples of a quantum."""

    stage: Ints
    """[Q]"""
    quantum_us: Floats
    """[Q]"""
    steps: Floats
    """[Q] quanta that the devices of one number in their node, one of each node, must hold together."""


@dataclass(frozen=True)
class WholeSteps:
    """What stages last whose loads come in equal steps; 0 for all others."""

    least_us: Floats
    """[K] how much longer than its base each lasts at least."""
    step_us: Floats
    """[K]"""


def nodes_chosen(problem: Problem, flat: FlatProblem, options: Ints, seed: int) -> tuple[FlatProblem, WholeSteps]:
    """`flat` with one node left to each table whose option ([T]) covers one, and what stages of whole steps then last. Where a stage's
    loads have no quantum, nothing is chosen."""
    least_us, step_us = np.zeros((2, problem.num_stages))
    if problem.num_kinds > 1:
        return flat, WholeSteps(least_us, step_us)
    units = np.diff(problem.option_first_unit)[options]
    tables = np.flatnonzero((problem.option_scope[options] == Scope.NODE) & (units == 1))
    load = flat.unit_load[problem.option_first_unit[options[tables]], 0, :-1]
    nodes = len(flat.cover_first) - 2 - problem.num_devices
    mean = _mean_load(problem, options)
    stages = _quantised(problem, options, mean, nodes)
    if len(stages.stage) == 0:
        return flat, WholeSteps(least_us, step_us)
    everywhere = slice(problem.num_devices, problem.num_devices + nodes)
    allowed = np.repeat(flat.allowed, problem.num_tables, axis=0) if len(flat.allowed) == 1 else flat.allowed.copy()
    chosen = _arranged(load, allowed[tables, everywhere], stages, mean, np.random.default_rng(seed))
    allowed[tables, everywhere] = np.arange(nodes) == chosen[:, None]
    on_node = np.zeros((nodes, problem.num_stages))
    np.add.at(on_node, chosen, load)
    for stage, quantum, steps in zip(stages.stage, stages.quantum_us, stages.steps, strict=True):
        least_us[stage], step_us[stage] = quantum * _levels(on_node[:, stage] / quantum, [int(steps)])[0], quantum
    return flat._replace(allowed=allowed), WholeSteps(least_us, step_us)


def _mean_load(problem: Problem, options: Ints) -> Floats:
    """[K] of one device, if the options were spread evenly."""
    per_node = problem.num_devices / len(np.unique(problem.device_node))
    covered = np.array([1.0, per_node, float(problem.num_devices)])[problem.option_scope[options]]
    total = sum_by_option(problem, problem.unit_time_us[:, 0])[options]
    return np.asarray(covered @ total / problem.num_devices)


def _quantised(problem: Problem, options: Ints, mean: Floats, nodes: int) -> _Stages:
    on_device = options[problem.option_scope[options] == Scope.DEVICE]
    every = np.flatnonzero(problem.option_scope == Scope.DEVICE)
    total = sum_by_option(problem, problem.unit_time_us[:, 0])
    quantum = np.array([common_divisor(problem.unit_time_us[problem.option_first_unit[every], 0, k], mean[k]) for k in range(len(mean))])
    stage = np.flatnonzero(quantum > LEAST_QUANTUM * mean)
    per_node = problem.num_devices / nodes
    steps = np.ceil(total[on_device][:, stage].sum(axis=0) / quantum[stage] / per_node - FINEST)
    return _Stages(stage, quantum[stage], steps)


def _arranged(load: Floats, allowed: Bools, stages: _Stages, mean: Floats, random: np.random.Generator) -> Ints:
    """[tables] the node of each, from [tables, K] what it adds to each device there: annealed from an even spread."""
    on_node = np.zeros((allowed.shape[1], load.shape[1]))
    node = np.empty(len(load), dtype=np.int64)
    for table in np.argsort(-load.sum(axis=1), kind="stable"):
        node[table] = min(np.flatnonzero(allowed[table]), key=lambda place: float(on_node[place].sum()))
        on_node[node[table]] += load[table]
    energy = _energy(on_node, stages, mean)
    best, least = node.copy(), energy
    trials = min(TRIALS * len(node), MOST_TRIALS) if len(on_node) > 1 else 0
    for trial in range(trials):
        temperature = float(stages.quantum_us.max()) * HOT * (COLD / HOT) ** (trial / trials)
        table, place = int(random.integers(len(load))), int(random.integers(len(on_node)))
        if place == node[table] or not allowed[table, place]:
            continue
        moved = on_node.copy()
        moved[node[table]] -= load[table]
        moved[place] += load[table]
        after = _energy(moved, stages, mean)
        if after <= energy or random.random() < np.exp((energy - after) / temperature):
            on_node, energy, node[table] = moved, after, place
            if energy < least:
                best, least = node.copy(), energy
    return best


def _energy(on_node: Floats, stages: _Stages, mean: Floats) -> float:
    fullest = on_node.max(axis=0)
    crowded = np.maximum(fullest - ROOM * mean, 0.0)
    level = add_up(
        quantum * add_up(_levels(on_node[:, stage] / quantum, [math.ceil(steps * (1.0 + spare)) for spare in SPARE])) / len(SPARE)
        for stage, quantum, steps in zip(stages.stage, stages.quantum_us, stages.steps, strict=True)
    )
    return float(level + CROWDING * crowded.sum() + UNEVEN * fullest.sum())


def _levels(taken: Floats, steps: list[int]) -> list[float]:
    """For each of some numbers, the least makespan at which devices with `taken` ([nodes]) can hold so many quanta more together, all in quanta.

    At a whole number t a device holds t - ceil(taken), and one more as soon as t grows by 1 - (ceil(taken) - taken).
    """
    up = np.ceil(taken - FINEST)
    growth, held = np.sort(1.0 - (up - taken)), int(up.sum())
    whole = [divmod(each + held, len(taken)) for each in steps]
    return [least if more == 0 else least + float(growth[more - 1]) for least, more in whole]
