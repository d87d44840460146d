"""A plan in a moment: tables one after the other, each into the best place left. No bound, and no proof if it fails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solver.problem import Assignment, Floats, Ints, Problem, Scope, target_devices

_KEPT_FREE = 0.1
"""Share of HBM that is used only for tables that find no other place: tables in system memory need their buffers there."""


@dataclass(frozen=True)
class _Strategy:
    """Tables in falling order of `first`; the options of each in rising order of `prefer` [O]."""

    first: Floats
    prefer: Floats
    hbm_bytes: Floats
    """[O]"""
    spread_bytes: bool
    """Take the target with the most room, else the one with the least time."""


def pack(problem: Problem) -> Assignment | None:
    """A greedy placement, by the first strategy that places every table; None when each leaves one without a place."""
    packed = (_Packer(problem, strategy).run() for strategy in _strategies(problem))
    return next((assignment for assignment in packed if assignment is not None), None)


def _strategies(problem: Problem) -> list[_Strategy]:
    """Hot tables first where time matters, large tables first where room does."""
    covered = _covered(problem)
    time_us = _per_option(problem, (covered[:, :, None] * problem.unit_time_us).sum(axis=(1, 2)))
    size = _per_option(problem, (covered * (problem.unit_hbm_bytes + problem.unit_ddr_bytes)).sum(axis=1).astype(np.float64))
    hbm = _per_option(problem, (covered * problem.unit_hbm_bytes).sum(axis=1).astype(np.float64))
    starts = np.flatnonzero(np.diff(problem.option_table, prepend=-1))
    least_us, least_bytes = np.minimum.reduceat(time_us, starts), np.minimum.reduceat(size, starts)
    return [
        _Strategy(least_us / np.maximum(least_bytes, 1.0), time_us, hbm, spread_bytes=False),
        _Strategy(least_bytes, time_us, hbm, spread_bytes=True),
        _Strategy(least_bytes, size, hbm, spread_bytes=True),
    ]


def _covered(problem: Problem) -> Ints:
    """[U, G] devices of each kind that a unit's target covers."""
    option = np.repeat(np.arange(problem.num_options), np.diff(problem.option_first_unit))
    scope, kind = problem.option_scope[option], problem.option_kind[option]
    trainers = problem.device_is_trainer
    node = trainers & (problem.device_node == problem.device_node[trainers].min(initial=0))
    covered = np.zeros((len(option), problem.num_kinds), dtype=np.int64)
    covered[scope == Scope.WORLD] = np.bincount(problem.device_kind[trainers], minlength=problem.num_kinds)
    covered[scope == Scope.NODE] = np.bincount(problem.device_kind[node], minlength=problem.num_kinds)
    single = np.flatnonzero(scope == Scope.DEVICE)
    covered[single, kind[single]] = 1
    return covered


def _per_option(problem: Problem, per_unit: Floats) -> Floats:
    return np.asarray(np.add.reduceat(per_unit, problem.option_first_unit[:-1]))


