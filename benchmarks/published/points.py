"""A published time and the prediction for it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Point:
    """Times in milliseconds."""

    publication: str
    what: str
    stack: str
    published_ms: float
    predicted_ms: float
    fast_ms: float
    slow_ms: float

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.predicted_ms / self.published_ms

    @property
    def is_in_range(self) -> bool:
        """Whether the published time is one that the prediction allows."""
        return self.fast_ms <= self.published_ms <= self.slow_ms


def mean_error(points: Sequence[Point]) -> float:
    """Geometric mean of the factors by which predictions are off, less one."""
    return math.exp(float(np.mean([abs(math.log(point.ratio)) for point in points]))) - 1


def worst_factor(points: Sequence[Point]) -> float:
    """The largest factor by which one is off, either way."""
    return max(max(point.ratio, 1 / point.ratio) for point in points)


def data(name: str) -> dict[str, Any]:
    """A publication's figures as they were published, with their source."""
    found: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return found
