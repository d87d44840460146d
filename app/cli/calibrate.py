"""`emplace calibrate`: one measured step becomes a software stack of that host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
import yaml

from emplace.app.cli.inputs import read_plan
from emplace.app.cli.options import Out
from emplace.app.cli.output import note, print_text, save
from emplace.app.reports.figures import microseconds
from emplace.placement.audit import audit, refuse
from emplace.placement.calibration import Calibration, calibrated
from emplace.placement.plan import Plan


def calibrate(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="The plan that was trained under.")],
    measured_step_ms: Annotated[
        float, typer.Option("--measured-step-ms", metavar="X", min=1e-3, max=1e9, help="How long its steps took, in milliseconds.")
    ],
    out: Out = None,
) -> None:
    """Print the software stack under which the plan lasts as long as it was measured to.

    Plan with it on that host: --stack FILE. What the step says nothing of stays as the plan's own stack has it. A step that no
    figure within its range explains is refused (exit code 2): something else takes the time then.
    """
    found = read_plan(plan)
    refuse(str(plan), audit(found))
    measured_us = measured_step_ms * 1000
    calibration = calibrated(found, measured_us)
    text = yaml.safe_dump(calibration.stack.to_data(), sort_keys=False, default_flow_style=None, width=10_000)
    save(out, text)
    print_text(text)
    note(_said(found, calibration, measured_us))


def _said(plan: Plan, calibration: Calibration, measured_us: float) -> str:
    towards = "slow" if calibration.place > 0 else "fast"
    return (
        f"predicted {microseconds(plan.step_time_us)}, measured {microseconds(measured_us)}: figures moved by {abs(calibration.place):.0%} of "
        f"the way to their {towards} ends: {', '.join(calibration.moved)}. This step says nothing of the others."
    )
