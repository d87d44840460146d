"""Which job gets which of its sizes from a stock: an integer program, by CP-SAT.

x[o] is 1 where option o is taken
each job takes one option at most; what options take of a host is at most what there is of it
first as many jobs as possible, then for the least price
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emplace.solver.cp_sat import new_solver
from emplace.solver.or_tools import cp_model

_DETERMINISTIC_S = 10.0
"""CP-SAT's limit of counted work for each of the two questions."""
_STEPS = 1_000_000_000
"""Prices are rounded to so many steps of the largest one."""


@dataclass(frozen=True)
class HostStock:
    nodes: int
    servers: int


@dataclass(frozen=True)
class JobOption:
    """One size of a job on one host, by their numbers."""

    job: int
    host: int
    nodes: int
    servers: int
    price: float


@dataclass(frozen=True)
class Chosen:
    """`options` are those that are taken, by number; `is_best` where no other choice has more jobs, nor as many for less."""

    options: tuple[int, ...]
    is_best: bool


def assign(options: Sequence[JobOption], stock: Sequence[HostStock]) -> Chosen:
    """The best choice that was found; the same on every machine."""
    if not options:
        return Chosen((), True)
    model = cp_model.CpModel()
    taken = [model.new_bool_var(str(number)) for number in range(len(options))]
    for job in {option.job for option in options}:
        model.add_at_most_one(one for one, option in zip(taken, options, strict=True) if option.job == job)
    for host, there in enumerate(stock):
        of_host = [(one, option) for one, option in zip(taken, options, strict=True) if option.host == host]
        model.add(sum(option.nodes * one for one, option in of_host) <= there.nodes)
        model.add(sum(option.servers * one for one, option in of_host) <= there.servers)
    model.maximize(sum(taken))
    most, most_is_best = _solved(model, taken)
    for number, one in enumerate(taken):
        model.add_hint(one, number in most)
    model.add(sum(taken) >= len(most))
    step = max(option.price for option in options) / _STEPS
    model.minimize(sum((round(option.price / step) if step else 0) * one for one, option in zip(taken, options, strict=True)))
    cheapest, cheapest_is_best = _solved(model, taken)
    return Chosen(cheapest or most, most_is_best and cheapest_is_best)


def _solved(model: cp_model.CpModel, taken: Sequence[cp_model.IntVar]) -> tuple[tuple[int, ...], bool]:
    """(the numbers of what is taken, whether that is proven to be best)."""
    solver = new_solver()
    solver.parameters.max_deterministic_time = _DETERMINISTIC_S
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return (), False
    return tuple(number for number, one in enumerate(taken) if solver.boolean_value(one)), status == cp_model.OPTIMAL
