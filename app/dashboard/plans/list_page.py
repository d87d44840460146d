"""The list of stored plans: searched, sorted by any column, ticked to compare, cancel, retry or delete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.dashboard import tones
from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.runs.lines import MeasuredStep, measured_step
from emplace.app.dashboard.sorting import Column, Pager, sortable
from emplace.app.database import runs
from emplace.app.database.plan_list import PlanColumn, WantedPlans, find_plans
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, RunRow
from emplace.app.web.dependencies import TheService
from emplace.placement.plan import PlanStatus

router = APIRouter()

UNANSWERED = [state for state in State if state is not State.DONE]

_COLUMNS = (
    Column(PlanColumn.MODEL, "Model", is_number=False),
    Column(PlanColumn.HOST, "Host", is_number=False),
    Column(PlanColumn.STATUS, "Status", is_number=False),
    Column(PlanColumn.GAP, "Gap", "%", hint="how much shorter the step of the best plan may be"),
    Column(PlanColumn.STEP, "Predicted step", "ms"),
    Column(PlanColumn.MEASURED, "Measured", "ms", hint="and how far it is from the predicted step"),
    Column(PlanColumn.THROUGHPUT, "Predicted throughput", "k/s", hint="thousand examples a second"),
    Column(PlanColumn.MEMORY, "Fullest memory", "GiB", hint="what the fullest memory holds, and its share of what there is room for"),
    Column(PlanColumn.IMBALANCE, "Imbalance", hint="the slowest rank's own work / the mean"),
    Column(PlanColumn.COSTS, "Costs", is_number=False),
    Column(PlanColumn.ASKED, "Asked", "UTC"),
)


@dataclass(frozen=True)
class PlanLine:
    """A row of the list."""

    id: str
    model: str
    host: str
    options: str
    state: str
    status: str | None
    word: str
    tone: tones.Tone
    gap: float | None
    gap_tone: tones.Tone | None
    step_time_us: float | None
    measured: MeasuredStep | None
    throughput_samples_per_s: float | None
    memory_bytes: int | None
    memory_share: float | None
    imbalance: float | None
    costs: str
    asked_at: datetime
    is_final: bool


@dataclass(frozen=True)
class PlanList:
    """`filters` are (name, chosen, values)."""

    wanted: WantedPlans
    columns: list[Column]
    plans: list[PlanLine]
    pager: Pager
    filters: list[tuple[str, str, list[str]]]
    filtered: bool
    unfinished: bool
    """Whether a row will change by itself."""


@router.get("/")
async def plan_list(
    request: Request,
    service: TheService,
    q: Annotated[str, Query(max_length=200)] = "",
    model: str = "",
    host: str = "",
    status: str = "",
    sort: PlanColumn = PlanColumn.ASKED,
    order: Literal["asc", "desc"] = "desc",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
) -> Response:
    """Stored plans, newest first; an empty filter is none. `status` is an answer, or the state of a plan without one."""
    wanted = WantedPlans(q.strip(), model, host, status, sort, order == "desc", page)
    found = await service.read_together(_find, wanted)
    view = PlanList(
        wanted=wanted,
        columns=sortable(request, _COLUMNS, wanted.sort, descending=wanted.descending),
        plans=found.plans,
        pager=Pager.of(request, wanted.page, wanted.rows, found.total),
        filters=[("model", model, found.models), ("host", host, found.hosts), ("status", status, [*PlanStatus, *UNANSWERED])],
        filtered=bool(wanted.search or wanted.model or wanted.host or wanted.status),
        unfinished=not all(line.is_final for line in found.plans),
    )
    return show(request, "plans.html", view)


@dataclass(frozen=True)
class _Found:
    """A page of plans, how many there are on all pages, and the models and hosts of all plans."""

    plans: list[PlanLine]
    total: int
    models: list[str]
    hosts: list[str]


def _find(session: Session, wanted: WantedPlans) -> _Found:
    found = find_plans(session, wanted)
    measured = runs.latest_done(session, [row.id for row in found.plans])
    lines = [plan_line(row, measured.get(row.id)) for row in found.plans]
    return _Found(lines, found.total, _distinct(session, PlanRow.model_name), _distinct(session, PlanRow.host_name))


def plan_line(row: PlanRow, run: RunRow | None) -> PlanLine:
    has_gap = row.gap is not None and row.status is not None
    return PlanLine(
        id=row.id,
        model=row.model_name,
        host=row.host_name,
        options=row.options,
        state=row.state,
        status=row.status,
        word=word_of(row),
        tone=tones.of_plan(row.state, row.status, row.gap),
        gap=row.gap,
        gap_tone=tones.of_gap(row.status or "", row.gap) if has_gap else None,
        step_time_us=row.step_time_us,
        measured=None if run is None else measured_step(row, run),
        throughput_samples_per_s=row.throughput_samples_per_s,
        memory_bytes=row.memory_bytes,
        memory_share=row.memory_share,
        imbalance=row.imbalance,
        costs=row.cost_source,
        asked_at=row.created_at,
        is_final=State(row.state).is_final,
    )


def word_of(row: PlanRow) -> str:
    """The answer of a plan that has one, else where the job is."""
    return row.status if row.state == State.DONE and row.status else row.state


def _distinct(session: Session, column: Any) -> list[str]:
    return list(session.scalars(select(column).distinct().order_by(column)))
