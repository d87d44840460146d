"""The solver's public face: a question in, a plan out."""

from __future__ import annotations

import math
import time
from importlib.metadata import version

from emplace.placement.moving import moved_bytes
from emplace.placement.plan import CostModelReference, Explanation, FewestDevices, ModelReference, Plan, PlanStatus, Question, SolverRecord
from emplace.placement.workload import Objective
from emplace.solver.driver.attempt import Attempt, attempt
from emplace.solver.driver.fewest_devices import smallest_size
from emplace.solver.driver.replan import replan
from emplace.solver.infeasibility.explain import explain
from emplace.solver.result import ReportProgress, ShouldStop, StoppedBy

PROVEN = 1e-6
"""A plan is called optimal when the proof leaves this share of the step time or less."""


def solve_question(question: Question, report: ReportProgress | None = None, should_stop: ShouldStop | None = None) -> Plan:
    """The best plan found with its proven gap; or a proof that none exists, explained; or undecided.

    Raises InvalidDocument for options that no target has, such as ranks that don't divide over the nodes.
    """
    started = time.perf_counter()
    if question.options.objective is Objective.DEVICES:
        smallest = smallest_size(question, should_stop)
        answered, fewest, found = smallest.question, smallest.record, smallest.first
        if found.placement is not None:
            found = _solved(answered, report, should_stop).or_else(found)
    else:
        answered, fewest, found = question, None, _solved(question, report, should_stop)
    explanation = explain(answered, should_stop) if found.stopped_by is StoppedBy.PROOF else None
    return _plan(question, found, fewest, explanation, time.perf_counter() - started)


def _solved(question: Question, report: ReportProgress | None, should_stop: ShouldStop | None) -> Attempt:
    return (attempt if question.options.start is None else replan)(question, report, should_stop)


def _plan(question: Question, found: Attempt, fewest: FewestDevices | None, explanation: Explanation | None, seconds: float) -> Plan:
    placed = found.placement
    has_start = question.options.start is not None
    trainers = 0 if placed is None else sum(not rank.is_server for rank in placed.ranks)
    return Plan(
        model=ModelReference(name=question.model.name, digest=question.model.content_digest()),
        host=ModelReference(name=question.host.name, digest=question.host.content_digest()),
        cost_model=CostModelReference(source=question.cost_model.source, digest=question.cost_model.content_digest()),
        status=_status(found, fewest),
        gap=None if placed is None else found.gap,
        step_time_us=None if placed is None else placed.step_time_us,
        lower_bound_us=min([found.lower_bound_us, *([] if placed is None else [placed.step_time_us])])
        if found.lower_bound_us < math.inf
        else None,
        throughput_samples_per_s=None if placed is None else trainers * question.model.local_batch_size * 1e6 / placed.step_time_us,
        imbalance=None if placed is None else placed.imbalance,
        moved_bytes=moved_bytes(question.model, question.options.start or (), placed.tables) if placed is not None and has_start else None,
        move_cost_us=found.move_cost_us if placed is not None and has_start else None,
        ranks=() if placed is None else placed.ranks,
        nodes=() if placed is None else placed.nodes,
        tables=() if placed is None else placed.tables,
        fewest=fewest,
        explanation=explanation,
        solver=SolverRecord(
            seconds=seconds,
            seed=question.options.seed,
            limit=question.options.time_limit,
            stopped_by=found.stopped_by,
            bound=found.bound,
            moves=found.moves,
            version=version("emplace"),
        ),
        question=question,
    )


def _status(found: Attempt, fewest: FewestDevices | None) -> PlanStatus:
    if found.placement is not None:
        is_fewest = fewest is None or not fewest.undecided
        return PlanStatus.OPTIMAL if found.gap <= PROVEN and is_fewest else PlanStatus.FEASIBLE
    return PlanStatus.INFEASIBLE if found.stopped_by is StoppedBy.PROOF else PlanStatus.UNDECIDED
