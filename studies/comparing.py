"""What a sweep's points say beside each other: Pareto fronts, and where one host overtakes another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Any

from emplace.placement.document import Document
from emplace.studies.axes import Axis, number_of
from emplace.studies.figures import Figures
from emplace.studies.quantities import QUANTITIES, Quantity


class Front(Document):
    """The points that no other beats in one quantity without losing in the other."""

    over: tuple[str, str]
    points: tuple[int, ...]
    """Their numbers, in the order of the first quantity, best first."""


class Crossover(Document):
    """Between two values of an axis another host becomes the better one."""

    quantity: str
    path: str
    others: dict[str, Any]
    """The values of the other axes."""
    below: str
    """The better host at `between[0]`, and above at `between[1]`."""
    above: str
    between: tuple[Any, Any]
    at: float | None
    """Where they are equal, read off straight lines between the two in logarithms; absent where a host has no plan at one of them."""
    sure: bool
    """Whether the ranges of a step that nobody measured are apart at both values."""


def front(figures: Sequence[Figures], over: tuple[str, str]) -> Front:
    """The front of the points that have both quantities."""
    first, second = (QUANTITIES[name] for name in over)
    known = [(number, first.of(each), second.of(each)) for number, each in enumerate(figures)]
    placed = [(number, one, other) for number, one, other in known if one is not None and other is not None]
    placed.sort(
        key=lambda point: (-point[1] if first.more_is_better else point[1], -point[2] if second.more_is_better else point[2], point[0])
    )
    kept, best = [], None
    for number, _, other in placed:
        if best is None or second.beats(other, best):
            kept.append(number)
            best = other
    return Front(over=over, points=tuple(kept))


def crossovers(hosts: Sequence[str], axes: Sequence[Axis], figures: Sequence[Figures], quantity: Quantity) -> Iterator[Crossover]:
    """Along each axis of numbers. `figures` are by host, the last axis fastest."""
    shape = [len(axis.values) for axis in axes]
    size = math.prod(shape)
    of = {
        (host, index): figures[host * size + number]
        for host in range(len(hosts))
        for number, index in enumerate(product(*map(range, shape)))
    }
    for along, axis in enumerate(axes):
        if not axis.is_numeric:
            continue
        order = sorted(range(shape[along]), key=lambda index: number_of(axis.values[index]) or 0.0)
        for others in product(*(range(count) for number, count in enumerate(shape) if number != along)):

            def index_of(value: int, others: tuple[int, ...] = others, along: int = along) -> tuple[int, ...]:
                return (*others[:along], value, *others[along:])

            rest = {each.path: each.values[number] for each, number in zip([*axes[:along], *axes[along + 1 :]], others, strict=True)}
            for one, other in combinations(range(len(hosts)), 2):
                for low, high in pairwise(order):
                    corners = [of[host, index_of(value)] for value in (low, high) for host in (one, other)]
                    yield from _crossing(quantity, axis, rest, (hosts[one], hosts[other]), (axis.values[low], axis.values[high]), corners)


def _crossing(
    quantity: Quantity, axis: Axis, rest: dict[str, Any], names: tuple[str, str], between: tuple[Any, Any], corners: list[Figures]
) -> Iterator[Crossover]:
    """One where the better host changes. `corners` are both hosts at the lower value, then at the higher."""
    better = [_better(quantity, corners[0], corners[1]), _better(quantity, corners[2], corners[3])]
    if None in better or better[0] == better[1]:
        return
    below, above = (names[0] if first else names[1] for first in better)
    yield Crossover(
        quantity=quantity.name,
        path=axis.path,
        others=rest,
        below=below,
        above=above,
        between=between,
        at=_equal_at(quantity, between, corners),
        sure=all(are_apart(one, other) for one, other in (corners[:2], corners[2:])),
    )


def are_apart(one: Figures, other: Figures) -> bool:
    """Whether no figures of the software stack within their ranges change which of two is faster; one without a plan is slowest."""
    if one.throughput is None or other.throughput is None:
        return True
    first, second = (each.throughput_range or (each.throughput or 0.0,) * 2 for each in (one, other))
    return first[0] > second[1] or second[0] > first[1]


def _better(quantity: Quantity, one: Figures, other: Figures) -> bool | None:
    """Whether the first is the better one; None where neither is, or it is not known."""
    values = [quantity.of(one), quantity.of(other)]
    if values[0] is None or values[1] is None:
        return None if values[0] is values[1] or not _all_known(one, other) else values[1] is None
    return None if values[0] == values[1] else quantity.beats(values[0], values[1])


def _all_known(one: Figures, other: Figures) -> bool:
    """Whether one that has no plan is proven to have none."""
    return all(each.throughput is not None or each.status == "infeasible" for each in (one, other))


def _equal_at(quantity: Quantity, between: tuple[Any, Any], corners: list[Figures]) -> float | None:
    values = [quantity.of(each) for each in corners]
    ends = [number_of(value) for value in between]
    if any(value is None or value <= 0 for value in [*values, *ends]):
        return None
    logs = [math.log(value) for value in values if value is not None]
    low, high = (math.log(end) for end in ends if end is not None)
    before, after = logs[0] - logs[1], logs[2] - logs[3]
    return math.exp(low + (high - low) * before / (before - after))
