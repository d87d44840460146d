"""Small problems: the integer program by CP-SAT, and where that leaves a gap branch and bound over patterns."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from solver.bound import Bound, Bounder
from solver.cp_sat import by_cp_sat, stopped
from solver.exact_tree import STEPS_PER_SECOND, Tree
from solver.outcome import Limits, Outcome, Progress, ReportProgress, ShouldStop, StoppedBy
from solver.problem import Assignment, Problem, fits, loads_of, objective_us

_CP_SAT_SHARE = 0.3
"""Of the limit that CP-SAT takes first: it settles what is easy, and kinds of problems where patterns say little."""
_LEAF_SECONDS = 1.0
"""For CP-SAT on a problem whose options are all chosen."""
_LEAF_STEPS = 25_000_000
"""What that counts for."""
_MET = 1e-7
"""A gap that counts as none."""


def solve_exactly(
    problem: Problem,
    bounder: Bounder,
    bound: Bound,
    limits: Limits,
    report: ReportProgress | None = None,
    should_stop: ShouldStop | None = None,
    hint: Assignment | None = None,
) -> Outcome:
    """The best assignment and its bound, beside `bound` of `bounder`; exact when the work budget allows."""
    if problem.num_tables == 0:
        return _of(problem, Assignment(np.empty(0, np.int64), ()), StoppedBy.EXACT)
    if hint is None:
        return by_cp_sat(problem, limits, report, should_stop)
    first = by_cp_sat(problem, replace(limits, seconds=limits.seconds * _CP_SAT_SHARE), report, should_stop, hint)
    plans = [first, _of(problem, hint, StoppedBy.LIMIT)] if fits(problem, loads_of(problem, hint)) else [first]
    start = replace(min(plans, key=lambda plan: plan.objective_us), lower_bound_us=first.lower_bound_us)
    if first.stopped_by is not StoppedBy.LIMIT or start.assignment is None:
        return first
    rest = replace(limits, seconds=limits.seconds * (1 - _CP_SAT_SHARE))
    return _by_patterns(problem, bounder, bound, rest, report, should_stop, start)


def _by_patterns(
    problem: Problem,
    bounder: Bounder,
    bound: Bound,
    limits: Limits,
    report: ReportProgress | None,
    should_stop: ShouldStop | None,
    start: Outcome,
) -> Outcome:
    """Branch and bound from an assignment and a bound."""

    def settle(part: Problem, below_us: float, effort: int) -> Outcome:
        return by_cp_sat(part, Limits(_LEAF_SECONDS * effort, 0.0, limits.seed), None, should_stop, below_us=below_us)

    tree = Tree(problem, bounder, bound, settle, _LEAF_STEPS)
    tree.bound_us = max(tree.bound_us, start.lower_bound_us)
    started, told, cancelled = time.perf_counter(), -math.inf, False
    for _ in tree.raise_bound(start.objective_us, max(limits.gap, _MET), round(limits.seconds * STEPS_PER_SECOND)):
        if report is not None and told < tree.bound_us:
            told = tree.bound_us
            gap = max(0.0, 1 - tree.bound_us / tree.best_us)
            report(Progress(time.perf_counter() - started, tree.best_us, tree.bound_us, gap, "exact"))
        if should_stop is not None and should_stop():
            cancelled = True
            break
    assignment = tree.best if tree.best is not None else start.assignment
    proven = tree.bound_us >= tree.best_us * (1 - max(limits.gap, _MET) * (1 + 1e-9))
    name = "patterns" if tree.bound_us > start.lower_bound_us else start.bound
    return Outcome(assignment, tree.best_us, min(tree.bound_us, tree.best_us), name, stopped(proven, cancelled))


def _of(problem: Problem, assignment: Assignment, stopped: StoppedBy) -> Outcome:
    objective = objective_us(problem, loads_of(problem, assignment))
    return Outcome(assignment, objective, objective, "cp-sat", stopped)
