"""Devices that are alike, and what one of them can hold: the pricing problem of column generation over patterns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.solver.budget import SAME_SUM
from emplace.solver.model.dominance import undominated
from emplace.solver.model.indexing import unit_option
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope
from emplace.solver.patterns.knapsack import Knapsack


@dataclass(frozen=True)
class DeviceClass:
    """Devices of one kind and capacity that the same tables may use, and the units that one of them may hold."""

    devices: Ints
    """Rising."""
    kind: int
    is_trainer: bool
    hbm_bytes: float
    """What each device has."""
    ddr_bytes: float
    """What the pool has: no device of it holds more."""
    option: Ints
    """[I] of each item, rising; an item is a unit, equal ones once."""
    table: Ints
    """[I]"""
    coverage: Floats
    """[I] one over how many devices the whole option loads, counting a device once for each unit on it."""
    time: Floats
    """[I, K] microseconds."""
    hbm: Floats
    """[I] bytes."""
    ddr: Floats
    """[I] bytes."""


@dataclass(frozen=True)
class MakespanBox:
    """Placements whose s[k] are at least `lower` and at most `upper`, with a sum of at most `value`."""

    lower: Floats
    """[K]"""
    upper: Floats
    """[K]"""
    value: float


@dataclass(frozen=True)
class PricingProblem:
    """What a device of one class may hold within a box, as a knapsack, and what it must hold."""

    items: Ints
    """Items of the class that the knapsack chooses from."""
    knapsack: Knapsack
    forced: Ints
    """Items on every device of the class: tables that all trainers share."""


def device_classes(problem: Problem) -> list[DeviceClass]:
    """The classes, in order of their first device."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for device in range(problem.num_devices):
        columns = b"" if problem.allowed is None else problem.allowed[:, device].tobytes()
        pool = int(problem.ddr_capacity[problem.device_pool[device]])
        key = (int(problem.device_kind[device]), bool(problem.device_is_trainer[device]), int(problem.hbm_capacity[device]), pool, columns)
        groups.setdefault(key, []).append(device)
    coverage = _coverage(problem)
    return [_device_class(problem, np.array(devices), coverage) for devices in groups.values()]


