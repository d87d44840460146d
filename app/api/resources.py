"""Stored resources as the API shows them. Absent figures are null; documents stand under a key of their own."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from emplace.app.database.jobs import JobRow
from emplace.app.database.priorities import Priority
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, ProfileRow, RunRow, StudyRow


class Reference(BaseModel):
    name: str
    digest: str


class JobResource(BaseModel):
    """What everything that a worker makes has in common."""

    id: str
    state: State
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None
    """Why it failed."""


class Measured(BaseModel):
    """The newest finished run of a plan."""

    run_id: str
    verified: bool | None
    step_time_us: float | None
    throughput_samples_per_s: float | None


class PlanSummary(JobResource):
    """A stored plan in a list."""

    question_digest: str
    priority: Priority
    model: Reference
    host: Reference
    cost_source: str
    status: str | None
    gap: float | None
    step_time_us: float | None
    throughput_samples_per_s: float | None
    measured: Measured | None


class PlanResource(PlanSummary):
    """A stored plan; `plan` is the plan document once it is done."""

    plan: dict[str, Any] | None


class RunResource(JobResource):
    """A run of a plan; `measurement` is the measurement document once it is done."""

    plan_id: str
    steps: int | None
    seed: int
    emulate: bool
    verified: bool | None
    step_time_us: float | None
    throughput_samples_per_s: float | None
    measurement: dict[str, Any] | None


class ProfileResource(JobResource):
    """A cost model of a host; `cost_model` is the document once it is done."""

    host_name: str
    host_fingerprint: str | None
    source: str
    ranks: int | None
    digest: str | None
    cost_model: dict[str, Any] | None


class StudySummary(JobResource):
    """A stored study in a list: `points_done` of its `points` are there."""

    kind: str
    model: str
    hosts: list[str]
    varied: list[str]
    points: int
    points_done: int


class StudyResource(StudySummary):
    """A stored study; `asked` is all that decides its answer, `study` the document that the command of its kind prints, once it is done."""

    asked: dict[str, Any]
    study: dict[str, Any] | None


class Page(BaseModel):
    """`next` is the cursor of the next page, null on the last one."""

    next: str | None


class PlanPage(Page):
    items: list[PlanSummary]


class RunPage(Page):
    items: list[RunResource]


class ProfilePage(Page):
    items: list[ProfileResource]


class StudyPage(Page):
    items: list[StudySummary]


def plan_summary(row: PlanRow, run: RunRow | None) -> PlanSummary:
    return PlanSummary(**_plan_fields(row, run))


def plan_resource(row: PlanRow, run: RunRow | None) -> PlanResource:
    return PlanResource(**_plan_fields(row, run), plan=_parsed(row.document))


def run_resource(row: RunRow) -> RunResource:
    return RunResource(
        **_job_fields(row),
        plan_id=row.plan_id,
        steps=row.steps,
        seed=row.seed,
        emulate=row.emulate,
        verified=row.verified,
        step_time_us=row.step_time_us,
        throughput_samples_per_s=row.throughput_samples_per_s,
        measurement=_parsed(row.document),
    )


def profile_resource(row: ProfileRow) -> ProfileResource:
    return ProfileResource(
        **_job_fields(row),
        host_name=row.host_name,
        host_fingerprint=row.host_fingerprint,
        source=row.source,
        ranks=row.ranks,
        digest=row.digest,
        cost_model=_parsed(row.document),
    )


def study_summary(row: StudyRow) -> StudySummary:
    return StudySummary(**_study_fields(row))


def study_resource(row: StudyRow) -> StudyResource:
    return StudyResource(**_study_fields(row), asked=json.loads(row.asked), study=_parsed(row.document))


def _study_fields(row: StudyRow) -> dict[str, Any]:
    return _job_fields(row) | {
        "kind": row.kind,
        "model": row.model_name,
        "hosts": json.loads(row.hosts),
        "varied": json.loads(row.varied),
        "points": row.points,
        "points_done": row.points_done,
    }


def _plan_fields(row: PlanRow, run: RunRow | None) -> dict[str, Any]:
    return _job_fields(row) | {
        "question_digest": row.question_digest,
        "priority": Priority.of_rank(row.priority),
        "model": Reference(name=row.model_name, digest=row.model_digest),
        "host": Reference(name=row.host_name, digest=row.host_digest),
        "cost_source": row.cost_source,
        "status": row.status,
        "gap": row.gap,
        "step_time_us": row.step_time_us,
        "throughput_samples_per_s": row.throughput_samples_per_s,
        "measured": None
        if run is None
        else Measured(
            run_id=run.id,
            verified=run.verified,
            step_time_us=run.step_time_us,
            throughput_samples_per_s=run.throughput_samples_per_s,
        ),
    }


def _job_fields(row: JobRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "state": State(row.state),
        "created_at": row.created_at,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "error": row.error,
    }


def _parsed(document: str | None) -> dict[str, Any] | None:
    if document is None:
        return None
    parsed: dict[str, Any] = json.loads(document)
    return parsed
