"""A run as text: predicted beside measured, and the verdicts."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from app.reports.figures import microseconds, rate
from app.reports.tables import plain_table, section
from placement.measurement import Measurement
from placement.plan import Plan
from placement.units import show_gib


def run_view(plan: Plan, measured: Measurement) -> RenderableType:
    verified = "verified" if measured.verified else "NOT verified"
    title = (
        f"{plan.model.name} on {plan.host.name}, {measured.steps} steps on {len(measured.ranks)} ranks over {measured.backend}: {verified}"
    )
    return Group(Text(title, style="bold"), _figures(measured), _memory(measured), _verdicts(measured))


def _figures(measured: Measurement) -> RenderableType:
    table = plain_table("", "predicted", "measured", "predicted / measured")
    step, throughput = measured.step_time_us, measured.throughput_samples_per_s
    predicted_step, predicted_throughput = measured.predicted_step_time_us, measured.predicted_throughput_samples_per_s
    table.add_row("step", microseconds(predicted_step), microseconds(step), f"{predicted_step / step:.2f}")
    table.add_row("throughput", rate(predicted_throughput), rate(throughput), f"{predicted_throughput / throughput:.2f}")
    spread = Text(f"measured steps: 5% under {microseconds(measured.step_time_p5_us)}, 5% over {microseconds(measured.step_time_p95_us)}")
    return section("predicted beside measured", Group(table, spread))


def _memory(measured: Measurement) -> RenderableType:
    table = plain_table("", "predicted", "measured", "median step")
    for rank in measured.ranks:
        table.add_row(
            f"rank {rank.rank}", show_gib(rank.predicted_bytes), show_gib(rank.peak_bytes), microseconds(rank.median_step_time_us)
        )
    return section("peak bytes of each rank", table)


def _verdicts(measured: Measurement) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    for verdict in measured.verdicts:
        style = "green" if verdict.passed else "bold red"
        table.add_row(Text("passed" if verdict.passed else "FAILED", style=style), verdict.name, verdict.detail)
    return section("verdicts", table)