class _Packer:
    """One greedy placement."""

    def __init__(self, problem: Problem, strategy: _Strategy) -> None:
        self._problem, self._strategy = problem, strategy
        self._hbm, self._ddr = problem.hbm_capacity.copy(), problem.ddr_capacity.copy()
        self._kept = (problem.hbm_capacity * _KEPT_FREE).astype(np.int64)
        self._time = np.zeros(problem.num_devices)
        nodes = np.unique(problem.device_node[problem.device_is_trainer])
        self._node_devices = [(int(node), target_devices(problem, Scope.NODE, int(node))) for node in nodes]
        self._world = [(-1, target_devices(problem, Scope.WORLD, -1))]
        self._of_kind = [np.flatnonzero(problem.device_kind == kind) for kind in range(problem.num_kinds)]
        starts = problem.option_first_unit[:-1]
        self._largest_hbm = np.maximum.reduceat(problem.unit_hbm_bytes.max(axis=1), starts)
        self._largest_ddr = np.maximum.reduceat(problem.unit_ddr_bytes.max(axis=1), starts)
        self._unit_time = problem.unit_time_us.sum(axis=2)

    def run(self) -> Assignment | None:
        problem = self._problem
        bounds = np.searchsorted(problem.option_table, np.arange(problem.num_tables + 1))
        placed: dict[int, tuple[int, tuple[int, ...]]] = {}
        for table in np.argsort(-self._strategy.first, kind="stable").tolist():
            found = self._table(table, int(bounds[table]), int(bounds[table + 1]))
            if found is None:
                return None
            placed[table] = found
        in_order = [placed[table] for table in range(problem.num_tables)]
        return Assignment(np.array([option for option, _ in in_order], dtype=np.int64), tuple(targets for _, targets in in_order))

    def _table(self, table: int, first: int, end: int) -> tuple[int, tuple[int, ...]] | None:
        """The preferred option that leaves some HBM free; where there is none, the one that takes the least of it."""
        for prefer, kept in ((self._strategy.prefer, self._kept), (self._strategy.hbm_bytes, np.zeros_like(self._kept))):
            roomy = (self._largest_hbm[first:end] <= (self._hbm - kept).max()) & (self._largest_ddr[first:end] <= self._ddr.max())
            order = np.argsort(prefer[first:end], kind="stable")
            for option in (first + order[roomy[order]]).tolist():
                targets = self._option(table, option, kept)
                if targets is not None:
                    return option, targets
        return None

    def _option(self, table: int, option: int, kept: Ints) -> tuple[int, ...] | None:
        """Targets for the units of an option, all booked; or None, with nothing booked."""
        units = range(int(self._problem.option_first_unit[option]), int(self._problem.option_first_unit[option + 1]))
        chosen: list[int] = []
        for unit in units:
            target = self._target(table, option, unit, chosen, kept)
            if target is None:
                for booked, taken in zip(units, chosen, strict=False):
                    self._book(option, booked, taken, -1)
                return None
            self._book(option, unit, target, 1)
            chosen.append(target)
        return tuple(chosen)

    def _target(self, table: int, option: int, unit: int, taken: list[int], kept: Ints) -> int | None:
        """The best target that has room for a unit and leaves `kept` HBM bytes free."""
        scope = Scope(self._problem.option_scope[option])
        if scope is Scope.DEVICE:
            return self._device(table, self._of_kind[self._problem.option_kind[option]], unit, taken, kept)
        groups = self._node_devices if scope is Scope.NODE else self._world
        open_to = [
            (self._rank(devices), target) for target, devices in groups if target not in taken and self._holds(table, devices, unit, kept)
        ]
        return min(open_to)[1] if open_to else None

    def _device(self, table: int, devices: Ints, unit: int, taken: list[int], kept: Ints) -> int | None:
        problem = self._problem
        kind = problem.device_kind[devices[0]]
        has_room = (self._hbm[devices] - kept[devices] >= problem.unit_hbm_bytes[unit, kind]) & (
            self._ddr[problem.device_pool[devices]] >= problem.unit_ddr_bytes[unit, kind]
        )
        has_room &= ~np.isin(devices, taken)
        if problem.allowed is not None:
            has_room &= problem.allowed[table, devices]
        left = devices[has_room]
        if not len(left):
            return None
        room = self._hbm[left] + self._ddr[problem.device_pool[left]]
        return int(left[np.argmax(room) if self._strategy.spread_bytes else np.argmin(self._time[left])])

    def _holds(self, table: int, devices: Ints, unit: int, kept: Ints) -> bool:
        problem = self._problem
        kinds = problem.device_kind[devices]
        pools = np.bincount(problem.device_pool[devices], problem.unit_ddr_bytes[unit, kinds], minlength=len(self._ddr))
        allowed = problem.allowed is None or bool(problem.allowed[table, devices].all())
        enough = self._hbm[devices] - kept[devices] >= problem.unit_hbm_bytes[unit, kinds]
        return allowed and bool(enough.all() and (self._ddr >= pools).all())

    def _rank(self, devices: Ints) -> float:
        if self._strategy.spread_bytes:
            return -float(self._hbm[devices].sum() + self._ddr[np.unique(self._problem.device_pool[devices])].sum())
        return float(self._time[devices].max())

    def _book(self, option: int, unit: int, target: int, sign: int) -> None:
        problem = self._problem
        devices = target_devices(problem, Scope(problem.option_scope[option]), target)
        kinds = problem.device_kind[devices]
        self._hbm[devices] -= sign * problem.unit_hbm_bytes[unit, kinds]
        np.subtract.at(self._ddr, problem.device_pool[devices], sign * problem.unit_ddr_bytes[unit, kinds])
        self._time[devices] += sign * self._unit_time[unit, kinds]
