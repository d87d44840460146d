"""The times of steps that ranks took together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placement.measurement import Measurement

Times = NDArray[np.float64]


def step_times_us(measurement: Measurement) -> Times:
    """Of every step the slowest rank's time: they start together."""
    return np.max([rank.step_times_us for rank in measurement.ranks], axis=0)  # type: ignore[no-any-return]


def round_medians(times: Times, rounds: int) -> Times:
    """[rounds] Plans that take turns have each of their rounds while the machine is as fast as it is for the others."""
    return np.asarray(np.median(times.reshape(rounds, -1), axis=1))
