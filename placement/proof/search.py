"""Every placement of a few tables on a few ranks gone through, to see that none is below a value.

Tables are placed one after the other. A beginning is given up where its bytes are over, where its stages take the value already, or
where weights say that they will whatever follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from emplace.placement.model import ShardingType
from emplace.placement.proof.choices import TYPES, Choices
from emplace.placement.proof.classes import BYTES_DOWN, Bools, Floats, Ints
from emplace.placement.proof.lagrangian import ROUNDING, Scale
from emplace.placement.proof.program import ProofProgram

MOST_BEGINNINGS = 200_000
"""At most so many of one length are kept: beyond, a question is too large to go through."""
MOST_PAIRS = 400_000_000
"""Pairs of a beginning and a choice that are looked at in all."""
_AT_ONCE = 2_000_000
_DOWN = 1 - 4 * float(ROUNDING)
_TABLE_WISE = TYPES.index(ShardingType.TABLE_WISE)


class TooMany(Exception):
    """There is more to go through than may be."""


@dataclass(frozen=True)
class _Beginnings:
    """S placements of the tables so far."""

    time_us: Floats
    """[S, R, K]"""
    hbm: Floats
    """[S, R]"""
    ddr: Floats
    """[S, N]"""
    types: Ints
    """[S] bits of the sharding types in use."""
    weight: Floats
    """[S, Y]"""
    picked: Ints
    """[S, tables so far]"""


def is_refuted(program: ProofProgram, scales: list[Scale], choices: Choices, value_us: Fraction | None) -> bool:
    """Whether no placement that has one of `choices` for each table is below the value, or fits at all where there is none.

    Raises TooMany.
    """
    return not program.has_room or not program.every_table_is_in(choices) or not _Search(program, scales, choices, value_us).finds()


class _Search:
    def __init__(self, program: ProofProgram, scales: list[Scale], choices: Choices, value_us: Fraction | None) -> None:
        self.program, self.value_us = program, None if value_us is None else float(value_us) / _DOWN
        self.scales = [scale for scale in scales if value_us is not None or scale.is_of_memory]
        by_table = [choices.where(choices.table == table) for table in range(program.tables)]
        self.order = sorted(range(program.tables), key=lambda table: len(by_table[table]))
        self.choices = [by_table[table] for table in self.order]
        names = [program.question.model.tables[table].name for table in self.order]
        self.weights = [
            np.stack([scale.weigh(each) for scale in self.scales], axis=1) if self.scales else np.zeros((len(each), 0))
            for each in self.choices
        ]
        bits = np.arange(1 << len(TYPES))[:, None] >> np.arange(len(TYPES)) & 1
        self.type_cost_us = bits @ program.type_cost_us
        self.room = np.array([self._room(scale) for scale in self.scales])
        model = program.question.model
        self.groups = [
            ([names.index(name) for name in group], is_together)
            for groups, is_together in ((model.together, True), (model.apart, False))
            for group in groups or ()
        ]
        self.pairs = 0

    def _room(self, scale: Scale) -> float:
        """What a placement may weigh at most, costs of sharding types included."""
        beside = Fraction(0) if scale.is_of_memory else Fraction(self.value_us or 0.0) - Fraction(self.program.fixed_us)
        found = float(beside + scale.capacity)
        return found + abs(found) * 4 * float(ROUNDING)

    def finds(self) -> bool:
        """Whether something is left in the end."""
        program, ranks = self.program, len(self.program.topology.ranks)
        stages, nodes = program.choices.time_us.shape[2], len(program.ddr_capacity)
        begun = _Beginnings(
            np.zeros((1, ranks, stages)),
            np.zeros((1, ranks)),
            np.zeros((1, nodes)),
            np.zeros(1, np.int64),
            np.zeros((1, len(self.scales))),
            np.empty((1, 0), np.int64),
        )
        for depth in range(len(self.choices)):
            parts, count = [], 0
            for part in self._longer(begun, depth):
                if depth == len(self.choices) - 1 and len(part.types):
                    return True
                parts.append(part)
                count += len(part.types)
                if count > MOST_BEGINNINGS:
                    raise TooMany
            if not count:
                return False
            begun = _distinct(parts, keep_picked=bool(self.groups), only_bytes=self.value_us is None)
        return True

    def _longer(self, begun: _Beginnings, depth: int) -> Iterator[_Beginnings]:
        """Every beginning with every choice of the next table, where nothing speaks against it."""
        choices, weights = self.choices[depth], self.weights[depth]
        rest = np.array([sum(each[:, number].min() for each in self.weights[depth + 1 :]) for number in range(len(self.scales))])
        bit = 1 << choices.kind
        for first in range(0, len(begun.types), max(_AT_ONCE // len(choices), 1)):
            at = slice(first, first + max(_AT_ONCE // len(choices), 1))
            types = begun.types[at, None] | bit
            self.pairs += types.size
            if self.pairs > MOST_PAIRS:
                raise TooMany
            is_open = self._may_meet(begun.picked[at], depth)
            for rank, room in enumerate(self.program.hbm_capacity):
                is_open &= (begun.hbm[at, rank, None] + choices.hbm[:, rank]) * BYTES_DOWN <= room
            for node, room in enumerate(self.program.ddr_capacity):
                is_open &= (begun.ddr[at, node, None] + choices.ddr[:, node]) * BYTES_DOWN <= room
            for number, scale in enumerate(self.scales):
                weighs = begun.weight[at, number, None] + weights[:, number] + rest[number]
                weighs = weighs if scale.is_of_memory else weighs + self.type_cost_us[types]
                is_open &= weighs * _DOWN <= self.room[number]
            one, other = np.nonzero(is_open)
            for start in range(0, len(one), _AT_ONCE // 20):
                here, added = one[start : start + _AT_ONCE // 20], other[start : start + _AT_ONCE // 20]
                found = _Beginnings(
                    begun.time_us[at][here] + choices.time_us[added],
                    begun.hbm[at][here] + choices.hbm[added],
                    begun.ddr[at][here] + choices.ddr[added],
                    types[here, added],
                    begun.weight[at][here] + weights[added],
                    np.column_stack([begun.picked[at][here], added]),
                )
                yield found if self.value_us is None else _kept(found, self._step_us(found) * _DOWN < self.value_us)

    def _step_us(self, begun: _Beginnings) -> Floats:
        """[S] what the step takes if nothing is added."""
        slowest, mean = begun.time_us.max(axis=1).sum(axis=1), begun.time_us.mean(axis=1).sum(axis=1)
        placed = mean + (slowest - mean) * self.program.slowest_share
        return np.asarray(self.program.fixed_us + self.type_cost_us[begun.types] + placed)

    def _may_meet(self, picked: Ints, depth: int) -> Bools:
        """[S, n] whether the next table keeps to those before it that it must be together with or apart from."""
        here = self.choices[depth]
        allowed = np.ones((len(picked), len(here)), dtype=bool)
        for group, is_together in self.groups:
            if depth in group:
                allowed &= (here.kind == _TABLE_WISE) | (not is_together)
                for other in (each for each in group if each < depth):
                    held = self.choices[other].ranks[picked[:, other]].astype(np.int64)
                    meets = held @ here.ranks.T.astype(np.int64) > 0
                    allowed &= meets if is_together else ~meets
        return allowed


def _kept(begun: _Beginnings, keep: Bools | Ints) -> _Beginnings:
    return _Beginnings(*(getattr(begun, name)[keep] for name in _FIELDS))


_FIELDS = tuple(_Beginnings.__dataclass_fields__)


def _distinct(parts: list[_Beginnings], *, keep_picked: bool, only_bytes: bool) -> _Beginnings:
    """All of them. Where bytes are all that counts, one of those with as many everywhere."""
    whole = _Beginnings(*(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS))
    if not only_bytes or keep_picked:
        return whole
    _, first = np.unique(np.hstack([whole.hbm, whole.ddr]), axis=0, return_index=True)
    return _kept(whole, first)
