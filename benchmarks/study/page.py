"""docs/study.md, from the sweeps and case studies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.markdown import head
from benchmarks.study.cases import StudyCase
from benchmarks.study.claims import findings
from benchmarks.study.sweeps import SWEEPS
from emplace.app.reports.sweep_text import short, spelled
from emplace.studies.sweep import Sweep, SweepPoint

_INTRODUCTION = """# The study of Acun et al., by model

Made by `python -m benchmarks.study`. Acun et al. ("Understanding Training Efficiency of Deep Learning Recommendation Models at
Scale", HPCA 2021, doi 10.1109/HPCA51647.2021.00072) measured which host suits which recommendation model. Here
Emplace answers the same by model: every point is a plan with a proven gap, in sweeps at most {gap}, priced by
datasheets under the default [software stacks](explanation/cost-model.md#from-datasheets). Nothing was measured here, and
no figure of the model was set by a result of the paper.

- Models are those of the [template `suite`](how-to/studies.md#the-template-suite) and the built-in `m1` `m2` `m3`, whose
  files say what of them is published and what is assumed.
- Ranges are over all figures of the stack, at the slow end of each and at the fast.
- The paper's stack was Caffe2. GPUs here run TorchRec, whose launches bind small batches.
"""
_FIGURE = "The band is the range of throughput that no measurement narrows."


def page(sweeps: Mapping[str, Sweep], cases: Sequence[StudyCase]) -> str:
    gap = max(point.figures.gap or 0.0 for sweep in sweeps.values() for point in sweep.points)
    parts = [_INTRODUCTION.format(gap=f"{gap:.1%}"), *_claims(sweeps, cases), "## Sweeps\n", f"{_FIGURE}\n"]
    for name, sweep in sweeps.items():
        parts += _sweep(name, sweep)
    parts.append("## Production models\n")
    for case in cases:
        parts += _case(case)
    return "\n".join(parts).rstrip() + "\n"


def _claims(sweeps: Mapping[str, Sweep], cases: Sequence[StudyCase]) -> Iterator[str]:
    yield "## What the paper says, and what the model finds\n"
    yield head("claim", "agrees", "finds", "how sure")
    for each in findings(sweeps, cases):
        yield f"| {each.claim} | {'yes' if each.agrees else 'no'} | {each.finds} | {each.sure} |"
    yield ""


def _sweep(name: str, sweep: Sweep) -> Iterator[str]:
    yield f"### By {SWEEPS[name].title}\n"
    yield f"![Throughput by {SWEEPS[name].title}](study-{name}.svg)\n"
    yield head(SWEEPS[name].title, *(f"{host}, examples/s" for host in sweep.hosts), *(f"{host}: most of a step" for host in sweep.hosts))
    for value in sweep.axes[0].values:
        points = [point for point in sweep.points if value in point.values.values()]
        cells = [_throughput(point) for point in points] + [_binds(point) for point in points]
        yield f"| {' | '.join([spelled(value), *cells])} |"
    yield ""
    for found in sweep.crossovers:
        sure = "" if found.sure else " (not sure: ranges overlap)"
        at = "" if found.at is None else f", at about {spelled(round(found.at))}"
        yield f"- {found.quantity}: {found.below} below, {found.above} above, between {spelled(found.between[0])} and {spelled(found.between[1])}{at}{sure}"
    if sweep.crossovers:
        yield ""


def _throughput(point: SweepPoint) -> str:
    figures = point.figures
    if figures.throughput is None or figures.throughput_range is None:
        return "does not fit" if figures.status == "infeasible" else str(figures.status)
    return f"{short(figures.throughput)} ({short(figures.throughput_range[0])} to {short(figures.throughput_range[1])})"


def _binds(point: SweepPoint) -> str:
    binds = point.figures.binds
    return "-" if binds is None else f"`{binds.stage}` {binds.share:.0%}"


def _case(case: StudyCase) -> Iterator[str]:
    yield f"### {case.model.upper()}\n"
    yield head("host", "tables in", "examples/s", "range", "gap", "most of a step", "gains most by", "examples/s a watt")
    for each in case.placed.ranking:
        figures = each.figures
        if figures.throughput is None or figures.throughput_range is None:
            yield f"| {each.host} | {each.place} | does not fit | | | | | |"
            continue
        low, high = map(short, figures.throughput_range)
        per_watt = figures.running.throughput_per_w if figures.running else None
        binds, gain = figures.binds, next(iter(figures.elasticities), None)
        cells = [
            short(figures.throughput),
            f"{low} to {high}",
            f"{figures.gap or 0.0:.1%}",
            f"`{binds.stage}` {binds.share:.0%}" if binds else "-",
            f"{gain.resource} ({gain.percent:.2f}% a percent)" if gain else "nothing faster",
            "-" if per_watt is None else f"{per_watt:,.1f}",
        ]
        yield f"| {each.host} | {each.place} | {' | '.join(cells)} |"
    yield ""
    for compared in case.placed.comparisons:
        yield f"- {compared.better} {'or' if compared.measure else 'before'} {compared.worse}: {compared.order}"
    yield f"- {_fleet(case)}\n"


def _fleet(case: StudyCase) -> str:
    fleet = case.fleet
    if fleet.counts is None or fleet.running is None:
        return "no fleet of CPU servers was found"
    counts = ", ".join(f"{name.replace('_', ' ')} {sized.count} (`{sized.binds}`)" for name, sized in fleet.counts.items())
    low, high = map(short, fleet.throughput_range or (0.0, 0.0))
    return (
        f"a fleet of CPU servers, trained asynchronously: {short(fleet.throughput or 0.0)} examples/s ({low} to {high}) with {counts}; "
        f"{fleet.running.throughput_per_w or 0.0:,.1f} examples/s a watt; `{fleet.binds}` limits"
    )
