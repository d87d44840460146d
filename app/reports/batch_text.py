"""Batch sizes as text."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from emplace.app.reports.figures import count, microseconds
from emplace.app.reports.noise_text import noise_line
from emplace.app.reports.sweep_text import short, span
from emplace.app.reports.tables import plain_table, section
from emplace.studies.batch import BatchPoint, BatchSizes, HostBatches

_RATES = ("batch of a rank", "of all", "step", "examples/s", "range", "most of a step")


def batch_view(found: BatchSizes) -> RenderableType:
    """Every host with its batches, then what the figures rest on."""
    parts: list[RenderableType] = [Text(batch_headline(found), style="bold"), Text("")]
    for host in found.hosts:
        parts += _host(found, host)
    if found.noise is not None:
        parts.append(Text(noise_line(found.noise)))
    parts += [Text(note) for note in found.notes]
    return Group(*parts)


def batch_rows(found: BatchSizes) -> tuple[list[str], list[list[str]]]:
    """Heads of columns, and every batch of every host."""
    heads = ["host", *_RATES, *(_quality_heads(found)[2:] if found.says_quality else [])]
    rows = [[host.host, *_throughput(point), *(_needed(found, point)[1:] if found.says_quality else [])] for host, point in found.points]
    return heads, [row + [""] * (len(heads) - len(row)) for row in rows]


def batch_lines(found: BatchSizes) -> list[str]:
    """Where each host's throughput saturates, and which of its batches reaches the quality first."""
    lines = [(host, line) for host in found.hosts for line in (*_saturation(found, host), *_best(found, host))]
    return [f"{host.host}: {line}" for host, line in lines]


def batch_headline(found: BatchSizes) -> str:
    return f"{found.model}: {count(len(found.hosts[0].points), 'batch size')} on {count(len(found.hosts), 'host')}"


def _host(found: BatchSizes, host: HostBatches) -> list[RenderableType]:
    table = plain_table(*_RATES, left=0)
    for point in host.points:
        table.add_row(*_throughput(point))
    parts = [section(host.host, Group(table, Text(""), Text("\n".join(_saturation(found, host)))))]
    if found.says_quality:
        title = f"{host.host}: to {reached(found)}"
        parts.append(section(title, Group(_to_quality(found, host), Text(""), Text("\n".join(_best(found, host))))))
    return parts


def _throughput(point: BatchPoint) -> list[str]:
    figures = point.figures
    if figures.throughput is None or figures.binds is None:
        return [f"{point.local_batch:,}", "", "does not fit" if figures.status == "infeasible" else str(figures.status), "", "", ""]
    binds = f"{figures.binds.stage} {figures.binds.share:.0%}"
    rates = [short(figures.throughput), span(figures.throughput_range), binds]
    return [f"{point.local_batch:,}", f"{point.global_batch:,}", microseconds(figures.step_time_us), *rates]


def _to_quality(found: BatchSizes, host: HostBatches) -> RenderableType:
    table = plain_table(*_quality_heads(found), left=0)
    for point in host.points:
        table.add_row(f"{point.local_batch:,}", *_needed(found, point))
    return table


def _quality_heads(found: BatchSizes) -> list[str]:
    return [
        "batch of a rank",
        "of all",
        *(["examples", "time", "range of time"] if found.curve is not None else []),
        *(["examples over the least"] if found.noise is not None else []),
        "time over the best",
    ]


def _needed(found: BatchSizes, point: BatchPoint) -> list[str]:
    """From the batch of all on."""
    to = point.to_quality
    batch = "" if point.global_batch is None else f"{point.global_batch:,}"
    if to is None:
        return [batch, "not known"]
    cells = [batch]
    if found.curve is not None and to.examples is not None and to.time_s is not None and to.time_range_s is not None:
        cells += [short(to.examples), duration(to.time_s), f"{duration(to.time_range_s[0])} to {duration(to.time_range_s[1])}"]
    if to.examples_over_least is not None:
        cells.append(f"{to.examples_over_least:.3g}")
    return [*cells, f"{to.time_over_best:.2f}"]


def duration(seconds: float) -> str:
    """`42.0 s`, `12.5 min`, `8.3 h`, `3.1 d`."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.3g} s"


def reached(found: BatchSizes) -> str:
    return "any quality" if found.curve is None else found.curve.quality


def _saturation(found: BatchSizes, host: HostBatches) -> list[str]:
    if host.saturation is None:
        return ["fits at none of these batches"]
    lines = [
        f"throughput saturates at {host.saturation:,}: the smallest batch with {found.saturated_at:.0%} of the highest throughput here"
    ]
    if host.still_rises:
        lines.append("throughput still rises at the largest batch, so it saturates later than that: name larger ones")
    return lines


def _best(found: BatchSizes, host: HostBatches) -> list[str]:
    """Nothing where nobody measured a quality."""
    if not found.says_quality:
        return []
    if host.best is not None:
        spread = host.best_range
        between = "" if spread is None else f" ({spread[0]:,} to {spread[1]:,} over the range of the noise scale)"
        return [f"{reached(found)} is reached first with a batch of {host.best:,}{between}"]
    if found.curve is None or host.saturation is None:
        return ["not known"]
    first, last = found.curve.points[0].global_batch, found.curve.points[-1].global_batch
    return [f"the curve is of batches from {first:,.0f} to {last:,.0f} of all ranks together, and nothing is said beyond it"]
