"""Certificates of infeasibility by patterns: no way to cover every table with what single devices can hold.

docs/explanation/bounds.md states the program and proves the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emplace.solver.budget import CERTIFICATE_MARGIN, PROGRAM_STEPS, SAME_SUM
from emplace.solver.model.problem import Bools, Floats, Ints, Problem
from emplace.solver.patterns.device_classes import (
    DeviceClass,
    MakespanBox,
    PricingProblem,
    device_classes,
    forced_options,
    placeable,
    pricing_problem,
)
from emplace.solver.patterns.knapsack import BestPatterns, most_violated
from emplace.solver.patterns.master import Load, PatternMaster, Shared
from emplace.solver.progress import ShouldStop

ROUNDS = 150
"""Linear programs solved for one node at most."""
PRICING_STEPS, PRICING_STEPS_STAGES = 3_000_000, 24_000_000
"""Steps of one pricing at most, with one stage and with several."""
SMOOTHING = (0.3, 0.6, 0.85)
"""Weight of the best prices so far: column generation swings less. The next where a pricing neither finds a pattern nor ends."""
MOST_COLUMNS = 2000
"""Then start anew: a larger program costs more than finding its patterns again."""
LEAST_AMOUNT = 1e-9
"""Devices that hold a pattern: it counts as held when there are more."""


@dataclass(frozen=True)
class Prices:
    """Dual values: of covering each table [T], of the time of each kind of device in each stage [G, K], of system memory."""

    table: Floats
    time: Floats
    ddr: float


@dataclass(frozen=True)
class NodeBound:
    """Whether a node holds no placement, or what its relaxation says where that is not certified."""

    is_infeasible: bool
    is_covered: bool
    """Whether the patterns met cover all tables, as far as is known: where the program was not solved nothing is taken."""
    share: Floats
    """[O] how much of each option the patterns take."""
    makespan: Floats
    """[K] what they say of s."""
    longest: Floats
    """[K] the most that one of them takes."""
    prices: Prices
    steps: int


@dataclass
class _Column:
    """A pattern of the program."""

    device_class: int
    items: Ints
    time: Floats
    """[K]"""


class PatternBound:
    """Bounds nodes of the branch and bound by the covering program, with every pattern met so far."""

    def __init__(self, problem: Problem, should_stop: ShouldStop = lambda: False, pricing_steps: int | None = None) -> None:
        """One pricing takes at most so many steps, by default as many as a certificate is worth."""
        self.problem, self.should_stop = problem, should_stop
        self.classes = device_classes(problem)
        self.count = np.array([len(each.devices) for each in self.classes])
        self.by_kind = np.bincount(problem.device_kind, minlength=problem.num_kinds)
        self.ddr_total = float(max(problem.ddr_capacity.sum(), 1))
        self.has_stages = problem.num_stages > 1
        self.pricing_steps = pricing_steps or (PRICING_STEPS_STAGES if self.has_stages else PRICING_STEPS)
        self.scale = max(float(problem.unit_time_us.max(initial=0.0)), 1e-9)
        self._build()

    def _build(self) -> None:
        """Start without patterns."""
        problem = self.problem
        self.columns: list[_Column] = []
        self.seen: set[tuple[int, ...]] = set()
        self.coverages = np.empty((0, problem.num_tables))
        self.loads = np.empty((0, problem.num_stages))
        self.bytes = np.empty(0)
        self.column_class = np.empty(0, dtype=np.int64)
        self.active = np.empty(0, dtype=bool)
        shared = Shared(self.by_kind, problem.num_stages if self.has_stages else 0)
        self.master = PatternMaster(problem.num_tables, len(self.classes), missing_price=1.0, pattern_price=0.0, shared=shared)
        self.master.require(np.ones(problem.num_tables))
        self.master.limit_devices(self.count)

    def bound(self, keep: Bools, box: MakespanBox, start: Prices | None = None, most_steps: float = np.inf) -> NodeBound:
        """Whether no placement with the options in `keep` lies in the box; what was learnt otherwise, or until it takes too long."""
        problem = self.problem
        nothing = Prices(np.zeros(problem.num_tables), np.zeros((problem.num_kinds, problem.num_stages)), 0.0)
        keep = placeable(problem, self.classes, keep, box)
        pricing = self._pricing_problems(keep, box)
        if pricing is None:
            return self._certified(box, start or nothing, 0)
        if len(self.columns) > MOST_COLUMNS:
            self._build()
        self._activate(keep, box)
        self._set_box(box)
        center, prices, steps, best, smoothing = start, start, 0, -np.inf, 0
        for _ in range(ROUNDS):
            if prices is None:
                value, ideal = self._solve()
                steps += PROGRAM_STEPS
                if value <= CERTIFICATE_MARGIN:
                    return self._open(center or ideal, steps)
                prices = self._between(center, ideal, SMOOTHING[smoothing], box)
            slack, worth = self._slack(prices, box)
            if slack <= CERTIFICATE_MARGIN:
                prices = None
                continue
            added, over, took = self._price(pricing, prices, worth, slack)
            steps += took
            if slack - over > best:
                best, center = slack - over, prices
            if slack - over > CERTIFICATE_MARGIN * 1e-3:
                return self._certified(box, prices, steps)
            smoothing = 0 if added else smoothing + 1
            if smoothing == len(SMOOTHING) or steps >= most_steps or self.should_stop():
                break
            prices = None
        self._solve()
        return self._open(center or prices or nothing, steps)

    def taken(self) -> list[Ints]:
        """The rising items of each pattern that the last solution takes."""
        return [np.sort(self.columns[pattern].items) for pattern in np.flatnonzero(self._amounts() > LEAST_AMOUNT)]

    def _amounts(self) -> Floats:
        """[patterns] how many devices hold each in the last solution; none where there was none."""
        return self.master.amounts() if self.master.is_solved else np.zeros(len(self.columns))

    def _certified(self, box: MakespanBox, prices: Prices, steps: int) -> NodeBound:
        return NodeBound(True, False, np.zeros(self.problem.num_options), box.lower, box.lower, prices, steps)

    def _between(self, center: Prices | None, ideal: Prices, weight: float, box: MakespanBox) -> Prices:
        """The ideal prices drawn towards the best ones so far, unless that leaves nothing to prove."""
        if center is None:
            return ideal
        mixed = _mixed(center, ideal, weight)
        return mixed if self._slack(mixed, box)[0] > CERTIFICATE_MARGIN else ideal

    def _pricing_problems(self, keep: Bools, box: MakespanBox) -> list[PricingProblem | None] | None:
        """What devices of each class may hold; None where a table has no option left or a trainer no room for what all hold."""
        left = np.bincount(self.problem.option_table[keep], minlength=self.problem.num_tables)
        if not left.all() or box.lower.sum() > box.value * (1 + SAME_SUM):
            return None
        forced = forced_options(self.problem, keep)
        found = [pricing_problem(each, keep, forced, box) for each in self.classes]
        if any(pricing is None and each.is_trainer for pricing, each in zip(found, self.classes, strict=True)):
            return None
        return found

    def _slack(self, prices: Prices, box: MakespanBox) -> tuple[float, Floats]:
        """How far these prices are from a certificate with the patterns so far, and the most that one of each class is worth."""
        per_column = self.coverages @ prices.table - self.bytes * prices.ddr
        kinds = np.array([each.kind for each in self.classes])
        if len(self.column_class):
            per_column -= (self.loads * prices.time[kinds[self.column_class]]).sum(axis=1)
        worth = np.zeros(len(self.classes))
        np.maximum.at(worth, self.column_class[self.active], per_column[self.active])
        fixed = float(prices.table.sum()) - prices.ddr * self.ddr_total - self._dearest_makespans(prices, box)
        return fixed - float(self.count @ worth), worth

    def _price(self, pricing: list[PricingProblem | None], prices: Prices, worth: Floats, slack: float) -> tuple[bool, float, int]:
        """Add the most violated patterns of each class: whether any is new, how much more all are worth at most, and the steps."""
        added, over, steps = False, 0.0, 0
        for index, given in enumerate(pricing):
            if given is None:
                continue
            threshold = worth[index] + 0.999 * slack / self.count.sum()
            found = self._most_violated(self.classes[index], given, prices, threshold)
            steps += found.steps
            over += self.count[index] * (found.value - worth[index]) if found.finished else np.inf
            for items in found.patterns:
                added |= self._add(index, self.classes[index], items)
        return added, over, steps

    def _dearest_makespans(self, prices: Prices, box: MakespanBox) -> float:
        """The most that sum over k of s[k] times the price of stage k can be in the box."""
        if not self.has_stages:
            return 0.0
        price = self.by_kind @ prices.time
        makespan, left = box.lower.copy(), box.value - box.lower.sum()
        for stage in np.argsort(-price, kind="stable"):
            more = min(left, max(box.upper[stage] - makespan[stage], 0.0))
            makespan[stage] += more
            left -= more
        return float(price @ makespan)

    def _most_violated(self, device_class: DeviceClass, given: PricingProblem, prices: Prices, threshold: float) -> BestPatterns:
        """Patterns worth more than the threshold, by items of the class."""
        value = device_class.coverage * prices.table[device_class.table] - device_class.time @ prices.time[device_class.kind]
        value = value - device_class.ddr * prices.ddr
        base = float(value[given.forced].sum())
        if len(given.items) == 0:
            return BestPatterns((given.forced,) if base > threshold else (), max(base, threshold), True, 1)
        found = most_violated(given.knapsack, value[given.items], threshold - base, self.pricing_steps)
        patterns = tuple(np.concatenate([given.forced, given.items[items]]) for items in found.patterns)
        if not patterns and base > threshold:
            patterns = (given.forced,)
        return replace(found, patterns=patterns, value=max(base + found.value, base, threshold))

    def _add(self, index: int, device_class: DeviceClass, items: Ints) -> bool:
        """Add a pattern of a class; whether it is new."""
        key = (index, *items.tolist())
        if key in self.seen:
            return False
        self.seen.add(key)
        coverage = np.zeros(self.problem.num_tables)
        np.add.at(coverage, device_class.table[items], device_class.coverage[items])
        load, held = device_class.time[items].sum(axis=0), float(device_class.ddr[items].sum())
        tables = np.flatnonzero(coverage)
        self.master.add(index, tables, coverage[tables], Load(device_class.kind, load / self.scale, held / self.ddr_total))
        self.columns.append(_Column(index, items, load))
        self.coverages = np.vstack([self.coverages, coverage])
        self.loads = np.vstack([self.loads, load])
        self.bytes = np.append(self.bytes, held)
        self.column_class = np.append(self.column_class, index)
        self.active = np.append(self.active, True)
        return True

    def _activate(self, keep: Bools, box: MakespanBox) -> None:
        """Let the program use the patterns of the box, and no others; those that are added from now on are of it."""
        within = (self.loads <= box.upper * (1 + SAME_SUM)).all(axis=1)
        within &= np.maximum(box.lower, self.loads).sum(axis=1) <= box.value * (1 + SAME_SUM)
        kept = [bool(keep[self.classes[column.device_class].option[column.items]].all()) for column in self.columns]
        self.active = within & np.array(kept, dtype=bool)
        self.master.allow(self.active)

    def _set_box(self, box: MakespanBox) -> None:
        if self.has_stages:
            self.master.limit_makespans(box.lower / self.scale, box.upper / self.scale, box.value / self.scale)

    def _solve(self) -> tuple[float, Prices]:
        """The covers that are missing, and the prices; none where HiGHS gives up."""
        stages = np.zeros((self.problem.num_kinds, self.problem.num_stages))
        if not self.master.solve():
            return 0.0, Prices(np.zeros(self.problem.num_tables), stages, 0.0)
        time = self.master.time_prices() / self.scale if self.has_stages else stages
        return self.master.value, Prices(np.minimum(self.master.table_prices(), 1.0), time, self.master.ddr_price() / self.ddr_total)

    def _open(self, prices: Prices, steps: int) -> NodeBound:
        """What the solution says where nothing is certified; nothing where there is none, and that program is not asked again."""
        is_solved = self.master.is_solved
        if not is_solved:
            self._build()
        share = np.zeros(self.problem.num_options)
        longest = np.zeros(self.problem.num_stages)
        amount = self._amounts()
        for pattern in np.flatnonzero(amount > LEAST_AMOUNT):
            column = self.columns[pattern]
            here = self.classes[column.device_class]
            np.add.at(share, here.option[column.items], amount[pattern] * here.coverage[column.items])
            longest = np.maximum(longest, column.time)
        makespan = self.master.makespans() * self.scale if self.has_stages and is_solved else longest
        is_covered = not is_solved or self.master.value <= CERTIFICATE_MARGIN
        return NodeBound(False, is_covered, share, makespan, longest, prices, steps)


def _mixed(center: Prices, ideal: Prices, weight: float) -> Prices:
    return Prices(
        weight * center.table + (1 - weight) * ideal.table,
        weight * center.time + (1 - weight) * ideal.time,
        weight * center.ddr + (1 - weight) * ideal.ddr,
    )
