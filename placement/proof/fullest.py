"""What the fullest rank of a class has: of n tables on m ranks some rank has n / m, rounded up. docs/explanation/bounds.md proves it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from emplace.placement.certificate import FullestRank
from emplace.placement.proof.choices import Choices
from emplace.placement.proof.classes import Floats
from emplace.placement.proof.program import ProofProgram
from emplace.placement.stages import PLACED_STAGES


def is_known(program: ProofProgram, fullest: FullestRank) -> bool:
    """Whether there are such a class, stage and tables, each named once."""
    names = set(fullest.tables)
    is_there = fullest.of_class < len(program.hbm_capacity) and fullest.stage in PLACED_STAGES
    return is_there and names <= program.places.keys() and len(names) == len(fullest.tables)


def on_fullest(program: ProofProgram, fullest: FullestRank, choices: Choices) -> Floats:
    """[n] what choices count on the fullest rank, in microseconds: a share of what whole tables take, and what every rank has of all others."""
    _, rest = _to_a_rank(program, fullest)
    stage = PLACED_STAGES.index(fullest.stage)
    is_counted = np.isin(choices.table, [program.places[name] for name in fullest.tables]) & (choices.whole_on == fullest.of_class)
    whole_us = np.minimum(choices.time_us[:, fullest.of_class, stage], fullest.most_us)
    return np.where(is_counted, whole_us / rest, choices.everywhere_us[:, stage])


def uncounted_us(program: ProofProgram, fullest: FullestRank) -> Fraction:
    """What choices count for more than the fullest rank has, exactly."""
    to_each, rest = _to_a_rank(program, fullest)
    ranks = int(program.classes.sizes[fullest.of_class])
    return Fraction(fullest.most_us) * to_each * (Fraction(ranks, rest) - 1)


def _to_a_rank(program: ProofProgram, fullest: FullestRank) -> tuple[int, int]:
    """How many tables all ranks may have, and how many are left then, one at least."""
    ranks = int(program.classes.sizes[fullest.of_class])
    to_each = (len(fullest.tables) - 1) // ranks
    return to_each, len(fullest.tables) - to_each * ranks
