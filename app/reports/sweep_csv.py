"""A sweep as a table for spreadsheets: a line for each point."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

from emplace.placement.stages import Stage
from emplace.studies.figures import OVERHEAD
from emplace.studies.measured import PointMeasurement
from emplace.studies.sweep import Sweep, SweepPoint

_STAGES = (*map(str, Stage), OVERHEAD, "launches", "input", "network")


def sweep_csv(sweep: Sweep) -> str:
    """Units are in the names of columns; what a point does not have is empty."""
    paths = [axis.path for axis in sweep.axes]
    rows = [_row(point, paths) for point in sweep.points]
    text = StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(point: SweepPoint, paths: list[str]) -> dict[str, Any]:
    figures, running = point.figures, point.figures.running
    slow, fast = figures.throughput_range or (None, None)
    shortest, longest = figures.step_range_us or (None, None)
    return {
        "host": point.host,
        **{path: point.values[path] for path in paths},
        "local_batch_size": point.local_batch_size,
        "status": figures.status,
        "gap": figures.gap,
        "throughput_samples_per_s": figures.throughput,
        "throughput_low": slow,
        "throughput_high": fast,
        "step_time_us": figures.step_time_us,
        "step_shortest_us": shortest,
        "step_longest_us": longest,
        "lower_bound_us": figures.lower_bound_us,
        "binds": figures.binds.stage if figures.binds else None,
        "resource": figures.binds.resource if figures.binds else None,
        "trainers": figures.trainers,
        "nodes": running.nodes if running else None,
        "parameter_servers": running.parameter_servers if running else None,
        "power_w": running.power_w if running else None,
        "joules_per_million_examples": running.joules_per_million_examples if running else None,
        "price_per_hour": running.price_per_hour if running else None,
        **{f"{stage}_us": (figures.stages_us or {}).get(stage) for stage in _STAGES},
        "cost_source": point.cost_source,
        **_measured(point.measured),
    }


def _measured(point: PointMeasurement | None) -> dict[str, Any]:
    """Columns that are empty where nothing was measured."""
    return {
        "measured_step_time_us": point.step_time_us if point else None,
        "measured_samples_per_s": point.throughput if point else None,
        "predicted_over_measured": point.predicted_over_measured if point else None,
        "slowness": point.slowness if point else None,
        "verified": point.verified if point else None,
    }
