"""What if: the plan's placement under a change, audited at once; the changed question as a job; and the frontier of all plans of its model."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.dashboard import tones
from emplace.app.dashboard.actions import ask_for, go_to
from emplace.app.dashboard.ask.fields import errors_by_field
from emplace.app.dashboard.charts.points import ChartPoint, Curve, PointsChart, axis
from emplace.app.dashboard.forms import TheForm
from emplace.app.dashboard.loaded import find_row
from emplace.app.dashboard.plan.tables_page import placed_plan
from emplace.app.dashboard.plans.list_page import PlanLine, plan_line
from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.what_if.change import WhatIfOutcome, Wish, outcome, wished
from emplace.app.database.tables import PlanRow
from emplace.app.web.dependencies import TheService
from emplace.app.web.service import Service
from emplace.placement.errors import InvalidDocument
from emplace.placement.model import DataType
from emplace.placement.units import format_size

router = APIRouter()

_MOST = 200
_FIELDS = ("hbm", "nodes", "batch", "data_type")


@dataclass(frozen=True)
class WhatIfPage:
    """`now` holds what the plan's question has for each field."""

    plan: PlanLine
    wish: Wish
    now: Wish
    data_types: list[str]
    outcome: WhatIfOutcome | None
    errors: dict[str, list[str]]
    frontier: PointsChart | None
    frontier_plans: list[PlanLine]


@router.get("/plans/{plan_id}/what-if")
async def what_if_page(
    request: Request, plan_id: str, service: TheService, hbm: str = "", nodes: str = "", batch: str = "", data_type: str = ""
) -> Response:
    """A plan's placement under a change."""
    return _show(request, await service.read(_page, plan_id, Wish(hbm.strip(), nodes.strip(), batch.strip(), data_type)))


@router.post("/plans/{plan_id}/what-if")
async def plan_what_if(request: Request, plan_id: str, form: TheForm, service: TheService) -> Response:
    """Plan the changed question, or say what is wrong with the change."""
    wish = Wish(form.text("hbm"), form.text("nodes"), form.text("batch"), form.text("data_type"))
    try:
        return go_to(await service.write(_ask, service, plan_id, wish))
    except InvalidDocument:
        view = await service.read(_page, plan_id, wish)
        if not view.errors:  # it is not the change that is wrong
            raise
        return _show(request, view)


def _show(request: Request, view: WhatIfPage) -> Response:
    return show(request, "what_if.html", view, status=HTTPStatus.UNPROCESSABLE_ENTITY if view.errors else HTTPStatus.OK)


def _ask(session: Session, service: Service, plan_id: str, wish: Wish) -> str:
    """The question as it was asked, changed: where it was for the fewest devices, another size may be the answer now."""
    _, found = placed_plan(session, plan_id)
    return ask_for(session, service, wished(found.plan.question, wish))


def _page(session: Session, plan_id: str, wish: Wish) -> WhatIfPage:
    line, found = placed_plan(session, plan_id)
    question = found.plan.sized_question
    errors: dict[str, list[str]] = {}
    result = None
    try:
        wished(found.plan.question, wish)
        result = outcome(found.plan, wished(question, wish)) if wish != Wish() else None
    except InvalidDocument as error:
        errors = errors_by_field(error, _FIELDS)
    chart, plans = _frontier(session, line)
    hbm = next((device.hbm_capacity for device in question.host.node.devices if device.hbm_capacity is not None), None)
    types = {table.data_type.value for table in question.model.tables}
    now = Wish(
        hbm="none" if hbm is None else format_size(hbm),
        nodes=str(question.options.nodes or question.host.nodes),
        batch=str(question.model.local_batch_size),
        data_type=", ".join(sorted(types)),
    )
    return WhatIfPage(line, wish, now, [*DataType], result, errors, chart, plans)


def _frontier(session: Session, line: PlanLine) -> tuple[PointsChart | None, list[PlanLine]]:
    """This plan and the newest others of its model: more ranks against more throughput. The line joins those that no other beats in both."""
    here = find_row(session, line.id)
    query = select(PlanRow).where(
        PlanRow.model_digest == here.model_digest, PlanRow.throughput_samples_per_s.is_not(None), PlanRow.trainers.is_not(None)
    )
    rows = list(session.scalars(query.order_by((PlanRow.id == here.id).desc(), PlanRow.id.desc()).limit(_MOST)))
    if len(rows) < 2:
        return None, []
    points = [(row.trainers or 0, row.throughput_samples_per_s or 0.0, row) for row in rows]
    best = [each for each in points if not any(_beats(other, each) for other in points)]
    best.sort(key=lambda each: each[:2])
    chart = PointsChart(
        title=f"Plans of {line.model}: throughput against ranks",
        x=axis("ranks", "count", [each[0] for each in points]),
        y=axis("predicted examples a second", "count", [each[1] for each in points]),
        points=tuple(_point(ranks, rate, row, line) for ranks, rate, row in points),
        curves=(Curve("no plan here has fewer ranks and more throughput", "best", tuple((float(x), y) for x, y, _ in best)),),
    )
    return chart, [plan_line(row, None) for _, _, row in best]


def _beats(one: tuple[int, float, PlanRow], other: tuple[int, float, PlanRow]) -> bool:
    return one[0] <= other[0] and one[1] >= other[1] and one[:2] != other[:2]


def _point(ranks: int, rate: float, row: PlanRow, line: PlanLine) -> ChartPoint:
    key = "here" if row.id == line.id else tones.of_plan(row.state, row.status, row.gap).value
    label = f"{row.host_name}{f', {row.options}' if row.options else ''}"
    return ChartPoint(float(ranks), rate, label, key, f"/plans/{row.id}")
