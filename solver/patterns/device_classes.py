"""What single devices can hold: kinds of devices that are alike, and the pieces of tables that each may have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.solver.model.indexing import unit_option
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope
from emplace.solver.patterns.knapsack import ROUNDING, Knapsack


@dataclass(frozen=True)
class Alike:
    """Devices of one kind and capacity that the same tables may use, and the units that one of them may hold."""

    devices: Ints
    kind: int
    is_trainer: bool
    hbm_bytes: float
    ddr_bytes: float
    """Of the pool: no device of it holds more."""
    option: Ints
    """[I] of each item, rising; an item is a unit, equal ones once."""
    table: Ints
    """[I]"""
    credit: Floats
    """[I] one over how many devices the whole option loads, counting a device once for each unit on it."""
    time: Floats
    """[I, K]"""
    hbm: Floats
    ddr: Floats


@dataclass(frozen=True)
class Window:
    """Placements whose s[k] are at least `lower` and at most `upper`, with a sum of at most `value`."""

    lower: Floats
    upper: Floats
    value: float


@dataclass(frozen=True)
class Offer:
    """The items of one class of devices that a device may hold within a window, and those that it must."""

    items: Ints
    knapsack: Knapsack
    tables: Ints
    """Of each table of the knapsack."""
    forced: Ints
    """Items on every device of the class: tables that all trainers share."""


def classes_of(problem: Problem) -> list[Alike]:
    """The classes, in order of their first device."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for device in range(problem.num_devices):
        columns = b"" if problem.allowed is None else problem.allowed[:, device].tobytes()
        pool = int(problem.ddr_capacity[problem.device_pool[device]])
        key = (int(problem.device_kind[device]), bool(problem.device_is_trainer[device]), int(problem.hbm_capacity[device]), pool, columns)
        groups.setdefault(key, []).append(device)
    credit = _credit(problem)
    return [_alike(problem, np.array(devices), credit) for devices in groups.values()]


def _credit(problem: Problem) -> Floats:
    """[O] one over the number of (unit, device) pairs that an option loads."""
    trainers = int(problem.device_is_trainer.sum())
    nodes = len(np.unique(problem.device_node[problem.device_is_trainer]))
    per_unit = np.array([1, trainers // max(nodes, 1), trainers])[problem.option_scope]
    return np.asarray(1.0 / np.maximum(per_unit * np.diff(problem.option_first_unit), 1))


def _alike(problem: Problem, devices: Ints, credit: Floats) -> Alike:
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
    return Alike(
        devices=devices,
        kind=kind,
        is_trainer=is_trainer,
        hbm_bytes=float(problem.hbm_capacity[first]),
        ddr_bytes=float(problem.ddr_capacity[problem.device_pool[first]]),
        option=option[units],
        table=problem.option_table[option[units]],
        credit=credit[option[units]],
        time=problem.unit_time_us[units, kind],
        hbm=problem.unit_hbm_bytes[units, kind].astype(np.float64),
        ddr=problem.unit_ddr_bytes[units, kind].astype(np.float64),
    )


def everywhere(problem: Problem, keep: Bools) -> Bools:
    """[O] the options in `keep` that are the last of their table and load every trainer."""
    left = np.bincount(problem.option_table[keep], minlength=problem.num_tables)
    return np.asarray(keep & (left[problem.option_table] == 1) & (problem.option_scope == Scope.WORLD))


def offer(alike: Alike, keep: Bools, always: Bools, window: Window) -> Offer | None:
    """What a device of the class may hold of the options in `keep`, besides those in `always`; None if those are too much."""
    forced = np.flatnonzero(always[alike.option]) if alike.is_trainer else np.empty(0, dtype=np.int64)
    held = alike.time[forced].sum(axis=0)
    hbm_left = alike.hbm_bytes - alike.hbm[forced].sum()
    ddr_left = alike.ddr_bytes - alike.ddr[forced].sum()
    spare = window.upper * (1 + ROUNDING) - held
    limit = window.value
    if hbm_left < 0 or ddr_left < 0 or (spare < 0).any() or np.maximum(window.lower, held).sum() > limit * (1 + ROUNDING):
        return None
    fits = keep[alike.option] & ~always[alike.option] & (alike.hbm <= hbm_left) & (alike.ddr <= ddr_left)
    fits &= (alike.time <= spare).all(axis=1)
    fits &= np.maximum(window.lower, held + alike.time).sum(axis=1) <= limit * (1 + ROUNDING)
    items = _undominated(alike, np.flatnonzero(fits))
    columns = [alike.time[items] / np.maximum(spare, 1e-300)]
    if len(held) > 1:
        columns.append(alike.time[items].sum(axis=1, keepdims=True) / max(limit * (1 + ROUNDING) - held.sum(), 1e-300))
    columns += [
        loads[items, None] / max(left, 1e-300) for loads, left in ((alike.hbm, hbm_left), (alike.ddr, ddr_left)) if loads[items].any()
    ]
    tables, first = np.unique(alike.table[items], return_index=True)
    knapsack = Knapsack(
        first=np.append(first, len(items)),
        use=np.ascontiguousarray(np.hstack(columns)),
        time=np.ascontiguousarray(alike.time[items]),
        lower=window.lower,
        held=held,
        limit=limit,
    )
    return Offer(items, knapsack, tables, forced)


def _undominated(alike: Alike, items: Ints) -> Ints:
    """Without items that another of the same table beats: as much credit, for no more of anything."""
    cost = np.column_stack([-alike.credit[items], alike.time[items], alike.hbm[items], alike.ddr[items]])
    keep = np.ones(len(items), dtype=bool)
    for table in np.unique(alike.table[items]):
        mine = np.flatnonzero(alike.table[items] == table)
        no_worse = (cost[mine][:, None, :] <= cost[mine][None, :, :]).all(axis=2)
        earlier = np.arange(len(mine))[:, None] < np.arange(len(mine))[None, :]
        beats = no_worse & (~no_worse.T | earlier)
        keep[mine] = ~beats.any(axis=0)
    return items[keep]


def possible(problem: Problem, classes: list[Alike], keep: Bools, window: Window) -> Bools:
    """[O] the options in `keep` whose every unit has a device that can take it within the window."""
    option = unit_option(problem)
    trainers = problem.option_scope[option] == Scope.WORLD
    somewhere = np.zeros(len(option), dtype=bool)
    for alike in classes:
        on_device = problem.option_scope[option] == Scope.DEVICE
        here = np.where(on_device, problem.option_kind[option] == alike.kind, alike.is_trainer)
        if problem.allowed is not None:
            here &= problem.allowed[problem.option_table[option], alike.devices[0]]
        time = problem.unit_time_us[:, alike.kind]
        here &= problem.unit_hbm_bytes[:, alike.kind] <= alike.hbm_bytes
        here &= problem.unit_ddr_bytes[:, alike.kind] <= alike.ddr_bytes
        here &= (time <= window.upper * (1 + ROUNDING)).all(axis=1)
        here &= np.maximum(window.lower, time).sum(axis=1) <= window.value * (1 + ROUNDING)
        if alike.is_trainer:
            trainers &= here
        somewhere |= here
    fits = np.where(problem.option_scope[option] == Scope.WORLD, trainers, somewhere)
    return keep & np.logical_and.reduceat(fits, problem.option_first_unit[:-1])
