"""What was measured of a sweep's points, and how far predictions are off."""

from __future__ import annotations

import math
from collections.abc import Sequence

from emplace.placement.document import Document
from emplace.placement.measurement import Measurement
from emplace.placement.sums import add_up


class PointMeasurement(Document):
    """A point that was trained here."""

    step_time_us: float
    """Median of the measured steps."""
    step_range_us: tuple[float, float]
    """One step in twenty is shorter, one in twenty longer."""
    throughput: float
    """Examples per second of all trainers."""
    predicted_over_measured: float
    """The predicted step time over the measured one."""
    slowness: float | None = None
    """How many times as long as in its profile this machine took for the same work meanwhile; absent where prices were not measured so."""
    verified: bool

    @property
    def at_present_speed(self) -> float:
        """Predicted over measured, had the machine been as slow in its profile."""
        return self.predicted_over_measured * (self.slowness or 1.0)


class PredictionError(Document):
    """Geometric means over points: 0.1 is a factor of 1.1 either way."""

    points: int
    geometric_mean: float
    at_present_speed: float
    """With each prediction made slower or faster as the machine was, where that is known."""
    worst: float
    not_verified: int


def point_measurement(measured: Measurement) -> PointMeasurement:
    """What a run took that was no emulation: those have no times."""
    step_us, shortest_us, longest_us = measured.step_time_us, measured.step_time_p5_us, measured.step_time_p95_us
    assert step_us is not None, "only an emulation has no times"
    assert shortest_us is not None
    assert longest_us is not None
    return PointMeasurement(
        step_time_us=step_us,
        step_range_us=(shortest_us, longest_us),
        throughput=measured.throughput_samples_per_s or 0.0,
        predicted_over_measured=measured.predicted_step_time_us / step_us,
        slowness=None if measured.reference is None else measured.reference.slowness,
        verified=measured.verified,
    )


def prediction_error(points: Sequence[PointMeasurement]) -> PredictionError | None:
    """None of no points."""
    if not points:
        return None
    logs = [abs(math.log(point.predicted_over_measured)) for point in points]
    at_speed = [abs(math.log(point.at_present_speed)) for point in points]
    return PredictionError(
        points=len(points),
        geometric_mean=math.exp(add_up(logs) / len(logs)) - 1,
        at_present_speed=math.exp(add_up(at_speed) / len(at_speed)) - 1,
        worst=math.exp(max(logs)) - 1,
        not_verified=sum(not point.verified for point in points),
    )
