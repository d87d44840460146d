"""The placement problem as arrays: what bound, search and exact solve work on. docs/explanation/formulation.md states the program.

Every table takes exactly one of its options. An option has one or more units; each unit takes one target:

    scope DEVICE   a device of the option's kind       (table_wise: 1 unit; column_wise: one a piece)
                   on a server its time counts on all trainers too, whose links carry what it serves
    scope NODE     a trainer node, all its devices      (table_row_wise, table_column_wise: 1 unit; grid_shard: one a piece)
    scope WORLD    all trainers, nothing to choose      (row_wise, data_parallel: 1 unit)

Units of one option take different targets. A unit's load on a device depends on the device's kind.

    minimise    constant + sum over stages k of  max over devices d of  time[d, k]
    subject to  hbm[d] <= hbm_capacity[d],  sum over the devices of pool p of ddr[d] <= ddr_capacity[p]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Scope(IntEnum):
    """What a unit of an option is placed on."""

    DEVICE = 0
    NODE = 1
    WORLD = 2


@dataclass(frozen=True)
class Problem:
    """D devices of G kinds on N nodes with P pools of system memory; T tables, O options, U units, K stages.

    Options of a table are adjacent and tables are in order, and so are the units of an option.
    """

    device_kind: Ints
    """[D] 0..G-1."""
    device_node: Ints
    """[D] 0..N-1; servers sit on nodes of their own, after the trainer nodes."""
    device_is_trainer: Bools
    """[D] NODE and WORLD units take trainers only; all trainer nodes have equally many devices."""
    device_pool: Ints
    """[D] 0..P-1: whose system memory the device's ddr bytes count against."""
    hbm_capacity: Ints
    """[D] bytes, what every rank holds anyway already taken off."""
    ddr_capacity: Ints
    """[P] bytes, likewise."""

    constant_us: float
    stage_base_us: Floats
    """[K] what every device has in a stage before any table is placed; part of the maximum."""

    option_table: Ints
    """[O] rising."""
    option_scope: Ints
    """[O] a Scope."""
    option_kind: Ints
    """[O] kind of device for scope DEVICE, -1 otherwise."""
    option_first_unit: Ints
    """[O + 1] units of option o are first_unit[o] .. first_unit[o + 1] - 1."""

    unit_time_us: Floats
    """[U, G, K] added to each device of kind g that the unit's target loads."""
    unit_hbm_bytes: Ints
    """[U, G] likewise, on the devices that the target covers."""
    unit_ddr_bytes: Ints
    """[U, G]"""

    allowed: Bools | None = None
    """[T, D] devices each table may use at all (None: any). A NODE or WORLD unit needs all devices of its target."""
    warm_start: Assignment | None = None
    """Where a search may begin: option -1 for tables that have no place in it, and capacities may be exceeded."""

    @property
    def num_devices(self) -> int:
        return len(self.device_kind)

    @property
    def num_tables(self) -> int:
        return int(self.option_table[-1]) + 1 if len(self.option_table) else 0

    @property
    def num_options(self) -> int:
        return len(self.option_table)

    @property
    def num_kinds(self) -> int:
        return int(self.unit_time_us.shape[1])

    @property
    def num_stages(self) -> int:
        return len(self.stage_base_us)


@dataclass(frozen=True)
class Assignment:
    """One option per table, one target per unit of it: a device, a trainer node, or -1 for WORLD."""

    option: Ints
    """[T]"""
    targets: tuple[tuple[int, ...], ...]
    """[T] one target per unit of the table's option."""


@dataclass(frozen=True)
class Loads:
    """What an assignment puts on each device."""

    time_us: Floats
    """[D, K] base included."""
    hbm_bytes: Ints
    """[D]"""
    ddr_bytes: Ints
    """[D]"""


def loads_of(problem: Problem, assignment: Assignment) -> Loads:
    """Add up an assignment, exactly."""
    time_us = np.repeat(problem.stage_base_us[None, :], problem.num_devices, axis=0)
    hbm = np.zeros(problem.num_devices, dtype=np.int64)
    ddr = np.zeros(problem.num_devices, dtype=np.int64)
    for option, targets in zip(assignment.option, assignment.targets, strict=True):
        first = int(problem.option_first_unit[option])
        for offset, target in enumerate(targets):
            scope = Scope(problem.option_scope[option])
            loaded = loaded_devices(problem, scope, target)
            time_us[loaded] += problem.unit_time_us[first + offset, problem.device_kind[loaded]]
            devices = target_devices(problem, scope, target)
            kinds = problem.device_kind[devices]
            hbm[devices] += problem.unit_hbm_bytes[first + offset, kinds]
            ddr[devices] += problem.unit_ddr_bytes[first + offset, kinds]
    return Loads(time_us, hbm, ddr)


def target_devices(problem: Problem, scope: Scope, target: int) -> Ints:
    """The devices that a target covers."""
    if scope is Scope.DEVICE:
        return np.array([target])
    if scope is Scope.NODE:
        return np.flatnonzero(problem.device_is_trainer & (problem.device_node == target))
    return np.flatnonzero(problem.device_is_trainer)


def loaded_devices(problem: Problem, scope: Scope, target: int) -> Ints:
    """The devices to whose time a unit there adds: those that its target covers first, and beside a server all trainers."""
    covered = target_devices(problem, scope, target)
    if scope is not Scope.DEVICE or problem.device_is_trainer[target]:
        return covered
    return np.concatenate([covered, np.flatnonzero(problem.device_is_trainer)])


def objective_us(problem: Problem, loads: Loads) -> float:
    """The step time of these loads."""
    return float(problem.constant_us + loads.time_us.max(axis=0).sum())


def fits(problem: Problem, loads: Loads) -> bool:
    """Whether every capacity holds."""
    pools = np.zeros(len(problem.ddr_capacity), dtype=np.int64)
    np.add.at(pools, problem.device_pool, loads.ddr_bytes)
    return bool((loads.hbm_bytes <= problem.hbm_capacity).all() and (pools <= problem.ddr_capacity).all())


def with_options(problem: Problem, kept: Bools) -> Problem:
    """The problem with the options of `kept` ([O]) only."""
    units = np.diff(problem.option_first_unit)
    of_kept = np.repeat(kept, units)
    warm = problem.warm_start
    if warm is not None:
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        warm = replace(warm, option=np.where(warm.option < 0, -1, number[warm.option]))
    return replace(
        problem,
        option_table=problem.option_table[kept],
        option_scope=problem.option_scope[kept],
        option_kind=problem.option_kind[kept],
        option_first_unit=np.append(0, np.cumsum(units[kept])),
        unit_time_us=problem.unit_time_us[of_kept],
        unit_hbm_bytes=problem.unit_hbm_bytes[of_kept],
        unit_ddr_bytes=problem.unit_ddr_bytes[of_kept],
        warm_start=warm,
    )
