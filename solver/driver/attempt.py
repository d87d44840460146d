"""One question solved: on the trainers alone, and with remote servers beside them where those are allowed.

The two are separate programs because a process group with servers can't run the sharding types that spread over every
rank. The answer is the better of the two plans; its bound the lower of the two bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from emplace.placement.model import Tier
from emplace.placement.plan import Question
from emplace.placement.topology import Topology, host_tiers
from emplace.solver.driver.conflict_repair import pack_apart, solve_apart
from emplace.solver.driver.shared_cores import SHARED_BOUND, cheap_options, least_work_us, shared_bound_us
from emplace.solver.driver.type_search import SetProgram, ShardingSets, with_only
from emplace.solver.model.build import Priced, price
from emplace.solver.model.extract import Placement, assemble
from emplace.solver.model.problem import Problem
from emplace.solver.relaxation.bound import Bound, bound_of
from emplace.solver.relay import Relay, Whole
from emplace.solver.result import Limits, Outcome, ReportProgress, ShouldStop, StoppedBy

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


def parts_of(question: Question, should_stop: ShouldStop | None = None) -> list[tuple[Variant, ShardingSets]]:
    """Every variant with its programs. Raises InvalidDocument for ranks that the host can't have."""
    return [(each, ShardingSets(price(question, each.topology, each.tiers), should_stop)) for each in variants(question)]


def limits_of(question: Question, parts: list[tuple[Variant, ShardingSets]]) -> Limits:
    """Of each part: an equal share for those that may have a plan."""
    may_fit = sum(sets.others_us < math.inf for _, sets in parts)
    return Limits(question.options.time_limit / max(may_fit, 1), question.options.gap, question.options.seed)


def attempt(question: Question, report: ReportProgress | None = None, should_stop: ShouldStop | None = None) -> Attempt:
    """Solve every variant of the question, except where its bound says that no plan of it is worth a search."""
    report = None if report is None else Whole(report)
    parts = parts_of(question, should_stop)
    limits, whole = limits_of(question, parts), Attempt(None, math.inf, StoppedBy.PROOF, "no tier", 0)
    for number, (variant, sets) in enumerate(parts):
        if whole.placement is not None and sets.others_us >= whole.cost_us * (1 - limits.gap):
            whole |= _left(sets, StoppedBy.GAP)
        else:
            others_us = min([whole.lower_bound_us, *(later.others_us for _, later in parts[number + 1 :])])
            here = report and Relay(report, others_us=others_us, best_us=whole.cost_us, phase=f"{variant.name}: ")
            whole |= solve_sets(sets, limits, here, should_stop)
    return whole


def _left(sets: ShardingSets, stopped_by: StoppedBy) -> Attempt:
    """What is known of plans that are not searched for."""
    bound_us = sets.others_us
    return Attempt(None, bound_us, stopped_by if bound_us < math.inf else StoppedBy.PROOF, sets.name, 0)


def solve_sets(sets: ShardingSets, limits: Limits, report: ReportProgress | None = None, should_stop: ShouldStop | None = None) -> Attempt:
    """Solve one program, for the sets of sharding types that may hold the best plan."""
    whole, left = Attempt(None, math.inf, StoppedBy.PROOF, sets.name, 0), 1.0
    for share in SET_SHARES:
        if whole.stopped_by is StoppedBy.CANCELLED or (program := sets.next_below(whole.cost_us * (1 - limits.gap))) is None:
            break
        share = share if sets.others_us < math.inf else left
        others_us = min(sets.others_us, whole.lower_bound_us)
        here = report and Relay(report, program.bound_us, others_us, whole.cost_us, program.unpaid_us)
        whole |= _solve_set(program, replace(limits, seconds=limits.seconds * share), here, should_stop)
        left -= share
    if sets.others_us < whole.cost_us:
        whole |= _left(sets, StoppedBy.LIMIT)
    if whole.placement is None and whole.stopped_by is StoppedBy.LIMIT and sets.matter:
        # Which types cost what is of no concern where the question is whether there is a plan at all.
        program = sets.undecided(whole.lower_bound_us)
        here = report and Relay(report, program.bound_us, unpaid_us=program.unpaid_us)
        whole = _solve_set(program, limits, here, should_stop)
    return replace(whole, stopped_by=StoppedBy.GAP) if _is_close(whole, limits) else whole


