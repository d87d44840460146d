"""Cache load factors are a continuum: a few points such that every cache is at least a mix of them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from emplace.placement.access import Access, access_distribution
from emplace.placement.cost_model import CostModel, LookupCost
from emplace.placement.model import ComputeKernel
from emplace.solver.model.layouts import CACHE_HITS, CACHE_STEPS
from emplace.solver.model.problem import Floats

INTERVALS = CACHE_STEPS + 1
"""How many intervals of cache load factors there are, between those that other questions are offered."""


@lru_cache(maxsize=20_000)
def cache_edges(access: Access, num_rows: int) -> tuple[Floats, Floats]:
    """([INTERVALS + 1] load factors, the share of the lookups that each takes): the edges of the intervals, from one row to all."""
    spread = access_distribution(access, num_rows)
    row_ends, mass_ends = np.append(0.0, np.cumsum(spread.rows)), np.append(0.0, np.cumsum(spread.mass))
    inner = np.interp(CACHE_HITS, mass_ends, row_ends) / spread.rows.sum()
    factors = np.clip(np.concatenate([[0.0], inner, [1.0]]), 1.0 / num_rows, 1.0)
    # A factor below that of one row still caches one row, and is said to take fewer lookups.
    return factors, np.concatenate([[0.0], spread.hit_rate(factors[1:])])


def is_linear(cost: CostModel, device: str) -> bool:
    """Whether time is linear in the share of the lookups that a cache takes: no kernel behind it charges what overflows or pages."""
    kernels = [cost.kernel(device, part) for part in (ComputeKernel.FUSED, ComputeKernel.FUSED_UVM)]
    costs = [
        each
        for kernel in kernels
        if kernel
        for each in (kernel.forward, kernel.backward, *(other.backward for other in kernel.other_backwards))
    ]
    return all(_is_plain(each) for each in costs)


def _is_plain(cost: LookupCost) -> bool:
    return cost.per_page_us == 0 and (cost.per_overflow_byte_us == 0 or cost.cache_bytes == 0)


@lru_cache(maxsize=20_000)
def mixed_points(access: Access, num_rows: int) -> Floats:
    """[points, 3] load factor, share of lookups that hit, and that miss: every cache has at least the rows of a mix of points with as
    many hits.

    The rows that h of the lookups need are a convex function of h. The points are where its tangents at the edges of intervals meet.
    One row less is charged, because caches are rounded up to whole rows.
    """
    _, hits = cache_edges(access, num_rows)
    spread = access_distribution(access, num_rows)
    ends = np.cumsum(spread.mass)
    at = np.minimum(np.searchsorted(ends, hits * (1 - 1e-12), side="right"), len(ends) - 1)
    slope = spread.rows[at] / spread.rows.sum() / spread.mass[at]
    exact = np.interp(hits, np.append(0.0, ends), np.append(0.0, np.cumsum(spread.rows)) / spread.rows.sum())
    steeper = slope[1:] - slope[:-1]
    crossing = (exact[:-1] - exact[1:] + slope[1:] * hits[1:] - slope[:-1] * hits[:-1]) / np.where(steeper > 0, steeper, 1.0)
    hit = np.clip(np.where(steeper > 1e-12 * slope[1:], crossing, hits[:-1]), hits[:-1], hits[1:])
    factor = np.maximum(exact[:-1] + slope[:-1] * (hit - hits[:-1]), exact[1:] - slope[1:] * (hits[1:] - hit))
    factor = np.minimum(factor, np.interp(hit, np.append(0.0, ends), np.append(0.0, np.cumsum(spread.rows)) / spread.rows.sum()))
    hit, factor = np.concatenate([[0.0], hit, [1.0]]), np.concatenate([[0.0], factor, [1.0]])
    return np.column_stack([np.clip(factor - 1.0 / num_rows, 0.0, 1.0), hit, 1.0 - hit])


@lru_cache(maxsize=20_000)
def interval_points(access: Access, num_rows: int) -> Floats:
    """[points, 3] likewise, one for each interval: its smallest cache, with its fewest hits and its fewest misses, whatever they cost."""
    factors, hits = cache_edges(access, num_rows)
    least = np.column_stack([factors[:-1], hits[:-1], 1.0 - hits[1:]])
    return np.vstack([least, least[-1:], least[-1:]])
