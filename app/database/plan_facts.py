"""The facts of stored plans, and the overview of all of them."""

from __future__ import annotations

import logging

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from emplace.app.database.states import State
from emplace.app.database.stored import OutdatedDocument, read_stored
from emplace.app.database.tables import PlanFactsRow, PlanRow, RunRow
from emplace.placement.plan import Plan, PlanStatus
from emplace.studies.job_facts import JobFacts, TableFacts, facts_of, table_facts_of
from emplace.studies.overview import Overview, OverviewCounter

_log = logging.getLogger(__name__)

_BATCH = 500
"""Rows that are in memory at a time."""
_PLACED = PlanRow.status.in_((PlanStatus.OPTIMAL, PlanStatus.FEASIBLE))


def facts_row(plan: Plan) -> PlanFactsRow | None:
    """What is stored beside a plan; None where it has no placement."""
    facts = facts_of(plan)
    if facts is None:
        return None
    tables = table_facts_of(plan.question.model)
    return PlanFactsRow(model_digest=plan.model.digest, job=facts.model_dump_json(), tables=tables.model_dump_json())


def fill_in(session: Session) -> None:
    """Store the facts of plans that an earlier version stored. One whose document is read no more has none, and is counted in the log."""
    outdated = 0
    missing = select(PlanRow.id).outerjoin(PlanFactsRow, PlanFactsRow.plan_id == PlanRow.id).where(_PLACED, PlanFactsRow.plan_id.is_(None))
    for plan_id in session.scalars(missing).all():
        document = session.scalar(select(PlanRow.document).where(PlanRow.id == plan_id))
        try:
            row = None if document is None else facts_row(read_stored(document, Plan, f"plan {plan_id}"))
        except OutdatedDocument:
            outdated += 1
            continue
        if row is not None:
            row.plan_id = plan_id
            session.add(row)
            session.flush()
            session.expunge(row)
    if outdated:
        plans = f"{outdated} stored {'plan' if outdated == 1 else 'plans'}"
        _log.warning("%s of an earlier version can't be read any more; what is asked again is planned anew", plans)


def overview_of_store(session: Session) -> Overview:
    """All plans with a placement, and all runs that measured one. Rows are read a few at a time, and the tables of a model once."""
    counter = OverviewCounter()
    for text in session.scalars(select(PlanFactsRow.job).order_by(PlanFactsRow.plan_id).execution_options(yield_per=_BATCH)):
        counter.add_job(JobFacts.model_validate_json(text))
    _count_tables(session, counter)
    _count_measured(session, counter)
    return counter.overview()


def _count_tables(session: Session, counter: OverviewCounter) -> None:
    models = (
        select(func.min(PlanFactsRow.plan_id).label("plan_id"), func.count().label("jobs")).group_by(PlanFactsRow.model_digest).subquery()
    )
    query = select(PlanFactsRow.tables, models.c.jobs).join(models, models.c.plan_id == PlanFactsRow.plan_id)
    for text, jobs in session.execute(query.order_by(PlanFactsRow.plan_id).execution_options(yield_per=_BATCH)):
        counter.add_tables(TableFacts.model_validate_json(text), jobs)


def _count_measured(session: Session, counter: OverviewCounter) -> None:
    measured = RunRow.state == State.DONE, RunRow.emulate.is_(False)
    query = (
        select(PlanRow.step_time_us, RunRow.step_time_us, RunRow.created_at).join(PlanRow, PlanRow.id == RunRow.plan_id).where(*measured)
    )
    for predicted_us, measured_us, at in session.execute(query.order_by(RunRow.id).execution_options(yield_per=_BATCH)):
        if predicted_us and measured_us:
            counter.add_measured(predicted_us, measured_us, at)
