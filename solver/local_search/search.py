"""The search: annealing at a fixed target, tightened each time it is met.

At a target every load has a limit, so a placement as good as the target is one without overload: a question that
annealing answers far better than it minimises a maximum. Two lanes work side by side, one on the best placement known, one
exploring; they meet after every chunk. Work is counted in touched devices, so the machine decides nothing; under a limit of time, racers
have a share of it each, and the best one goes on until it is over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, cycle, pairwise

import numpy as np

from emplace.solver.budget import BOUND_SHARE, MET, RACING_SHARE, SEARCH_WORK_PER_SECOND, Budget
from emplace.solver.clock import ENDLESS, Clock
from emplace.solver.local_search.lane import PAIRS, PAIRS_STAGES, Goal, Lane, Position, Start
from emplace.solver.local_search.node_assignment import nodes_chosen
from emplace.solver.model.flat import flatten, from_assignment, restricted, to_assignment
from emplace.solver.model.indexing import or_all
from emplace.solver.model.problem import Assignment, Bools, Floats, Ints, Problem
from emplace.solver.progress import Monitor
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.relaxation.column_generation import relax
from emplace.solver.relaxation.region import Region

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
LONG, LONG_AT_FIRST, LONG_OF_ROOM = 0.02, 0.002, 0.5
"""With several stages, options whose longest units would make the stages last much more than they are meant to, all other tables
aside, are left out where a table has others, or not proposed at first: more than these shares of the bound, or where a target is
far above it, than this share of the room between. They cost the relaxation nothing, and no small move gets rid of them. With one
stage the bound's own rule on long units says as much as is certain."""
PRICE, FIRST_PRICE = 1.0, 0.1
"""Weight of the reduced costs of options beside overload, and before there is any placement."""
RESTART_WORK = 5.5e5
"""Work per table of one search, where there is time for several: from nothing they find better plans than a long one does
(30 tables on 16 devices, 127 on 64)."""
RACERS = 5
"""So many searches race where there are several stages: how much one finds depends on how its tables met their nodes, and soon shows.
Every other one counts the squares of overload, where there is more to balance than a table a device: mostly that is better, but not
always."""
LEAST_US = 1e-6
"""Times are not told apart below: where nothing takes time, a target is one still."""
MEMORY_KEPT_FREE = 0.02
"""Share of memory that the relaxation leaves empty when it proposes the first options, if it can: packing needs room."""
STAGES_KEPT_FREE = (0.007, 0.003)
"""Likewise of each stage, in one search and in the next, where one lasts whole steps or devices have large units: few are filled."""
STEPPED_RUNS = 4
"""First runs in the share of a search from which on all searches but the first start there. With less it is harder to find any placement."""


@dataclass(frozen=True)
class Incumbent:
    """The best placement so far (None: none yet), after so much work of each lane."""

    assignment: Assignment | None
    objective_us: float
    work: float
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
    ) -> None:
        self.problem, self.bounder, self.bound, self.seed = problem, bounder, bound, seed
        self.flat, steps_us = flatten(problem), np.zeros(problem.num_stages)
        if warm is None:
            self.flat, steps_us = nodes_chosen(problem, self.flat, start.options, seed)
        start = replace(start, least_us=np.maximum(start.least_us, problem.stage_base_us + steps_us))
        self.excess_us = _longest_excess_us(problem, bounder, start.least_us)
        self.best = Incumbent(None, np.inf, 0.0, 0)
        self.lanes = [Lane(problem, self.flat, start, 2 * seed + lane, explores=lane > 0, squared=squared) for lane in range(2)]
        self.known: list[Position] = []
        self.kept = np.empty(0, dtype=np.int64)
        """Options of the first run, whatever its target: those that the warm start has."""
        if warm is not None:
            option, target = from_assignment(problem, self.flat, warm)
            self.known, self.kept = [Position(option, target, self.lanes[0].makespan_us)], option[option >= 0]

    def run(self, gap: float, work: float) -> Iterator[Incumbent]:
        """Search for a placement within `gap` of the bound until each lane has done `work`; yields after every chunk.

        Where `work` has no end the clock has, and nobody knows how near it is: then any placement is wanted soon.
        """
        tighter = TIGHTER if self.problem.num_stages == 1 else TIGHTER_STAGES
        bound_us = max(self.bound.value_us, LEAST_US)
        step, length = max(gap * MARGIN, LOOSEST), max(FIRST_RUN * self.problem.num_tables, SHORTEST_RUN)
        with ThreadPoolExecutor(len(self.lanes)) as pool:
            while self.best.work < work:
                goal = self._goal(bound_us * (1 + step), min(length, work - self.best.work))
                yield from self._attempt(goal, pool)
                reached = self.best.objective_us / bound_us - 1
                if reached <= max(gap, MET):
                    return
                if self.best.objective_us <= goal.target_us:
                    step = max(gap * MARGIN, reached * tighter)
                else:
                    step = min(LOOSER * step, (step + reached * MARGIN) / 2)
                    length *= LONGER
                if self.best.assignment is None and (step > HOPELESS or math.isinf(work)):
                    step = ANYTHING

    def _goal(self, target_us: float, work: float) -> Goal:
        candidates, price = self.bounder.candidates(self.bound, target_us)
        short = self.excess_us <= max(LONG * self.bound.value_us, LONG_OF_ROOM * (target_us - self.bound.value_us))
        candidates = or_all(self.bound.root.part.whole.first, candidates & short, candidates)
        candidates[self.kept] = True
        scale = self.problem.num_devices / max(target_us - self.problem.constant_us, 1e-9)
        weight = PRICE if self.best.assignment is not None else FIRST_PRICE
        flat = restricted(self.problem, self.flat, candidates, price * (weight * scale))
        pairs = PAIRS if self.problem.num_stages == 1 or self.best.assignment is None else PAIRS_STAGES
        return Goal(flat, target_us, work, target_us > self.bound.value_us * ANYTHING, pairs)

    def _attempt(self, goal: Goal, pool: ThreadPoolExecutor) -> Iterator[Incumbent]:
        """One annealing run of each lane at one target, until one of them meets it."""
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
            self.best = replace(self.best, work=self.best.work + max(done), moves=sum(lane.moves for lane in self.lanes))
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


