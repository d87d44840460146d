"""Loads that come in equal steps: the time to send a table's output is in proportion to its columns."""

from __future__ import annotations

import numpy as np

from emplace.solver.model.problem import Floats

LEAST_QUANTUM, FINEST = 1e-3, 1e-6
"""Shares of the mean load: steps smaller than the first lose little, and differences below the second are rounding."""


def common_divisor(values: Floats, mean: float) -> float:
    """The largest number that all values are multiples of; 0 where it is too small to matter."""
    divisor = 0.0
    for value in np.unique(np.round(values / mean, 9)) if mean > 0 else ():
        rest = value
        while rest > FINEST:
            divisor, rest = rest, divisor % rest if divisor else 0.0
            if divisor and rest > divisor - FINEST:
                rest = 0.0
        if divisor < LEAST_QUANTUM and value > 0:
            return 0.0
    return divisor * mean
