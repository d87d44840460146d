"""The solver's public face: a question in, a plan out."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from importlib.metadata import version

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.hot_rows import with_hot_ranks
from emplace.placement.moving import moved_bytes
from emplace.placement.placement_gap import placement_gap
from emplace.placement.plan import (
    CostModelReference,
    Explanation,
    FewestDevices,
    LimitKind,
    ModelReference,
    Plan,
    PlanStatus,
    Question,
    SolverRecord,
)
from emplace.placement.terms import OPTIMAL_GAP
from emplace.placement.workload import Objective
from emplace.solver.budget import READING_SECONDS, READING_SHARE, enough_gap
from emplace.solver.driver.as_placed import earlier_placement
from emplace.solver.driver.fewest_devices import smallest_size
from emplace.solver.driver.floor import raised_to_floor, solve_above_floor, stay_at_floor
from emplace.solver.driver.replan import replan
from emplace.solver.driver.solve_variants import with_first_plan
from emplace.solver.infeasibility.explain import explain
from emplace.solver.model.extract import Placement
from emplace.solver.progress import Monitor
from emplace.solver.result import Limit, Result


def solve_question(question: Question, monitor: Monitor | None = None, warm_start: Plan | None = None) -> Plan:
    """The best plan found with its proven gap; or a proof that none exists, explained; or undecided.

    The search begins with tables as in `warm_start`, a plan for a question that differs a little; where the question still allows all of
    it, the answer is no worse.
    Raises InvalidDocument for options that no target has, such as ranks that don't divide over the nodes, and for a warm start
    that has nothing to say of the question.
    """
    if warm_start is not None:
        _refuse_cold(question, warm_start)
    started, monitor, limit_s = time.perf_counter(), monitor or Monitor(), question.options.time_limit
    if limit_s is not None:
        monitor = monitor.within(limit_s - max(limit_s * READING_SHARE, len(question.model.tables) * READING_SECONDS))
    if question.options.objective is Objective.DEVICES:
        smallest = smallest_size(question, monitor)
        answered, fewest, found = smallest.question, smallest.record, smallest.first
        if found.solution is not None and not monitor.is_answered(found.objective_us, found.lower_bound_us):
            found = _or_else(_solved(answered, monitor, warm_start), found)
    else:
        answered, fewest, found = question, None, _solved(question, monitor, warm_start)
    found = raised_to_floor(found, answered)
    explanation = explain(answered, monitor) if found.is_infeasible else None
    found = replace(found, limit=_limit(found, question, monitor))
    plan = with_hot_ranks(_plan(question, found, fewest, explanation, time.perf_counter() - started))
    if warm_start is None:
        return plan
    return plan.model_copy(update={"solver": plan.solver.model_copy(update={"warm_start": warm_start.content_digest()})})


def _refuse_cold(question: Question, warm_start: Plan) -> None:
    """Raises InvalidDocument for a plan that places no table of the question's model, and for a question with a start."""
    if question.options.start is not None:
        raise InvalidDocument("options", [BrokenRule("/start", "", "does not go with a warm start: a job that runs is planned from there")])
    ours = {table.name for table in question.model.tables}
    if not any(table.name in ours for table in warm_start.tables):
        what = f"a plan of {warm_start.model.name}" if warm_start.has_placement else f"a plan that is {warm_start.status}"
        rule = f"{what} places no table of {question.model.name}; give one whose tables have the same names"
        raise InvalidDocument("warm start", [BrokenRule("/tables", "", rule)])


def _solved(question: Question, monitor: Monitor, warm_start: Plan | None) -> Result[Placement]:
    start = question.options.start
    if start is None and warm_start is None:
        return solve_above_floor(question, monitor, None)
    tables = start if warm_start is None else warm_start.tables
    placed = {table.name: table for table in tables or ()}
    found = solve_above_floor(question, monitor, placed) if start is None else stay_at_floor(question) or replan(question, monitor)
    # Not every placement is an option of the search, and not every search begins with it.
    return with_first_plan(raised_to_floor(found, question), earlier_placement(question, placed))


def _or_else(found: Result[Placement], first: Result[Placement]) -> Result[Placement]:
    """What was found, with the first plan of this size where it has none."""
    if found.solution is not None:
        return found
    return replace(found, solution=first.solution, objective_us=first.objective_us)


def _limit(found: Result[Placement], question: Question, monitor: Monitor) -> Limit:
    """Why it went no further, given all that is known in the end: a warm start or a floor may have closed the gap that a search left, and a
    floor may have opened one."""
    if (found.solution is None and found.is_settled) or found.limit is Limit.INTERRUPTED:
        return found.limit
    if not found.is_settled and monitor.is_answered(found.objective_us, found.lower_bound_us):
        return Limit.TARGET
    if found.solution is not None and found.gap <= enough_gap(question.options.gap):
        return found.limit if found.gap <= OPTIMAL_GAP and found.is_settled else Limit.GAP
    if found.is_settled:
        return Limit.FLOOR
    if found.limit is Limit.WORK and (question.options.work_limit is None or monitor.clock.is_over):
        return Limit.TIME
    return found.limit


def _plan(
    question: Question, found: Result[Placement], fewest: FewestDevices | None, explanation: Explanation | None, seconds: float
) -> Plan:
    placed = found.solution
    has_start = question.options.start is not None
    by_clock = question.options.work_limit is None or found.limit is Limit.TIME
    kind = LimitKind.TIME if by_clock else LimitKind.WORK
    trainers = 0 if placed is None else sum(not rank.is_server for rank in placed.ranks)
    lower_bound_us = min([found.lower_bound_us, *([] if placed is None else [placed.step_time_us])])
    return Plan(
        model=ModelReference(name=question.model.name, digest=question.model.content_digest()),
        host=ModelReference(name=question.host.name, digest=question.host.content_digest()),
        cost_model=CostModelReference(source=question.cost_model.source, digest=question.cost_model.content_digest()),
        status=_status(found, fewest),
        gap=None if placed is None else found.gap,
        placement_gap=None if placed is None else placement_gap(placed.cost_us, lower_bound_us, placed.constant_us),
        step_time_us=None if placed is None else placed.step_time_us,
        lower_bound_us=lower_bound_us if found.lower_bound_us < math.inf else None,
        throughput_samples_per_s=None if placed is None else trainers * question.model.local_batch_size * 1e6 / placed.step_time_us,
        imbalance=None if placed is None else placed.imbalance,
        moved_bytes=moved_bytes(question.model, question.options.start or (), placed.tables) if placed is not None and has_start else None,
        move_cost_us=placed.move_cost_us if placed is not None and has_start else None,
        ranks=() if placed is None else placed.ranks,
        nodes=() if placed is None else placed.nodes,
        tables=() if placed is None else placed.tables,
        fewest=fewest,
        explanation=explanation,
        solver=SolverRecord(
            seconds=seconds,
            seed=question.options.seed,
            limit=question.options.limits[kind],
            limit_kind=kind,
            stopped_by=found.stopped_by,
            bound=found.bound,
            moves=found.moves,
            version=version("emplace"),
        ),
        question=question,
    )


def _status(found: Result[Placement], fewest: FewestDevices | None) -> PlanStatus:
    if found.solution is not None:
        is_fewest = fewest is None or not fewest.undecided
        return PlanStatus.OPTIMAL if found.gap <= OPTIMAL_GAP and is_fewest else PlanStatus.FEASIBLE
    return PlanStatus.INFEASIBLE if found.is_infeasible else PlanStatus.UNDECIDED
