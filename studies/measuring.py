"""Sweeps that are measured too: every point is planned, then trained on this machine by the executor."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from emplace.placement.errors import BrokenRule, InvalidDocument
from emplace.placement.plan import Plan
from emplace.studies.axes import QuestionPart
from emplace.studies.figures import figures_of
from emplace.studies.measured import PointMeasurement, point_measurement, prediction_error
from emplace.studies.solving import Tell, solve_plans
from emplace.studies.sweep import Sweep, SweepStudy

if TYPE_CHECKING:
    from emplace.executor.launch import Launch

LEAST_STEPS = 6
"""With fewer measured steps the median is not known."""
_SECONDS_A_POINT = 600.0


def run_measured(study: SweepStudy, steps: int | None, processes: int, tell: Tell, report: Callable[[str], None]) -> Sweep:
    """The sweep with what was measured, `steps` of each point as in a Launch.

    Raises InvalidDocument, before anything is solved, for points that this machine can't train, and ExecutionFailed for one that fails.
    """
    from emplace.executor.launch import Launch

    refuse_unmeasurable(study)
    if steps is not None and steps < LEAST_STEPS:
        raise InvalidDocument("--steps", [BrokenRule("", str(steps), f"must be at least {LEAST_STEPS}: of fewer the median is not known")])
    plans = solve_plans([point.question for point in study.points], processes, tell)
    found = study.answer(list(map(figures_of, plans)))
    launch = Launch(steps=steps, seed=0, workdir=Path(tempfile.gettempdir()), timeout_s=_SECONDS_A_POINT, report=report)
    measured = _trained(plans, launch)
    points = tuple(
        point if each is None else point.model_copy(update={"measured": each}) for point, each in zip(found.points, measured, strict=True)
    )
    error = prediction_error([each for each in measured if each is not None])
    return found.model_copy(update={"points": points, "prediction_error": error})


def refuse_unmeasurable(study: SweepStudy) -> None:
    """Raises InvalidDocument for points of other machines, and models that can't be trained here."""
    from emplace.executor.refusal import unsupported_reason
    from emplace.hardware.discover import discover_host

    if varied := [axis.path for axis in study.axes if axis.part is QuestionPart.HOST]:
        rule = f"trains on this machine as it is, and {varied[0]} varies the host: leave out one or the other"
        raise InvalidDocument("--run", [BrokenRule("", "", rule)])
    here = discover_host()
    for host in {point.question.host.name: point.question.host for point in study.points}.values():
        if host.fingerprint != here.fingerprint:
            rule = f"trains on this machine, and {host.name} is another: give --host local alone"
            raise InvalidDocument("--run", [BrokenRule("", "", rule)])
    for point in study.points:
        reason = unsupported_reason(point.question.model, on_cuda=here.has_cuda)
        if reason is not None:
            raise InvalidDocument("--run", [BrokenRule("", "", f"can't train {point.question.model.name}: {reason}")])


def _trained(plans: Sequence[Plan], launch: Launch) -> list[PointMeasurement | None]:
    """Plans of the same ranks in one launch, one after the other; None where there is no placement."""
    from emplace.executor.export import plan_topology
    from emplace.executor.run import run_plans

    groups: dict[str, list[int]] = {}
    for number, plan in enumerate(plans):
        if plan.has_placement:
            groups.setdefault(repr(plan_topology(plan)), []).append(number)
    found: list[PointMeasurement | None] = [None] * len(plans)
    for numbers in groups.values():
        of_group = replace(launch, timeout_s=launch.timeout_s * len(numbers))
        for number, measured in zip(numbers, run_plans([plans[number] for number in numbers], of_group), strict=True):
            found[number] = point_measurement(measured)
    return found
