"""The aggregated rows of the class relaxation: what each option adds, summed over all devices of a kind.

Devices of one kind have equal loads per unit, so summing their rows forgets only who carries what. docs/explanation/bounds.md proves
that every row holds for every placement.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from emplace.solver.model.cover import Cover
from emplace.solver.model.indexing import devices_covered, max_by_option, min_by_option, sum_by_option
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope
from emplace.solver.relaxation.program import Rows


def aggregate(problem: Problem) -> Rows:
    """Time per kind and stage, HBM per kind, system memory per group of pools that one kind can reach."""
    kinds, stages = problem.num_kinds, problem.num_stages
    covered = (devices_covered(problem) * counts(problem)[:, None])[:, :, None]
    time = sum_by_option(problem, problem.unit_time_us) * covered
    hbm = sum_by_option(problem, problem.unit_hbm_bytes.astype(np.float64)) * covered[:, :, 0]
    ddr = sum_by_option(problem, problem.unit_ddr_bytes.astype(np.float64)) * covered[:, :, 0]
    count = np.bincount(problem.device_kind, minlength=kinds).astype(np.float64)
    hbm_capacity = np.bincount(problem.device_kind, weights=problem.hbm_capacity, minlength=kinds)
    group_of_kind, ddr_capacity = pool_groups(problem)
    ddr = np.stack([ddr[:, group_of_kind == g].sum(axis=1) for g in range(len(ddr_capacity))], axis=1)
    hbm_scale, ddr_scale = np.maximum(hbm_capacity, 1.0), np.maximum(ddr_capacity, 1.0)
    shares = [(time / count[None, :, None]).reshape(problem.num_options, -1), hbm / hbm_scale, ddr / ddr_scale]
    return Rows(
        coefficient=np.asfortranarray(np.hstack(shares)),
        capacity=np.concatenate([np.zeros(kinds * stages), hbm_capacity / hbm_scale, ddr_capacity / ddr_scale]),
        slope=np.concatenate([np.ones(kinds * stages), np.zeros(kinds + len(ddr_capacity))]),
        stage=np.concatenate([np.tile(np.arange(stages), kinds), np.full(kinds + len(ddr_capacity), -1)]),
    )


def largest_unit(problem: Problem) -> Floats:
    """[O, K + 1] the most that a unit of an option loads a device with, at least: time in each stage, then HBM bytes as a
    share of the device with the most."""
    loads = _largest(problem, _unit_loads(problem))
    return np.hstack([problem.largest_us, loads[:, -1:]]) if isinstance(problem, Cover) else loads


def longest_in_any(problem: Problem) -> Floats:
    """[O, K] likewise the time, of whatever placement has a share of the option."""
    return problem.shortest_us if isinstance(problem, Cover) else _largest(problem, problem.unit_time_us)


def _largest(problem: Problem, loads: Floats) -> Floats:
    """[O, columns] from the loads of units [U, G, columns]: those of a node or of all trainers count on the kind that they load least."""
    on_device = problem.option_scope == Scope.DEVICE
    trainer_kinds = np.unique(problem.device_kind[problem.device_is_trainer])
    largest = np.zeros((problem.num_options, loads.shape[2]))
    by_kind = max_by_option(problem, loads)
    largest[on_device] = by_kind[on_device, problem.option_kind[on_device]]
    if len(trainer_kinds):
        largest[~on_device] = max_by_option(problem, loads[:, trainer_kinds].min(axis=1))[~on_device]
    return largest


def world_load(problem: Problem) -> Floats:
    """[O, K + 1] the least that every device carries of an option: 0 unless it loads all of them."""
    load = np.zeros((problem.num_options, problem.num_stages + 1))
    if problem.device_is_trainer.all():
        everywhere = problem.option_scope == Scope.WORLD
        kinds = np.unique(problem.device_kind)
        load[everywhere] = sum_by_option(problem, _unit_loads(problem)[:, kinds].min(axis=1))[everywhere]
    return load


def counts(problem: Problem) -> Floats:
    """[O] how many times an option's units count."""
    return problem.count if isinstance(problem, Cover) else np.ones(problem.num_options)


