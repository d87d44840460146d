"""The search: annealing at a fixed target, tightened each time it is met.

At a target every load has a limit, so a placement as good as the target is one without overload: a question that
annealing answers far better than it minimises a maximum. Work is counted in touched devices, never timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from solver.bound import Bound
from solver.bound_lp import relax
from solver.moves import anneal, greedy, recount
from solver.problem import Assignment, Bools, Floats, Ints, Problem
from solver.search_state import empty_journal, empty_state, lay_out, limits_of, restricted, to_assignment

CHUNK = 500_000.0
"""Work between two looks at the clock and at cancellation: a fraction of a second."""
FIRST_RUN = 1_000.0
"""Work of the first annealing run, per table."""
SHORTEST_RUN = 200_000.0
HOT, COLD = 0.02, 1e-5
"""Temperatures at the ends of a run, in mean shares of the target that one table takes on one device."""
LOOSEST, TIGHTER, MARGIN = 0.02, 0.6, 0.98
"""The first target, as a share above the bound; how much closer the next one is after a success; how far a target stays
below what it is to beat."""
MEMORY_DEARER = 2.0
"""Factor on the cost of exceeding memory after a run that did not get memory right."""
MET = 1e-9
"""A gap that only rounding leaves."""
PRICE = 0.2
"""Weight of the reduced costs of options beside overload."""
MEMORY_KEPT_FREE = 0.02
"""Share of memory that the relaxation leaves empty when it proposes the first options, if it can: packing needs room."""


@dataclass(frozen=True)
class Found:
    """The best placement so far (None: none yet), after so much work."""

    assignment: Assignment | None
    objective_us: float
    work: float
    moves: int


class Search:
    """One search on one problem, going on from where it stopped at each call of `run`."""

    def __init__(self, problem: Problem, bound: Bound, seed: int) -> None:
        self.problem, self.bound = problem, bound
        self.best = Found(None, np.inf, 0.0, 0)
        self.memory_weight = 1.0
        self.base = np.append(problem.stage_base_us, 0.0)
        self.options = _first_options(bound)
        self.makespan = problem.stage_base_us + bound.near.relaxation.makespan
        rows = bound.root.part.program.rows
        self.size = rows.coefficient[self.options][:, ~rows.memory].sum(axis=1)
        self.layout = lay_out(problem)
        self.state = empty_state(problem, self.layout, seed)
        self.journal = empty_journal(self.layout, self.state)

    def run(self, gap: float, work: float) -> Iterator[Found]:
        """Search for a placement within `gap` of the bound until `work` is done; yields after every chunk."""
        step, length = max(gap * MARGIN, LOOSEST), max(FIRST_RUN * self.problem.num_tables, SHORTEST_RUN)
        while self.best.work < work:
            target = self.bound.value_us * (1 + step)
            yield from self._attempt(target, min(length, work - self.best.work))
            reached = self.best.objective_us / self.bound.value_us - 1
            if reached <= max(gap, MET):
                return
            if self.best.objective_us <= target:
                step = max(gap * MARGIN, reached * TIGHTER)
            else:
                step = min(2 * step, (step + reached * MARGIN) / 2)
                length *= 2

    def _attempt(self, target_us: float, work: float) -> Iterator[Found]:
        """One annealing run at one target, from where the last one ended."""
        problem, state = self.problem, self.state
        makespan = self.makespan * ((target_us - problem.constant_us) / max(float(self.makespan.sum()), 1e-9))
        scale = problem.num_devices / max(float(makespan.sum()), 1e-9)
        limits = limits_of(problem, makespan, 1.0, self.memory_weight)
        candidates, price = _candidates(self.bound, target_us, self.options)
        layout = restricted(problem, self.layout, candidates, price * (PRICE * scale))
        if state.option[0] < 0:
            unused = np.full(len(layout.cover_first), -1)
            greedy(layout, limits, state, np.argsort(-self.size, kind="stable"), self.options, unused)
        overload = recount(layout, limits, state, self.base)
        self._judge(1.0, 0)
        hot = HOT * float(self.size.mean()) * scale
        done = 0.0
        while done < work and overload > 0.0:
            now = min(CHUNK, work - done)
            overload, spent, moves = anneal(layout, limits, state, self.journal, overload, done, now, work, hot, hot * COLD / HOT)
            done += spent
            overload = recount(layout, limits, state, self.base)
            self._judge(spent, moves)
            yield self.best
        self.makespan = limits.load[0, :-1].copy()
        if not self._fits():
            self.memory_weight *= MEMORY_DEARER

    def _fits(self) -> bool:
        within = self.state.load[:, -1] <= self.problem.hbm_capacity
        return bool(within.all() and (self.state.ddr <= self.problem.ddr_capacity).all())

    def _judge(self, spent: float, moves: int) -> None:
        """Keep the state if it fits and is better than the best so far."""
        problem, state, best = self.problem, self.state, self.best
        objective = problem.constant_us + float(state.load[:, :-1].max(axis=0).sum())
        fits = self._fits()
        assignment = best.assignment
        if fits and objective < best.objective_us:
            assignment = to_assignment(problem, self.layout, state.option, state.target)
        else:
            objective = best.objective_us
        self.best = Found(assignment, objective, best.work + spent, best.moves + moves)


def _candidates(bound: Bound, target_us: float, always: Ints) -> tuple[Bools, Floats]:
    """Options that a placement as good as the target may have, beside `always`, and what each adds to the bound."""
    root = bound.root
    price = root.relaxation.reduced_cost
    usable = root.part.program.usable & (price <= max(target_us - bound.fixed_us - root.relaxation.bound, 0.0))
    usable[always] = True
    return usable, np.where(np.isfinite(price), price, 0.0)


def _first_options(bound: Bound) -> Ints:
    """Per table the option that the relaxation leans to, with some memory kept free if it can be."""
    part, relaxation = bound.near.part, bound.near.relaxation
    rows, start = part.program.rows, relaxation.x > 0
    # A settled table's bytes are off the capacity already, so the share to keep free is one of the whole.
    spare = part.whole.rows.capacity * np.where(rows.memory, MEMORY_KEPT_FREE, 0.0)
    roomy = relax(replace(part.program, rows=replace(rows, capacity=rows.capacity - spare)), start)
    x = part.spread((roomy if roomy.feasible else relaxation).x, 0.0, 1.0)
    return np.array([a + int(np.argmax(x[a:b])) for a, b in pairwise(part.whole.first)])
