"""The gap over what a placement decides: dense layers and overhead, which are the same in every plan, hide it in the whole step."""

from __future__ import annotations

LEAST_SHARE = 1e-6
"""Share of a step below which what a placement decides is rounding."""


def placement_gap(cost_us: float, bound_us: float, constant_us: float) -> float:
    """How much less of what a placement decides the best plan may take, as a share of it.

    `cost_us` is what is minimised, `bound_us` what no plan takes less than, `constant_us` the step without tables, which is a bound too.
    From 0 to 1, and no less than the gap of the whole step; 0 where a placement decides nothing.
    """
    decided_us = cost_us - constant_us
    if decided_us <= LEAST_SHARE * cost_us:
        return 0.0
    return max(0.0, cost_us - max(bound_us, constant_us)) / decided_us
