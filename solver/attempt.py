"""One question solved: on the trainers alone, and with remote servers beside them where those are allowed.

The two are separate programs because a process group with servers can't run the sharding types that spread over every
rank. The answer is the better of the two plans; its bound the lower of the two bounds.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from placement.model import Tier
from placement.plan import Question
from placement.topology import Topology, host_tiers
from solver.apart import pack_apart, solve_apart
from solver.assemble import Placement, assemble
from solver.bound import bound_of
from solver.outcome import Limits, Outcome, Progress, ReportProgress, ShouldStop, StoppedBy
from solver.pricing import Priced, price
from solver.problem import Problem
from solver.sharding_sets import ShardingSets, with_only
from solver.shared_cores import cheap_options, least_work_us

TIE = 1e-9
"""Relative difference that rounding may make."""
SET_SHARES = (0.6, 0.1, 0.1, 0.1, 0.1)
"""Of the limit, for sets of sharding types in the order of their bounds; the first is nearly always the best."""


@dataclass(frozen=True)
class Attempt:
    """What solving found. `lower_bound_us` holds for every plan there is; infinity when `stopped_by` is PROOF."""

    placement: Placement | None
    lower_bound_us: float
    stopped_by: StoppedBy
    bound: str
    moves: int
    move_cost_us: float = 0.0
    """Of bytes that are elsewhere in the plan to start from."""

    @property
    def cost_us(self) -> float:
        """What is minimised."""
        return math.inf if self.placement is None else self.placement.step_time_us + self.move_cost_us

    @property
    def gap(self) -> float:
        """As a share of the cost, when there is a placement."""
        return max(0.0, 1.0 - self.lower_bound_us / self.cost_us)

    def or_else(self, plan: Attempt) -> Attempt:
        """With the placement of `plan` where this one has none."""
        return self if self.placement is not None else replace(self, placement=plan.placement)

    def __or__(self, other: Attempt) -> Attempt:
        """Of two programs that together hold every plan; of equal plans the first one's."""
        better = self if self.cost_us <= other.cost_us * (1.0 + TIE) else other
        looser = self if self.lower_bound_us < other.lower_bound_us else other
        stopped_by = max(self.stopped_by, other.stopped_by, key=_BY_WEIGHT.index)
        return Attempt(better.placement, looser.lower_bound_us, stopped_by, looser.bound, self.moves + other.moves, better.move_cost_us)


_BY_WEIGHT = (StoppedBy.PROOF, StoppedBy.EXACT, StoppedBy.GAP, StoppedBy.LIMIT, StoppedBy.CANCELLED)
"""Of two programs, the one that was left furthest from settled tells why the whole stopped."""


@dataclass(frozen=True)
class Variant:
    """A topology with the tiers that it is solved with."""

    name: str
    topology: Topology
    tiers: frozenset[Tier]


def allowed_tiers(question: Question) -> frozenset[Tier]:
    """The tiers that the host has and the question allows."""
    tiers = frozenset(host_tiers(question.host))
    return tiers if question.options.tiers is None else tiers & frozenset(question.options.tiers)


def variants(question: Question) -> list[Variant]:
    """The programs whose best plan is the answer. Raises InvalidDocument for ranks that the host can't have."""
    tiers = allowed_tiers(question)
    alone = question.topology(with_servers=False)
    found = [Variant("trainers", alone, tiers - {Tier.REMOTE})] if tiers - {Tier.REMOTE} else []
    if Tier.REMOTE in tiers:
        found.append(Variant("trainers and servers", question.topology(with_servers=True), tiers))
    return found


def attempt(question: Question, report: ReportProgress | None = None, should_stop: ShouldStop | None = None) -> Attempt:
    """Solve every variant of the question, with an equal share of its limit each."""
    started = time.perf_counter()
    parts = variants(question)
    whole = Attempt(None, math.inf, StoppedBy.PROOF, "no tier", 0)
    for variant in parts:
        limits = Limits(question.options.time_limit / len(parts), question.options.gap, question.options.seed)
        here = None if report is None else _Relay(report, variant.name, started, whole)
        whole |= solve_priced(price(question, variant.topology, variant.tiers), limits, here, should_stop)
    return whole


