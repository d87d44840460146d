"""The covering program over patterns, in HiGHS: it grows by patterns, and goes on from where it last ended.

    minimise    missing_price * sum over t of missing[t]  +  pattern_price * sum over p of x[p]
    subject to  missing[t] + sum over p of coverage[p, t] x[p]  >=  required[t]       for each table t
                sum over p of class c of x[p]  <=  devices[c]                          for each class c of devices

and where devices share something, s[k] being the makespan of stage k and n[g] the devices of kind g,

                sum over p of ddr[p] x[p]  <=  1
                sum over p of kind g of time[p, k] x[p]  <=  n[g] s[k],    sum over k of s[k]  <=  budget
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from emplace.solver.highs import add_rows, new_program, use_primal_simplex
from emplace.solver.model.problem import Bools, Floats, Ints


@dataclass(frozen=True)
class Shared:
    """What devices share: the system memory of all, and the makespans of several stages."""

    devices_by_kind: Ints
    """[G]"""
    stages: int
    """0 where the time of a pattern is limited by itself."""


@dataclass(frozen=True)
class Load:
    """What a pattern takes of what devices share."""

    kind: int
    """The kind of device that holds it."""
    time: Floats
    """[K] of each stage."""
    ddr: float


class PatternMaster:
    """Tables, classes of devices and patterns are known by their numbers."""

    def __init__(self, tables: int, classes: int, *, missing_price: float, pattern_price: float, shared: Shared | None = None) -> None:
        self._pattern_price = pattern_price
        devices = np.empty(0) if shared is None else shared.devices_by_kind
        self._kinds, self._stages = len(devices), 0 if shared is None else shared.stages
        self._first_class, self._first_stage = tables, tables
        """Rows of the tables come first, and columns of what is missing of them."""
        self._ddr, self._first_pattern = tables + classes, tables + self._stages
        self._budget, self._first_time = self._ddr + 1, self._ddr + 2
        self._highs = new_program()
        use_primal_simplex(self._highs)
        add_rows(self._highs, np.zeros(tables), np.full(tables, np.inf))
        add_rows(self._highs, np.full(classes, -np.inf), np.zeros(classes))
        if shared is not None:
            upper = np.append([1.0, 0.0], np.zeros(self._kinds * self._stages))
            add_rows(self._highs, np.full(len(upper), -np.inf), upper)
        for table in range(tables):
            self._add_column(missing_price, np.array([table]), np.ones(1))
        for stage in range(self._stages):
            times = self._first_time + stage + self._stages * np.arange(self._kinds)
            self._add_column(0.0, np.append(self._budget, times), np.append(1.0, -devices))
        self.is_solved = False
        self._columns = self._duals = np.empty(0)

    def require(self, share: Floats) -> None:
        """Set how much of each table ([T]) is to be covered."""
        self._limit_rows(0, share, np.full(len(share), np.inf))

    def limit_devices(self, number: Ints) -> None:
        """Set how many devices there are of each class ([C])."""
        self._limit_rows(self._first_class, np.full(len(number), -np.inf), number.astype(np.float64))

    def limit_makespans(self, lower: Floats, upper: Floats, budget: float) -> None:
        """Set the limits of each makespan ([K]), and of their sum."""
        self._limit_rows(self._budget, np.array([-np.inf]), np.array([budget]))
        self._limit_columns(self._first_stage, lower, np.maximum(lower, upper))

    def add(self, number: int, tables: Ints, coverage: Floats, load: Load | None = None) -> None:
        """The next pattern: one of a class, that covers so much of these different tables."""
        rows, shares = np.append(tables, self._first_class + number), np.append(coverage, 1.0)
        if load is not None:
            times = self._first_time + self._stages * load.kind + np.arange(self._stages)
            rows, shares = np.concatenate([rows, [self._ddr], times]), np.concatenate([shares, [load.ddr], load.time[: self._stages]])
        self._add_column(self._pattern_price, rows, shares)

    def allow(self, allowed: Bools) -> None:
        """Which of the patterns ([patterns]) the program may use."""
        if len(allowed):
            self._limit_columns(self._first_pattern, np.zeros(len(allowed)), np.where(allowed, np.inf, 0.0))

    def solve(self) -> bool:
        """Whether HiGHS found the optimum."""
        self._highs.run()
        self.is_solved = self._highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        solution = self._highs.getSolution()
        self._columns, self._duals = np.array(solution.col_value), np.array(solution.row_dual)
        return self.is_solved

    @property
    def value(self) -> float:
        """The objective of the optimum."""
        return float(self._highs.getInfo().objective_function_value)

    def amounts(self) -> Floats:
        """[patterns] how many devices hold each."""
        return self._columns[self._first_pattern :]

    def missing(self) -> float:
        """How much of all tables is not covered."""
        return float(self._columns[: self._first_stage].sum())

    def makespans(self) -> Floats:
        """[K]"""
        return self._columns[self._first_stage : self._first_pattern]

    def table_prices(self) -> Floats:
        """[T] the dual value of covering more of each table."""
        return np.maximum(self._duals[: self._first_class], 0.0)

    def device_prices(self) -> Floats:
        """[C] the dual value of one more device of each class."""
        return np.maximum(-self._duals[self._first_class : self._ddr], 0.0)

    def time_prices(self) -> Floats:
        """[G, K] the dual value of time on each kind of device in each stage."""
        return np.maximum(-self._duals[self._first_time :], 0.0).reshape(self._kinds, self._stages)

    def ddr_price(self) -> float:
        """The dual value of the system memory of all."""
        return max(-float(self._duals[self._ddr]), 0.0)

    def _add_column(self, price: float, rows: Ints, shares: Floats) -> None:
        taken = np.flatnonzero(shares)
        self._highs.addCol(price, 0.0, np.inf, len(taken), rows[taken].astype(np.int32), shares[taken])

    def _limit_rows(self, first: int, lower: Floats, upper: Floats) -> None:
        self._highs.changeRowsBounds(len(lower), np.arange(first, first + len(lower), dtype=np.int32), lower, upper)

    def _limit_columns(self, first: int, lower: Floats, upper: Floats) -> None:
        self._highs.changeColsBounds(len(lower), np.arange(first, first + len(lower), dtype=np.int32), lower, upper)
