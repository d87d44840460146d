"""The covering program over patterns, in GLOP: it grows by patterns, and goes on from where it last ended.

    minimise    missing_price * sum over t of missing[t]  +  pattern_price * sum over p of x[p]
    subject to  missing[t] + sum over p of coverage[p, t] x[p]  >=  required[t]       for each table t
                sum over p of class c of x[p]  <=  devices[c]                          for each class c of devices

and where devices share something, s[k] being the makespan of stage k and n[g] the devices of kind g,

                sum over p of ddr[p] x[p]  <=  1
                sum over p of kind g of time[p, k] x[p]  <=  n[g] s[k],    sum over k of s[k]  <=  budget
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.placement.errors import MissingPackage
from emplace.placement.sums import add_up
from emplace.solver.model.problem import Floats, Ints

try:
    from ortools.linear_solver import pywraplp
except ModuleNotFoundError:
    raise MissingPackage("OR-Tools") from None


@dataclass(frozen=True)
class Shared:
    """What devices share: the system memory of all, and the makespans of several stages."""

    devices_by_kind: Ints
    """[G]"""
    stages: int
    """0 where the time of a pattern is limited by itself."""


class PatternMaster:
    """Tables, classes of devices and patterns are known by their numbers."""

    def __init__(self, tables: int, classes: int, *, missing_price: float, pattern_price: float, shared: Shared | None = None) -> None:
        self._pattern_price = pattern_price
        self._lp = pywraplp.Solver.CreateSolver("GLOP")
        self._infinity, goal = self._lp.infinity(), self._lp.Objective()
        self._cover = [self._lp.Constraint(0.0, self._infinity) for _ in range(tables)]
        self._devices = [self._lp.Constraint(-self._infinity, 0.0) for _ in range(classes)]
        self._missing = [self._lp.NumVar(0.0, self._infinity, "") for _ in range(tables)]
        for row, variable in zip(self._cover, self._missing, strict=True):
            row.SetCoefficient(variable, 1.0)
            goal.SetCoefficient(variable, missing_price)
        goal.SetMinimization()
        self._makespan: list[pywraplp.Variable] = []
        self._time: list[list[pywraplp.Constraint]] = []
        if shared is not None:
            self._ddr = self._lp.Constraint(-self._infinity, 1.0)
            if shared.stages:
                self._add_makespans(shared)
        self._amount: list[pywraplp.Variable] = []
        self.is_solved = False

    def _add_makespans(self, shared: Shared) -> None:
        self._budget = self._lp.Constraint(-self._infinity, 0.0)
        self._makespan = [self._lp.NumVar(0.0, self._infinity, "") for _ in range(shared.stages)]
        self._time = [[self._lp.Constraint(-self._infinity, 0.0) for _ in self._makespan] for _ in shared.devices_by_kind]
        for stage, makespan in enumerate(self._makespan):
            self._budget.SetCoefficient(makespan, 1.0)
            for rows, devices in zip(self._time, shared.devices_by_kind, strict=True):
                rows[stage].SetCoefficient(makespan, -float(devices))

    def require(self, share: Floats) -> None:
        """Set how much of each table ([T]) is to be covered."""
        for row, required in zip(self._cover, share, strict=True):
            row.SetLb(float(required))

    def limit_devices(self, number: Ints) -> None:
        """Set how many devices there are of each class ([C])."""
        for row, devices in zip(self._devices, number, strict=True):
            row.SetUb(float(devices))

    def limit_makespans(self, lower: Floats, upper: Floats, budget: float) -> None:
        """Set the limits of each makespan ([K]), and of their sum."""
        self._budget.SetUb(budget)
        for makespan, low, high in zip(self._makespan, lower, upper, strict=True):
            makespan.SetBounds(float(low), float(max(low, high)))

    def add(self, number: int, tables: Ints, coverage: Floats) -> int:
        """A pattern of a class that covers so much of these different tables, as its number."""
        variable = self._lp.NumVar(0.0, self._infinity, "")
        self._lp.Objective().SetCoefficient(variable, self._pattern_price)
        self._devices[number].SetCoefficient(variable, 1.0)
        for table, share in zip(tables, coverage, strict=True):
            self._cover[table].SetCoefficient(variable, float(share))
        self._amount.append(variable)
        return len(self._amount) - 1

    def load(self, pattern: int, kind: int, time: Floats, ddr: float) -> None:
        """What a pattern takes of each stage ([K]) on its kind of device, and of the system memory of all."""
        variable = self._amount[pattern]
        if ddr:
            self._ddr.SetCoefficient(variable, ddr)
        if self._makespan:
            for row, amount in zip(self._time[kind], time, strict=True):
                row.SetCoefficient(variable, float(amount))

    def allow(self, pattern: int, allowed: bool) -> None:
        """Whether the program may use a pattern."""
        self._amount[pattern].SetUb(self._infinity if allowed else 0.0)

    def solve(self) -> bool:
        """Whether GLOP found the optimum; it gives up now and then."""
        self.is_solved = self._lp.Solve() == pywraplp.Solver.OPTIMAL
        return self.is_solved

    @property
    def value(self) -> float:
        """The objective of the optimum."""
        return float(self._lp.Objective().Value())

    def amount(self, pattern: int) -> float:
        """How many devices hold a pattern."""
        return float(self._amount[pattern].solution_value())

    def amounts(self) -> Floats:
        """[patterns] how many devices hold each."""
        return np.array([variable.solution_value() for variable in self._amount])

    def missing(self) -> float:
        """How much of all tables is not covered."""
        return add_up(variable.solution_value() for variable in self._missing)

    def makespans(self) -> Floats:
        """[K]"""
        return np.array([variable.solution_value() for variable in self._makespan])

    def table_prices(self) -> Floats:
        """[T] the dual value of covering more of each table."""
        return np.array([max(row.dual_value(), 0.0) for row in self._cover])

    def device_prices(self) -> Floats:
        """[C] the dual value of one more device of each class."""
        return np.array([max(-row.dual_value(), 0.0) for row in self._devices])

    def time_prices(self) -> Floats:
        """[G, K] the dual value of time on each kind of device in each stage."""
        return np.array([[max(-row.dual_value(), 0.0) for row in rows] for rows in self._time])

    def ddr_price(self) -> float:
        """The dual value of the system memory of all."""
        return max(-float(self._ddr.dual_value()), 0.0)
