"""Refuting a value: from the assumption that some placement is quicker, choices are ruled out until a table has none left.

Each step holds for every placement below the value. Where a table is left without a choice, or what is left weighs too much, there is no
such placement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from emplace.placement.proof.choices import Choices
from emplace.placement.proof.classes import Bools, Floats
from emplace.placement.proof.lagrangian import ROUNDING, Scale, after_rounding, at_most
from emplace.placement.proof.program import ProofProgram
from emplace.placement.stages import PLACED_STAGES

ROUNDS = 12
"""Times that all weights are applied at most: what one rules out lets others rule out more."""
_DOWN = 1 - 4 * float(ROUNDING)
"""What a float is multiplied with to be safely no more than it should be."""


@dataclass(frozen=True)
class Left:
    """What a placement below a value may still have."""

    choices: Choices
    lower_us: tuple[Fraction, ...]
    """[K] what each stage takes at least beyond what it takes without tables."""


def room_us(program: ProofProgram, paid: Bools, value_us: Fraction) -> Fraction:
    """What the stages of a placement below the value may take beyond what they take without tables, if it pays for these types."""
    return value_us - after_rounding(program.fixed_us + float(program.type_cost_us[paid].sum()))


def left_below(program: ProofProgram, scales: list[Scale], types: Bools, room: Fraction) -> Left | None:
    """What is left of placements with none but these sharding types whose stages fit the room (`room_us`); None where there are none."""
    left = Left(program.choices.where(types[program.choices.kind]), (Fraction(0),) * len(PLACED_STAGES))
    if not program.every_table_is_in(left.choices):
        return None
    for _ in range(ROUNDS):
        before = left
        for scale in scales:
            found = _weighed(program, scale, left, room)
            if found is None:
                return None
            left = found
        left = replace(left, choices=_where(left.choices, _short_enough(program, left.choices, left.lower_us, room)))
        if sum(left.lower_us) > room or not program.every_table_is_in(left.choices):
            return None
        if left.lower_us == before.lower_us and len(left.choices) == len(before.choices):
            break
    return left


def _weighed(program: ProofProgram, scale: Scale, left: Left, room: Fraction) -> Left | None:
    """Without what is too heavy; None where the lightest of all tables are."""
    choices, first = left.choices, left.choices.first(program.tables)
    weighed = scale.weigh(choices)
    lightest = np.minimum.reduceat(weighed, first[:-1])
    least = after_rounding(float(lightest.sum())) - scale.capacity
    if scale.is_of_memory:
        return None if least > 0 else left
    spare = sum(((1 - total) * lower for total, lower in zip(scale.totals, left.lower_us, strict=True)), Fraction(0))
    if least + spare > room:
        return None
    slack = float(room - least - spare) / _DOWN
    kept = choices.share * (weighed * _DOWN - lightest[choices.table]) <= slack
    return Left(_where(choices, kept), _longer(program, scale, left.lower_us, least, room))


def _longer(program: ProofProgram, scale: Scale, lower_us: tuple[Fraction, ...], least: Fraction, room: Fraction) -> tuple[Fraction, ...]:
    """With what weights that favour one stage say of it: all of the stages together take no more than there is room for."""
    if program.slowest_share < 1:
        return lower_us  # of means nothing is known for a single stage
    stage = max(range(len(lower_us)), key=lambda each: scale.totals[each])
    beside = max(total for each, total in enumerate(scale.totals) if each != stage)
    if scale.totals[stage] == beside:
        return lower_us
    rest = sum(
        ((beside - total) * lower for each, (total, lower) in enumerate(zip(scale.totals, lower_us, strict=True)) if each != stage),
        Fraction(0),
    )
    exact = (least + rest - beside * room) / (scale.totals[stage] - beside)
    found = Fraction(at_most(min(max(exact, Fraction(0)), room + 1)))  # more than there is room for is too much already
    return tuple(max(lower, found) if each == stage else lower for each, lower in enumerate(lower_us))


def _short_enough(program: ProofProgram, choices: Choices, lower_us: tuple[Fraction, ...], room: Fraction) -> Bools:
    """[n] whether the largest shard leaves the stages enough room."""
    lower: Floats = np.array([float(each) * _DOWN for each in lower_us])
    longest = np.maximum(choices.shortest_us * program.slowest_share, lower).sum(axis=1)
    return np.asarray(longest * _DOWN <= float(room) / _DOWN)


def _where(choices: Choices, kept: Bools) -> Choices:
    return choices if kept.all() else choices.where(kept)
