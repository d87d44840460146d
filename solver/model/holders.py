"""The cover where the trainers that hold a table are a kind of device apart, for bounds by how many they are.

A table that is `table_wise` or `column_wise` on trainers is on as many of them as it has pieces. With that number known, and all trainers
alike, placements are those of a job with two kinds of trainers, one of which holds all of the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from emplace.placement.plan import Question
from emplace.solver.model.cover import Cover
from emplace.solver.model.cover_options import HOLDERS, IN_OWN_PIECES, OTHERS, CoverPricer
from emplace.solver.model.cover_problem import cover_of
from emplace.solver.model.fixed import Fixed
from emplace.solver.model.problem import Bools, Ints, Problem


@dataclass(frozen=True)
class HeldCover:
    """The placements of a cover in which one table is on some trainers and not on others."""

    cover: Cover
    """The table has an option for each number of its pieces."""
    table: int

    def among(self, cover: Cover) -> HeldCover:
        """Placements of the sharding types of `cover`, whose steps take as long without tables."""
        of_types = self.cover.with_cover_options(np.isin(self.cover.sharding_type, cover.sharding_type))
        return replace(self, cover=replace(of_types, constant_us=cover.constant_us, stage_base_us=cover.stage_base_us))

    @property
    def numbers(self) -> Ints:
        """How many trainers may hold the table: some, and not all."""
        pieces = np.unique(self.cover.pieces[self.cover.option_table == self.table])
        return np.asarray(pieces[pieces < self.cover.device_is_trainer.sum()])

    def held_by(self, number: int) -> Cover:
        """The placements in which so many trainers hold the table."""
        cover = self.cover.with_cover_options((self.cover.option_table != self.table) | (self.cover.pieces == number))
        return replace(cover, device_kind=_kinds(cover.device_is_trainer, cover.device_kind, number))


class HolderPricer:
    """Prices the cover of a question whose trainers are alike, with the holders of a table apart."""

    def __init__(self, question: Question, pricer: CoverPricer, offered: Problem, fixed: Fixed) -> None:
        self._question, self._pricer, self._offered, self._fixed = question, pricer, offered, fixed
        self._held: dict[int, HeldCover] = {}

    def held(self, table: int) -> HeldCover:
        """With the holders of a table, the only kind of device on which it has options. Found once."""
        if table not in self._held:
            self._held[table] = self._new_held(table)
        return self._held[table]

    def _new_held(self, table: int) -> HeldCover:
        is_trainer = self._offered.device_is_trainer
        device_kind = _kinds(is_trainer, self._offered.device_kind + 1, 1)
        nothing_us = np.zeros((len(is_trainer), self._offered.num_stages))
        pricer = self._pricer.with_holders(table, device_kind)
        return HeldCover(cover_of(self._offered, device_kind, self._question, pricer, self._fixed, nothing_us), table)


def trainers_are_alike(cover: Cover, fixed: Fixed) -> bool:
    """Whether it makes no difference which trainers hold a table: they are several on one node, of one kind, and nothing is on them yet."""
    trainers = cover.device_is_trainer
    each = (cover.device_node, cover.device_kind, cover.hbm_capacity)
    is_anything_set = bool(fixed.placements or fixed.conflicts) or cover.allowed is not None
    return int(trainers.sum()) > 1 and all(len(np.unique(of[trainers])) == 1 for of in each) and not is_anything_set


def in_own_pieces(cover: Cover) -> Bools:
    """[O] options of tables that lie in pieces on trainers, each on one of its own."""
    is_way = np.array([way.sharding_type in IN_OWN_PIECES and not way.on_server for way in cover.ways] + [False])
    return np.asarray(is_way[cover.way])


def not_partly_held(cover: Cover, table: int) -> Cover:
    """The placements in which the table is in pieces on all trainers or on none; and some more, as its numbers of pieces share options."""
    trainers = int(cover.device_is_trainer.sum())
    here = in_own_pieces(cover) & (cover.option_table == table)
    most = cover.pieces[here & (cover.pieces <= trainers)].max(initial=0)
    return cover.with_cover_options(~here | (cover.pieces >= most))


def _kinds(is_trainer: Bools, device_kind: Ints, holders: int) -> Ints:
    """[D] where the first trainers are the holders: which ones are makes no difference."""
    return np.where(is_trainer, np.where(np.cumsum(is_trainer) <= holders, HOLDERS, OTHERS), device_kind)
