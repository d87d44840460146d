"""One dive: patterns that a linear program takes are given to devices, some at a time, until all tables are placed.

With several stages, where a table is left without a place, the last choice that can be made otherwise is.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from emplace.solver.budget import COVERED, PLACED
from emplace.solver.heuristics.dive_program import DiveProgram, OpenDevices, PatternPool, StepMeter
from emplace.solver.model.problem import Assignment, Bools, Floats, Ints, Problem, Scope
from emplace.solver.patterns.device_classes import DeviceClass

AT_ONCE = 10
"""One of so many devices left is filled before the program is solved again; two of twice as many, where their patterns are
held by `HALF`."""
HALF = 0.5
"""Devices that must hold a pattern for it to be given to one beside the first."""
CHOICES, MOST_DEAD_ENDS = 2, 30
"""How many ways to go on are tried from one place, and how many times a dive with several stages finds no way on. One with a single stage ends
where it first does: another finds as much."""


@dataclass
class Turn:
    """A place where a dive chooses, and all that it had chosen before."""

    left: Floats
    keep: Bools
    option: Ints
    given: dict[int, Ints]
    open_devices: list[list[int]]
    """Devices of each group that nothing was given to."""
    ways: list[list[tuple[int, Ints]]]
    """What is not tried yet, the likeliest last: patterns that are given together, each to a device of a group."""


def held_tables(problem: Problem, plan: Assignment, *, frees: bool) -> Bools:
    """[T] the tables that load nodes or the world in a plan; with `frees` those alone that can take no single devices."""
    single = problem.option_scope == Scope.DEVICE
    held = ~single[plan.option]
    return np.asarray(held & (np.bincount(problem.option_table[single], minlength=problem.num_tables) == 0) if frees else held)


def dive_options(problem: Problem, plan: Assignment, held: Bools) -> Bools:
    """[O] the options that a dive from a plan may take: tables in `held` [T] have that of the plan, and all others take single devices."""
    may = np.asarray((problem.option_scope == Scope.DEVICE) & ~held[problem.option_table])
    may[plan.option[held]] = True
    return may


class Dive:
    """Options in `keep` [O], in at most `upper` [K] of time on every device."""

    def __init__(
        self,
        problem: Problem,
        device_class: DeviceClass,
        keep: Bools,
        upper: Floats,
        pool: PatternPool,
        random: np.random.Generator,
        noise: float,
    ) -> None:
        self.problem, self.device_class, self.keep, self.upper = problem, device_class, keep.copy(), upper
        self.pool, self.random, self.noise = pool, random, noise
        self.left = np.ones(problem.num_tables)
        """[T] the share of each table that is still to be placed."""
        self.option = np.full(problem.num_tables, -1)
        self.held: dict[int, tuple[int, ...]] = {}
        """Targets of tables that load nodes or the world."""
        self.given: dict[int, Ints] = {}
        """The items of each device that is filled."""

    def hold(self, plan: Assignment, held: Bools, devices: Ints) -> None:
        """Tables in `held` [T] stay as in the plan, and so does all that is on `devices`; all else takes single devices."""
        single = self.problem.option_scope == Scope.DEVICE
        for table in np.flatnonzero(held):
            self._take(int(plan.option[table]))
            self.left[table] = 0.0
            self.held[int(table)] = plan.targets[table]
        self.keep &= single
        for device in devices:
            items = [option for option, targets in zip(plan.option, plan.targets, strict=True) for target in targets if target == device]
            self._place(int(device), np.array([item for item in items if single[item]], dtype=np.int64))

    def run(self, meter: StepMeter) -> Generator[None, None, Assignment | None]:
        """A placement, or None where this dive met none; step by step. Raises OutOfSteps."""
        groups = self._groups()
        if not all(group.has_room(self.device_class, self.upper) for group in groups):
            return None
        program = DiveProgram(self.device_class, self.upper, groups, self.keep, self.left, self.pool, meter)
        turns, dead_ends_left = list[Turn](), MOST_DEAD_ENDS if len(self.upper) > 1 else 0
        while self.left.max() > PLACED:
            amount = yield from program.solve()
            if amount is not None and amount.max(initial=0.0) > COVERED:
                turns.append(self._turn(program, amount))
            else:
                dead_ends_left -= 1
                turns = turns[: max((depth for depth, turn in enumerate(turns, 1) if turn.ways), default=0)]
                if not turns or dead_ends_left < 0:
                    return None
                self._return_to(turns[-1], groups)
            for group, items in turns[-1].ways.pop():
                self._fill(groups[group], items)
            program.restrict(self.keep, self.left)
        return self._assignment()

    def unfilled(self) -> float:
        """The share of the devices that the dive has not come to."""
        return 1.0 - len(self.given) / len(self.device_class.devices)

    def _groups(self) -> list[OpenDevices]:
        groups: dict[tuple[int, ...], OpenDevices] = {}
        for device in np.setdiff1d(self.device_class.devices, list(self.given)):
            here = (-1, self.problem.device_node[device])
            held = tuple(int(self.option[table]) for table, targets in self.held.items() for target in targets if target in here)
            groups.setdefault(held, OpenDevices([], held)).devices.append(int(device))
        return list(groups.values())

    def _turn(self, program: DiveProgram, amount: Floats) -> Turn:
        """A choice between the patterns that are held most, each with others that many devices hold."""
        weight = np.exp(self.noise * self.random.standard_normal(len(amount)))
        order = np.argsort(-np.where(amount > COVERED, amount * weight, 0.0), kind="stable")
        together = order[: sum(len(group.devices) for group in program.groups) // AT_ONCE]
        ways = [
            [program.patterns[first], *(program.patterns[other] for other in together[rank + 1 :] if amount[other] >= HALF)]
            for rank, first in enumerate(order[:CHOICES])
            if amount[first] > COVERED
        ]
        devices = [list(group.devices) for group in program.groups]
        return Turn(self.left.copy(), self.keep.copy(), self.option.copy(), dict(self.given), devices, ways[::-1])

    def _return_to(self, turn: Turn, groups: list[OpenDevices]) -> None:
        self.left, self.keep, self.option, self.given = turn.left.copy(), turn.keep.copy(), turn.option.copy(), dict(turn.given)
        for group, devices in zip(groups, turn.open_devices, strict=True):
            group.devices[:] = devices

    def _fill(self, group: OpenDevices, items: Ints) -> None:
        """Gives the pattern to a device of the group, if all of it is still to be placed."""
        table = self.device_class.table[items]
        if group.devices and self.keep[items].all() and (self.device_class.coverage[items] <= self.left[table] + PLACED).all():
            self._place(group.devices.pop(), items)

    def _place(self, device: int, items: Ints) -> None:
        self.given[device] = items
        for item in items:
            self.left[self.device_class.table[item]] -= self.device_class.coverage[item]
            self._take(int(item))

    def _take(self, option: int) -> None:
        table = int(self.problem.option_table[option])
        self.option[table] = option
        self.keep[self.problem.option_table == table] = False
        self.keep[option] = True

    def _assignment(self) -> Assignment:
        on: dict[int, list[int]] = {}
        for device, items in sorted(self.given.items()):
            for table in self.device_class.table[items]:
                on.setdefault(int(table), []).append(device)
        targets = [self.held.get(table) or tuple(on[table]) for table in range(self.problem.num_tables)]
        return Assignment(self.option, tuple(targets))