class _Relay:
    """Passes progress of one program on as progress of the whole."""

    def __init__(self, report: ReportProgress, name: str, started: float, before: Attempt) -> None:
        self._report, self._name, self._started, self._before = report, name, started, before

    def __call__(self, progress: Progress) -> None:
        bound = min(progress.bound_us, self._before.lower_bound_us)
        known = [time_us for time_us in (progress.incumbent_us, self._before.cost_us) if time_us is not None and time_us < math.inf]
        incumbent = min(known, default=None)
        gap = None if incumbent is None else max(0.0, 1.0 - bound / incumbent)
        self._report(Progress(time.perf_counter() - self._started, incumbent, bound, gap, f"{self._name}: {progress.phase}"))


def solve_priced(priced: Priced, limits: Limits, report: ReportProgress | None = None, should_stop: ShouldStop | None = None) -> Attempt:
    """Solve one program, for the sets of sharding types that may hold the best plan."""
    if not every_table_has_an_option(priced):
        return Attempt(None, math.inf, StoppedBy.PROOF, "a table without an option", 0)
    sets = ShardingSets(priced)
    if not sets.matter:
        return _solve_set(priced, limits, report, should_stop)
    whole = Attempt(None, math.inf, StoppedBy.PROOF, sets.name, 0)
    for share in SET_SHARES:
        if (program := sets.next_below(whole.cost_us * (1 - limits.gap))) is None or whole.stopped_by is StoppedBy.CANCELLED:
            break
        found = _solve_set(program.priced, replace(limits, seconds=limits.seconds * share), report, should_stop)
        whole |= _unsettled(found, limits) if program.unpaid_us > 0 else found
    if sets.others_us < whole.cost_us:
        whole |= Attempt(None, sets.others_us, StoppedBy.LIMIT, sets.name, 0)
    if whole.placement is None and whole.stopped_by is StoppedBy.LIMIT:
        # Which types cost what is of no concern where the question is whether there is a plan at all.
        return _solve_set(priced, limits, report, should_stop)
    return replace(whole, stopped_by=StoppedBy.GAP) if _is_close(whole, limits) else whole


def _unsettled(found: Attempt, limits: Limits) -> Attempt:
    """Of a program that does not charge all types: its plan costs more than it knew, so that their gap may be open again."""
    is_settled = found.stopped_by in (StoppedBy.EXACT, StoppedBy.GAP)
    return replace(found, stopped_by=StoppedBy.LIMIT) if is_settled and found.gap > limits.gap + TIE else found


def _is_close(whole: Attempt, limits: Limits) -> bool:
    return whole.stopped_by is StoppedBy.LIMIT and whole.placement is not None and whole.gap <= limits.gap


def _solve_set(priced: Priced, limits: Limits, report: ReportProgress | None, should_stop: ShouldStop | None) -> Attempt:
    if priced.question.cost_model.ranks_per_core > 1:
        return _solve_shared(priced, limits, report, should_stop)
    return _solve_program(priced, limits, report, should_stop)


def _solve_shared(priced: Priced, limits: Limits, report: ReportProgress | None, should_stop: ShouldStop | None) -> Attempt:
    """Where ranks share cores: with the options that are the least work, and with all where those are not close to the bound."""
    bound_us, half = least_work_us(priced.relaxed), replace(limits, seconds=limits.seconds / 2)
    best = Attempt(None, bound_us, StoppedBy.LIMIT, "least work", 0)
    for program in (with_only(priced, cheap_options(priced.problem)), priced):
        found = _solve_program(program, half, _without_bound(report), should_stop)
        if found.stopped_by is StoppedBy.PROOF and program is priced:
            return found
        better = found if found.cost_us < best.cost_us else best
        stopped_by = StoppedBy.CANCELLED if found.stopped_by is StoppedBy.CANCELLED else StoppedBy.LIMIT
        best = Attempt(better.placement, bound_us, stopped_by, "least work", best.moves + found.moves)
        if _is_close(best, limits):
            return replace(best, stopped_by=StoppedBy.GAP)
        if stopped_by is StoppedBy.CANCELLED:
            break
    return best