def race(problem: Problem, bounder: Bounder, bound: Bound, budget: Budget, monitor: Monitor) -> Iterator[Search]:
    """The search that has just done a chunk of its share; what is not shared, the best one gets besides."""
    work = budget.seconds * SEARCH_WORK_PER_SECOND
    number = max(1, round(work / (RESTART_WORK * problem.num_tables)))
    share = work / number
    if problem.num_stages > 1 and number < RACERS:
        number, share = RACERS, work * RACING_SHARE
    share_s = share / work * monitor.clock.left_s
    most = math.inf if budget.by_clock else work - (number - 1) * share
    clock = monitor.sharing(BOUND_SHARE).clock
    starts = [start_of(problem, bounder, bound, bound.near, clock=clock)]
    if share >= STEPPED_RUNS * FIRST_RUN * problem.num_tables:
        starts += _other_starts(problem, bounder, bound, starts[0], number - 1, clock)
    leader: tuple[Search, Iterator[Incumbent]] | None = None
    for index, start in zip(range(number), chain(starts[:1], cycle(starts[1:] or starts)), strict=False):
        here = monitor.within(share_s)
        warm = problem.warm_start if index == 0 else None
        squared = problem.num_stages > 1 and problem.num_tables > problem.num_devices and index % 2 == 0
        search = Search(problem, bounder, bound, start, budget.seed * number + index, warm, squared=squared)
        steps = search.run(budget.gap, most)
        for found in steps:
            yield search
            if found.work >= share or here.stopped():
                break
        if leader is None or search.best.objective_us < leader[0].best.objective_us:
            leader = search, steps
        if budget.by_clock and search.best.assignment is None:
            break  # a race would be over before any of them has a plan
    if leader is not None:
        for _ in leader[1]:
            yield leader[0]


def _longest_excess_us(problem: Problem, bounder: Bounder, least_us: Floats) -> Floats:
    """[O] by how much an option's longest units exceed `least_us` ([K], base included), all stages together; 0 with one stage."""
    if problem.num_stages == 1:
        return np.zeros(problem.num_options)
    longest_us = bounder.cuts.largest[:, :-1] + problem.stage_base_us
    return np.asarray(np.maximum(longest_us - least_us, 0.0).sum(axis=1))


def _other_starts(problem: Problem, bounder: Bounder, bound: Bound, first: Start, most: int, clock: Clock) -> list[Start]:
    """Where all searches but the first start, by turns: up to so many, and where they are more than race, from here and there."""
    kept_free, boxes = STAGES_KEPT_FREE[:most], bound.boxes
    proposed = [] if boxes is None else [boxes.proposed(free, clock) for free in kept_free]
    options = [_most_of_each(x, first.first) for x in proposed if x is not None]
    starts = [_start(bound, each, first.least_us, problem.num_devices) for each in options]
    if starts and most < RACERS:
        return starts
    if bound.stepped is bound.near:
        return [*starts, first]
    return starts + [start_of(problem, bounder, bound, bound.stepped, free, clock) for free in kept_free]


def start_of(problem: Problem, bounder: Bounder, bound: Bound, near: Region, free: float = 0.0, clock: Clock = ENDLESS) -> Start:
    """What a search starts from: what the relaxation of `near` leans to, with such a share of each stage left free."""
    least_us = np.maximum(problem.stage_base_us + near.relaxation.makespan, LEAST_US)
    short = _longest_excess_us(problem, bounder, least_us) <= LONG_AT_FIRST * bound.value_us
    return _start(bound, _first_options(near, short, free, clock), least_us, problem.num_devices)


def _start(bound: Bound, options: Ints, least_us: Floats, devices: int) -> Start:
    rows = bound.root.part.program.rows
    chosen = rows.coefficient[options]
    memory = chosen[:, rows.memory].sum(axis=1) * devices
    return Start(options, chosen[:, ~rows.memory].sum(axis=1), memory, bound.root.part.whole.first, least_us)


def _most_of_each(x: Floats, first: Ints) -> Ints:
    """Per table the option that has most of it."""
    return np.array([a + int(np.argmax(x[a:b])) for a, b in pairwise(first)])


def _first_options(near: Region, short: Bools, free: float, clock: Clock) -> Ints:
    """Per table the option that the relaxation leans to among `short` ones ([O]), with some memory and stages kept free, if they can be."""
    part, relaxation = near.part, near.relaxation
    program, rows = part.program, part.program.rows
    usable = or_all(program.first, program.usable & short[part.options], program.usable)
    # A settled table's bytes are off the capacity already, so the share to keep free is one of the whole.
    whole = part.whole.rows
    spare = np.where(rows.memory, rows.capacity * free, 0.0)
    spare[: len(whole.stage)] = whole.capacity * np.where(whole.memory, MEMORY_KEPT_FREE, 0.0)
    roomy = replace(program, rows=replace(rows, capacity=rows.capacity - spare, slope=rows.slope * (1.0 - free)), usable=usable)
    proposed = relax(roomy, replace(relaxation.starting_point, taken=usable & (relaxation.x > 0)), clock)
    x = part.spread((proposed if proposed.feasible and not clock.is_over else relaxation).x, 0.0, 1.0)
    return _most_of_each(x, part.whole.first)
