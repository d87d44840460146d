"""How a solve closed on the best plan: the best found and the proven bound over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Moment:
    """What was known after so long. `best_us` is None while no plan was."""

    elapsed_s: float
    best_us: float | None
    bound_us: float


@dataclass(frozen=True)
class SearchChart:
    """Moments in order; times from `low_us` to `high_us`."""

    moments: tuple[Moment, ...]
    low_us: float
    high_us: float
    end_s: float


def search_chart(events: Iterable[Mapping[str, Any]]) -> SearchChart | None:
    """From the progress that a solve reported; None where there is too little to draw."""
    known = [event for event in events if event.get("bound_us") is not None and event.get("elapsed_s") is not None]
    moments = [Moment(event["elapsed_s"], event.get("incumbent_us"), event["bound_us"]) for event in known]
    values = [value for each in moments for value in (each.best_us, each.bound_us or None) if value is not None]
    if len(moments) < 2 or not values:
        return None
    # The first plan may be many times the last; what is twice the bound away tells nothing more.
    low, high = min(values), min(max(values), 3 * max(each.bound_us for each in moments) or max(values))
    margin = 0.05 * (high - low) or 0.05 * high
    return SearchChart(tuple(moments), max(0.0, low - margin), high + margin, max(each.elapsed_s for each in moments) or 1.0)
