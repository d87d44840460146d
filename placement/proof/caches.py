"""Cache load factors are a continuum: some points or intervals that stand for all of them.

Among bins of equally hot rows the share of lookups that a cache takes is concave and made of straight lines. So each cache lies on or
under every line, and is a mix of two neighbouring corners of the lines that are kept. Where time is not linear in that share, an
interval of load factors counts with its fewest rows, hits and misses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from emplace.placement.access import Access, access_distribution
from emplace.placement.cost_model import CostModel
from emplace.placement.model import ComputeKernel, Table
from emplace.placement.proof.classes import Floats

_MISSED = np.concatenate([np.linspace(1.0, 1 / 12, 12), 1 / 12 / 2.0 ** np.arange(1, 6)])
"""The lines are those where so much of the lookups is missed, and intervals end there."""
_SLACK = 1e-9
"""More than corners are off by rounding; every share is moved by it to the safe side."""


@dataclass(frozen=True)
class Caches:
    """[n, 1] each: the share of the rows that is held at least, and the shares of the lookups that hit and miss at least."""

    rows: Floats
    hits: Floats
    misses: Floats


NO_CACHE = Caches(np.zeros((1, 1)), np.zeros((1, 1)), np.ones((1, 1)))


@lru_cache(maxsize=20_000)
def cache_corners(access: Access, num_rows: int) -> Caches:
    """Such that every cache holds at least the rows of a mix of them with as many hits."""
    spread = access_distribution(access, num_rows)
    ends, rises = np.cumsum(spread.rows) / spread.rows.sum(), np.cumsum(spread.mass)
    kept = np.unique(np.minimum(np.searchsorted(rises, 1 - _MISSED, side="right"), len(rises) - 1))
    slope = (spread.mass / spread.rows * spread.rows.sum())[kept]
    apart = np.append(True, slope[1:] < slope[:-1] * (1 - _SLACK))
    kept, slope = kept[apart], slope[apart]
    # A line of a bin goes through its end; the last one is that no more than all lookups hit.
    slope, height = np.append(slope, 0.0), np.append(rises[kept] - slope * ends[kept], 1.0)
    rows = (height[1:] - height[:-1]) / (slope[:-1] - slope[1:])
    hits = height[:-1] + slope[:-1] * rows
    rows, hits = np.append(0.0, rows), np.append(height[0], hits)
    return _moved(np.minimum(rows, 1.0), hits, 1.0 - hits)


@lru_cache(maxsize=20_000)
def cache_intervals(access: Access, num_rows: int) -> Caches:
    """Every cache is in one of them, and holds at least its rows."""
    edges = _edges(access, num_rows)
    return _between(edges, access_distribution(access, num_rows).hit_rate(edges))


def block_intervals(table: Table, first_row: int, rows: int) -> Caches:
    """Likewise, of a block of rows whose hits are its own."""
    edges = _edges(table.access, table.num_embeddings)
    return _between(edges, np.asarray(table.hit_rate(edges, first_row, rows)))


def _edges(access: Access, num_rows: int) -> Floats:
    spread = access_distribution(access, num_rows)
    ends, rises = np.append(0.0, np.cumsum(spread.rows)) / spread.rows.sum(), np.append(0.0, np.cumsum(spread.mass))
    return np.unique(np.clip(np.concatenate([np.interp(1 - _MISSED, rises, ends), [0.0, 1.0]]), 0.0, 1.0))


def _between(edges: Floats, hits: Floats) -> Caches:
    return _moved(edges[:-1], hits[:-1], 1.0 - hits[1:])


def _moved(rows: Floats, hits: Floats, misses: Floats) -> Caches:
    each = (np.clip(rows * (1 - _SLACK), 0.0, 1.0), np.clip(hits - _SLACK, 0.0, 1.0), np.clip(misses - _SLACK, 0.0, 1.0))
    return Caches(*(side[:, None] for side in each))


def is_linear(cost: CostModel, device: str) -> bool:
    """Whether the time of cached lookups is linear in the share that hits: nothing is charged for what overflows, nor for pages."""
    kernels = [cost.kernel(device, part) for part in (ComputeKernel.FUSED, ComputeKernel.FUSED_UVM)]
    costs = [
        each for kernel in kernels if kernel for each in (kernel.forward, kernel.backward, *(o.backward for o in kernel.other_backwards))
    ]
    return all(each.per_page_us == 0 and (each.per_overflow_byte_us == 0 or each.cache_bytes == 0) for each in costs)
