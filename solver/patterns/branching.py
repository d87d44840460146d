"""Parts of the placements up to a level: options, and how long stages last."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emplace.solver.model.problem import Bools, Floats, Problem
from emplace.solver.patterns.device_classes import MakespanBox
from emplace.solver.patterns.node_bound import NodeBound, Prices
from emplace.solver.relaxation.bound import Bound, Bounder
from emplace.solver.relaxation.region import Region

INSIDE = 0.25
"""A stage is split no nearer to its limits than this share of what lies between."""


@dataclass(frozen=True)
class BranchNode:
    """Placements that take only options in `keep` and whose s lie between `lower` and `upper`."""

    keep: Bools
    lower: Floats
    upper: Floats
    prices: Prices | None
    effort: int = 1
    """How many times the usual work solving it may take."""


class Branching:
    """Levels are objectives in microseconds; boxes leave out what no placement changes."""

    def __init__(self, problem: Problem, bounder: Bounder, bound: Bound) -> None:
        self.bounder, self.bound = bounder, bound
        stages = problem.num_stages
        self.everything = BranchNode(np.ones(problem.num_options, dtype=bool), np.zeros(stages), np.full(stages, np.inf), None)

    def below(self, level: float) -> Region | None:
        """What placements up to a level must keep to; None where there are none."""
        return self.bounder.below(self.bound.root, level - self.bound.fixed_us)

    def parts(self, level: float, region: Region) -> list[BranchNode]:
        """All of a region up to a level: where a stage lasts whole steps, a part for each case."""
        cases = self.bounder.cases_below(self.bound, region, level - self.bound.fixed_us)
        return [self.within(self.everything, case) for case in cases]

    def within(self, node: BranchNode, region: Region) -> BranchNode:
        """What of a node is in a region."""
        may = np.zeros(len(node.keep), dtype=bool)
        may[region.part.left] = True
        return replace(node, keep=node.keep & may, lower=np.maximum(node.lower, region.part.program.lower))

    def box(self, node: BranchNode, level: float) -> MakespanBox:
        """How long stages last in a node, up to a level."""
        return self.up_to(MakespanBox(node.lower, node.upper, np.inf), level)

    def up_to(self, box: MakespanBox, level: float) -> MakespanBox:
        """What of a box is up to a level."""
        value = level - self.bound.fixed_us
        return MakespanBox(box.lower, np.minimum(box.upper, value - (box.lower.sum() - box.lower)), value)


def split_stage(node: BranchNode, stage: int, box: MakespanBox, found: NodeBound) -> list[BranchNode]:
    """Two parts of a node: s is below the middle of what it says and what a pattern takes, or above; well within the limits of the box."""
    inside = INSIDE * (box.upper[stage] - box.lower[stage])
    middle = np.clip((found.longest[stage] + found.makespan[stage]) / 2, box.lower[stage] + inside, box.upper[stage] - inside)
    upper, lower = node.upper.copy(), node.lower.copy()
    upper[stage], lower[stage] = middle, middle
    return [replace(node, lower=lower, prices=found.prices), replace(node, upper=upper, prices=found.prices)]
