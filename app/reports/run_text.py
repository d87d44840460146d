"""A run as text: predicted beside measured, and the verdicts."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emplace.app.reports.figures import microseconds, rate
from emplace.app.reports.tables import plain_table, section
from emplace.placement.measurement import Emulation, Measurement, ReferenceTimes
from emplace.placement.plan import Plan
from emplace.placement.units import show_gib

_VERDICT_WORDS = {True: ("passed", "green"), False: ("FAILED", "bold red"), None: ("-", "dim")}


def run_view(plan: Plan, measured: Measurement) -> RenderableType:
    if measured.emulated is not None:
        return _emulated_view(plan, measured, measured.emulated)
    verified = "verified" if measured.verified else "NOT verified"
    title = (
        f"{plan.model.name} on {plan.host.name}, {measured.steps} steps on {len(measured.ranks)} ranks over {measured.backend}: {verified}"
    )
    return Group(Text(title, style="bold"), _figures(measured), _memory(measured), _verdicts(measured))


def _emulated_view(plan: Plan, measured: Measurement, emulation: Emulation) -> RenderableType:
    outcome = "holds, as far as an emulation can tell" if emulation.holds else "does NOT hold"
    title = f"{plan.model.name} on {plan.host.name}, {measured.steps} steps emulated by {len(plan.ranks)} CPU ranks: {outcome}"
    said = [
        f"rows of all tables: {emulation.rows:,} planned, {emulation.emulated_rows:,} here",
        f"examples a rank: {emulation.local_batch_size:,} planned, {emulation.emulated_local_batch_size:,} here",
        *emulation.stand_ins,
    ]
    return Group(Text(title, style="bold"), section("emulated", Text("\n".join(said))), _verdicts(measured))


def _figures(measured: Measurement) -> RenderableType:
    table = plain_table("", "predicted", "measured", "predicted / measured")
    for what, spelled, predicted, found in (
        ("step", microseconds, measured.predicted_step_time_us, measured.step_time_us),
        ("throughput", rate, measured.predicted_throughput_samples_per_s, measured.throughput_samples_per_s),
    ):
        table.add_row(what, spelled(predicted), spelled(found), f"{predicted / found:.2f}" if found else "-")
    spread = Text(f"measured steps: 5% under {microseconds(measured.step_time_p5_us)}, 5% over {microseconds(measured.step_time_p95_us)}")
    lines: list[RenderableType] = [table, spread]
    if (reference := measured.reference) is not None:
        lines.append(Text(_machine(reference)))
    return section("predicted beside measured", Group(*lines))


def _machine(reference: ReferenceTimes) -> str:
    now = ", ".join(microseconds(time_us) for time_us in (reference.before_us, reference.between_us, reference.after_us))
    change = "slower" if reference.slowness > 1 else "faster"
    speed = f"the machine is {abs(reference.slowness - 1):.0%} {change} than then"
    return f"reference step: {microseconds(reference.profiled_us)} in the profile; before, between and after the steps {now}: {speed}"


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
        word, style = _VERDICT_WORDS[verdict.passed]
        table.add_row(Text(word, style=style), verdict.name, verdict.detail)
    return section("verdicts", table)