def _solve_set(program: SetProgram, limits: Limits, report: ReportProgress | None, should_stop: ShouldStop | None) -> Attempt:
    if should_stop is not None and should_stop():
        return Attempt(quick_placement(program.priced), program.bound_us, StoppedBy.CANCELLED, program.bound, 0)
    is_shared = program.priced.question.cost_model.ranks_per_core > 1
    found = (_solve_shared if is_shared else _solve_program)(program.priced, limits, report, should_stop)
    found = replace(found, lower_bound_us=max(found.lower_bound_us, program.bound_us))
    return _unsettled(found, limits) if program.unpaid_us > 0 else found


def _unsettled(found: Attempt, limits: Limits) -> Attempt:
    """Of a program that does not charge all types: its plan costs more than it knew, so that their gap may be open again."""
    is_settled = found.stopped_by in (StoppedBy.EXACT, StoppedBy.GAP)
    return replace(found, stopped_by=StoppedBy.LIMIT) if is_settled and found.gap > limits.gap + TIE else found


def _is_close(whole: Attempt, limits: Limits) -> bool:
    return whole.stopped_by is StoppedBy.LIMIT and whole.placement is not None and whole.gap <= limits.gap


def _solve_shared(priced: Priced, limits: Limits, report: ReportProgress | None, should_stop: ShouldStop | None) -> Attempt:
    """Where ranks share cores: with the options that are the least work, and with all where those are not close to the bound."""
    bound_us, half = least_work_us(priced.relaxed), replace(limits, seconds=limits.seconds / 2)
    best = Attempt(None, bound_us, StoppedBy.LIMIT, SHARED_BOUND, 0)
    for program in (with_only(priced, cheap_options(priced.problem)), priced):
        found = _solve_program(program, half, _only_bound(report, bound_us), should_stop)
        if program is priced:
            if found.stopped_by is StoppedBy.PROOF:
                return found
            bound_us = max(bound_us, shared_bound_us(priced, found.lower_bound_us))
        better = found if found.cost_us < best.cost_us else best
        stopped_by = StoppedBy.CANCELLED if found.stopped_by is StoppedBy.CANCELLED else StoppedBy.LIMIT
        best = Attempt(better.placement, bound_us, stopped_by, SHARED_BOUND, best.moves + found.moves)
        if _is_close(best, limits):
            return replace(best, stopped_by=StoppedBy.GAP)
        if stopped_by is StoppedBy.CANCELLED:
            break
    return best


def _only_bound(report: ReportProgress | None, bound_us: float) -> ReportProgress | None:
    """The search's figures are of another objective than the answer's."""
    return None if report is None else lambda progress: report(replace(progress, incumbent_us=None, bound_us=bound_us, gap=None))


def _solve_program(priced: Priced, limits: Limits, report: ReportProgress | None, should_stop: ShouldStop | None) -> Attempt:
    parted = None if priced.parted is None else bound_of(priced.parted)
    here = report if report is None or parted is None else Relay(report, others_us=parted.value_us)
    outcome = solve_apart(priced.problem, priced.apart, limits, here, should_stop)
    if parted is not None:
        outcome = _bounded_anew(outcome, parted)
    if outcome.stopped_by is StoppedBy.PROOF:
        return Attempt(None, math.inf, StoppedBy.PROOF, outcome.bound, outcome.moves)
    here = report and Relay(report, others_us=outcome.lower_bound_us)
    placement, moves = _exact_placement(priced, outcome, limits, here, should_stop)
    plans = [plan for plan in (placement, quick_placement(priced)) if plan is not None]
    best = min(plans, key=lambda plan: plan.step_time_us, default=None)
    stopped_by = outcome.stopped_by if best is not None else _undecided(outcome)
    return Attempt(best, outcome.lower_bound_us, stopped_by, outcome.bound, moves)


