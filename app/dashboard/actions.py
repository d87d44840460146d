"""What buttons do. Each is a form that posts, and answers with the page to go on with."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.api.hosts_at_work import host_for
from emplace.app.api.new_plans import asked_plan, find_or_store_one
from emplace.app.api.queueing import put_new
from emplace.app.api.routes.plans import finished_plan
from emplace.app.api.routes.runs import plan_to_run
from emplace.app.dashboard.deletion import of_plans
from emplace.app.dashboard.forms import TheForm
from emplace.app.dashboard.loaded import find_row
from emplace.app.dashboard.plans.list_page import PlanLine, plan_line
from emplace.app.dashboard.rendering import show
from emplace.app.database import jobs, plans, runs
from emplace.app.database.jobs import Ticket
from emplace.app.database.keys import AccessScope
from emplace.app.database.priorities import Priority
from emplace.app.database.states import State
from emplace.app.database.stored import read_stored
from emplace.app.database.tables import PlanRow, RunRow
from emplace.app.web.access import needs
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import Refused, not_found
from emplace.app.web.service import Service
from emplace.placement.plan import Question
from emplace.solver.infeasibility.merge_patch import patched

router = APIRouter()

Ticked = Annotated[list[str], Query(max_length=200)]


def go_to(address: str) -> RedirectResponse:
    """The page that a browser shows after it has posted a form."""
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


@router.post("/plans/cancel")
async def cancel_plans(form: TheForm, service: TheService) -> Response:
    """End the search for each ticked plan that is not there yet."""
    return go_to(await service.write(_cancel, form.every("plan")))


@router.post("/plans/retry")
async def retry_plans(form: TheForm, service: TheService) -> Response:
    """Ask the question of each ticked plan anew whose job failed or was cancelled."""
    return go_to(await service.write(_retry, service, form.every("plan")))


@router.get("/plans/delete")
async def confirm_deletion(request: Request, service: TheService, plan: Ticked = []) -> Response:  # noqa: B006
    """What would be deleted."""
    return show(request, "delete.html", of_plans(await service.read(_lines, plan)))


@router.post("/plans/delete", dependencies=[Depends(needs(AccessScope.ADMIN))])
async def delete_plans(form: TheForm, service: TheService) -> Response:
    """Remove plans with their runs."""
    await service.delete(_delete, form.every("plan"))
    return go_to("/")


@router.post("/plans/{plan_id}/fixes/{number}")
async def apply_fix(plan_id: str, number: int, service: TheService) -> Response:
    """Plan with a fix: its patch is the question's."""
    return go_to(await service.write(_apply_fix, service, plan_id, number))


@router.post("/plans/{plan_id}/runs/{run_id}/cancel", dependencies=[Depends(needs(AccessScope.RUN))])
async def cancel_run(plan_id: str, run_id: str, service: TheService) -> Response:
    """End a run that is not done; one that ended before stays as it is."""
    await service.write(_cancel_run, plan_id, run_id)
    return go_to(f"/plans/{plan_id}/runs/{run_id}")


@router.post("/plans/{plan_id}/runs", dependencies=[Depends(needs(AccessScope.RUN))])
async def run_plan(plan_id: str, form: TheForm, service: TheService) -> Response:
    """Train under the plan, or emulate it, on a worker."""
    await service.write(_run, service, plan_id, emulate=form.text("emulate") == "yes")
    return go_to(f"/plans/{plan_id}")


def ask_for(session: Session, service: Service, question: Question) -> str:
    """The address of the plan of a question: the one that is there, else a new one that waits for a worker."""
    return f"/plans/{find_or_store_one(session, service, asked_plan(question, Priority.NORMAL)).row.id}"


def question_of(row: PlanRow) -> Question:
    return read_stored(row.question, Question, f"the question of plan {row.id}")


def _lines(session: Session, plan_ids: list[str]) -> list[PlanLine]:
    return [plan_line(row, None) for row in session.scalars(select(PlanRow).where(PlanRow.id.in_(plan_ids)).order_by(PlanRow.id.desc()))]


def _cancel(session: Session, plan_ids: list[str]) -> str:
    """Cancel the plans. Some of several that were ticked may be gone since; one by itself must be there."""
    there = [plan_id for plan_id in plan_ids if jobs.cancel(session, PlanRow, plan_id) is not None]
    if plan_ids and not there:
        raise not_found("plan", plan_ids[0])
    return _back(plan_ids)


def _retry(session: Session, service: Service, plan_ids: list[str]) -> str:
    """As `_cancel`, of those that are gone."""
    rows = [row for plan_id in plan_ids if (row := plans.find(session, plan_id)) is not None]
    if plan_ids and not rows:
        raise not_found("plan", plan_ids[0])
    asked = [ask_for(session, service, question_of(row)) for row in rows if row.state in (State.FAILED, State.CANCELLED)]
    return asked[0] if len(asked) == 1 else "/"


def _delete(session: Session, plan_ids: list[str]) -> list[Ticket]:
    return [ticket for plan_id in plan_ids for ticket in plans.remove(session, plan_id)]


def _back(plan_ids: Sequence[str]) -> str:
    return f"/plans/{plan_ids[0]}" if len(plan_ids) == 1 else "/"


def _apply_fix(session: Session, service: Service, plan_id: str, number: int) -> str:
    plan = finished_plan(find_row(session, plan_id))
    fixes = plan.explanation.fixes if plan.explanation is not None else ()
    if not 0 <= number < len(fixes) or not fixes[number].patch:
        raise Refused(HTTPStatus.NOT_FOUND, f"the plan has {len(fixes)} fixes; number {number} is none that can be applied")
    return ask_for(session, service, patched(plan.question, fixes[number].patch))


def _cancel_run(session: Session, plan_id: str, run_id: str) -> None:
    run = runs.find(session, run_id)
    if run is None or run.plan_id != plan_id:
        raise not_found("run", run_id)
    jobs.cancel(session, RunRow, run_id)


def _run(session: Session, service: Service, plan_id: str, *, emulate: bool) -> None:
    plan = plan_to_run(session, plan_id)
    fingerprint = host_for(service, session, plan.question.host, plan.sized_question.options.nodes, emulate=emulate)
    put_new(service, session, RunRow(plan_id=plan_id, host_fingerprint=fingerprint, seed=0, emulate=emulate))
