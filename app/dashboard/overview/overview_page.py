"""Many jobs at a glance: how stored plans and runs are distributed."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from emplace.app.dashboard.charts.points import ChartAxis, ChartPoint, Curve, PointsChart, axis
from emplace.app.dashboard.charts.spread import HistogramChart, SpreadChart, histogram_chart, spread_chart, title_of
from emplace.app.dashboard.rendering import show
from emplace.app.database.plan_facts import overview_of_store
from emplace.app.reports.overview_text import amounts_of, overview_headline, trend_line
from emplace.app.web.dependencies import TheService
from emplace.placement.document import Document
from emplace.studies.distribution import Distribution
from emplace.studies.overview import Overview
from emplace.studies.prediction_drift import Prediction

router = APIRouter()


@dataclass(frozen=True)
class Line:
    """A row of the table that has every figure."""

    title: str
    scale: str
    found: Distribution


@dataclass(frozen=True)
class OverviewPage:
    headline: str
    overview: Document
    utilisation: SpreadChart | None
    servers: SpreadChart | None
    tables: list[HistogramChart]
    ratio: HistogramChart | None
    over_time: PointsChart | None
    trend: str | None
    lines: list[Line]


@router.get("/overview")
async def overview_page(request: Request, service: TheService) -> Response:
    """All stored plans with a placement, and all runs that measured one."""
    return show(request, "overview.html", page_of(await service.read_together(overview_of_store)))


def page_of(found: Overview) -> OverviewPage:
    prediction = found.prediction
    return OverviewPage(
        headline=overview_headline(found),
        overview=found,
        utilisation=spread_chart("Utilisation of each resource, over jobs", found.utilisation),
        servers=spread_chart("Servers of a job, by kind", found.servers),
        tables=[histogram_chart(title[0].upper() + title[1:], each) for title, each in amounts_of(found)],
        ratio=None if prediction is None else histogram_chart("Predicted over measured step", prediction.ratio),
        over_time=None if prediction is None or not prediction.periods else _over_time(prediction),
        trend=None if prediction is None else trend_line(prediction),
        lines=_lines(found),
    )


def _lines(found: Overview) -> list[Line]:
    named = [(f"utilisation: {title_of(name)}", each) for name, each in found.utilisation.items()]
    named += [(f"servers: {title_of(kind)}", each) for kind, each in found.servers.items()]
    named += amounts_of(found)
    if found.prediction is not None:
        named.append(("predicted over measured step", found.prediction.ratio))
    return [Line(title, each.scale, each) for title, each in named]


def _over_time(prediction: Prediction) -> PointsChart:
    """The median of each period, with the quartiles to either side."""
    first = prediction.periods[0].starts
    days = [float((each.starts - first).days) for each in prediction.periods]
    medians = [
        ChartPoint(day, each.median, f"{prediction.period} from {each.starts}, {each.jobs} measured", "point")
        for day, each in zip(days, prediction.periods, strict=True)
    ]
    quartiles = [value for each in prediction.periods for value in (each.p25, each.p75)]
    x = ChartAxis(f"days since {first}", "number", 0.0, max(*days, 1.0) * 1.05)
    y = axis("predicted / measured", "number", [1.0, *quartiles], from_zero=False)
    level = Curve("as predicted", "equal", ((x.low, 1.0), (x.high, 1.0)))
    spread = tuple(
        Curve(f"half of the jobs, {each.starts}", "best", ((day, each.p25), (day, each.p75)))
        for day, each in zip(days, prediction.periods, strict=True)
    )
    return PointsChart(f"Predicted over measured step, by {prediction.period}", x, y, tuple(medians), (level, *spread))
