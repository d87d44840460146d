"""The size of a job as text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import count
from emplace.app.reports.sweep_text import running_cells, short, span
from emplace.app.reports.tables import facts, plain_table, section
from emplace.studies.jobs import NodesAndServers, Sized
from emplace.studies.size import Sizing
from emplace.studies.sized_job import SizedJob, SizeOutcome

_MOST_SHOWN = 3
_INSTEAD = "ask for less, allow more nodes with --max-nodes, or name other hosts"


def size_view(sizing: Sizing) -> RenderableType:
    """Jobs, best first, then why the best is no smaller, or why there is none."""
    parts: list[RenderableType] = [Text(size_headline(sizing), style="bold"), Text(""), _jobs(sizing)]
    if sizing.best is not None and (reasons := why_no_fewer(sizing.best)):
        parts.append(section(f"why no fewer on {sizing.best.host}", facts(reasons)))
    if whys := why_none(sizing):
        parts.append(section("why none", Group(*map(Text, whys))))
    parts += [Text(note) for note in sizing.notes]
    return Group(*parts)


def size_headline(sizing: Sizing) -> str:
    best, wanted = sizing.best, f"{short(sizing.target.throughput)} examples/s"
    if best is None or best.running is None:
        return f"{sizing.model}: no job found that reaches {wanted}"
    return f"{sizing.model}: {wanted} takes {count(best.running.servers, 'server')} with {best.host}, trained {best.training}ly"


def why_no_fewer(best: SizedJob) -> list[tuple[str, str]]:
    """What each count of the best job is bound by, and what is known of cheaper sizes: names, and words of them."""
    if not best.counts:
        return []
    rows = [(name.replace("_", " "), _why(sized)) for name, sized in best.counts.items()]
    return [*rows, *(("smaller", line) for line in _smaller(best))]


def why_none(sizing: Sizing) -> list[str]:
    """Why no job reaches the target, and what to ask instead; empty where one does, or where nobody knows."""
    whys = [job.why_impossible for job in sizing.jobs if job.why_impossible is not None]
    return [*whys, _INSTEAD] if whys and sizing.best is None else []


def _jobs(sizing: Sizing) -> RenderableType:
    heads, rows = size_rows(sizing)
    table = plain_table(*heads, left=2)
    for row in rows:
        table.add_row(*row)
    return section(f"jobs, fewest {sizing.wanted} first", table)


def size_rows(sizing: Sizing) -> tuple[list[str], list[list[str]]]:
    """Heads of columns, and the jobs."""
    heads = ["host", "training", "examples/s", "range", "sure", "limits", "counts", "servers", "W", "an hour"]
    return heads, [[job.host, str(job.training), *size_cells(job)] for job in sizing.jobs]


def size_cells(job: SizedJob) -> list[str]:
    """From examples/s on, what it comes to."""
    running = job.running
    if job.outcome is not SizeOutcome.FOUND or running is None:
        return [str(job.outcome), *[""] * 7]
    counts = [str(sized.count) for sized in (job.counts or {}).values()]
    return [
        short(job.throughput or 0.0),
        span(job.throughput_range),
        {True: "yes", False: "no", None: ""}[job.sure],
        job.binds or "",
        "+".join(counts),
        *running_cells(running),
    ]


def _why(sized: Sized) -> str:
    alone = ", ".join(f"{bound.by} {bound.least}" for bound in sized.bounds)
    return f"{sized.count}: {sized.binds}" + (f" (alone at least: {alone})" if alone else "")


def _smaller(job: SizedJob) -> list[str]:
    lines = []
    for sizes, said in ((job.smaller_impossible, "proven impossible"), (job.smaller_undecided, "undecided")):
        if sizes:
            lines.append(f"{count(len(sizes), 'cheaper size')} {said}: {_listed(sizes)}")
    return lines


def _listed(sizes: Sequence[NodesAndServers]) -> str:
    """The largest few."""
    shown = [
        f"{count(size.nodes, 'node')}{f' and {size.parameter_servers} servers' if size.parameter_servers else ''}"
        for size in sizes[-_MOST_SHOWN:]
    ]
    return ("... " if len(sizes) > _MOST_SHOWN else "") + ", ".join(shown)
