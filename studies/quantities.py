"""Figures of points that can be compared, by name: which way is better, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emplace.studies.figures import Figures
from emplace.studies.power import Running


@dataclass(frozen=True)
class Quantity:
    """One figure of a point."""

    name: str
    more_is_better: bool
    of: Callable[[Figures], float | None]
    needs: str | None = None
    """The key of the host document that it follows from, where that is optional."""

    def beats(self, one: float, other: float) -> bool:
        return one > other if self.more_is_better else one < other


def _of_running(get: Callable[[Running], float | None]) -> Callable[[Figures], float | None]:
    return lambda figures: None if figures.running is None else get(figures.running)


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        Quantity("throughput", True, lambda figures: figures.throughput),
        Quantity("step-time", False, lambda figures: figures.step_time_us),
        Quantity("servers", False, _of_running(lambda running: running.servers)),
        Quantity("power", False, _of_running(lambda running: running.power_w), "power_w"),
        Quantity("throughput-per-watt", True, _of_running(lambda running: running.throughput_per_w), "power_w"),
        Quantity("price", False, _of_running(lambda running: running.price_per_hour), "price_per_hour"),
        Quantity("cost", False, _of_running(lambda running: running.price_per_million_examples), "price_per_hour"),
    )
}
"""`price` is of an hour, `cost` of a million examples."""
