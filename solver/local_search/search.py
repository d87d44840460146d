"""The search: annealing at a fixed target, tightened each time it is met.

At a target every load has a limit, so a placement as good as the target is one without overload: a question that
annealing answers far better than it minimises a maximum. Two lanes work side by side, one on the best placement known, one
exploring; they meet after every chunk. Work is counted in touched devices, so the machine decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from emplace.solver.budget import enough_gap
from emplace.solver.local_search.lane import PAIRS, PAIRS_STAGES, Goal, Lane, Position, Start
from emplace.solver.local_search.node_assignment import WholeSteps, nodes_chosen
from emplace.solver.local_search.starts import LEAST_US, longest_excess_us
from emplace.solver.model.flat import flatten, from_assignment, restricted, to_assignment
from emplace.solver.model.indexing import or_all
from emplace.solver.model.problem import Assignment, Problem
from emplace.solver.relaxation.bound import Bound, Bounder

LANES = 2
"""One for each core."""
CHUNK = 1_000_000.0
"""Work of a lane between two looks at cancellation: a fraction of a second."""
FIRST_RUN, SHORTEST_RUN = 2_000.0, 400_000.0
"""Work of the first annealing run, per table and at least."""
LOOSEST, TIGHTER, TIGHTER_STAGES, LOOSER, MARGIN, LONGER = 0.02, 0.6, 0.85, 3.0, 0.98, 1.5
"""The first target, as a share above the bound; how much closer the next one is after a success, and where there are several
stages, which are harder to keep in balance; how much looser at most after a failure; how far a target stays below what it is to
beat; how much longer a run is after a failure."""
HOPELESS, ANYTHING = 0.1, 20.0
"""Where nothing that fits has been found by targets up to the first, the next one leaves as much time as it takes."""
LONG, LONG_OF_ROOM = 0.01, 0.25
"""With several stages, options whose longest units would make the stages last much more than they are meant to, all other tables
aside, are left out where a table has others: more than this share of the bound, or where a target is far above it, than this share of
the room between. They cost the relaxation nothing, and no small move gets rid of them. With one stage the bound's own rule on long
units says as much as is certain."""
PRICE, FIRST_PRICE = 1.0, 0.1
"""Weight of the reduced costs of options beside overload at targets up to the first, and before there is any placement. With several stages
a target that is further above the bound has room for dearer options, so they weigh less, by the square of how much further."""


@dataclass(frozen=True)
class Incumbent:
    """The best placement so far (None: none yet), after so much work."""

    assignment: Assignment | None
    objective_us: float
    work: float
    """What each lane has done where both are used, half of what it has where there is one."""
    moves: int


class Search:
    """One search on one problem."""

    def __init__(
        self,
        problem: Problem,
        bounder: Bounder,
        bound: Bound,
        start: Start,
        seed: int,
        warm: Assignment | None = None,
        *,
        squared: bool = False,
        explores: bool = True,
    ) -> None:
        self.problem, self.bounder, self.bound, self.seed = problem, bounder, bound, seed
        self.flat, steps = flatten(problem), WholeSteps(*np.zeros((2, problem.num_stages)))
        if warm is None:
            self.flat, steps = nodes_chosen(problem, self.flat, start.options, seed)
        start = replace(start, least_us=np.maximum(start.least_us, problem.stage_base_us + steps.least_us))
        self.excess_us = longest_excess_us(problem, bounder, start.least_us)
        self.best = Incumbent(None, np.inf, 0.0, 0)
        self._lane = partial(Lane, problem, self.flat, start, squared=squared, steps=steps)
        self.lanes = [self._lane(seed=2 * seed, explores=False)]
        self.explores = explores
        """Whether a second lane is at work from the next run on."""
        self.known: list[Position] = []
        self.kept = np.empty(0, dtype=np.int64)
        """Options of the first run, whatever its target: those that the warm start has."""
        if warm is not None:
            option, target = from_assignment(problem, self.flat, warm)
            self.known, self.kept = [Position(option, target, self.lanes[0].makespan_us)], option[option >= 0]

    def run(self, gap: float, work: float, *, any_soon: bool = False) -> Iterator[Incumbent]:
        """Search for a placement within `gap` of the bound until its work is `work`; yields after every chunk.

        With `any_soon` nobody knows how near the end is, so any placement is wanted before a good one.
        """
        tighter = TIGHTER if self.problem.num_stages == 1 else TIGHTER_STAGES
        bound_us = max(self.bound.value_us, LEAST_US)
        step, length = max(gap * MARGIN, LOOSEST), max(FIRST_RUN * self.problem.num_tables, SHORTEST_RUN)
        with ThreadPoolExecutor(LANES) as pool:
            while self.best.work < work:
                goal = self._goal(bound_us * (1 + step), min(length, work - self.best.work))
                yield from self._attempt(goal, pool)
                reached = self.best.objective_us / bound_us - 1
                if reached <= enough_gap(gap):
                    return
                if self.best.objective_us <= goal.target_us:
                    step = max(gap * MARGIN, reached * tighter)
                else:
                    step = min(LOOSER * step, (step + reached * MARGIN) / 2)
                    length *= LONGER
                if self.best.assignment is None and (step > HOPELESS or any_soon):
                    step = ANYTHING

    def _goal(self, target_us: float, work: float) -> Goal:
        candidates, price = self.bounder.candidates(self.bound, target_us)
        short = self.excess_us <= max(LONG * self.bound.value_us, LONG_OF_ROOM * (target_us - self.bound.value_us))
        candidates = or_all(self.bound.root.part.whole.first, candidates & short, candidates)
        candidates[self.kept] = True
        scale = self.problem.num_devices / max(target_us - self.problem.constant_us, 1e-9)
        above = target_us / max(self.bound.value_us, LEAST_US) - 1
        room = 1.0 if self.problem.num_stages == 1 else (LOOSEST / max(above, LOOSEST)) ** 2
        weight = PRICE * room if self.best.assignment is not None else FIRST_PRICE
        flat = restricted(self.problem, self.flat, candidates, price * (weight * scale))
        pairs = PAIRS if self.problem.num_stages == 1 or self.best.assignment is None else PAIRS_STAGES
        return Goal(flat, target_us, work, target_us > self.bound.value_us * ANYTHING, pairs)

    def _attempt(self, goal: Goal, pool: ThreadPoolExecutor) -> Iterator[Incumbent]:
        """One annealing run of each lane at one target, until one of them meets it."""
        if self.explores and len(self.lanes) < LANES:
            self.lanes.append(self._lane(seed=2 * self.seed + 1, explores=True))
        for lane in self.lanes:
            lane.begin(goal, self.known)
            self._judge(lane)
        self.best = replace(self.best, work=self.best.work + 1.0)
        self.known = [self.lanes[0].position()]
        while all(lane.overload > 0.0 for lane in self.lanes):
            done = list(pool.map(lambda lane: lane.run(CHUNK), self.lanes))
            if max(done) == 0.0:
                break
            for lane in self.lanes:
                self._judge(lane)
            work = self.best.work + max(done) * len(self.lanes) / LANES
            self.best = replace(self.best, work=work, moves=sum(lane.moves for lane in self.lanes))
            yield self.best
        yield self.best
        success = self.best.objective_us <= goal.target_us
        for lane in self.lanes:
            lane.end(success=success)
        self.known += [lane.position() for lane in self.lanes]
        self.kept = self.kept[:0]

    def _judge(self, lane: Lane) -> None:
        """Keep the lane's placement if it is the best so far."""
        objective = lane.objective_us()
        if objective < self.best.objective_us:
            assignment = to_assignment(self.problem, self.flat, lane.state.option, lane.state.target)
            self.best = replace(self.best, assignment=assignment, objective_us=objective)
