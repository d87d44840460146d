"""The pages: the list of stored plans, and one plan."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.dashboard import charts, svg
from emplace.app.dashboard.comparison import compare_stages
from emplace.app.dashboard.rendering import render
from emplace.app.database import jobs, plans, runs
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, RunRow
from emplace.app.reports.figures import microseconds
from emplace.app.reports.options_text import set_options
from emplace.app.web.dependencies import Cursor, TheService
from emplace.app.web.problems import not_found
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan, PlanOptions, PlanStatus
from emplace.placement.reading import from_data, read_text
from emplace.placement.units import show_gib

router = APIRouter(include_in_schema=False)

_PAGE = 25
_SHOWN_TABLES = 200
_UNANSWERED = [state for state in State if state is not State.DONE]


@router.get("/", response_class=HTMLResponse)
async def plan_list(
    request: Request,
    service: TheService,
    model: Annotated[str, Query()] = "",
    host: Annotated[str, Query()] = "",
    status: Annotated[str, Query()] = "",
    cursor: Cursor = None,
) -> HTMLResponse:
    """Stored plans, newest first; an empty filter is none. `status` is an answer, or the state of a plan without one."""
    return await service.read(_plan_list, request, {"model": model, "host": host, "status": status}, cursor)


@router.get("/plans/{plan_id}", response_class=HTMLResponse)
async def plan_page(request: Request, plan_id: str, service: TheService) -> HTMLResponse:
    """One plan, and its newest run beside it."""
    return await service.read(_plan_page, request, plan_id)


@router.get("/docs", response_class=HTMLResponse)
async def docs(request: Request) -> HTMLResponse:
    """The API, to be read and tried."""
    return render(request, "docs.html")


def _plan_list(session: Session, request: Request, asked: dict[str, str], cursor: str | None) -> HTMLResponse:
    by_status = "state" if asked["status"] in _UNANSWERED else "status"
    filters = {"model_name": asked["model"] or None, "host_name": asked["host"] or None, by_status: asked["status"] or None}
    rows, following = plans.page(session, filters, cursor, _PAGE)
    chosen = {key: value for key, value in asked.items() if value}
    return render(
        request,
        "plans.html",
        rows=rows,
        measured=runs.latest_done(session, [row.id for row in rows]),
        newest=f"/?{urlencode(chosen)}" if cursor else None,
        older=f"/?{urlencode(chosen | {'cursor': following})}" if following else None,
        filters=[
            ("model", asked["model"], _distinct(session, PlanRow.model_name)),
            ("host", asked["host"], _distinct(session, PlanRow.host_name)),
            ("status", asked["status"], [*PlanStatus, *_UNANSWERED]),
        ],
        filtered=bool(chosen),
    )


def _plan_page(session: Session, request: Request, plan_id: str) -> HTMLResponse:
    row = plans.find(session, plan_id, with_document=True)
    if row is None:
        raise not_found("plan", plan_id)
    plan = read_text(row.document, Plan, source="plan", as_json=True) if row.document else None
    plan_runs, _ = runs.page(session, plan_id, None, _PAGE)
    return render(
        request,
        "plan.html",
        row=row,
        plan=plan,
        options=set_options(_options_of(row)),
        unfinished=not State(row.state).is_final,
        progress=_last_progress(session, plan_id),
        runs=plan_runs,
        active_run=next((run for run in plan_runs if not State(run.state).is_final), None),
        shown_tables=_SHOWN_TABLES,
        **(_charts(plan) if plan is not None and plan.has_placement else {"memory": [], "stages": None}),
        **_measured(plan, plan_runs),
    )


def _options_of(row: PlanRow) -> PlanOptions:
    return from_data(json.loads(row.question)["options"], PlanOptions, source=f"options of plan {row.id}")


def _charts(plan: Plan) -> dict[str, Any]:
    memory = charts.memory_charts(plan)
    stages = charts.stage_chart(plan)
    return {
        "memory": [(chart, svg.draw(chart, lambda value: show_gib(round(value)))) for chart in memory],
        "stages": (stages, svg.draw(stages, microseconds)),
    }


def _measured(plan: Plan | None, plan_runs: list[RunRow]) -> dict[str, Any]:
    """The newest run's measurement, and predicted beside measured by stage."""
    newest = next((run for run in plan_runs if run.document), None)
    if plan is None or newest is None or newest.document is None:
        return {"measurement": None, "run": None, "comparison": []}
    measurement = read_text(newest.document, Measurement, source=f"run {newest.id}", as_json=True)
    return {"measurement": measurement, "run": newest, "comparison": compare_stages(plan, measurement)}


def _last_progress(session: Session, plan_id: str) -> dict[str, Any] | None:
    events = jobs.events_after(session, plan_id, 0)
    progress: dict[str, Any] | None = json.loads(events[-1].data) if events else None
    return progress


def _distinct(session: Session, column: Any) -> list[str]:
    return list(session.scalars(select(column).distinct().order_by(column)))
