"""The linear program that a dive follows: the fewest devices that what is left of the tables needs, in patterns."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

import numpy as np

from emplace.solver.budget import COVERED, DIVE_PRICING_STEPS, PLACED, PROGRAM_STEPS
from emplace.solver.model.problem import Bools, Floats, Ints
from emplace.solver.patterns.device_classes import DeviceClass, MakespanBox, PricingProblem, pricing_problem
from emplace.solver.patterns.knapsack import most_violated
from emplace.solver.patterns.master import PatternMaster
from emplace.solver.progress import ShouldStop

ROUNDS, ROUNDS_LATER = 400, 16
"""Programs solved at most before the first choice, and with several stages before one of the others: where tables are still missing after so
many, they mostly stay so."""
PRICINGS = ((20_000, 8), (200_000, 20), (1_000_000, 1))
PRICINGS_STAGES = PRICINGS[:2]
"""Steps of one pricing, and how many patterns of different tables are asked for; the next where one finds none. With several stages another
dive is worth more than a last pattern."""
MISSED, FIRST, LATER = 1e-4, 0.003, 0.02
"""How much more than a device a pattern must be worth: while tables are missing, before any device is filled, and then. A
first program that only covers all tables leads to plans less often than one that is nearly the best."""
AMPLE = 0.97
"""Share of the devices left: a program that needs fewer goes no further."""
OTHERS = 0.5
"""The least that a further pattern must be worth in prices without the tables of those before."""
PatternPool = dict[tuple[int, ...], None]
"""Patterns met so far, as rising items."""


@dataclass
class OpenDevices:
    """Devices that hold the same, and are not filled yet."""

    devices: list[int]
    held: tuple[int, ...]
    """Items on each of them."""

    def left(self, device_class: DeviceClass, upper: Floats) -> tuple[Floats, float, float]:
        """Time [K] and bytes of each tier that are left on a device."""
        held = list(self.held)
        return (
            upper - device_class.time[held].sum(axis=0),
            device_class.hbm_bytes - float(device_class.hbm[held].sum()),
            device_class.ddr_bytes - float(device_class.ddr[held].sum()),
        )

    def has_room(self, device_class: DeviceClass, upper: Floats) -> bool:
        """Whether what its devices hold leaves anything, or just fits."""
        time, hbm, ddr = self.left(device_class, upper)
        return bool((time >= 0).all() and hbm >= 0 and ddr >= 0)


class OutOfSteps(Exception):
    """The steps are spent, or someone asked to stop, or HiGHS solved no program."""


@dataclass
class StepMeter:
    """Steps of pricing that may be taken."""

    most_steps: int
    should_stop: ShouldStop | None = None
    is_limit: bool = True
    """Whether `most_steps` end it; else they are only what is expected of the time that there is."""
    steps: int = 0

    def spend(self, steps: int) -> None:
        """Count steps. Raises OutOfSteps when there are none left."""
        self.steps += steps
        if self.ended:
            raise OutOfSteps

    @property
    def ended(self) -> bool:
        """Whether no more may be taken."""
        return (self.is_limit and self.steps >= self.most_steps) or (self.should_stop is not None and self.should_stop())


class DiveProgram:
    """The covering program over patterns, whose classes are groups of devices that hold the same."""

    def __init__(
        self,
        device_class: DeviceClass,
        upper: Floats,
        groups: list[OpenDevices],
        keep: Bools,
        left: Floats,
        pool: PatternPool,
        meter: StepMeter,
    ) -> None:
        self.device_class, self.upper, self.groups, self.pool = device_class, upper, groups, pool
        self.keep, self.left, self.meter = keep, left, meter
        self.worth, self.rounds = FIRST, ROUNDS
        self._build()

    def _build(self) -> None:
        missing_price = 2.0 * len(self.device_class.devices)
        self.master = PatternMaster(len(self.left), len(self.groups), missing_price=missing_price, pattern_price=1.0)
        self.patterns: list[tuple[int, Ints]] = []
        self.seen: set[tuple[int, ...]] = set()
        for index, (group, given) in enumerate(zip(self.groups, self._pricing_problems(), strict=True)):
            if given is not None:
                for items in self._pooled(group, given):
                    self._add(index, items)
        self.restrict(self.keep, self.left)

    def restrict(self, keep: Bools, left: Floats) -> None:
        """From now on tables take options in `keep` [O] only, and `left` [T] of each is to be placed in the groups as they are."""
        self.keep, self.left = keep, left
        self.pricing = self._pricing_problems()
        may = np.zeros((len(self.groups), len(keep)), dtype=bool)
        for index, given in enumerate(self.pricing):
            if given is not None:
                may[index, given.items] = True
        self.master.allow(self._within(may))
        self.master.require(np.where(left > PLACED, left, 0.0))
        self.master.limit_devices(np.array([len(group.devices) for group in self.groups]))

    def _within(self, may: Bools) -> Bools:
        """[patterns] those of which all items may be on a device of their group, by `may` [groups, I]."""
        if not self.patterns:
            return np.empty(0, dtype=bool)
        number = np.array([len(items) for _, items in self.patterns])
        group = np.repeat([index for index, _ in self.patterns], number)
        items = np.concatenate([items for _, items in self.patterns])
        return np.logical_and.reduceat(may[group, items], np.cumsum(number) - number)

    def solve(self) -> Generator[None, None, Floats | None]:
        """[patterns] how many devices hold each; None where some table is missing. Raises OutOfSteps."""
        for _ in range(self.rounds):
            self._solve()
            if self._is_ample() or not self._price():
                break
            yield
        else:
            self._solve()
        self.worth, self.rounds = LATER, ROUNDS_LATER if len(self.upper) > 1 else ROUNDS
        return None if self.master.missing() > COVERED else self.master.amounts()

    def _is_ample(self) -> bool:
        """Whether all tables are covered, and many devices are left."""
        devices = sum(len(group.devices) for group in self.groups)
        return self.master.missing() <= COVERED and float(self.master.amounts().sum()) <= AMPLE * devices

    def _solve(self) -> None:
        self.meter.spend(PROGRAM_STEPS)
        if not self.master.solve():
            self._build()
            if not self.master.solve():
                raise OutOfSteps

    def _price(self) -> bool:
        """Add patterns that make the program better; whether there were any."""
        table, device = self.master.table_prices(), 1.0 + self.master.device_prices()
        worth = MISSED if self.master.missing() > COVERED else self.worth
        for steps, number in PRICINGS if len(self.upper) == 1 else PRICINGS_STAGES:
            added = False
            for index, given in enumerate(self.pricing):
                if given is not None:
                    for items in self._most_violated(given, table, device[index] * (1 + worth), steps, number):
                        added |= self._add(index, items)
            if added:
                return True
        return False

    def _most_violated(self, given: PricingProblem, price: Floats, least: float, steps: int, number: int) -> Iterator[Ints]:
        """Patterns worth more than `least`, each of tables that those before it do not hold."""
        here, full = self.device_class, price
        for _ in range(number):
            value = (here.coverage * price[here.table])[given.items]
            found = most_violated(given.knapsack, value, least if price is full else least * OTHERS, steps)
            self.meter.spend(found.steps + DIVE_PRICING_STEPS)
            if not found.patterns:
                return
            items = given.items[found.patterns[0]]
            if (here.coverage[items] * full[here.table[items]]).sum() > least:
                yield items
            price = price.copy()
            price[here.table[items]] = 0.0

    def _add(self, index: int, items: Ints) -> bool:
        """Add a pattern of a group; whether it is new."""
        items = np.sort(items)
        key = (index, *items.tolist())
        if key in self.seen:
            return False
        self.seen.add(key)
        self.pool[key[1:]] = None
        self.master.add(index, self.device_class.table[items], self.device_class.coverage[items])
        self.patterns.append((index, items))
        return True

    def _pricing_problems(self) -> list[PricingProblem | None]:
        """What another device of each group may hold; None where that is nothing."""
        return [self._pricing_problem(group) for group in self.groups]

    def _pricing_problem(self, group: OpenDevices) -> PricingProblem | None:
        time, hbm, ddr = group.left(self.device_class, self.upper)
        if not group.devices:
            return None
        whole = self.device_class.coverage <= self.left[self.device_class.table] + PLACED
        given = pricing_problem(
            replace(self.device_class, hbm_bytes=hbm, ddr_bytes=ddr),
            self.keep & whole,
            np.zeros(len(self.keep), dtype=bool),
            MakespanBox(np.zeros_like(time), time, float(time.sum())),
        )
        return given if given is not None and len(given.items) else None

    def _pooled(self, group: OpenDevices, given: PricingProblem) -> Iterator[Ints]:
        """Patterns met before that a device of the group can hold."""
        may = np.zeros(len(self.keep), dtype=bool)
        may[given.items] = True
        time, hbm, ddr = group.left(self.device_class, self.upper)
        for key in list(self.pool):
            items = np.array(key)
            fits = may[items].all() and (self.device_class.time[items].sum(axis=0) <= time).all()
            if fits and self.device_class.hbm[items].sum() <= hbm and self.device_class.ddr[items].sum() <= ddr:
                yield items
