"""What the devices of a kind take of row splits: the mean, the least or one of the blocks that they hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emplace.solver.model.piece_bands import PricedWidths, least_within
from emplace.solver.model.problem import Bools, Floats, Ints


def with_blocks(priced: PricedWidths, where: Ints, blocks: tuple[Floats, ...], over: Callable[..., Floats]) -> PricedWidths:
    """With those of `where` as blocks [n, places, ...] have it over all places."""
    parts = [np.array(part) for part in (priced.time_us, priced.hbm_bytes, priced.ddr_bytes, priced.served_us)]
    for part, each in zip(parts, blocks, strict=True):
        part[where] = over(each, axis=1)
    return PricedWidths(*parts)


def sum_where(chosen: Bools, values: Floats, axis: int) -> Floats:
    """Over an axis of values [n, places, ...], those at the places that are chosen ([n, places])."""
    return np.asarray(np.where(chosen.reshape(*chosen.shape, *(1,) * (values.ndim - 2)), values, 0.0).sum(axis=axis))


def mean_of(parts: list[PricedWidths], shares: list[Floats]) -> PricedWidths:
    """The mean of the parts, by the share of devices ([n]) that each is of."""
    time_us = sum(part.time_us * share[:, None, None] for part, share in zip(parts, shares, strict=True))
    hbm, ddr = (
        sum(getattr(part, name) * share[:, None] for part, share in zip(parts, shares, strict=True)) for name in ("hbm_bytes", "ddr_bytes")
    )
    return PricedWidths(np.asarray(time_us), np.asarray(hbm), np.asarray(ddr), np.zeros_like(time_us))


def least_of(parts: list[PricedWidths], shares: list[Floats]) -> PricedWidths:
    """The least of the parts that there are."""
    there = np.stack([share > 1e-12 for share in shares], axis=1)
    stacked = [np.stack([getattr(part, name) for part in parts], axis=1) for name in ("time_us", "hbm_bytes", "ddr_bytes", "served_us")]
    return PricedWidths(*(least_within(each, there) for each in stacked))
