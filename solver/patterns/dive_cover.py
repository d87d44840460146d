"""The fewest devices that what is left of the tables needs, in patterns: the linear program that a dive follows."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np
from ortools.linear_solver import pywraplp

from emplace.solver.model.problem import Bools, Floats, Ints
from emplace.solver.patterns.device_classes import Alike, Offer, Window, offer
from emplace.solver.patterns.knapsack import dearest
from emplace.solver.progress import ShouldStop

ROUNDING = 1e-9
LEAST = 1e-6
"""Tables of which no more is missing are covered; a pattern held less often is not held."""
ROUNDS = 400
PRICINGS = ((20_000, 8), (200_000, 20), (1_000_000, 1))
"""Steps of one pricing, and how many patterns of different tables are asked for; the next where one finds none."""
MISSED, FIRST, LATER = 1e-4, 0.003, 0.02
"""How much more than a device a pattern must be worth: while tables are missing, before any device is filled, and then. A
first program that only covers all tables leads to plans less often than one that is nearly the best."""
OTHERS = 0.5
"""The least that a further pattern must be worth in prices without the tables of those before."""
STEPS_PER_PRICING, STEPS_PER_PROGRAM = 10_000, 10_000
"""What preparing a pricing and solving a linear program count for."""
Pool = dict[tuple[int, ...], None]
"""Patterns met so far, as rising items."""


@dataclass
class Room:
    """Devices that hold the same, and are not filled yet."""

    devices: list[int]
    held: tuple[int, ...]
    """Items on each of them."""

    def left(self, alike: Alike, upper: Floats) -> tuple[Floats, float, float]:
        """Time [K] and bytes of each tier that are left on a device."""
        held = list(self.held)
        return (
            upper - alike.time[held].sum(axis=0),
            alike.hbm_bytes - float(alike.hbm[held].sum()),
            alike.ddr_bytes - float(alike.ddr[held].sum()),
        )

    def is_open(self, alike: Alike, upper: Floats) -> bool:
        """Whether what its devices hold leaves anything, or just fits."""
        time, hbm, ddr = self.left(alike, upper)
        return bool((time >= 0).all() and hbm >= 0 and ddr >= 0)


class Ended(Exception):
    """The effort is spent, or someone asked to stop, or GLOP solved no program."""


@dataclass
class Effort:
    """Steps of pricing that may be taken."""

    most_steps: int
    should_stop: ShouldStop | None = None
    steps: int = 0

    def spend(self, steps: int) -> None:
        """Raises Ended when there are none left."""
        self.steps += steps
        if self.ended:
            raise Ended

    @property
    def ended(self) -> bool:
        return self.steps >= self.most_steps or (self.should_stop is not None and self.should_stop())


class DeviceCover:
    """Rows: a table's missing share, each room's devices. Columns: how many devices of a room hold a pattern."""

    def __init__(self, alike: Alike, upper: Floats, rooms: list[Room], keep: Bools, left: Floats, pool: Pool, effort: Effort) -> None:
        self.alike, self.upper, self.rooms, self.pool = alike, upper, rooms, pool
        self.keep, self.left, self.effort = keep, left, effort
        self.worth = FIRST
        self._build()

    def _build(self) -> None:
        self.lp = pywraplp.Solver.CreateSolver("GLOP")
        infinity, goal = self.lp.infinity(), self.lp.Objective()
        self.cover = [self.lp.Constraint(0.0, infinity) for _ in self.left]
        self.missing = [self.lp.NumVar(0.0, infinity, "") for _ in self.left]
        for row, variable in zip(self.cover, self.missing, strict=True):
            row.SetCoefficient(variable, 1.0)
            goal.SetCoefficient(variable, 2.0 * len(self.alike.devices))
        goal.SetMinimization()
        self.room = [self.lp.Constraint(-infinity, 0.0) for _ in self.rooms]
        self.patterns: list[tuple[int, Ints]] = []
        self.variables: list[pywraplp.Variable] = []
        self.seen: set[tuple[int, ...]] = set()
        self.offers = [self._offer(room) for room in self.rooms]
        for index, (room, given) in enumerate(zip(self.rooms, self.offers, strict=True)):
            if given is not None:
                for items in self._pooled(room, given):
                    self._add(index, items)
        self.restrict(self.keep, self.left)

    def restrict(self, keep: Bools, left: Floats) -> None:
        """From now on tables take options in `keep` [O] only, and `left` [T] of each is to be placed in the rooms as they are."""
        self.keep, self.left = keep, left
        self.offers = [self._offer(room) for room in self.rooms]
        may = np.zeros((len(self.rooms), len(keep)), dtype=bool)
        for index, given in enumerate(self.offers):
            if given is not None:
                may[index, given.items] = True
        for (index, items), variable in zip(self.patterns, self.variables, strict=True):
            variable.SetUb(self.lp.infinity() if may[index, items].all() else 0.0)
        for row, share in zip(self.cover, left, strict=True):
            row.SetLb(float(share) if share > ROUNDING else 0.0)
        for row, room in zip(self.room, self.rooms, strict=True):
            row.SetUb(float(len(room.devices)))

    def solve(self) -> Generator[None, None, Floats | None]:
        """Of each pattern, how many devices hold it; None where some table is missing. Raises Ended."""
        for _ in range(ROUNDS):
            self._solve()
            if not self._price():
                break
            yield
        else:
            self._solve()
        self.worth = LATER
        return None if self._missing() > LEAST else np.array([variable.solution_value() for variable in self.variables])

    def _solve(self) -> None:
        self.effort.spend(STEPS_PER_PROGRAM)
        if self.lp.Solve() != pywraplp.Solver.OPTIMAL:
            self._build()
            if self.lp.Solve() != pywraplp.Solver.OPTIMAL:
                raise Ended

    def _missing(self) -> float:
        return float(sum(variable.solution_value() for variable in self.missing))

    def _price(self) -> bool:
        """Adds patterns that make the program better; whether there were any."""
        table = np.array([max(row.dual_value(), 0.0) for row in self.cover])
        device = [1.0 + max(-row.dual_value(), 0.0) for row in self.room]
        worth = MISSED if self._missing() > LEAST else self.worth
        for steps, number in PRICINGS:
            added = False
            for index, given in enumerate(self.offers):
                if given is not None:
                    for items in self._dearest(given, table, device[index] * (1 + worth), steps, number):
                        added |= self._add(index, items)
            if added:
                return True
        return False

    def _dearest(self, given: Offer, price: Floats, least: float, steps: int, number: int) -> Iterator[Ints]:
        """Patterns worth more than `least`, each of tables that those before it do not hold."""
        alike, full = self.alike, price
        for _ in range(number):
            value = (alike.credit * price[alike.table])[given.items]
            found = dearest(given.knapsack, value, least if price is full else least * OTHERS, steps)
            self.effort.spend(found.steps + STEPS_PER_PRICING)
            if found.items is None:
                return
            items = given.items[found.items[found.items >= 0]]
            if (alike.credit[items] * full[alike.table[items]]).sum() > least:
                yield items
            price = price.copy()
            price[alike.table[items]] = 0.0

    def _add(self, index: int, items: Ints) -> bool:
        items = np.sort(items)
        key = (index, *items.tolist())
        if key in self.seen:
            return False
        self.seen.add(key)
        self.pool[key[1:]] = None
        variable = self.lp.NumVar(0.0, self.lp.infinity(), "")
        self.lp.Objective().SetCoefficient(variable, 1.0)
        self.room[index].SetCoefficient(variable, 1.0)
        for item in items:
            self.cover[self.alike.table[item]].SetCoefficient(variable, float(self.alike.credit[item]))
        self.patterns.append((index, items))
        self.variables.append(variable)
        return True

    def _offer(self, room: Room) -> Offer | None:
        """What another device of the room may hold; None where that is nothing."""
        time, hbm, ddr = room.left(self.alike, self.upper)
        if not room.devices:
            return None
        whole = self.alike.credit <= self.left[self.alike.table] + ROUNDING
        nothing = np.zeros(len(self.keep), dtype=bool)
        given = offer(
            replace(self.alike, hbm_bytes=hbm, ddr_bytes=ddr),
            self.keep & whole,
            nothing,
            Window(np.zeros_like(time), time, float(time.sum())),
        )
        return given if given is not None and len(given.items) else None

    def _pooled(self, room: Room, given: Offer) -> Iterator[Ints]:
        """Patterns met before that a device of the room can hold."""
        may = np.zeros(len(self.keep), dtype=bool)
        may[given.items] = True
        time, hbm, ddr = room.left(self.alike, self.upper)
        for key in list(self.pool):
            items = np.array(key)
            fits = may[items].all() and (self.alike.time[items].sum(axis=0) <= time).all()
            if fits and self.alike.hbm[items].sum() <= hbm and self.alike.ddr[items].sum() <= ddr:
                yield items
