"""Stored pipelines: a profile, a plan and a run, each begun when the one before is done. Their state is that of their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.database import jobs
from emplace.app.database.jobs import JobRow
from emplace.app.database.states import State
from emplace.app.database.tables import PipelineRow, PlanRow, ProfileRow, RunRow

WAITING, SKIPPED = "waiting", "skipped"
"""A stage whose turn has not come; a run of a plan without a placement."""
HAS_PLACEMENT = ("optimal", "feasible")
_COLUMNS: dict[type[JobRow], Any] = {
    ProfileRow: PipelineRow.profile_id,
    PlanRow: PipelineRow.plan_id,
    RunRow: PipelineRow.run_id,
}


@dataclass(frozen=True)
class PipelineStage:
    """`row` is its job, None while there is none."""

    name: str
    state: str
    row: JobRow | None


def waiting_for(session: Session, kind: type[JobRow], resource_id: str) -> list[PipelineRow]:
    """The pipelines that a job belongs to, locked."""
    if kind not in _COLUMNS:
        return []
    return list(session.scalars(select(PipelineRow).where(_COLUMNS[kind] == resource_id).with_for_update()))


def stages(session: Session, row: PipelineRow) -> list[PipelineStage]:
    """Those that were asked for, in their order."""
    return list(_stages(session, row))


def state_of(row: PipelineRow, found: list[PipelineStage]) -> State:
    """That of the whole: it fails or is cancelled with any of its stages, and is done with the last."""
    states = {stage.state for stage in found}
    if row.error is not None or State.FAILED in states:
        return State.FAILED
    if State.CANCELLED in states:
        return State.CANCELLED
    if states <= {State.DONE, SKIPPED}:
        return State.DONE
    return State.QUEUED if states <= {State.QUEUED, WAITING} else State.RUNNING


def _stages(session: Session, row: PipelineRow) -> Iterator[PipelineStage]:
    if row.profile is not None:
        profile = _stage(session, "profile", ProfileRow, row.profile_id)
        # A plan is asked for when its profile is done, which may have been deleted since.
        yield profile if row.plan_id is None else PipelineStage("profile", State.DONE, profile.row)
    plan = _stage(session, "plan", PlanRow, row.plan_id)
    yield plan
    if row.run is not None:
        run = _stage(session, "run", RunRow, row.run_id)
        has_none = isinstance(plan.row, PlanRow) and plan.state == State.DONE and plan.row.status not in HAS_PLACEMENT
        yield PipelineStage("run", SKIPPED, None) if has_none else run


def _stage(session: Session, name: str, kind: type[JobRow], resource_id: str | None) -> PipelineStage:
    if resource_id is None:
        return PipelineStage(name, WAITING, None)
    job = jobs.find(session, kind, resource_id)
    return PipelineStage(name, State.CANCELLED if job is None else job.state, job)  # None: its resource was deleted
