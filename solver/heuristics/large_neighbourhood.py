"""Better placements near a given one: some tables are freed, all others held, and CP-SAT places the freed ones anew.

Annealing moves a table or two at a time; where devices hold few tables and are nearly full, a better placement often
differs in all that three or four devices hold.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from emplace.solver.budget import NEIGHBOURHOOD_SECONDS, SKIPPED_SECONDS, Budget
from emplace.solver.cp_sat import by_cp_sat, least_counted_s
from emplace.solver.model.problem import (
    Assignment,
    Bools,
    Floats,
    Problem,
    Scope,
    fits,
    loads_of,
    objective_us,
    target_devices,
    with_options,
)
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder

BETTER = 1e-4
"""How much better a placement must be to be looked for; devices that close to the slowest are freed with it."""
FREED_DEVICES, FREED_TABLES = 4.0, 8.0
"""At first. More once CP-SAT proves that there is nothing better, fewer where it does not finish."""
MORE, FEWER, FEWEST = 0.3, 0.3, 2.0
"""How many more or fewer after a try, and how many at least."""


class LargeNeighbourhood:
    """Tries sets of devices and sets of tables in turn."""

    def __init__(
        self,
        problem: Problem,
        bounder: Bounder,
        bound: Bound,
        seed: int,
        monitor: Monitor | None = None,
        building_s: float = math.inf,
    ) -> None:
        self.problem, self.bounder, self.bound = problem, bounder, bound
        self.building_s = building_s
        """The most that building one program may count for."""
        self.monitor = (monitor or Monitor()).silent()
        self.random = np.random.default_rng(seed)
        self.freed = [FREED_DEVICES, FREED_TABLES]
        self.tries = 0
        self.counted_s = 0.0
        """What all tries count for, in seconds."""

    def improve(self, plan: Assignment, most_s: float = NEIGHBOURHOOD_SECONDS) -> Assignment | None:
        """One try: a better placement, or None."""
        problem, by_tables = self.problem, self.tries % 2
        loads = loads_of(problem, plan)
        best_us = objective_us(problem, loads)
        held = _held(problem, plan)
        slow = self._slowest(loads.time_us, best_us)
        free, reach = self._tables(held, slow) if by_tables else self._devices(held, slow)
        candidates, _ = self.bounder.candidates(self.bound, best_us)
        keep = candidates & free[problem.option_table]
        keep[plan.option] = True
        reach = reach if problem.allowed is None else reach & problem.allowed
        part = with_options(replace(problem, allowed=np.where(free[:, None], reach, held)), keep)
        budget = Budget(min(NEIGHBOURHOOD_SECONDS, most_s), 0.0, self.tries)
        self.tries += 1
        if least_counted_s(part) > self.building_s:
            self.freed[by_tables] = max(self.freed[by_tables] - FEWER, FEWEST)
            self.counted_s += SKIPPED_SECONDS
            return None
        found = by_cp_sat(part, budget, self.monitor, below_us=best_us * (1 - BETTER))
        self.counted_s += found.counted_s
        if found.solution is None:
            most = problem.num_tables if by_tables else problem.num_devices
            change = MORE if found.is_infeasible else -FEWER
            self.freed[by_tables] = min(max(self.freed[by_tables] + change, FEWEST), float(most))
            return None
        better = replace(found.solution, option=np.flatnonzero(keep)[found.solution.option])
        loads = loads_of(problem, better)
        return better if fits(problem, loads) and objective_us(problem, loads) < best_us else None

    def _slowest(self, time_us: Floats, best_us: float) -> Bools:
        """[D] the devices that one stage waits for."""
        stage = time_us[:, self.random.integers(time_us.shape[1])]
        return np.asarray(stage >= stage.max() - BETTER * best_us)

    def _devices(self, held: Bools, slow: Bools) -> tuple[Bools, Bools]:
        """The tables to free [T] and where they may go [T, D]: those that lie on a few devices, and only there."""
        others = np.flatnonzero(~slow)
        more = min(max(int(self.freed[0]) - int(slow.sum()), 1), len(others))
        chosen = slow.copy()
        chosen[self.random.choice(others, more, replace=False)] = True
        return np.asarray((~held | chosen).all(axis=1)), np.broadcast_to(chosen, held.shape)

    def _tables(self, held: Bools, slow: Bools) -> tuple[Bools, Bools]:
        """Likewise: some tables of slow devices, some others, anywhere."""
        rank = self.random.random(len(held))
        count = min(int(self.freed[1]), len(held))
        here = np.flatnonzero((held & slow).any(axis=1) & ~held.all(axis=1))
        rank[here[np.argsort(rank[here])[: math.ceil(count / 2)]]] = -1.0
        free = np.zeros(len(held), dtype=bool)
        free[np.argsort(rank, kind="stable")[:count]] = True
        return free, np.ones_like(held)


def _held(problem: Problem, plan: Assignment) -> Bools:
    """[T, D] the devices that each table loads."""
    held = np.zeros((problem.num_tables, problem.num_devices), dtype=bool)
    for table, (option, targets) in enumerate(zip(plan.option, plan.targets, strict=True)):
        for target in targets:
            held[table, target_devices(problem, Scope(problem.option_scope[option]), target)] = True
    return held
