"""Pipelines as the API shows them."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from emplace.app.database import pipelines
from emplace.app.database.pipelines import PipelineStage
from emplace.app.database.states import State
from emplace.app.database.tables import PipelineRow, PlanRow, RunRow


class StageResource(BaseModel):
    """`location` is the resource of its job. A plan has its `status`; it and a run have their step time; a run says `verified`."""

    stage: str
    state: str
    location: str | None
    error: str | None
    started_at: datetime | None
    finished_at: datetime | None
    status: str | None
    step_time_us: float | None
    verified: bool | None


class PipelineResource(BaseModel):
    """`state` is that of the whole."""

    id: str
    state: State
    created_at: datetime
    error: str | None
    stages: list[StageResource]


def pipeline_resource(row: PipelineRow, stages: list[PipelineStage]) -> PipelineResource:
    return PipelineResource(
        id=row.id,
        state=pipelines.state_of(row, stages),
        created_at=row.created_at,
        error=row.error,
        stages=[_stage(stage) for stage in stages],
    )


def _stage(stage: PipelineStage) -> StageResource:
    job = stage.row
    return StageResource(
        stage=stage.name,
        state=stage.state,
        location=None if job is None else f"/v1/{job.__tablename__}/{job.id}",
        error=None if job is None else job.error,
        started_at=None if job is None else job.started_at,
        finished_at=None if job is None else job.finished_at,
        status=job.status if isinstance(job, PlanRow) else None,
        step_time_us=job.step_time_us if isinstance(job, PlanRow | RunRow) else None,
        verified=job.verified if isinstance(job, RunRow) else None,
    )
