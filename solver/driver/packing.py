"""A plan without any search, if greedy packing finds one."""

from __future__ import annotations

from emplace.solver.driver.conflict_repair import dealt_out
from emplace.solver.heuristics.greedy import pack
from emplace.solver.model.conflicts import Groups, keeps_apart
from emplace.solver.model.extract import Placement, assemble
from emplace.solver.model.priced import PricedQuestion
from emplace.solver.model.problem import Assignment, Problem


def quick_placement(priced: PricedQuestion) -> Placement | None:
    """A plan without search, if greedy packing finds one."""
    assignment = pack_apart(priced.problem, priced.apart) if priced.every_item_has_an_option else None
    placement = None if assignment is None else assemble(priced, assignment)
    return placement if placement is not None and placement.fits else None


def pack_apart(problem: Problem, groups: Groups) -> Assignment | None:
    """`pack`, with an assignment that keeps the groups apart or none."""
    first = pack(problem)
    if first is None or keeps_apart(problem, groups, first):
        return first
    return pack(dealt_out(problem, groups, first))
