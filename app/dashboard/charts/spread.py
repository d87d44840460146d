"""How figures are spread over jobs: their quantiles, a row each, or the share of jobs in each bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emplace.app.dashboard.charts.points import ChartAxis
from emplace.app.dashboard.charts.stage_titles import STAGE_TITLES
from emplace.app.reports.sweep_text import short
from emplace.studies.distribution import BucketScale, Distribution

_TITLES = {stage.value: title for stage, title in STAGE_TITLES.items()}


@dataclass(frozen=True)
class SpreadRow:
    """Half of all jobs are from `p25` to `p75`, and four in five from `p10` to `p90`."""

    label: str
    jobs: int
    p10: float
    p25: float
    median: float
    p75: float
    p90: float


@dataclass(frozen=True)
class SpreadChart:
    title: str
    axis: ChartAxis
    rows: tuple[SpreadRow, ...]


@dataclass(frozen=True)
class Bar:
    """`low` is where its bucket begins, `tip` all of it in words."""

    low: float
    share: float
    tip: str


@dataclass(frozen=True)
class HistogramChart:
    """Bars in the order of their buckets; `note` is what is said beside the title."""

    title: str
    note: str
    bars: tuple[Bar, ...]


def spread_chart(title: str, found: Mapping[str, Distribution]) -> SpreadChart | None:
    """A row for each distribution, all on one scale; None without any."""
    if not found:
        return None
    is_share = all(each.scale is BucketScale.SHARE for each in found.values())
    most = 1.0 if is_share else max(*(each.p90 for each in found.values()), 1.0) * 1.05
    rows = tuple(SpreadRow(title_of(name), each.jobs, each.p10, each.p25, each.median, each.p75, each.p90) for name, each in found.items())
    return SpreadChart(title, ChartAxis("", "share" if is_share else "count", 0.0, most), rows)


def histogram_chart(title: str, each: Distribution) -> HistogramChart:
    """A bar for each bucket of a distribution of amounts or ratios."""
    bars = tuple(
        Bar(bucket.low, bucket.share, f"from {short(bucket.low)} up to {short(bucket.high)}: {bucket.share:.1%} of jobs")
        for bucket in each.buckets
    )
    note = f"median {short(each.median)}, mean {short(each.mean)}, {short(each.min)} to {short(each.max)}"
    return HistogramChart(title, note, bars)


def title_of(name: str) -> str:
    """A resource, or a kind of server, as people call it."""
    return _TITLES.get(name, name.replace("_", " "))
