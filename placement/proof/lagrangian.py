"""What weights prove: a placement's step is at least what its loads weigh, so at least what each table's lightest choice weighs.

Loads weigh what the vocabulary's formulas give in floating point. Every one of the sums here has fewer than 10^5 terms, none of them
negative, so it is off by less than 10^-11 of itself: that is taken off. What capacities weigh is worked out in fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from emplace.placement.certificate import Weights
from emplace.placement.proof.choices import TYPES, Choices
from emplace.placement.proof.classes import Bools, Floats
from emplace.placement.proof.fullest import is_known, on_fullest, uncounted_us
from emplace.placement.proof.program import ProofProgram
from emplace.placement.stages import PLACED_STAGES

ROUNDING = Fraction(1, 10**11)
"""The share of a sum that is taken off for rounding."""


@dataclass(frozen=True)
class Scale:
    """Weights of a program's loads, and what its capacities weigh."""

    program: ProofProgram
    weights: Weights

    @cached_property
    def totals(self) -> list[Fraction]:
        """[K] the shares of a stage's length that are given away, exactly."""
        sizes = self.program.classes.sizes.tolist()
        by_rank = [
            sum((size * Fraction(row[stage]) for size, row in zip(sizes, self.weights.stages, strict=True)), Fraction(0))
            for stage in range(len(PLACED_STAGES))
        ]
        for largest in self.weights.largest:
            by_rank[PLACED_STAGES.index(largest.stage)] += Fraction(largest.share)
        for fullest in self.weights.fullest:
            by_rank[PLACED_STAGES.index(fullest.stage)] += Fraction(fullest.share)
        return by_rank

    @cached_property
    def capacity(self) -> Fraction:
        """What all memory weighs, and what whole tables count for more than fullest ranks have, exactly."""
        sides = ((self.weights.hbm, self.program.hbm_capacity), (self.weights.ddr, self.program.ddr_capacity))
        memory = (Fraction(weight) * held for weights, room in sides for weight, held in zip(weights, room, strict=True))
        uncounted = (Fraction(each.share) * uncounted_us(self.program, each) for each in self.weights.fullest)
        return sum(memory, Fraction(0)) + Fraction(self.program.slowest_share) * sum(uncounted, Fraction(0))

    @property
    def is_of_memory(self) -> bool:
        """Whether bytes alone weigh anything."""
        return not any(self.totals)

    def weigh(self, choices: Choices) -> Floats:
        """[n] some choices of the program. Where bytes alone weigh anything, nothing is added for the mean of ranks that share cores."""
        share, ranks = self.program.slowest_share, len(self.program.topology.ranks)
        mean = 0.0 if self.is_of_memory else (1 - share) / ranks
        by_stage = share * np.array(self.weights.stages) + mean
        found = choices.time_us.reshape(len(choices), -1) @ by_stage.ravel()
        found += choices.hbm @ np.array(self.weights.hbm) + choices.ddr @ np.array(self.weights.ddr)
        first = choices.first(self.program.tables)
        for largest in self.weights.largest:
            place, stage = self.program.places[largest.table], PLACED_STAGES.index(largest.stage)
            of_table = slice(*first[place : place + 2])
            with_others = choices.everywhere_us[:, stage].copy()
            with_others[of_table] = choices.own_us[of_table, stage]
            found += share * largest.share * with_others
        for fullest in self.weights.fullest:
            found += share * fullest.share * on_fullest(self.program, fullest, choices)
        return np.asarray(found)


def flaws(program: ProofProgram, weights: Weights) -> list[tuple[str, str]]:
    """What is wrong with weights: (JSON pointer, what)."""
    wanted = {"stages": len(program.hbm_capacity), "hbm": len(program.hbm_capacity), "ddr": len(program.ddr_capacity)}
    found = [
        (f"/{key}", f"has {len(getattr(weights, key))} entries, must have {count}")
        for key, count in wanted.items()
        if len(getattr(weights, key)) != count
    ]
    for number, each in enumerate(weights.largest):
        if each.table not in program.places or each.stage not in PLACED_STAGES:
            found.append((f"/largest/{number}", f"there is no table {each.table} with a stage {each.stage} that depends on the placement"))
    for number, fullest in enumerate(weights.fullest):
        if not is_known(program, fullest):
            found.append((f"/fullest/{number}", "must name a class of ranks, a stage that depends on the placement, and tables, each once"))
    if found:
        return found
    totals = Scale(program, weights).totals
    return [
        ("/stages", f"the shares of {stage} come to {float(total):.17g}, at most 1 can be given away")
        for stage, total in zip(PLACED_STAGES, totals, strict=True)
        if total > 1
    ]


@dataclass(frozen=True)
class WeighedChoices:
    """Y weights evaluated on T tables: the lightest choice of each table by sharding type."""

    program: ProofProgram
    scales: list[Scale]
    lightest: Floats
    """[Y, T, TYPES] infinity where there is no choice."""
    has_choice: Bools
    """[T, TYPES]"""

    @classmethod
    def of(cls, program: ProofProgram, scales: list[Scale]) -> WeighedChoices:
        """Everything weighed."""
        lightest, choices = np.full((len(scales), program.tables, len(TYPES)), np.inf), program.choices
        for each, scale in zip(lightest, scales, strict=True):
            np.minimum.at(each, (choices.table, choices.kind), scale.weigh(choices))
        has_choice = np.zeros(lightest.shape[1:], dtype=bool)
        has_choice[choices.table, choices.kind] = True
        return cls(program, scales, lightest, has_choice)

    @property
    def some_types(self) -> list[Bools]:
        """Each set of sharding types that a placement may use, as [TYPES]."""
        there = np.flatnonzero(self.has_choice.any(axis=0)).tolist()
        sets = []
        for bits in range(1, 1 << len(there)):
            used = np.zeros(len(TYPES), dtype=bool)
            used[[kind for place, kind in enumerate(there) if bits >> place & 1]] = True
            sets.append(used)
        return sets

    def least_us(self, types: Bools) -> Fraction | None:
        """No placement with just these sharding types has a shorter step; None where there is none."""
        if not self.program.has_room or not self.has_choice[:, types].any(axis=1).all():
            return None
        sums = self.lightest[:, :, types].min(axis=2).sum(axis=1)
        weighed = [(scale, after_rounding(total) - scale.capacity) for scale, total in zip(self.scales, sums.tolist(), strict=True)]
        if any(scale.is_of_memory and left > 0 for scale, left in weighed):
            return None
        beside = max((left for scale, left in weighed if not scale.is_of_memory), default=Fraction(0))
        return after_rounding(self.program.fixed_us + float(self.program.type_cost_us[types].sum())) + max(beside, Fraction(0))


def after_rounding(total: float) -> Fraction:
    """What a sum of loads is at least."""
    return Fraction(total) * (1 - ROUNDING)


def at_most(exact: Fraction) -> float:
    """The largest float that is not above."""
    found = float(exact)
    return math.nextafter(found, -math.inf) if Fraction(found) > exact else found
