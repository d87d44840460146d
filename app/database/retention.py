"""What is deleted by itself: answers that ended long ago. Profiles stay, as they price what is asked next."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session, aliased

from emplace.app.database import plans, studies
from emplace.app.database.jobs import Ticket
from emplace.app.database.tables import IdempotencyRow, PipelineRow, PlanRow, RunRow, StudyRow, now

_AT_ONCE = 100
"""So many plans in a transaction: others want to write, too."""


def forget_old(session: Session, keep_days: float) -> list[Ticket]:
    """Delete plans that ended more than so many days ago, with their runs, unless one of those is newer, and what asked for them; and
    studies that ended so long ago.

    Returns the newest tickets of what was deleted; there may be more to delete.
    """
    before = now() - timedelta(days=keep_days)
    run = aliased(RunRow)
    newer = exists().where(run.plan_id == PlanRow.id, (run.finished_at.is_(None)) | (run.finished_at >= before))
    old = session.execute(select(PlanRow.id, PlanRow.ticket).where(PlanRow.finished_at < before, ~newer).limit(_AT_ONCE)).all()
    gone = [Ticket(PlanRow, plan.id, plan.ticket) for plan in old]
    for plan_id, _ in old:
        its_runs = session.execute(select(RunRow.id, RunRow.ticket).where(RunRow.plan_id == plan_id))
        gone += [Ticket(RunRow, each.id, each.ticket) for each in its_runs]
        session.execute(delete(PipelineRow).where(PipelineRow.plan_id == plan_id))
        plans.remove(session, plan_id)
    for study in session.execute(select(StudyRow.id, StudyRow.ticket).where(StudyRow.finished_at < before).limit(_AT_ONCE)).all():
        gone.append(Ticket(StudyRow, study.id, study.ticket))
        studies.remove(session, study.id)
    session.execute(delete(IdempotencyRow).where(IdempotencyRow.created_at < before))
    return gone
