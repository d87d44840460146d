"""POST /v1/pipelines: profile, plan, run and verify in one request, and one resource that shows how far it is."""

from __future__ import annotations

import json
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends, Response
from sqlalchemy.orm import Session

from emplace.app.api import examples
from emplace.app.api.body import Body
from emplace.app.api.hosts_at_work import host_for, hosts_at_work
from emplace.app.api.idempotency import IdempotencyKey, once
from emplace.app.api.pipelines import PipelineResource, pipeline_resource
from emplace.app.api.questions import read_question
from emplace.app.api.queueing import put_new
from emplace.app.api.requests import PipelineRequest, ProfileStage, RunStage, body_of
from emplace.app.api.routes import jobs as job_routes
from emplace.app.database import pipelines
from emplace.app.database.keys import AccessScope
from emplace.app.database.states import State
from emplace.app.database.tables import PipelineRow
from emplace.app.jobs.pipelines import go_on
from emplace.app.web.access import needs
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import Refused, found
from emplace.app.web.service import Service
from emplace.placement.document import Document
from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import Question
from emplace.placement.reading import from_data

router = APIRouter(prefix="/v1/pipelines", tags=["pipelines"])

_STAGES: dict[str, type[Document]] = {"profile": ProfileStage, "run": RunStage}


@router.post(
    "",
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=body_of(PipelineRequest, examples.pipelines()),
    dependencies=[Depends(needs(AccessScope.RUN))],
)
async def create_pipeline(body: Body, service: TheService, response: Response, idempotency_key: IdempotencyKey = None) -> PipelineResource:
    """Plan, after a profile of the machine where `options.profile` asks for one and none is fresh, and run the plan where
    `options.run` says so. Refused (409) when no worker runs on the host; an emulated run takes any."""
    wanted = _wanted(body)
    options = body.get("options")
    if isinstance(options, dict):
        options = {key: value for key, value in options.items() if key not in _STAGES}
    question = await service.read(read_question, service, body | {"options": options})
    resource = await service.write(_create, service, question, wanted, body, idempotency_key)
    response.headers["Location"] = f"/v1/pipelines/{resource.id}"
    return resource


@router.get("/{pipeline_id}")
async def get_pipeline(pipeline_id: str, service: TheService) -> PipelineResource:
    """Each stage with its job and its state: that of the job, `waiting` before its turn, `skipped` where there is nothing to run."""
    return await service.read(_resource, pipeline_id)


@router.post("/{pipeline_id}/cancel", dependencies=[Depends(needs(AccessScope.RUN))])
async def cancel_pipeline(pipeline_id: str, service: TheService) -> PipelineResource:
    """Cancel the job of the stage that it is in; those after it never begin."""
    return await service.write(_cancel, pipeline_id)


def _wanted(body: dict[str, Any]) -> dict[str, Document]:
    """The stages beside the plan. Raises InvalidDocument."""
    options = body.get("options")
    given = {key: options.get(key) for key in _STAGES} if isinstance(options, dict) else {}
    found = {}
    for key, value in given.items():
        if value is not None and value is not False:
            found[key] = from_data({} if value is True else value, _STAGES[key], source="body", pointer=f"/options/{key}")
    priced = next((key for key in ("cost_model", "stack") if body.get(key) is not None), None)
    if "profile" in found and priced is not None:
        raise InvalidDocument("body", [BrokenRule("/options/profile", "", f"goes without a {priced}: the profile prices the plan")])
    return found


def _create(
    session: Session, service: Service, question: Question, wanted: dict[str, Document], body: dict[str, Any], idempotency_key: str | None
) -> PipelineResource:
    def make() -> str:
        row = PipelineRow(question=question.canonical_json(), host_fingerprint=_machine(session, service, question, wanted))
        if isinstance(profile := wanted.get("profile"), ProfileStage):
            ranks = profile.ranks or question.options.ranks or question.host.num_devices
            row.profile = json.dumps(profile.to_data() | {"ranks": ranks})
        if isinstance(run := wanted.get("run"), RunStage):
            row.run = json.dumps({"steps": run.steps, "seed": run.seed, "emulate": run.emulate})
        session.add(row)
        session.flush()
        go_on(session, partial(put_new, service, session), row)
        return row.id

    return _resource(session, once(session, idempotency_key, "pipelines", body, make))


def _machine(session: Session, service: Service, question: Question, wanted: dict[str, Document]) -> str | None:
    """The fingerprint of the machine that measures. Raises Refused where no worker runs there."""
    host, run = question.host, wanted.get("run")
    if "profile" in wanted and host.fingerprint not in hosts_at_work(service, session):
        raise Refused(HTTPStatus.CONFLICT, f"{host.name} can't be measured: no worker runs on that machine")
    if run is None:
        return host.fingerprint
    return host_for(service, session, host, question.options.nodes, emulate=isinstance(run, RunStage) and run.emulate)


def _cancel(session: Session, pipeline_id: str) -> PipelineResource:
    stages = pipelines.stages(session, _find(session, pipeline_id))
    for stage in stages:
        if stage.row is not None and not State(stage.state).is_final:
            job_routes.cancel(session, type(stage.row), stage.row.id)
            return _resource(session, pipeline_id)
    resource = _resource(session, pipeline_id)
    if resource.state is not State.CANCELLED:
        raise Refused(HTTPStatus.CONFLICT, f"the pipeline is {resource.state}: there is nothing to cancel")
    return resource


def _resource(session: Session, pipeline_id: str) -> PipelineResource:
    row = _find(session, pipeline_id)
    return pipeline_resource(row, pipelines.stages(session, row))


def _find(session: Session, pipeline_id: str) -> PipelineRow:
    return found(session.get(PipelineRow, pipeline_id), "pipeline", pipeline_id)
