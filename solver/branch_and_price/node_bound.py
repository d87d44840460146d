"""Refuting a value by patterns: no way to cover every table with what single devices can hold.

docs/explanation/bounds.md states the program and proves the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.linear_solver import pywraplp

from emplace.solver.model.problem import Bools, Floats, Ints, Problem
from emplace.solver.patterns.device_classes import Alike, Offer, Window, classes_of, everywhere, offer, possible
from emplace.solver.patterns.knapsack import dearest

MARGIN = 1e-6
"""A certificate below this is not believed; prices of tables are at most 1."""
ROUNDS = 150
PRICING_STEPS = 3_000_000
SMOOTHING = 0.3
"""Weight of the best prices so far: column generation swings less."""
MOST_COLUMNS = 800
"""Then start anew: a larger program costs more than finding its patterns again."""
LP_STEPS = 10_000
"""What a linear program counts for, in steps of pricing: about as long."""


@dataclass(frozen=True)
class Prices:
    """Duals: of covering each table [T], of the time of each kind of device in each stage [G, K], of each group of pools."""

    table: Floats
    time: Floats
    ddr: float


@dataclass(frozen=True)
class Verdict:
    """Where nothing was refuted, `share` [O] is how much of each option the patterns take, `makespan` [K] what they say of
    s, and `longest` [K] the most that one of them takes."""

    refuted: bool
    share: Floats
    makespan: Floats
    longest: Floats
    prices: Prices
    steps: int


@dataclass
class _Column:
    alike: int
    items: Ints
    time: Floats
    variable: pywraplp.Variable


class Patterns:
    """The covering program, and every pattern met so far."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.classes = classes_of(problem)
        self.count = np.array([len(alike.devices) for alike in self.classes])
        self.by_kind = np.bincount(problem.device_kind, minlength=problem.num_kinds)
        self.ddr_total = float(max(problem.ddr_capacity.sum(), 1))
        self.timed = problem.num_stages > 1
        self._build()

    def _build(self) -> None:
        """Starts without patterns."""
        problem, self.solved = self.problem, False
        self.columns: list[_Column] = []
        self.seen: set[tuple[int, ...]] = set()
        self.credits = np.empty((0, problem.num_tables))
        self.loads = np.empty((0, problem.num_stages))
        self.bytes = np.empty(0)
        self.column_class = np.empty(0, dtype=np.int64)
        self.uses = np.empty((0, problem.num_options), dtype=bool)
        self.active = np.empty(0, dtype=bool)
        self.lp = pywraplp.Solver.CreateSolver("GLOP")
        inf = self.lp.infinity()
        self.cover = [self.lp.Constraint(1.0, inf) for _ in range(problem.num_tables)]
        self.room = [self.lp.Constraint(-inf, float(count)) for count in self.count]
        self.ddr = self.lp.Constraint(-inf, 1.0)
        for row in self.cover:
            missing = self.lp.NumVar(0.0, inf, "")
            row.SetCoefficient(missing, 1.0)
            self.lp.Objective().SetCoefficient(missing, 1.0)
        self.lp.Objective().SetMinimization()
        self.spans: list[pywraplp.Variable] = []
        self.time_rows: list[list[pywraplp.Constraint]] = []
        if self.timed:
            self.budget = self.lp.Constraint(-inf, 0.0)
            self.spans = [self.lp.NumVar(0.0, inf, "") for _ in range(problem.num_stages)]
            self.time_rows = [[self.lp.Constraint(-inf, 0.0) for _ in self.spans] for _ in self.by_kind]
            for stage, span in enumerate(self.spans):
                self.budget.SetCoefficient(span, 1.0)
                for kind, rows in enumerate(self.time_rows):
                    rows[stage].SetCoefficient(span, -float(self.by_kind[kind]))
        self.scale = max(float(problem.unit_time_us.max(initial=0.0)), 1e-9)

    def refute(self, keep: Bools, window: Window, start: Prices | None = None, most_steps: float = np.inf) -> Verdict:
        """Whether no placement with the options in `keep` lies in the window; what was learnt otherwise, or until it takes too long."""
        problem = self.problem
        nothing = Prices(np.zeros(problem.num_tables), np.zeros((problem.num_kinds, problem.num_stages)), 0.0)
        keep = possible(problem, self.classes, keep, window)
        offers = self._offers(keep, window)
        if offers is None:
            return Verdict(True, np.zeros(problem.num_options), window.lower, window.lower, start or nothing, 0)
        if len(self.columns) > MOST_COLUMNS:
            self._build()
        active = self._activate(keep, window)
        self._set_window(window)
        center, prices, steps, best = None, start, 0, -np.inf
        for _ in range(ROUNDS):
            if prices is None:
                value, ideal = self._solve()
                steps += LP_STEPS
                if value <= MARGIN:
                    return self._open(center or ideal, steps)
                prices = self._between(center, ideal, window, active)
            slack, worth = self._slack(prices, window, active)
            if slack <= MARGIN:
                prices = None
                continue
            added, over, took = self._price(offers, prices, worth, slack)
            steps += took
            if slack - over > best:
                best, center = slack - over, prices
            if slack - over > MARGIN * 1e-3:
                return Verdict(True, np.zeros(problem.num_options), window.lower, window.lower, prices, steps)
            if not added or steps >= most_steps:
                break
            active = self._activate(keep, window)
            prices = None
        self._solve()
        return self._open(center or prices or nothing, steps)

    def _between(self, center: Prices | None, ideal: Prices, window: Window, active: Bools) -> Prices:
        """The ideal prices drawn towards the best ones so far, unless that leaves nothing to prove."""
        if center is None:
            return ideal
        mixed = _mixed(center, ideal)
        return mixed if self._slack(mixed, window, active)[0] > MARGIN else ideal

    def _offers(self, keep: Bools, window: Window) -> list[Offer | None] | None:
        """What devices of each class may hold; None where a table has no option left or a trainer no room for what all hold."""
        left = np.bincount(self.problem.option_table[keep], minlength=self.problem.num_tables)
        if not left.all() or window.lower.sum() > window.value:
            return None
        always = everywhere(self.problem, keep)
        offers = [offer(alike, keep, always, window) for alike in self.classes]
        if any(given is None and alike.is_trainer for given, alike in zip(offers, self.classes, strict=True)):
            return None
        return offers

    def _slack(self, prices: Prices, window: Window, active: Bools) -> tuple[float, Floats]:
        """How far these prices are from a certificate with the patterns so far, and the most that one of each class is worth."""
        per_column = self.credits @ prices.table - self.bytes * prices.ddr
        kinds = np.array([alike.kind for alike in self.classes])
        if len(self.column_class):
            per_column -= (self.loads * prices.time[kinds[self.column_class]]).sum(axis=1)
        worth = np.zeros(len(self.classes))
        np.maximum.at(worth, self.column_class[active], per_column[active])
        fixed = float(prices.table.sum()) - prices.ddr * self.ddr_total - self._dearest_spans(prices, window)
        return fixed - float(self.count @ worth), worth

    def _price(self, offers: list[Offer | None], prices: Prices, worth: Floats, slack: float) -> tuple[bool, float, int]:
        """Adds the dearest pattern of each class: whether any is new, how much more all are worth at most, and the steps."""
        added, over, steps = False, 0.0, 0
        for index, given in enumerate(offers):
            if given is None:
                continue
            threshold = worth[index] + 0.999 * slack / self.count.sum()
            found, finished, most, took = self._dearest(self.classes[index], given, prices, threshold)
            steps += took
            over += self.count[index] * (most - worth[index]) if finished else np.inf
            if found is not None:
                added |= self._add(index, self.classes[index], found)
        return added, over, steps

    def _dearest_spans(self, prices: Prices, window: Window) -> float:
        """The most that sum over k of s[k] times the price of stage k can be in the window."""
        if not self.timed:
            return 0.0
        price = self.by_kind @ prices.time
        spans, left = window.lower.copy(), window.value - window.lower.sum()
        for stage in np.argsort(-price, kind="stable"):
            more = min(left, max(window.upper[stage] - spans[stage], 0.0))
            spans[stage] += more
            left -= more
        return float(price @ spans)

    def _dearest(self, alike: Alike, given: Offer, prices: Prices, threshold: float) -> tuple[Ints | None, bool, float, int]:
        """A pattern worth more than the threshold; whether all were seen; the most that any is worth; the steps it took."""
        value = alike.credit * prices.table[alike.table] - alike.time @ prices.time[alike.kind] - alike.ddr * prices.ddr
        base = float(value[given.forced].sum())
        if len(given.items) == 0:
            return (given.forced if base > threshold else None), True, max(base, threshold), 1
        result = dearest(given.knapsack, value[given.items], threshold - base, PRICING_STEPS)
        if result.items is None and not (base > threshold):
            return None, result.finished, threshold, result.steps
        chosen = given.items[result.items[result.items >= 0]] if result.items is not None else np.empty(0, dtype=np.int64)
        return np.concatenate([given.forced, chosen]), result.finished, max(base + result.value, base, threshold), result.steps

    def _add(self, index: int, alike: Alike, items: Ints) -> bool:
        key = (index, *items.tolist())
        if key in self.seen:
            return False
        self.seen.add(key)
        credit = np.zeros(self.problem.num_tables)
        np.add.at(credit, alike.table[items], alike.credit[items])
        load, held = alike.time[items].sum(axis=0), float(alike.ddr[items].sum())
        variable = self.lp.NumVar(0.0, self.lp.infinity(), "")
        for table in np.flatnonzero(credit):
            self.cover[table].SetCoefficient(variable, float(credit[table]))
        self.room[index].SetCoefficient(variable, 1.0)
        if held:
            self.ddr.SetCoefficient(variable, held / self.ddr_total)
        if self.timed:
            for row, amount in zip(self.time_rows[alike.kind], load, strict=True):
                row.SetCoefficient(variable, float(amount / self.scale))
        uses = np.zeros((1, self.problem.num_options), dtype=bool)
        uses[0, alike.option[items]] = True
        self.columns.append(_Column(index, items, load, variable))
        self.credits = np.vstack([self.credits, credit])
        self.loads = np.vstack([self.loads, load])
        self.bytes = np.append(self.bytes, held)
        self.column_class = np.append(self.column_class, index)
        self.uses = np.vstack([self.uses, uses])
        self.active = np.append(self.active, True)
        return True

    def _activate(self, keep: Bools, window: Window) -> Bools:
        """Lets the program use the patterns of the window, and no others."""
        within = (self.loads <= window.upper * (1 + 1e-12)).all(axis=1)
        within &= np.maximum(window.lower, self.loads).sum(axis=1) <= window.value * (1 + 1e-12)
        active = np.asarray(within & ~self.uses[:, ~keep].any(axis=1))
        infinity = self.lp.infinity()
        for index in np.flatnonzero(active != self.active):
            self.columns[index].variable.SetUb(infinity if active[index] else 0.0)
        self.active = active
        return active

    def _set_window(self, window: Window) -> None:
        if self.timed:
            self.budget.SetUb(window.value / self.scale)
            for span, low, high in zip(self.spans, window.lower, window.upper, strict=True):
                span.SetBounds(float(low / self.scale), float(max(low, high) / self.scale))

    def _solve(self) -> tuple[float, Prices]:
        """The covers that are missing, and the prices; none where GLOP gives up."""
        self.solved = self.lp.Solve() == pywraplp.Solver.OPTIMAL
        if not self.solved:
            return 0.0, Prices(np.zeros(self.problem.num_tables), np.zeros((self.problem.num_kinds, self.problem.num_stages)), 0.0)
        table = np.clip([row.dual_value() for row in self.cover], 0.0, 1.0)
        time = np.zeros((self.problem.num_kinds, self.problem.num_stages))
        for kind, rows in enumerate(self.time_rows):
            time[kind] = [max(-row.dual_value(), 0.0) / self.scale for row in rows]
        return float(self.lp.Objective().Value()), Prices(table, time, max(-self.ddr.dual_value(), 0.0) / self.ddr_total)

    def _open(self, prices: Prices, steps: int) -> Verdict:
        """Not refuted: how much of each option the solution takes, nothing where there is none. That program is not asked again."""
        if not self.solved:
            self._build()
        share = np.zeros(self.problem.num_options)
        longest = np.zeros(self.problem.num_stages)
        for index in np.flatnonzero(self.active):
            column = self.columns[index]
            amount = column.variable.solution_value()
            if amount > 1e-9:
                alike = self.classes[column.alike]
                np.add.at(share, alike.option[column.items], amount * alike.credit[column.items])
                longest = np.maximum(longest, column.time)
        makespan = np.array([span.solution_value() * self.scale for span in self.spans]) if self.timed and self.solved else longest
        return Verdict(False, share, makespan, longest, prices, steps)


def _mixed(center: Prices, ideal: Prices) -> Prices:
    w = SMOOTHING
    return Prices(
        w * center.table + (1 - w) * ideal.table,
        w * center.time + (1 - w) * ideal.time,
        w * center.ddr + (1 - w) * ideal.ddr,
    )
