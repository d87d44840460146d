"""How long stages may last for a dive: lengths at which patterns cover all tables, each from a random descent.

The lengths of a plan are of no use for a better one: patterns within less of each hardly ever cover all tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from emplace.solver.budget import NODE_STEPS
from emplace.solver.heuristics.dive_program import StepMeter
from emplace.solver.model.problem import Bools, Floats, Ints, Problem, Scope
from emplace.solver.patterns.branching import Branching, BranchNode, split_stage
from emplace.solver.patterns.device_classes import MakespanBox, placeable
from emplace.solver.patterns.node_bound import NodeBound, PatternBound
from emplace.solver.relaxation.bound import Bound, Bounder

DRAWING_STEPS = 300_000
"""Steps of one pricing: a part whose patterns are not found by then is left, as nothing is to be proven."""


@dataclass(frozen=True)
class DiveLimits:
    """What a dive keeps to."""

    keep: Bools
    """[O] the options that it may take."""
    upper: Floats
    """[K] the most time of each stage on a device, in microseconds."""
    patterns: list[Ints] = field(default_factory=list)
    """Patterns within them that cover all tables, as far as they are known: the rising items of each."""


class StageLengths:
    """Draws lengths of several stages."""

    def __init__(self, problem: Problem, bounder: Bounder, bound: Bound, random: np.random.Generator, meter: StepMeter) -> None:
        self.problem, self.bound, self.random, self.meter = problem, bound, random, meter
        self.branching = Branching(problem, bounder, bound)
        self.patterns = PatternBound(problem, lambda: meter.ended, DRAWING_STEPS)
        self.single = (problem.option_scope == Scope.DEVICE)[self.patterns.classes[0].option]

    def draw(self, target_us: float, better_us: float, may: Bools) -> Iterator[DiveLimits | None]:
        """Limits with a sum of `target_us`, or up to `better_us` where no shorter ones are met, for options in `may` [O]; nothing after a step
        without. Ends once all descents of a round meet none. Raises OutOfSteps."""
        region, is_met = self.branching.below(target_us), True
        while region is not None and is_met:
            is_met, waiting = False, [replace(part, keep=part.keep & may) for part in self.branching.parts(target_us, region)]
            self.random.shuffle(waiting)
            while waiting:
                node = waiting.pop()
                box = self.branching.box(node, target_us)
                found = self.patterns.bound(node.keep, box, node.prices)
                self.meter.spend(found.steps + NODE_STEPS)
                if found.is_infeasible or not found.is_covered or not found.share.any():
                    yield None
                    continue
                longest = np.maximum(found.longest, found.makespan)
                if longest.sum() > better_us - self.bound.fixed_us:
                    waiting += self._shorter(node, box, found)
                    yield None
                    continue
                is_met = True
                keep = placeable(self.problem, self.patterns.classes, node.keep, box)
                upper = longest + self._shares(longest) * max(box.value - longest.sum(), 0.0)
                patterns = [items[self.single[items]] for items in self.patterns.taken()]
                yield DiveLimits(keep, upper, [items for items in patterns if len(items)])
                self.random.shuffle(waiting)

    def _shorter(self, node: BranchNode, box: MakespanBox, found: NodeBound) -> list[BranchNode]:
        """Two parts of a node in random order: a stage by which patterns are longer than s is shorter, or s is longer. None where none is."""
        excess = np.maximum(found.longest - found.makespan, 0.0)
        if not excess.any():
            return []
        stage = int(self.random.choice(len(excess), p=excess / excess.sum()))
        parts = split_stage(node, stage, box, found)
        self.random.shuffle(parts)
        return parts

    def _shares(self, longest: Floats) -> Floats:
        """[K] a random division of one over the stages that last at all."""
        weight = np.where(longest > 0, self.random.exponential(size=len(longest)), 0.0)
        return np.asarray(weight / weight.sum())
