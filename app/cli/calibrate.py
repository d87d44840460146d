"""`emplace calibrate`: one measured step becomes a software stack of that host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from emplace.app.cli.inputs import read_plan
from emplace.app.cli.options import Out
from emplace.app.cli.output import as_yaml, give_text, note
from emplace.app.reports.figures import microseconds
from emplace.placement.audit import audit, refuse
from emplace.placement.calibration import SOURCE, Calibration, calibrated
from emplace.placement.errors import InvalidDocument
from emplace.placement.kineto import TraceTimes, read_trace
from emplace.placement.plan import Plan
from emplace.placement.reading import in_file
from emplace.placement.stack import Stack
from emplace.placement.stage_calibration import StageCalibration, calibrated_by_stages

EXPLAINED = 0.02
"""Share of a measured time within which it counts as explained."""
MOST_UNLIKE = 2.0
"""So many times as long as the measured step a trace's may be, or the other way round: the profiler slows steps down."""


def calibrate(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="The plan that was trained under.")],
    measured_step_ms: Annotated[
        float, typer.Option("--measured-step-ms", metavar="X", min=1e-3, max=1e9, help="How long its steps took, in milliseconds.")
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="KINETO.json",
            help="A trace of PyTorch's profiler of some of these steps on one rank: it says how long each stage took.",
        ),
    ] = None,
    out: Out = None,
) -> None:
    """Print the software stack under which the plan lasts as long as it was measured to.

    Plan with it on that host: --stack FILE. What the step says nothing of stays as the plan's own stack has it. A step that no
    figure within its range explains is refused (exit code 2): something else takes the time then. With a trace the figures of each
    stage move by themselves, and what ranges don't explain is said.
    """
    found = read_plan(plan)
    refuse(str(plan), audit(found))
    try:
        stack, said = _calibrated(found, measured_step_ms * 1000, trace)
    except InvalidDocument as error:
        raise (in_file(error, plan) if error.source == SOURCE else error) from None
    give_text(as_yaml(stack.to_data(), width=10_000), out)
    note(said)


def _calibrated(plan: Plan, measured_us: float, trace: Path | None) -> tuple[Stack, str]:
    """The stack, and what it follows from. Raises InvalidDocument."""
    if trace is None:
        calibration = calibrated(plan, measured_us)
        return calibration.stack, _said(plan, calibration, measured_us)
    times = read_trace(trace)
    by_stages = calibrated_by_stages(plan, measured_us, times.stages_us)
    return by_stages.stack, "\n".join([*_unlike(measured_us, times.step_us), *_fitted(by_stages, times)])


def _unlike(measured_us: float, traced_us: float) -> Iterator[str]:
    """A warning where the trace is hardly of the step that was measured."""
    if max(measured_us, traced_us) > MOST_UNLIKE * min(measured_us, traced_us):
        yield (
            f"warning: the trace's step of {microseconds(traced_us)} and the measured one of {microseconds(measured_us)} differ by more than "
            f"{MOST_UNLIKE:g} times: are they of the same job, and is --measured-step-ms in milliseconds?"
        )


def _fitted(calibration: StageCalibration, times: TraceTimes) -> Iterator[str]:
    """A line for each part of the step."""
    where = "on devices" if times.on_device else "on CPUs"
    yield f"{times.steps} steps of {microseconds(times.step_us)} in the trace, {where}"
    for fit in calibration.fits:
        left = "" if abs(fit.explained_us - fit.measured_us) <= EXPLAINED * fit.measured_us else ": the stack's ranges don't explain it"
        measured, explained = microseconds(fit.measured_us), microseconds(fit.explained_us)
        yield f"  {fit.name}: predicted {microseconds(fit.predicted_us)}, measured {measured}, now {explained}{left}"


def _said(plan: Plan, calibration: Calibration, measured_us: float) -> str:
    towards = "slow" if calibration.place > 0 else "fast"
    return (
        f"predicted {microseconds(plan.step_time_us)}, measured {microseconds(measured_us)}: figures moved by {abs(calibration.place):.0%} of "
        f"the way to their {towards} ends: {', '.join(calibration.moved)}. This step says nothing of the others."
    )