def _without_bound(report: ReportProgress | None) -> ReportProgress | None:
    """The search's figures are of another objective than the answer's."""
    return None if report is None else lambda progress: report(replace(progress, incumbent_us=None, bound_us=0.0, gap=None))


def _solve_program(priced: Priced, limits: Limits, report: ReportProgress | None, should_stop: ShouldStop | None) -> Attempt:
    outcome = solve_apart(priced.problem, priced.apart, limits, report, should_stop)
    if priced.parted is not None:
        outcome = _bounded_anew(outcome, priced.parted)
    if outcome.stopped_by is StoppedBy.PROOF:
        return Attempt(None, math.inf, StoppedBy.PROOF, outcome.bound, outcome.moves)
    placement, moves = None if outcome.assignment is None else assemble(priced, outcome.assignment), outcome.moves
    if placement is not None and not placement.fits:
        placement, more = _solve_tighter(priced, limits, report, should_stop)
        moves += more
    plans = [plan for plan in (placement, quick_placement(priced)) if plan is not None]
    best = min(plans, key=lambda plan: plan.step_time_us, default=None)
    stopped_by = outcome.stopped_by if best is not None else _undecided(outcome)
    return Attempt(best, outcome.lower_bound_us, stopped_by, outcome.bound, moves)


def _bounded_anew(outcome: Outcome, parted: Problem) -> Outcome:
    """With a bound that holds although combinations of groups were left out: that of the tables without groups."""
    bound = bound_of(parted)
    if not bound.feasible:
        return replace(outcome, assignment=None, lower_bound_us=math.inf, bound=bound.name, stopped_by=StoppedBy.PROOF)
    limit = outcome.stopped_by if outcome.stopped_by is StoppedBy.CANCELLED else StoppedBy.LIMIT
    return replace(
        outcome, lower_bound_us=min(bound.value_us, outcome.lower_bound_us), bound=f"{bound.name}, groups parted", stopped_by=limit
    )


def quick_placement(priced: Priced) -> Placement | None:
    """A plan without search, if greedy packing finds one."""
    assignment = pack_apart(priced.problem, priced.apart) if every_table_has_an_option(priced) else None
    placement = None if assignment is None else assemble(priced, assignment)
    return placement if placement is not None and placement.fits else None


def _undecided(outcome: Outcome) -> StoppedBy:
    return StoppedBy.CANCELLED if outcome.stopped_by is StoppedBy.CANCELLED else StoppedBy.LIMIT


def every_table_has_an_option(priced: Priced) -> bool:
    """Whether nothing is impossible on its own, beside what ranks hold anyway."""
    problem = priced.problem
    has_room = bool((problem.hbm_capacity >= 0).all() and (problem.ddr_capacity >= 0).all())
    return has_room and not priced.fixed.conflicts and bool(np.isin(np.arange(len(priced.items)), problem.option_table).all())


def _solve_tighter(
    priced: Priced, limits: Limits, report: ReportProgress | None, should_stop: ShouldStop | None
) -> tuple[Placement | None, int]:
    """The program charges a row split its shortest block. Where the exact bytes went over, leave room for the difference."""
    problem = priced.problem
    ranks_per_pool = np.bincount(problem.device_pool, minlength=len(problem.ddr_capacity))
    tighter: Problem = replace(
        problem,
        hbm_capacity=np.maximum(problem.hbm_capacity - priced.slack_bytes, 0),
        ddr_capacity=np.maximum(problem.ddr_capacity - priced.slack_bytes * ranks_per_pool, 0),
    )
    outcome = solve_apart(tighter, priced.apart, limits, report, should_stop)
    if outcome.assignment is None:
        return None, outcome.moves
    placement = assemble(priced, outcome.assignment)
    return (placement if placement.fits else None), outcome.moves
