"""All runs of a host: how far measured steps were from predicted ones, as time went on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, Request, Response
from sqlalchemy import select
from sqlalchemy.orm import Session

from emplace.app.dashboard import tones
from emplace.app.dashboard.charts.points import ChartAxis, ChartPoint, Curve, PointsChart, axis
from emplace.app.dashboard.rendering import show
from emplace.app.database.states import State
from emplace.app.database.tables import PlanRow, RunRow
from emplace.app.web.dependencies import TheService

router = APIRouter()

_MOST = 500
_DAY_S = 86_400.0


@dataclass(frozen=True)
class DriftLine:
    run_id: str
    plan_id: str
    model: str
    measured_at: datetime
    costs: str
    predicted_us: float
    measured_us: float
    error: float
    tone: tones.Tone


@dataclass(frozen=True)
class DriftPage:
    fingerprint: str
    runs: list[DriftLine]
    over_time: PointsChart | None
    against: PointsChart | None


@router.get("/runs")
async def drift_page(request: Request, service: TheService, host: str) -> Response:
    """The runs on the machine with this fingerprint."""
    return show(request, "drift.html", await service.read(_page, host))


def _page(session: Session, fingerprint: str) -> DriftPage:
    query = select(RunRow, PlanRow).join(PlanRow, PlanRow.id == RunRow.plan_id)
    measured = query.where(RunRow.host_fingerprint == fingerprint, RunRow.state == State.DONE, RunRow.step_time_us.is_not(None))
    found = session.execute(measured.order_by(RunRow.id.desc()).limit(_MOST)).all()
    lines = [_line(run, plan) for run, plan in found if plan.step_time_us and run.step_time_us]
    if not lines:
        return DriftPage(fingerprint, [], None, None)
    return DriftPage(fingerprint, lines, _over_time(lines), _against(lines))


def _line(run: RunRow, plan: PlanRow) -> DriftLine:
    assert run.step_time_us is not None
    assert plan.step_time_us is not None
    error = plan.step_time_us / run.step_time_us - 1
    tone = tones.of_measured(run.verified, error)
    return DriftLine(run.id, plan.id, plan.model_name, run.created_at, plan.cost_source, plan.step_time_us, run.step_time_us, error, tone)


def _over_time(lines: list[DriftLine]) -> PointsChart:
    first = min(line.measured_at for line in lines)
    days = [(line.measured_at - first).total_seconds() / _DAY_S for line in lines]
    points = tuple(_point(line, day, 100 * line.error) for line, day in zip(lines, days, strict=True))
    x = ChartAxis(f"days since {first:%Y-%m-%d}", "number", 0.0, max(*days, 1.0) * 1.05)
    y = axis("prediction off, % of measured", "number", [0.0, *(point.y for point in points)], from_zero=False)
    level = Curve("as predicted", "equal", ((x.low, 0.0), (x.high, 0.0)))
    return PointsChart("How far predictions were off, over time", x, y, points, (level,))


def _against(lines: list[DriftLine]) -> PointsChart:
    values = [value for line in lines for value in (line.predicted_us, line.measured_us)]
    points = tuple(_point(line, line.predicted_us, line.measured_us) for line in lines)
    x, y = (axis(title, "time", values) for title in ("predicted step", "measured step"))
    return PointsChart("Measured against predicted steps", x, y, points, diagonal=True)


def _point(line: DriftLine, x: float, y: float) -> ChartPoint:
    return ChartPoint(
        x, y, f"{line.model}, {line.measured_at:%Y-%m-%d %H:%M}", line.tone.value, f"/plans/{line.plan_id}/runs/{line.run_id}"
    )
