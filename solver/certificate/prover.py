"""A proof for a plan: weights for each set of ranks, and the most that they prove.

Weights are added where what they prove is least: for the set of sharding types with the lowest bound, then for refuting the value that the
plan claims. placement/proof/ judges what is proven, so nothing here can make a proof wrong; only weaker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from emplace.placement.certificate import Proof, ProofPart, Weights
from emplace.placement.plan import Plan, PlanStatus, Question
from emplace.placement.proof.lagrangian import Scale, WeighedChoices, at_most
from emplace.placement.proof.program import ProofProgram, may_be_by_rank, program_of, topologies
from emplace.placement.proof.refute import Left, left_below, room_us
from emplace.placement.proof.verify import SAME, open_sets, proves
from emplace.placement.topology import Topology
from emplace.solver.certificate.duals import ALL_TYPES, memory_weights, relaxed
from emplace.solver.model.problem import Bools

TYPE_ROUNDS = 16
"""Sets of sharding types that get weights of their own at most."""
REFUTING_ROUNDS = 6
"""Rounds of weights for refuting a value."""
AIMED_BELOW = Fraction(SAME) / 2
"""The share by which the value that is to be refuted is below the plan's own: the best plan itself must not be in the way."""
STILL_CHOICES, STILL_TIME = 0.98, 1e-5
"""Where a round of them leaves more than this share of the choices, and raises no stage by this share of all, there are no more."""
LOWER_VALUES = 3
"""Values below the plan's own that are tried where that can't be refuted, each half as far from what is proven."""


def prove(plan: Plan) -> Proof:
    """The strongest proof that is found up to what the plan claims. Raises InvalidDocument for a question that no job can have."""
    claimed = None if plan.status is PlanStatus.INFEASIBLE else Fraction(plan.lower_bound_us or 0.0) * (1 - AIMED_BELOW)
    floor_us = plan.question.cost_model.floor(plan.question.model).time_us
    if claimed is not None and claimed <= floor_us:  # which needs no weights
        return Proof(bound_us=floor_us, trainers=ProofPart(), with_servers=_no_weights(plan.question))
    trainers, with_servers = (None if topology is None else _Part.of(plan.question, topology) for topology in topologies(plan.question))
    assert trainers is not None
    proven = [part.highest(claimed) for part in (trainers, with_servers) if part is not None]
    finite = [value for value in proven if value is not None]
    return Proof(
        bound_us=at_most(min(finite)) if finite else None,
        trainers=trainers.document(),
        with_servers=None if with_servers is None else with_servers.document(),
    )


def _no_weights(question: Question) -> ProofPart | None:
    """The part of a job with servers; None where there is no such job."""
    return None if topologies(question)[1] is None else ProofPart()


@dataclass
class _Part:
    """The proof on one set of ranks, as it grows."""

    program: ProofProgram
    scales: list[Scale]

    @classmethod
    def of(cls, question: Question, topology: Topology) -> _Part:
        return cls(program_of(question, topology, each_rank=may_be_by_rank(question, topology)), [])

    def document(self) -> ProofPart:
        return ProofPart(each_rank=self.program.each_rank, weights=tuple(scale.weights for scale in self.scales))

    def highest(self, claimed: Fraction | None) -> Fraction | None:
        """The highest value found that is proven, not far above the claimed one. None is beyond all values: nothing fits."""
        low = self._raised()
        if low is None or (claimed is not None and low >= claimed):
            return low
        if self._is_refuted(claimed):
            return claimed
        if claimed is None:
            return low
        high = claimed
        for _ in range(LOWER_VALUES):
            middle = (low + high) / 2
            if self._is_refuted(middle):
                low = middle
            else:
                high = middle
        return low

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
