"""The proof of some placements as it grows: weights, and two cases where they are not enough.

Weights are added where what they prove is least: for the set of sharding types with the lowest bound, then for refuting the value that a
plan claims. placement/proof/ judges what is proven, so nothing here can make a proof wrong; only weaker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from emplace.placement.certificate import Cases, HasAtMost, HasWay, ProofCase, Weights
from emplace.placement.proof.lagrangian import Scale, WeighedChoices
from emplace.placement.proof.program import ProofProgram
from emplace.placement.proof.refute import Left, left_below, room_us
from emplace.placement.proof.verify import open_sets, proves
from emplace.solver.certificate.duals import ALL_TYPES, memory_weights, relaxed
from emplace.solver.certificate.splitting import heaviest_mix
from emplace.solver.model.problem import Bools

TYPE_ROUNDS = 16
"""Sets of sharding types that get weights of their own at most."""
REFUTING_ROUNDS = 6
"""Rounds of weights for refuting a value."""
STILL_CHOICES, STILL_TIME = 0.98, 1e-5
"""Where a round of them leaves more than this share of the choices, and raises no stage by this share of all, there are no more."""
LOWER_VALUES = 3
"""Values below the plan's own that are tried where that can't be refuted, each half as far from what is proven."""


@dataclass
class GrowingCase:
    """The proof for some placements on one set of ranks."""

    program: ProofProgram
    scales: list[Scale]
    inherited: int = 0
    """How many of the scales, the first ones, are of the case that this one is half of."""
    proven: Fraction | None = Fraction(0)
    """The highest value that weights are known to prove. None is beyond all values: there is no placement."""
    says: HasWay | HasAtMost | None = None
    halves: tuple[GrowingCase, GrowingCase] | None = None
    """The placements of which that is so, and the others."""

    @property
    def weights(self) -> tuple[Weights, ...]:
        """Those that are this case's own."""
        return tuple(scale.weights for scale in self.scales[self.inherited :])

    @property
    def cases(self) -> Cases | None:
        """Its halves, as a proof has them."""
        if self.says is None or self.halves is None:
            return None
        so, otherwise = (ProofCase(weights=half.weights, cases=half.cases) for half in self.halves)
        return Cases(says=self.says, so=so, otherwise=otherwise)

    def reaches(self, claimed: Fraction | None) -> bool:
        """Whether weights prove what is claimed."""
        return self.proven is None or (claimed is not None and self.proven >= claimed)

    def weigh(self, claimed: Fraction | None) -> None:
        """Add weights until they prove what is claimed, or prove no more."""
        self.proven = self._raised()
        if not self.reaches(claimed) and self._is_refuted(claimed):
            self.proven = claimed

    def weigh_less(self, claimed: Fraction) -> None:
        """Look for the highest value below what is claimed that weights prove."""
        high = claimed
        for _ in range(LOWER_VALUES):
            assert self.proven is not None
            middle = (self.proven + high) / 2
            if self._is_refuted(middle):
                self.proven = middle
            else:
                high = middle

    def split(self, claimed: Fraction | None) -> tuple[GrowingCase, GrowingCase] | None:
        """Two cases of it, on what is mixed most where weights prove least. None where no mix weighs anything to speak of."""
        bounds = WeighedChoices.of(self.program, self.scales)
        types = min(open_sets(self.program, self.scales, claimed), key=lambda some: bounds.least_us(some) or Fraction(0))
        found = relaxed(self.program, types)
        self.says = None if found is None else heaviest_mix(found)
        if self.says is not None:
            self.halves = self._half(self.says, so=True), self._half(self.says, so=False)
        return self.halves

    def _half(self, says: HasWay | HasAtMost, *, so: bool) -> GrowingCase:
        program = self.program.case(says, so=so)
        return GrowingCase(program, [replace(scale, program=program) for scale in self.scales], len(self.scales))

    def _raised(self) -> Fraction | None:
        """What weights alone prove, with some for the set of sharding types with the lowest bound, again and again."""
        if not self.program.has_room or not self.program.every_table_is_in(self.program.choices):
            return None
        types, done = ALL_TYPES, set[bytes]()
        while types.tobytes() not in done and len(done) < TYPE_ROUNDS:
            done.add(types.tobytes())
            found = relaxed(self.program, types)
            self._add(found.weights if found else memory_weights(self.program, types))
            bounds = WeighedChoices.of(self.program, self.scales)
            finite = [(bound, number) for number, some in enumerate(bounds.some_types) if (bound := bounds.least_us(some)) is not None]
            if not finite:
                return None
            least, number = min(finite)
            types = bounds.some_types[number]
        return least

    def _add(self, *weights: Weights) -> None:
        self.scales += [Scale(self.program, each) for each in weights]

    def _is_refuted(self, value_us: Fraction | None) -> bool:
        """Whether the value is proven, with the weights that it takes; those of a failure are dropped."""
        if value_us is None or self.program.each_rank:
            return proves(self.program, self.scales, value_us)
        before = list(self.scales)
        if all(self._refutes(types, value_us) for types in open_sets(self.program, self.scales, value_us)):
            return True
        self.scales = before
        return False

    def _refutes(self, types: Bools, value_us: Fraction) -> bool:
        """Whether placements with just these sharding types are refuted, with weights for what is left of them."""
        room = room_us(self.program, types, value_us)
        left = left_below(self.program, self.scales, types, room)
        for _ in range(REFUTING_ROUNDS):
            if left is None:
                return True
            before, rest = left, replace(self.program, choices=left.choices)
            found = relaxed(rest, ALL_TYPES, np.array([float(each) for each in left.lower_us]))
            self._add(found.weights if found else memory_weights(rest, ALL_TYPES))
            left = left_below(self.program, self.scales, types, room)
            if left is not None and found is not None:
                self._add(*found.of_single_stages(float(room)))
                left = left_below(self.program, self.scales, types, room)
            if left is not None and _is_standing(before, left, room):
                return False
        return left is None


def _is_standing(before: Left, left: Left, room: Fraction) -> bool:
    risen = any(after - lower > STILL_TIME * float(room) for lower, after in zip(before.lower_us, left.lower_us, strict=True))
    return not risen and len(left.choices) > STILL_CHOICES * len(before.choices)
