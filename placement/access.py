"""Access: how a table's lookups spread over its rows (what RecShard, arXiv 2201.10095, calls the ICDF).

Every spelling becomes a few bins of rows with equal probability inside a bin, hottest first. Where in the table those rows are is
another question (placement/id_order.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Discriminator, Field, Tag, model_validator

from emplace.placement.document import Document, broken_rule

_ZIPF_EXACT_ROWS = 64
"""The hottest rows of a Zipf table that are bins of their own."""
_ZIPF_BINS = 200
"""Edges of the bins beyond them."""


class AccessDistribution:
    """Bins of rows, hottest first: `rows[b]` rows with probability `row_probability[b]` each."""

    def __init__(self, rows: NDArray[np.float64], mass: NDArray[np.float64]) -> None:
        self.rows = rows
        self.mass = mass / mass.sum()
        self.row_probability = self.mass / rows

    def unique_rows(self, lookups: ArrayLike) -> NDArray[np.float64]:
        """Expected number of different rows among `lookups` independent lookups (any shape)."""
        lookups = np.asarray(lookups, dtype=np.float64)[..., None]
        # 1 - (1-p)^n, kept exact for tiny p
        seen = -np.expm1(lookups * np.log1p(-np.minimum(self.row_probability, 1 - 1e-15)))
        return np.asarray((self.rows * seen).sum(axis=-1))

    def hit_rate(self, cached_share: ArrayLike) -> NDArray[np.float64]:
        """Share of lookups that the hottest `cached_share` of the rows takes (any shape, 0..1)."""
        row_ends = np.append(0.0, np.cumsum(self.rows)) / self.rows.sum()
        mass_ends = np.append(0.0, np.cumsum(self.mass))
        return np.asarray(np.interp(np.asarray(cached_share, dtype=np.float64), row_ends, mass_ends))

    def sample(self, rng: np.random.Generator, lookups: int) -> NDArray[np.int64]:
        """[lookups] rows that independent lookups ask for, each by its rank: 0 is the hottest."""
        bins = np.searchsorted(np.cumsum(self.mass), rng.random(lookups), side="right").clip(max=len(self.mass) - 1)
        starts = np.append(0.0, np.cumsum(self.rows))[bins]
        ranks = np.floor(starts + rng.random(lookups) * self.rows[bins]).astype(np.int64)
        return np.asarray(np.minimum(ranks, round(float(self.rows.sum())) - 1))


Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class ZipfAccess(Document):
    """The row of rank k is accessed in proportion to k^-zipf."""

    zipf: Annotated[float, Field(strict=True, gt=0, le=10)]


class IcdfAccess(Document):
    """Points (share of rows, hottest first; share of accesses they take), linear in between."""

    icdf: Annotated[tuple[tuple[Share, Share], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _rises_ever_slower(self) -> IcdfAccess:
        points = np.array(_with_ends(self.icdf))
        steps = np.diff(points, axis=0)
        if (steps[:, 0] <= 0).any() or (steps[:, 1] < 0).any():
            raise broken_rule("/icdf", self.icdf, "points must rise from [0, 0] to [1, 1] in both shares")
        rows, accesses = steps[:, 0], steps[:, 1]
        # slope[i + 1] > slope[i] * (1 + 1e-9) + 1e-12, without a division by a share that is almost nothing
        if (accesses[1:] * rows[:-1] > accesses[:-1] * rows[1:] * (1 + 1e-9) + 1e-12 * rows[:-1] * rows[1:]).any():
            rule = "the hottest rows come first, so each stretch must take fewer accesses per row than the one before"
            raise broken_rule("/icdf", self.icdf, rule)
        return self


ACCESS_SPELLINGS = ("uniform", "zipf", "icdf")


def _spelling(value: Any) -> str | None:
    if isinstance(value, dict):
        keys = [str(key) for key in value]
        return keys[0] if len(keys) == 1 and keys[0] in ACCESS_SPELLINGS[1:] else None
    if isinstance(value, ZipfAccess):
        return "zipf"
    if isinstance(value, IcdfAccess):
        return "icdf"
    return "uniform" if value == "uniform" else None


Access = Annotated[
    Annotated[Literal["uniform"], Tag("uniform")] | Annotated[ZipfAccess, Tag("zipf")] | Annotated[IcdfAccess, Tag("icdf")],
    Discriminator(
        _spelling,
        custom_error_type="access",
        custom_error_message="must be uniform, {zipf: exponent} or {icdf: [[share of rows, share of accesses], ...]}",
    ),
]


def _with_ends(points: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    inner = [point for point in points if tuple(point) not in ((0.0, 0.0), (1.0, 1.0))]
    return [(0.0, 0.0), *inner, (1.0, 1.0)]


def _zipf(alpha: float, num_rows: int) -> AccessDistribution:
    """Single rows at the head, then bins at equal ratios; a bin's mass is the integral of x^-alpha over it."""
    head = np.arange(1, min(_ZIPF_EXACT_ROWS, num_rows) + 1, dtype=np.float64)
    if num_rows <= _ZIPF_EXACT_ROWS:
        return AccessDistribution(np.ones(num_rows), head**-alpha)
    edges = np.unique(np.round(np.geomspace(_ZIPF_EXACT_ROWS, num_rows, _ZIPF_BINS)))
    ends = edges + 0.5
    integral = np.log(ends) if abs(alpha - 1) < 1e-9 else ends ** (1 - alpha) / (1 - alpha)
    return AccessDistribution(np.append(np.ones(len(head)), np.diff(edges)), np.append(head**-alpha, np.diff(integral)))


@lru_cache(maxsize=20_000)
def access_distribution(access: Access, num_rows: int) -> AccessDistribution:
    """The distribution over the rows of a table that a spelling stands for."""
    if isinstance(access, ZipfAccess):
        return _zipf(access.zipf, num_rows)
    if isinstance(access, IcdfAccess):
        steps = np.diff(np.array(_with_ends(access.icdf)), axis=0)
        return AccessDistribution(np.maximum(steps[:, 0] * num_rows, 1e-9), steps[:, 1])
    return AccessDistribution(np.array([float(num_rows)]), np.array([1.0]))
