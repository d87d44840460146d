"""Finished plans and runs without a solver or torch: the audit's own arithmetic prices a hand-made placement."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.database import jobs, plans, runs
from emplace.app.database.connection import Database
from emplace.app.database.jobs import Ticket
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, RunRow
from emplace.placement.measurement import Measurement, RankMeasurement, Verdict
from emplace.placement.plan import Explanation, Fix, Plan, PlanStatus, Question, SolverRecord, StoppedBy
from emplace.placement.reading import read_text
from emplace.placement.stages import Stage
from tests.executor.plans import build_plan, table_wise


def _limit_of(question: Question) -> dict[str, Any]:
    kind, seconds = next(iter(question.options.limits.items()))
    return {"limit": seconds, "limit_kind": kind}


def plan_of(question: Question) -> Plan:
    """Every table whole on a rank, in turn."""
    ranks = question.options.ranks or 2
    layouts = {table.name: table_wise(table, index % ranks) for index, table in enumerate(question.model.tables)}
    nodes = question.options.nodes or 1
    plan = build_plan(question.model, question.host, layouts, ranks=ranks, nodes=nodes, cost=question.cost_model)
    solver = plan.solver.model_copy(update=_limit_of(question))
    return plan.model_copy(update={"question": question, "solver": solver})


def infeasible_plan_of(question: Question) -> Plan:
    plan = plan_of(question)
    return Plan(
        model=plan.model,
        host=plan.host,
        cost_model=plan.cost_model,
        status=PlanStatus.INFEASIBLE,
        explanation=Explanation(
            reasons=("hbm: 12 bytes over",), fixes=(Fix(change="Put it into system memory", kind="tier", verified=True),)
        ),
        solver=SolverRecord(seconds=0.1, seed=0, stopped_by=StoppedBy.PROOF, bound="capacity", version="by hand", **_limit_of(question)),
        question=question,
    )


def finish_plan(database: Database, plan_id: str, *, infeasible: bool = False) -> Plan:
    """Store the plan as a worker would."""
    with database.writing() as session:
        question = read_text(session.get_one(PlanRow, plan_id).question, Question, source="question", as_json=True)
        plan = infeasible_plan_of(question) if infeasible else plan_of(question)
        ticket = ticket_of(session, PlanRow, plan_id)
        assert jobs.take_up(session, ticket)
        assert jobs.finish(session, ticket, State.DONE, document=plan.model_dump_json(exclude_none=True), **plans.columns_of(plan))
    return plan


def measurement_of(plan: Plan, *, verified: bool = True) -> Measurement:
    step_us = 1.5 * (plan.step_time_us or 1.0)
    return Measurement(
        plan_digest=plan.content_digest(),
        host_fingerprint=plan.question.host.fingerprint or "none",
        backend="gloo",
        software={},
        measured_at="2026-01-01T00:00:00Z",
        steps=3,
        warmup_steps=1,
        seed=0,
        step_time_us=step_us,
        step_time_p5_us=step_us * 0.9,
        step_time_p95_us=step_us * 1.1,
        predicted_step_time_us=plan.step_time_us or 0.0,
        throughput_samples_per_s=1e6,
        predicted_throughput_samples_per_s=plan.throughput_samples_per_s or 0.0,
        ranks=tuple(
            RankMeasurement(
                rank=rank.rank,
                step_times_us=(step_us,) * 3,
                median_step_time_us=step_us,
                stages_us={Stage.LOOKUP_FORWARD: step_us / 2},
                peak_bytes=1000,
                predicted_bytes=900,
            )
            for rank in plan.ranks
        ),
        verdicts=(Verdict(name="numerics", passed=verified, detail="the update differs by 1e-6"),),
        verified=verified,
    )


def store_run(database: Database, plan_id: str, measurement: Measurement) -> str:
    """A finished run of a plan, as a worker would store it."""
    with database.writing() as session:
        row = RunRow(
            plan_id=plan_id, host_fingerprint="none", steps=3, seed=0, emulate=measurement.emulated is not None, state=State.RUNNING
        )
        session.add(row)
        session.flush()
        outcome = {"document": measurement.model_dump_json(exclude_none=True), **runs.columns_of(measurement)}
        assert jobs.finish(session, ticket_of(session, RunRow, row.id), State.DONE, **outcome)
        return row.id


def ticket_of(session: Session, kind: type[PlanRow | RunRow], resource_id: str) -> Ticket:
    """The ticket that counts now."""
    number = session.scalar(select(kind.ticket).where(kind.id == resource_id))
    assert number is not None
    return Ticket(kind, resource_id, number)
