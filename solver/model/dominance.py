"""The one Pareto filter."""

from __future__ import annotations

import numpy as np

from emplace.solver.model.problem import Bools, Floats


def undominated(costs: Floats) -> Bools:
    """[n] the rows of `costs` ([n, columns]) that no other row is at most in every column; of equal rows the first stays."""
    no_worse = (costs[:, None, :] <= costs[None, :, :]).all(axis=2)
    index = np.arange(len(costs))
    beats = no_worse & (~no_worse.T | (index[:, None] < index[None, :]))
    return np.asarray(~beats.any(axis=0))