def _unit_loads(problem: Problem) -> Floats:
    """[U, G, K + 1] what a unit loads a device with, at least."""
    time_us = problem.least_us if isinstance(problem, Cover) else problem.unit_time_us
    share = _unit_bytes(problem)[0] / max(float(problem.hbm_capacity.max()), 1.0)
    return np.concatenate([time_us, share[:, :, None]], axis=2)


def _unit_bytes(problem: Problem) -> tuple[Ints, Ints]:
    """[U, G] bytes of HBM and of system memory that a unit takes of a device, at least."""
    if isinstance(problem, Cover):
        return problem.least_hbm_bytes, problem.least_ddr_bytes
    return problem.unit_hbm_bytes, problem.unit_ddr_bytes


def pool_groups(problem: Problem) -> tuple[Ints, Floats]:
    """[G] the group of pools that each kind's devices draw on, and the bytes of each group.

    Kinds that share a pool share a group, so a group's load is the load of its kinds.
    """
    group = np.arange(problem.num_kinds)
    for pool in range(len(problem.ddr_capacity)):
        sharing = np.unique(group[np.unique(problem.device_kind[problem.device_pool == pool])])
        if len(sharing):
            group[np.isin(group, sharing)] = sharing.min()
    _, group = np.unique(group, return_inverse=True)
    capacity = np.zeros(group.max() + 1)
    used, first = np.unique(problem.device_pool, return_index=True)
    np.add.at(capacity, group[problem.device_kind[first]], problem.ddr_capacity[used])
    return group, capacity


def usable_options(problem: Problem) -> Bools:
    """[O] whether an option alone could be placed on an empty host: enough allowed targets, one of them with room for its
    largest unit."""
    units = np.diff(problem.option_first_unit)
    hbm, ddr = _unit_bytes(problem)
    largest = max_by_option(problem, hbm), max_by_option(problem, ddr)
    smallest = min_by_option(problem, hbm), min_by_option(problem, ddr)
    places, roomy = np.zeros(problem.num_options, dtype=np.int64), np.zeros(problem.num_options, dtype=bool)
    for options, devices, count in _targets(problem):
        allowed = _allowed(problem, options, devices)
        places[options] += allowed * _room(problem, options, devices, *smallest) * count
        roomy[options] |= allowed.astype(bool) & _room(problem, options, devices, *largest)
    return roomy & (places >= units)


def _targets(problem: Problem) -> Iterator[tuple[Ints, Ints, int]]:
    """Options, the devices that one target of theirs covers, and how many targets are just like it."""
    trainer = problem.device_is_trainer
    for node in np.unique(problem.device_node[trainer]):
        yield np.flatnonzero(problem.option_scope == Scope.NODE), np.flatnonzero(trainer & (problem.device_node == node)), 1
    yield np.flatnonzero(problem.option_scope == Scope.WORLD), np.flatnonzero(trainer), 1
    alike = np.stack([problem.device_kind, problem.hbm_capacity, problem.ddr_capacity[problem.device_pool]], axis=1)
    if problem.allowed is not None:
        _, column = np.unique(problem.allowed, axis=1, return_inverse=True)
        alike = np.hstack([alike, column[:, None]])
    for shape in np.unique(alike, axis=0):
        same = np.flatnonzero((alike == shape).all(axis=1))
        yield np.flatnonzero((problem.option_scope == Scope.DEVICE) & (problem.option_kind == shape[0])), same[:1], len(same)


def _allowed(problem: Problem, options: Ints, devices: Ints) -> Ints:
    if problem.allowed is None:
        return np.ones(len(options), dtype=np.int64)
    by_table: Bools = np.all(problem.allowed[:, devices], axis=1)
    return by_table[problem.option_table[options]].astype(np.int64)


def _room(problem: Problem, options: Ints, devices: Ints, hbm: Ints, ddr: Ints) -> Bools:
    """Whether these bytes of each option, [O, G], fit on every one of the empty devices."""
    room = np.ones(len(options), dtype=bool)
    for kind in np.unique(problem.device_kind[devices]):
        mine = devices[problem.device_kind[devices] == kind]
        room &= hbm[options, kind] <= problem.hbm_capacity[mine].min()
        room &= ddr[options, kind] <= problem.ddr_capacity[problem.device_pool[mine]].min()
    return room
