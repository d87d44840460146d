"""A bound by boxes of stage lengths: what rows say of the limits of a box is the more, the smaller it is.

The box with the lowest bound is split in two, at the length that its relaxation gives the stage by which it loses most; so what is lowest
in the end holds for every placement.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace

import numpy as np

from emplace.solver.budget import BOUND_ROUNDING
from emplace.solver.clock import Clock
from emplace.solver.model.problem import Floats
from emplace.solver.relaxation.column_generation import relax
from emplace.solver.relaxation.large_units import Box, LargeUnits, Summary
from emplace.solver.relaxation.region import Region

LONGER, ROOM = 0.02, 0.006
"""For options to start a search from: how much longer than in the lowest box the stage of large units lasts, as devices with such a unit
are the hardest to fill, and how far all stages may exceed their limits, as shares of the stage and of all."""
INSIDE = 0.25
"""A box is split no nearer to its limits than this share of its width."""


@dataclass(frozen=True, order=True)
class BoundedBox:
    """Placements of a region whose stages last as long as a box says, and their relaxation."""

    bound: float
    number: int
    """The earlier one comes first where bounds are equal."""
    region: Region = field(compare=False)
    box: Box = field(compare=False)
    stage: int = field(compare=False)
    """Where to split it, and at which length."""
    at: float = field(compare=False)
    found: Summary = field(compare=False)
    """Its relaxation."""


class StageBoxes:
    """Boxes of placements with a sum of s up to `value`, which lie in some regions: one for each to begin with."""

    def __init__(self, large: LargeUnits, regions: list[Region], value: float, clock: Clock) -> None:
        self.large, self.value, self.clock = large, value, clock
        self.solved = 0
        """Boxes that have been bounded."""
        self._heap: list[BoundedBox] = []
        self._lowest: BoundedBox | None = None
        for region in regions:
            lower = region.part.program.lower
            self._add(region, Box(lower, lower + (value - lower.sum())), None)

    @property
    def least(self) -> float:
        """A bound on the sum of s, at most `value`."""
        return self._heap[0].bound if self._heap else self.value

    def split(self, most: int) -> None:
        """Split boxes until so many have been bounded, none is left or the clock ends it."""
        while self._heap and self.solved < most and not self.clock.is_over:
            self._lowest = lowest = heapq.heappop(self._heap)
            for box in self._halves(lowest):
                self._add(lowest.region, box, lowest)

    def proposed(self, free: float, clock: Clock) -> Floats | None:
        """[O] shares of options in a relaxation to start a search from, with such a share of each stage left free; None where there is none."""
        lowest = self._heap[0] if self._heap else self._lowest
        if lowest is None:
            return None
        is_stage = np.arange(len(lowest.box.lower)) == self.large.stage
        lower = np.where(is_stage, np.maximum(lowest.box.lower, lowest.found.makespan * (1 + LONGER)), lowest.box.lower)
        divided = self.large.program(lowest.region, Box(lower, lower + ROOM * self.value))
        if divided is None:
            return None
        rows = divided.program.rows
        roomy = replace(divided.program, rows=replace(rows, slope=rows.slope * (1.0 - free)))
        relaxation = relax(roomy, divided.starting_point(lowest.found), clock)
        if not relaxation.feasible or clock.is_over:
            return None
        shares = np.zeros(self.large.problem.num_options)
        np.add.at(shares, divided.option, relaxation.x)
        return shares

    def _add(self, region: Region, box: Box, whole: BoundedBox | None) -> None:
        """Unless no placement up to the value is in it."""
        divided = self.large.program(region, box)
        if divided is None:
            return
        start, known = (divided.start, 0.0) if whole is None else (divided.starting_point(whole.found), whole.bound)
        relaxation = relax(divided.program, start, self.clock)
        self.solved += 1
        if relaxation.bound > self.value * (1 + BOUND_ROUNDING):
            return
        stage = int(np.argmax(divided.loss(relaxation, box)))
        inside = INSIDE * (box.upper - box.lower)
        at = np.clip(relaxation.makespan, box.lower + inside, box.upper - inside)[stage]
        found = divided.summary(relaxation)
        heapq.heappush(self._heap, BoundedBox(max(relaxation.bound, known), self.solved, region, box, stage, float(at), found))

    def _halves(self, split: BoundedBox) -> list[Box]:
        lower, upper = split.box
        is_stage = np.arange(len(lower)) == split.stage
        shorter = Box(lower, np.where(is_stage, split.at, upper))
        longer = np.where(is_stage, split.at, lower)
        left = self.value - float(longer.sum())
        return [shorter] if left < 0 else [shorter, Box(longer, np.asarray(np.minimum(upper, longer + left)))]
