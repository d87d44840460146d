"""Hosts and placements, ranked, as text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import percent
from emplace.app.reports.sweep_text import short
from emplace.app.reports.tables import plain_table, section
from emplace.studies.recommend import HostComparison, RankedHost, RankingObjective, Recommendation

UNITS = {
    RankingObjective.THROUGHPUT: "examples/s",
    RankingObjective.THROUGHPUT_PER_WATT: "examples/J",
    RankingObjective.COST: "a million examples",
}
"""What a figure of each objective is of."""

_MOST_MEASURED = 4


def recommend_view(found: Recommendation) -> RenderableType:
    """The order of hosts and how sure it is, then every placement."""
    parts: list[RenderableType] = [Text(recommend_headline(found), style="bold"), Text("")]
    if found.comparisons:
        parts.append(section("the order of hosts", Text("\n".join(map(comparison_line, found.comparisons)))))
        if measure := to_measure(found):
            parts.append(section("what would decide what is too close to call", Text("\n".join(measure))))
    parts.append(_ranking(found))
    parts += [Text(note) for note in found.notes]
    return Group(*parts)


def recommend_headline(found: Recommendation) -> str:
    best = found.best
    if best is None:
        return f"{found.model}: no host has a placement for it"
    close = found.as_good
    sure = f"too close to call with {', '.join(close)}" if close else "robust against all others"
    return f"{found.model}, by {found.objective}: {best.host} with tables in {best.place}; {sure}"


def to_measure(found: Recommendation) -> list[str]:
    """What would decide what is too close to call: the first few."""
    return list(dict.fromkeys(each.measure for each in found.comparisons if each.measure is not None))[:_MOST_MEASURED]


def comparison_line(each: HostComparison) -> str:
    return f"{each.better} {'or' if each.measure else 'before'} {each.worse}: {each.order}"


def _ranking(found: Recommendation) -> RenderableType:
    heads, rows = recommend_rows(found)
    table = plain_table(*heads, left=2)
    for row in rows:
        table.add_row(*row)
    return section("placements, best first", table)


def recommend_rows(found: Recommendation) -> tuple[list[str], list[list[str]]]:
    """Heads of columns, and the places."""
    heads = ["host", "tables in", UNITS[found.objective], "range", "gap", "most of a step", "gains most by", "W"]
    return heads, [[candidate.host, str(candidate.place), *_cells(candidate)] for candidate in found.ranking]


def _cells(candidate: RankedHost) -> list[str]:
    figures = candidate.figures
    if candidate.value is None:
        return ["does not fit" if figures.status == "infeasible" else str(figures.status), *[""] * 5]
    binds, gain = figures.binds, next(iter(figures.elasticities), None)
    power = figures.running.power_w if figures.running else None
    return [
        short(candidate.value),
        "-".join(map(short, sorted(candidate.value_range or (candidate.value,)))),
        percent(figures.gap),
        f"{binds.stage} {binds.share:.0%}" if binds else "",
        gain.resource.split(" of ")[0] if gain else "-",
        "-" if power is None else f"{power:,.0f}",
    ]
