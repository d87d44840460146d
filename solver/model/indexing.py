"""From units to options and from options to tables: sums and extremes over what is adjacent in a problem's arrays."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from emplace.solver.model.problem import Bools, Ints, Problem, Scope

Number = TypeVar("Number", np.float64, np.int64)


def first_option(problem: Problem) -> Ints:
    """[T + 1] options of table t are first_option[t] .. first_option[t + 1] - 1."""
    return np.searchsorted(problem.option_table, np.arange(problem.num_tables + 1))


def unit_option(problem: Problem) -> Ints:
    """[U] the option that each unit belongs to."""
    return np.repeat(np.arange(problem.num_options), np.diff(problem.option_first_unit))


def sum_by_option(problem: Problem, per_unit: NDArray[Number]) -> NDArray[Number]:
    """[O, ...] from [U, ...]; every option has at least one unit."""
    return np.add.reduceat(per_unit, problem.option_first_unit[:-1], axis=0)


def max_by_option(problem: Problem, per_unit: NDArray[Number]) -> NDArray[Number]:
    """[O, ...] from [U, ...]; every option has at least one unit."""
    return np.maximum.reduceat(per_unit, problem.option_first_unit[:-1], axis=0)


def min_by_option(problem: Problem, per_unit: NDArray[Number]) -> NDArray[Number]:
    """[O, ...] from [U, ...]; every option has at least one unit."""
    return np.minimum.reduceat(per_unit, problem.option_first_unit[:-1], axis=0)


def or_all(first: Ints, some: Bools, every: Bools) -> Bools:
    """[O] the options in `some`, and those in `every` for tables that would be left without; `first` is [T + 1]."""
    without = ~np.logical_or.reduceat(some, first[:-1])
    return np.asarray(some | (every & np.repeat(without, np.diff(first))))


def devices_covered(problem: Problem) -> Ints:
    """[O, G] how many devices of each kind one unit of an option loads, at least: nodes may differ. On a server also all trainers."""
    kinds, trainers = problem.num_kinds, problem.device_is_trainer
    nodes = np.unique(problem.device_node[trainers])
    per_node = [np.bincount(problem.device_kind[trainers & (problem.device_node == node)], minlength=kinds) for node in nodes]
    covered = np.zeros((problem.num_options, kinds), dtype=np.int64)
    on_device = problem.option_scope == Scope.DEVICE
    is_server_kind = np.bincount(problem.device_kind[trainers], minlength=kinds) == 0
    covered[on_device & is_server_kind[problem.option_kind]] = np.bincount(problem.device_kind[trainers], minlength=kinds)
    covered[on_device, problem.option_kind[on_device]] = 1
    covered[problem.option_scope == Scope.NODE] = np.min(per_node, axis=0) if per_node else 0
    covered[problem.option_scope == Scope.WORLD] = np.bincount(problem.device_kind[trainers], minlength=kinds)
    return covered