def _coverage(problem: Problem) -> Floats:
    """[O] one over the number of (unit, device) pairs that an option loads."""
    trainers = int(problem.device_is_trainer.sum())
    nodes = len(np.unique(problem.device_node[problem.device_is_trainer]))
    per_unit = np.array([1, trainers // max(nodes, 1), trainers])[problem.option_scope]
    return np.asarray(1.0 / np.maximum(per_unit * np.diff(problem.option_first_unit), 1))


def _device_class(problem: Problem, devices: Ints, coverage: Floats) -> DeviceClass:
    first = int(devices[0])
    kind, is_trainer = int(problem.device_kind[first]), bool(problem.device_is_trainer[first])
    option = unit_option(problem)
    on_device = problem.option_scope[option] == Scope.DEVICE
    here = np.where(on_device, problem.option_kind[option] == kind, is_trainer)
    if problem.allowed is not None:
        here &= problem.allowed[problem.option_table[option], first]
    units = np.flatnonzero(here)
    loads = np.column_stack(
        [option[units], problem.unit_time_us[units, kind], problem.unit_hbm_bytes[units, kind], problem.unit_ddr_bytes[units, kind]]
    )
    _, once = np.unique(loads, axis=0, return_index=True)
    units = units[np.sort(once)]
    return DeviceClass(
        devices=devices,
        kind=kind,
        is_trainer=is_trainer,
        hbm_bytes=float(problem.hbm_capacity[first]),
        ddr_bytes=float(problem.ddr_capacity[problem.device_pool[first]]),
        option=option[units],
        table=problem.option_table[option[units]],
        coverage=coverage[option[units]],
        time=problem.unit_time_us[units, kind],
        hbm=problem.unit_hbm_bytes[units, kind].astype(np.float64),
        ddr=problem.unit_ddr_bytes[units, kind].astype(np.float64),
    )


def forced_options(problem: Problem, keep: Bools) -> Bools:
    """[O] the options in `keep` that are the last of their table and load every trainer."""
    left = np.bincount(problem.option_table[keep], minlength=problem.num_tables)
    return np.asarray(keep & (left[problem.option_table] == 1) & (problem.option_scope == Scope.WORLD))


def pricing_problem(device_class: DeviceClass, keep: Bools, always: Bools, box: MakespanBox) -> PricingProblem | None:
    """What a device of the class may hold of the options in `keep`, besides those in `always`; None if those are too much."""
    forced = np.flatnonzero(always[device_class.option]) if device_class.is_trainer else np.empty(0, dtype=np.int64)
    held = device_class.time[forced].sum(axis=0)
    hbm_left = device_class.hbm_bytes - device_class.hbm[forced].sum()
    ddr_left = device_class.ddr_bytes - device_class.ddr[forced].sum()
    spare = box.upper * (1 + SAME_SUM) - held
    limit = box.value
    if hbm_left < 0 or ddr_left < 0 or (spare < 0).any() or np.maximum(box.lower, held).sum() > limit * (1 + SAME_SUM):
        return None
    fits = keep[device_class.option] & ~always[device_class.option] & (device_class.hbm <= hbm_left) & (device_class.ddr <= ddr_left)
    fits &= (device_class.time <= spare).all(axis=1)
    fits &= np.maximum(box.lower, held + device_class.time).sum(axis=1) <= limit * (1 + SAME_SUM)
    items = _undominated(device_class, np.flatnonzero(fits))
    columns = [device_class.time[items] / np.maximum(spare, 1e-300)]
    if len(held) > 1:
        columns.append(device_class.time[items].sum(axis=1, keepdims=True) / max(limit * (1 + SAME_SUM) - held.sum(), 1e-300))
    columns += [
        loads[items, None] / max(left, 1e-300)
        for loads, left in ((device_class.hbm, hbm_left), (device_class.ddr, ddr_left))
        if loads[items].any()
    ]
    _, first = np.unique(device_class.table[items], return_index=True)
    knapsack = Knapsack(
        first=np.append(first, len(items)),
        use=np.ascontiguousarray(np.hstack(columns)),
        time=np.ascontiguousarray(device_class.time[items]),
        lower=box.lower,
        held=held,
        limit=limit,
    )
    return PricingProblem(items, knapsack, forced)


def _undominated(device_class: DeviceClass, items: Ints) -> Ints:
    """The items that no other of the same table beats: with as much coverage, for no more of anything."""
    cost = np.column_stack([-device_class.coverage[items], device_class.time[items], device_class.hbm[items], device_class.ddr[items]])
    keep = np.ones(len(items), dtype=bool)
    for table in np.unique(device_class.table[items]):
        mine = np.flatnonzero(device_class.table[items] == table)
        keep[mine] = undominated(cost[mine])
    return items[keep]


def placeable(problem: Problem, classes: list[DeviceClass], keep: Bools, box: MakespanBox) -> Bools:
    """[O] the options in `keep` whose every unit has a device that can take it within the box."""
    option = unit_option(problem)
    trainers = problem.option_scope[option] == Scope.WORLD
    somewhere = np.zeros(len(option), dtype=bool)
    for device_class in classes:
        on_device = problem.option_scope[option] == Scope.DEVICE
        here = np.where(on_device, problem.option_kind[option] == device_class.kind, device_class.is_trainer)
        if problem.allowed is not None:
            here &= problem.allowed[problem.option_table[option], device_class.devices[0]]
        time = problem.unit_time_us[:, device_class.kind]
        here &= problem.unit_hbm_bytes[:, device_class.kind] <= device_class.hbm_bytes
        here &= problem.unit_ddr_bytes[:, device_class.kind] <= device_class.ddr_bytes
        here &= (time <= box.upper * (1 + SAME_SUM)).all(axis=1)
        here &= np.maximum(box.lower, time).sum(axis=1) <= box.value * (1 + SAME_SUM)
        if device_class.is_trainer:
            trainers &= here
        somewhere |= here
    fits = np.where(problem.option_scope[option] == Scope.WORLD, trainers, somewhere)
    return keep & np.logical_and.reduceat(fits, problem.option_first_unit[:-1])
