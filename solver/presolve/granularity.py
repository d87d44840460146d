"""Loads that come in equal steps: the time to send a table's output is in proportion to its columns."""

from __future__ import annotations

import numpy as np

from emplace.solver import native
from emplace.solver.model.problem import Floats

LEAST_QUANTUM, FINEST = 1e-3, 1e-6
"""Shares of the mean load: steps smaller than the first lose little, and differences below the second are rounding."""


def common_divisor(values: Floats, mean: float) -> float:
    """The largest number that all values are multiples of; 0 where it is too small to matter."""
    return native.common_divisor(np.ascontiguousarray(values), mean, LEAST_QUANTUM, FINEST) * mean if mean > 0 else 0.0
