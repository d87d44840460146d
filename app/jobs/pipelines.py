"""What follows what in a pipeline: the job that ends begins the next one, in the transaction that stores its outcome."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.database import jobs, pipelines, plans
from emplace.app.database.cost_models import CostModelRows
from emplace.app.database.jobs import JobRow
from emplace.app.database.states import State
from emplace.app.database.stored import read_stored
from emplace.app.database.tables import PipelineRow, PlanRow, ProfileRow, RunRow, now
from emplace.app.reports.options_text import options_line
from emplace.cost_model_store import CostModelChain
from emplace.local_store import local_cost_models
from emplace.placement.cost_model import CostSource
from emplace.placement.errors import EmplaceError
from emplace.placement.plan import Question
from emplace.planning import build_question, measured_cost_model

Put = Callable[[JobRow], None]
"""Stores a new job and queues it."""


def advance(session: Session, put: Put, kind: type[JobRow], resource_id: str) -> None:
    """Begin what follows a job that is done, in each pipeline that it belongs to."""
    for row in pipelines.waiting_for(session, kind, resource_id):
        go_on(session, put, row)


def go_on(session: Session, put: Put, row: PipelineRow) -> None:
    """Begin the next stage, and those after it whose answer is there already."""
    if row.profile is not None and row.profile_id is None:
        row.profile_id = _profile(session, put, row)
    if row.profile_id is not None and not _is_done(session, ProfileRow, row.profile_id):
        return
    if row.plan_id is None:
        try:
            row.plan_id = _plan(session, put, row)
        except EmplaceError as error:
            row.error = str(error)
            return
    if row.run is None or row.run_id is not None or not _is_done(session, PlanRow, row.plan_id):
        return
    if session.get_one(PlanRow, row.plan_id).status in pipelines.HAS_PLACEMENT:
        run = RunRow(plan_id=row.plan_id, host_fingerprint=row.host_fingerprint, **json.loads(row.run))
        put(run)
        row.run_id = run.id


def _is_done(session: Session, kind: type[JobRow], resource_id: str) -> bool:
    """With its row locked: whoever stores its outcome has done so, or will find this pipeline waiting."""
    job = jobs.locked(session, kind, resource_id)
    return job is not None and job.state == State.DONE


def _profile(session: Session, put: Put, row: PipelineRow) -> str:
    """The id of a fresh profile of the machine, measured anew where there is none."""
    wanted = json.loads(row.profile or "{}")
    since = now() - timedelta(days=wanted.pop("max_age_days"))
    fresh = select(ProfileRow.id).where(
        ProfileRow.host_fingerprint == row.host_fingerprint,
        ProfileRow.state == State.DONE,
        ProfileRow.source == CostSource.MEASURED,
        ProfileRow.ranks == wanted["ranks"],
        ProfileRow.finished_at >= since,
    )
    found = session.scalar(fresh.order_by(ProfileRow.id.desc()).limit(1))
    if found is not None:
        return found
    host_name = _question(row).host.name
    job = ProfileRow(host_name=host_name, host_fingerprint=row.host_fingerprint, source=CostSource.MEASURED, **wanted)
    put(job)
    return job.id


def _plan(session: Session, put: Put, row: PipelineRow) -> str:
    """The id of the plan of the question, which is priced by what was measured where a profile was asked for. Raises EmplaceError."""
    question = _question(row)
    if row.profile is not None:
        store = CostModelChain(CostModelRows(session), local_cost_models())
        measured = measured_cost_model(store, question.host, question.options)
        question = build_question(question.model, question.host, question.options, measured)
    plan, is_new = plans.create(session, question, options_line(question.options))
    if is_new:
        put(plan)
    return plan.id


def _question(row: PipelineRow) -> Question:
    return read_stored(row.question, Question, f"the question of pipeline {row.id}")
