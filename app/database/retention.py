"""What is deleted by itself: answers that ended long ago. Profiles stay, as they price what is asked next."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import Exists, delete, exists, select
from sqlalchemy.orm import Session, aliased

from emplace.app.database import plans, studies
from emplace.app.database.jobs import Ticket
from emplace.app.database.states import State
from emplace.app.database.tables import IdempotencyRow, PipelineRow, PlanRow, ProfileRow, RunRow, StudyRow, now

_AT_ONCE = 100
"""So many plans in a transaction: others want to write, too."""


def forget_old(session: Session, keep_days: float) -> list[Ticket]:
    """Delete plans that ended more than so many days ago, with their runs, unless one of those is newer, and what asked for them; and
    studies that ended so long ago.

    Pipelines that came to no plan go by when they were asked for. Returns the newest tickets of what was deleted; there may be more
    to delete.
    """
    before = now() - timedelta(days=keep_days)
    run = aliased(RunRow)
    newer = exists().where(run.plan_id == PlanRow.id, (run.finished_at.is_(None)) | (run.finished_at >= before))
    old_plans = session.scalars(select(PlanRow.id).where(PlanRow.finished_at < before, ~newer).limit(_AT_ONCE)).all()
    old_studies = session.scalars(select(StudyRow.id).where(StudyRow.finished_at < before).limit(_AT_ONCE)).all()
    gone = [ticket for plan_id in old_plans for ticket in plans.remove(session, plan_id)]
    gone += [ticket for study_id in old_studies for ticket in studies.remove(session, study_id)]
    session.execute(delete(PipelineRow).where(PipelineRow.created_at < before, ~_gets_on(), ~_has_plan()))
    session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < before))
    return gone


def _gets_on() -> Exists:
    """Whether a pipeline waits for its profile."""
    return exists().where(ProfileRow.id == PipelineRow.profile_id, ProfileRow.state.in_((State.QUEUED, State.RUNNING)))


def _has_plan() -> Exists:
    """Whether a pipeline has a plan, with which it goes."""
    return exists().where(PlanRow.id == PipelineRow.plan_id)