def _bounded_anew(outcome: Outcome, parted: Bound) -> Outcome:
    """With a bound that holds although combinations of groups were left out: that of the tables without groups."""
    if not parted.feasible:
        return replace(outcome, assignment=None, lower_bound_us=math.inf, bound=parted.name, stopped_by=StoppedBy.PROOF)
    limit = outcome.stopped_by if outcome.stopped_by is StoppedBy.CANCELLED else StoppedBy.LIMIT
    bound_us = min(parted.value_us, outcome.lower_bound_us)
    return replace(outcome, lower_bound_us=bound_us, bound=f"{parted.name}, groups parted", stopped_by=limit)


def quick_placement(priced: Priced) -> Placement | None:
    """A plan without search, if greedy packing finds one."""
    assignment = pack_apart(priced.problem, priced.apart) if priced.every_item_has_an_option else None
    placement = None if assignment is None else assemble(priced, assignment)
    return placement if placement is not None and placement.fits else None


def is_feasible(question: Question, limits: Limits, should_stop: ShouldStop | None = None) -> bool:
    """Whether a plan is found, however slow, within the limits for each variant. Raises InvalidDocument as `variants` does."""
    searched = []
    for variant in variants(question):
        program = price(question, variant.topology, variant.tiers)
        if quick_placement(program) is not None:
            return True
        searched += [program] if program.every_item_has_an_option else []
    return any(_any_placement(program, limits, should_stop) is not None for program in searched)


def _any_placement(priced: Priced, limits: Limits, should_stop: ShouldStop | None) -> Placement | None:
    """By a search that takes all stages for one: with the same placements, its bound takes a moment."""
    problem = priced.problem
    one_stage = replace(
        problem,
        stage_base_us=problem.stage_base_us.sum(keepdims=True),
        unit_time_us=problem.unit_time_us.sum(axis=2, keepdims=True),
    )
    program = replace(priced, problem=one_stage)
    outcome = solve_apart(one_stage, priced.apart, limits, None, should_stop)
    return _exact_placement(program, outcome, limits, None, should_stop)[0]


def _undecided(outcome: Outcome) -> StoppedBy:
    return StoppedBy.CANCELLED if outcome.stopped_by is StoppedBy.CANCELLED else StoppedBy.LIMIT


def _exact_placement(
    priced: Priced, outcome: Outcome, limits: Limits, report: ReportProgress | None, should_stop: ShouldStop | None
) -> tuple[Placement | None, int]:
    """What the outcome found, and the moves of finding it.

    The program charges a row split its shortest block. Where the exact bytes went over, leave room for the difference.
    """
    placement = None if outcome.assignment is None else assemble(priced, outcome.assignment)
    if placement is None or placement.fits:
        return placement, outcome.moves
    if outcome.stopped_by is StoppedBy.CANCELLED:
        return None, outcome.moves
    problem = priced.problem
    ranks_per_pool = np.bincount(problem.device_pool, minlength=len(problem.ddr_capacity))
    tighter: Problem = replace(
        problem,
        hbm_capacity=np.maximum(problem.hbm_capacity - priced.slack_bytes, 0),
        ddr_capacity=np.maximum(problem.ddr_capacity - priced.slack_bytes * ranks_per_pool, 0),
    )
    second = solve_apart(tighter, priced.apart, limits, report, should_stop)
    placement = None if second.assignment is None else assemble(priced, second.assignment)
    return placement if placement is not None and placement.fits else None, outcome.moves + second.moves
