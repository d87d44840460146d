"""An overview of many jobs as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import bar, count
from emplace.app.reports.sweep_text import short
from emplace.app.reports.tables import plain_table, section
from emplace.studies.distribution import Distribution
from emplace.studies.overview import Overview
from emplace.studies.prediction_drift import Prediction

_HEADS = ("jobs", "min", "p10", "p25", "median", "p75", "p90", "max", "mean")


def overview_view(found: Overview) -> RenderableType:
    """Every distribution that there is; amounts and prediction errors with a bar for each bucket."""
    parts: list[RenderableType] = [Text(overview_headline(found), style="bold"), Text("")]
    if found.utilisation:
        parts.append(section("utilisation", _table(found.utilisation, "resource", _share, with_bar=True)))
    if found.servers:
        parts.append(section("servers", _table(found.servers, "kind", short)))
    for title, each in amounts_of(found):
        parts.append(section(title, Group(_table({"": each}, "", short), Text(""), _buckets(each, short))))
    if found.prediction is not None:
        parts.append(section("predicted over measured step", _prediction(found.prediction)))
    return Group(*parts)


def overview_headline(found: Overview) -> str:
    measured = 0 if found.prediction is None else found.prediction.ratio.jobs
    return f"{count(found.jobs, 'job')}, {count(measured, 'measurement')}"


def amounts_of(found: Overview) -> list[tuple[str, Distribution]]:
    """What is known of tables, with titles."""
    named = (
        ("hash size of a table", found.hash_sizes),
        ("embedding dim of a table", found.embedding_dims),
        ("mean length of a feature", found.feature_lengths),
    )
    return [(title, each) for title, each in named if each is not None]


def trend_line(prediction: Prediction) -> str:
    """What is known of how predictions drift."""
    trend = prediction.trend
    if trend is None:
        return "trend: not known: fewer than three dated measurements, or all within a day"
    low, high = trend.range_per_30_days
    said = f"predicted over measured step {_change(trend.per_30_days)} in 30 days ({_change(low)} to {_change(high)})"
    return f"trend: {said}" if trend.is_clear else f"trend: none that is clear: {said}"


def _change(share: float) -> str:
    return f"{share:+.1%}" if abs(share) < 10 else f"x{share + 1:.3g}"


def _share(share: float) -> str:
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3g}"


def _table(found: Mapping[str, Distribution], head: str, shown: Callable[[float], str], *, with_bar: bool = False) -> RenderableType:
    table = plain_table(head, *(["median"] if with_bar else []), *_HEADS, left=2 if with_bar else 1)
    for name, each in found.items():
        figures = (each.min, each.p10, each.p25, each.median, each.p75, each.p90, each.max, each.mean)
        table.add_row(name.replace("_", " "), *([bar(each.median, 12)] if with_bar else []), str(each.jobs), *map(shown, figures))
    return table


def _buckets(each: Distribution, shown: Callable[[float], str]) -> RenderableType:
    table = plain_table("from", "to", "jobs", "", left=0)
    for bucket in each.buckets:
        table.add_row(shown(bucket.low), shown(bucket.high), _share(bucket.share), bar(bucket.share, 30))
    return table


def _prediction(prediction: Prediction) -> RenderableType:
    parts = [_table({"": prediction.ratio}, "", _ratio), Text(""), _buckets(prediction.ratio, _ratio)]
    if prediction.periods:
        table = plain_table(f"{prediction.period} from", "measurements", "p25", "median", "p75")
        for each in prediction.periods:
            table.add_row(str(each.starts), str(each.jobs), *map(_ratio, (each.p25, each.median, each.p75)))
        parts += [Text(""), table]
    return Group(*parts, Text(""), Text(trend_line(prediction)))
