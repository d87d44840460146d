"""A part of the problem as a choice of patterns: every pattern that a device could hold, and how many devices hold each.

Which of several equal devices holds what is gone from the program, so few choices are left where patterns are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emplace.solver.budget import LEAF_STEPS_PER_DETERMINISTIC, PATTERN_LEAF_DETERMINISTIC, SAME_SUM
from emplace.solver.cp_sat import new_solver, solve_until
from emplace.solver.model.problem import Assignment, Bools, Ints, Problem, Scope
from emplace.solver.native import enumerate_patterns
from emplace.solver.or_tools import cp_model
from emplace.solver.patterns.device_classes import DeviceClass, MakespanBox, forced_options, pricing_problem
from emplace.solver.patterns.knapsack import Knapsack
from emplace.solver.progress import ShouldStop

MOST_PATTERNS = 30_000
"""Patterns to which nothing can be added, at the usual effort: with more CP-SAT takes longer than on the program itself."""


@dataclass(frozen=True)
class PatternLeaf:
    """What patterns say of a leaf: that it holds no placement, or an assignment; or neither."""

    is_infeasible: bool
    assignment: Assignment | None
    """One placement, if all of its rows hold (the caller checks)."""
    steps: int


def solve_by_patterns(
    problem: Problem, device_class: DeviceClass, keep: Bools, box: MakespanBox, effort: int, should_stop: ShouldStop
) -> PatternLeaf | None:
    """What the options in `keep`, one a table, can do within the box, where all devices are alike and there is a single stage.

    None where there are too many patterns. Units of an option are taken to be equal.
    """
    given = pricing_problem(device_class, keep, forced_options(problem, keep), box)
    if given is None:
        return PatternLeaf(True, None, 0)
    held = _enumerate(given.knapsack, MOST_PATTERNS * effort) if len(given.items) else np.full((1, 0), -1)
    if held is None:
        return None
    patterns = [np.concatenate([given.forced, given.items[row[row >= 0]]]) for row in held]
    return _solve(problem, device_class, patterns, effort, should_stop)


def _enumerate(knapsack: Knapsack, most: int) -> Ints | None:
    """[patterns, tables] every pattern to which no item can be added: items or -1; None where there are more than `most`."""
    tables, resources = len(knapsack.first) - 1, knapsack.use.shape[1]
    largest = np.maximum.reduceat(knapsack.use.max(axis=1), knapsack.first[:-1])
    order = np.argsort(-largest, kind="stable")
    held = np.empty((most, tables), dtype=np.int64)
    used, at, chosen = np.zeros((tables + 1, resources)), np.zeros(tables + 1, dtype=np.int64), np.full(tables, -1, dtype=np.int64)
    count = enumerate_patterns(knapsack.first, knapsack.use, order, used, at, chosen, held, 1.0 + SAME_SUM, 200 * most)
    return held[:count] if count >= 0 else None


class _PatternModel:
    """CP-SAT's number of devices for each pattern and group; a table on a node takes a pattern with it on all its devices."""

    def __init__(self, problem: Problem, device_class: DeviceClass, patterns: list[Ints]) -> None:
        self.problem, self.device_class, self.patterns = problem, device_class, patterns
        self.scope = problem.option_scope[device_class.option]
        self.holders: dict[int, list[int]] = {}
        for pattern, items in enumerate(patterns):
            for item in items:
                self.holders.setdefault(int(item), []).append(pattern)
        nodes = problem.device_node[device_class.devices]
        grouped = any(self.scope[item] == Scope.NODE for item in self.holders)
        self.groups = [device_class.devices[nodes == node] for node in np.unique(nodes)] if grouped else [device_class.devices]
        self.cp = cp_model.CpModel()
        self.number = [[self.cp.new_int_var(0, len(group), "") for _ in patterns] for group in self.groups]
        for group, row in zip(self.groups, self.number, strict=True):
            self.cp.add(sum(row) <= len(group))
        self.taken = {item: self.cp.new_bool_var("") for item in self.holders}
        for table in range(problem.num_tables):
            self.cp.add_exactly_one(x for item, x in self.taken.items() if device_class.table[item] == table)
        self.on_node: dict[int, list[cp_model.IntVar]] = {}
        for item in self.holders:
            self._place(item)

    def _place(self, item: int) -> None:
        having = [sum(row[pattern] for pattern in self.holders[item]) for row in self.number]
        if self.scope[item] != Scope.NODE:
            self.cp.add(sum(having) >= round(1 / self.device_class.coverage[item]) * self.taken[item])
            return
        self.on_node[item] = [self.cp.new_bool_var("") for _ in self.groups]
        for group, here, count in zip(self.groups, self.on_node[item], having, strict=True):
            self.cp.add(count >= len(group) * here)
        self.cp.add(sum(self.on_node[item]) >= self._units(item) * self.taken[item])

    def _units(self, item: int) -> int:
        return int(np.diff(self.problem.option_first_unit)[self.device_class.option[item]])

    def read(self, solver: cp_model.CpSolver) -> Assignment:
        on: dict[int, list[int]] = {item: [] for item in self.taken}
        for group, row in zip(self.groups, self.number, strict=True):
            held = [items for items, n in zip(self.patterns, row, strict=True) for _ in range(solver.value(n))]
            for device, holds in zip(group, held, strict=False):
                for item in holds:
                    on[int(item)].append(int(device))
        for item, places in self.on_node.items():
            chosen = [group for group, here in zip(self.groups, places, strict=True) if solver.boolean_value(here)]
            on[item] = [int(self.problem.device_node[group[0]]) for group in chosen]
        items = sorted(
            (item for item, x in self.taken.items() if solver.boolean_value(x)), key=lambda item: int(self.device_class.table[item])
        )
        targets = [(-1,) if self.scope[item] == Scope.WORLD else tuple(on[item][: self._units(item)]) for item in items]
        return Assignment(self.device_class.option[items], tuple(targets))


def _solve(problem: Problem, device_class: DeviceClass, patterns: list[Ints], effort: int, should_stop: ShouldStop) -> PatternLeaf:
    model, solver = _PatternModel(problem, device_class, patterns), new_solver()
    solver.parameters.max_deterministic_time = PATTERN_LEAF_DETERMINISTIC * effort
    status = solve_until(should_stop, solver, model.cp)
    steps = int(LEAF_STEPS_PER_DETERMINISTIC * solver.response_proto.deterministic_time)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    return PatternLeaf(status == cp_model.INFEASIBLE, model.read(solver) if found else None, steps)


def has_pattern_leaves(problem: Problem, classes: list[DeviceClass]) -> bool:
    """Whether `solve_by_patterns` applies: one class of devices, one stage, options of equal units."""
    if len(classes) != 1 or problem.num_stages > 1 or not classes[0].is_trainer:
        return False
    device_class = classes[0]
    return len(np.unique(device_class.option)) == len(device_class.option) == problem.num_options
