"""One run: predicted against measured, by stage and by rank, and what was verified."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from sqlalchemy.orm import Session

from emplace.app.dashboard import tones
from emplace.app.dashboard.charts.points import ChartPoint, PointsChart, axis
from emplace.app.dashboard.charts.stage_titles import OVERHEAD, STAGE_TITLES
from emplace.app.dashboard.loaded import find_row, loaded
from emplace.app.dashboard.plans.list_page import PlanLine, plan_line
from emplace.app.dashboard.rendering import show
from emplace.app.dashboard.run_lines import RunLine, measurement_of, prediction_error, run_line
from emplace.app.dashboard.stage_lengths import stage_lengths
from emplace.app.database import runs
from emplace.app.web.dependencies import TheService
from emplace.app.web.problems import not_found
from emplace.placement.beside_stages import beside_stages_us
from emplace.placement.measurement import Measurement
from emplace.placement.plan import Plan

router = APIRouter()


@dataclass(frozen=True)
class StageComparison:
    """Microseconds that a stage lasts: as predicted, and as long as on the rank that measured it longest."""

    key: str
    title: str
    predicted_us: float
    measured_us: float | None
    error: float | None
    """That of `prediction_error`."""


@dataclass(frozen=True)
class RankComparison:
    """Peak bytes and the median step of a rank."""

    rank: int
    step_time_us: float
    peak_bytes: int
    predicted_bytes: int


@dataclass(frozen=True)
class VerdictLine:
    name: str
    word: str
    tone: tones.Tone
    detail: str


@dataclass(frozen=True)
class RunView:
    """Without a measurement yet, `measurement` is None. An emulated one has verdicts and no times."""

    plan: PlanLine
    line: RunLine
    error_text: str | None
    host_fingerprint: str
    measurement: Measurement | None
    verdicts: list[VerdictLine]
    stages: list[StageComparison]
    ranks: list[RankComparison]
    chart: PointsChart | None


@router.get("/plans/{plan_id}/runs/{run_id}")
async def run_page(request: Request, plan_id: str, run_id: str, service: TheService) -> Response:
    """Predicted against measured."""
    return show(request, "run.html", await service.read(_page, plan_id, run_id))


def compare_stages(plan: Plan, measurement: Measurement) -> list[StageComparison]:
    """The stages in the order of a step, then its overhead, which no run measures: predictions add up to the step.

    Stages that neither knows are left out.
    """
    rows = []
    for stage, predicted in stage_lengths(plan).items():
        measured = max((rank.stages_us[stage] for rank in measurement.ranks if stage in rank.stages_us), default=None)
        if predicted or measured:
            rows.append(StageComparison(stage.value, STAGE_TITLES[stage], predicted, measured, prediction_error(predicted, measured)))
    return [*rows, StageComparison(OVERHEAD, OVERHEAD, beside_stages_us(plan), None, None)]


def stages_chart(plan: Plan, measurement: Measurement) -> PointsChart | None:
    """Each stage of each rank; the line is where what was predicted was measured."""
    measured = {rank.rank: rank.stages_us for rank in measurement.ranks}
    points = tuple(
        ChartPoint(rank.stages_us[stage], measured[rank.rank][stage], f"rank {rank.rank}, {STAGE_TITLES[stage]}", stage.value)
        for rank in plan.ranks
        if rank.rank in measured
        for stage in rank.stages_us
        if stage in measured[rank.rank] and rank.stages_us[stage]
    )
    if not points:
        return None
    values = [value for point in points for value in (point.x, point.y)]
    titles = ("predicted", "measured")
    x, y = (axis(title, "time", values, is_log=True) for title in titles)
    return PointsChart("Own work of each rank in each stage, measured against predicted", x, y, points, diagonal=True)


def _page(session: Session, plan_id: str, run_id: str) -> RunView:
    row, run = find_row(session, plan_id), runs.find(session, run_id)
    if run is None or run.plan_id != plan_id:
        raise not_found("run", run_id)
    found, measurement = loaded(row), measurement_of(run)
    has_times = found is not None and measurement is not None and not measurement.emulated
    return RunView(
        plan=plan_line(row, None),
        line=run_line(row, run, measurement),
        error_text=run.error,
        host_fingerprint=run.host_fingerprint,
        measurement=measurement if measurement is None else measurement.model_copy(update={"ranks": ()}),
        verdicts=[] if measurement is None else [_verdict(each.name, each.passed, each.detail) for each in measurement.verdicts],
        stages=compare_stages(found.plan, measurement) if has_times and found and measurement else [],
        ranks=_ranks(measurement) if measurement is not None else [],
        chart=stages_chart(found.plan, measurement) if has_times and found and measurement else None,
    )


def _verdict(name: str, passed: bool | None, detail: str) -> VerdictLine:
    word = "unknown" if passed is None else ("passed" if passed else "failed")
    return VerdictLine(name, word, tones.of_verdict(passed), detail)


def _ranks(measurement: Measurement) -> list[RankComparison]:
    return [RankComparison(rank.rank, rank.median_step_time_us, rank.peak_bytes, rank.predicted_bytes) for rank in measurement.ranks]
