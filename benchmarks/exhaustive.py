"""The best of all placements of a small question, by complete enumeration: what cannot be below a value is cut off, nothing else.

Tables are placed one after the other. A partial placement is cut off where its bytes are over, or where a bound says that whatever
is added it ends at the value or above: the longest stages so far, or a Lagrangian bound with weights on ranks' stages and memory.
Any weights give a bound, so how they were found doesn't matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.every_placement import Bools, Choices, Floats, Ints, every_choice
from emplace.placement.derived_loads import derive_loads
from emplace.placement.model import ShardingType
from emplace.placement.plan import Question, TablePlacement
from emplace.placement.stages import sharding_type_stages_us, slowest_share
from emplace.placement.topology import Topology
from emplace.placement.workload import model_loads

MOST_PARTIAL = 300_000
"""Partial placements that are kept at once: beyond, a question is too large."""
CHUNK = 4_000_000
"""Pairs of a partial placement and a choice that are looked at at once."""
_NOTHING_US = 1e-9
"""A value for placements that take no time: what rounding leaves of a bound is less."""
ROUNDS = 60
"""Improvements of the Lagrangian weights."""


class TooLarge(Exception):
    """More partial placements than can be enumerated."""


@dataclass(frozen=True)
class Found:
    """A placement and its step time."""

    tables: tuple[TablePlacement, ...]
    topology: Topology
    step_time_us: float


def best_below(question: Question, topology: Topology, below_us: float) -> Found | None:
    """The best placement that takes less than `below_us`; with infinity, any that fits. None where there is none. Raises TooLarge."""
    search = _Search(question, topology)
    picked = search.any_that_fits() if np.isinf(below_us) else search.best(below_us)
    if picked is None:
        return None
    by_name = {choices.table.name: choices.placement(index, topology) for choices, index in zip(search.choices, picked, strict=True)}
    tables = tuple(by_name[table.name] for table in question.model.tables)
    return Found(tables, topology, derive_loads(question, tables, topology).step_time_us)


@dataclass(frozen=True)
class _Partial:
    """S partial placements."""

    time_us: Floats
    """[S, R, K]"""
    hbm: Ints
    """[S, R]"""
    ddr: Ints
    """[S, N]"""
    types: Ints
    """[S] bits of the sharding types in use."""
    picked: Ints
    """[S, tables so far]"""

    def where(self, keep: Bools | Ints) -> _Partial:
        return _Partial(self.time_us[keep], self.hbm[keep], self.ddr[keep], self.types[keep], self.picked[keep])


@dataclass(frozen=True)
class _Weights:
    """What the load of each rank and stage weighs, and each byte."""

    time: Floats
    """[R, K]"""
    hbm: Floats
    """[R]"""
    ddr: Floats
    """[N]"""

    def of(self, time_us: Floats, hbm: Ints, ddr: Ints) -> Floats:
        return np.asarray(time_us.reshape(-1, self.time.size) @ self.time.ravel() + hbm @ self.hbm + ddr @ self.ddr)


class _Search:
    def __init__(self, question: Question, topology: Topology) -> None:
        base = derive_loads(question, (), topology)
        loads = model_loads(question.model, topology, question.options.objective)
        found = [every_choice(question, table, load, topology) for table, load in zip(question.model.tables, loads, strict=True)]
        self.question, self.topology = question, topology
        self.choices = sorted(found, key=lambda each: len(each.way))
        self.start = _Partial(
            base.stages_us[None], base.rank_hbm[None], base.node_ddr[None], np.zeros(1, np.int64), np.empty((1, 0), np.int64)
        )
        self.hbm_capacity = np.array([rank.hbm_capacity_bytes for rank in topology.ranks])
        self.ddr_capacity = np.array(topology.node_ddr_capacity_bytes)
        self.share = slowest_share(question.cost_model, len(topology.ranks))
        self.overhead_us = question.cost_model.step_overhead_us
        costs = [sum(sharding_type_stages_us(question.cost_model, kind, topology).values()) for kind in ShardingType]
        bits = np.arange(1 << len(costs))[:, None] >> np.arange(len(costs)) & 1
        self.type_cost_us = bits @ np.array(costs)
        names = [choices.table.name for choices in self.choices]
        self.together = [[names.index(name) for name in group] for group in question.model.together or ()]
        self.apart = [[names.index(name) for name in group] for group in question.model.apart or ()]

    def best(self, below_us: float) -> list[int] | None:
        """The best choice of each table, if all together take less than `below_us`."""
        weights = _good_weights(self, below_us)
        self.choices = [self._hopeful(index, weights, below_us) for index in range(len(self.choices))]
        weights = _good_weights(self, below_us)
        partial, best = self.start, None
        for depth in range(len(self.choices)):
            parts, last = [], depth == len(self.choices) - 1
            for part in self._extended(partial, depth, weights, below_us):
                value = self._step_us(part)
                if not last:
                    parts.append(part.where(value < below_us))
                elif len(value) and value.min() < below_us:
                    below_us, best = float(value.min()), part.picked[int(np.argmin(value))].tolist()
                if sum(len(each.types) for each in parts) > MOST_PARTIAL:
                    raise TooLarge
            if not last:
                if not parts:
                    return None
                partial = _joined(parts)
        return best

    def any_that_fits(self) -> list[int] | None:
        """The first that fits, by bytes alone: of choices with as many on each rank, one is enough."""
        grouped = bool(self.apart or self.together)
        least = [choices.where(_least_bytes(choices, with_ranks=grouped)) for choices in self.choices]
        self.choices = [replace(choices, time_us=np.zeros_like(choices.time_us)) for choices in least]
        self.start = replace(self.start, time_us=np.zeros_like(self.start.time_us))
        self.overhead_us, self.type_cost_us = 0.0, np.zeros_like(self.type_cost_us)
        return self.best(_NOTHING_US)

    def _hopeful(self, index: int, weights: list[_Weights], below_us: float) -> Choices:
        """The choices of a table that some placement below the value may have."""
        choices = self.choices[index]
        others = [number for number in range(len(self.choices)) if number != index]
        value = np.full(len(choices.way), -np.inf)
        for each in weights:
            rest = sum(self._least(number, each) for number in others)
            here = each.of(choices.time_us, choices.hbm, choices.ddr) + self.type_cost_us[choices.type_bit]
            value = np.maximum(value, here + rest + self._fixed(each))
        alone = _Partial(
            self.start.time_us + choices.time_us,
            self.start.hbm + choices.hbm,
            self.start.ddr + choices.ddr,
            choices.type_bit,
            np.empty((len(choices.way), 0), np.int64),
        )
        return choices.where((value < below_us) & self._fits(alone) & (self._step_us(alone) < below_us))

    def lagrangian(self, weights: _Weights) -> tuple[float, _Partial]:
        """The bound that the weights give on all placements, and the loads at which it is taken."""
        value, at = self._fixed(weights), self.start
        for choices in self.choices:
            each = weights.of(choices.time_us, choices.hbm, choices.ddr)
            if len(each) == 0:
                return np.inf, at
            least = int(np.argmin(each))
            value += float(each[least])
            at = replace(at, time_us=at.time_us + choices.time_us[least], hbm=at.hbm + choices.hbm[least], ddr=at.ddr + choices.ddr[least])
        return value, at

    def _least(self, index: int, weights: _Weights) -> float:
        choices = self.choices[index]
        return float(weights.of(choices.time_us, choices.hbm, choices.ddr).min(initial=np.inf))

    def _fixed(self, weights: _Weights) -> float:
        start = float(weights.of(self.start.time_us, self.start.hbm, self.start.ddr)[0])
        return self.overhead_us + start - float(self.hbm_capacity @ weights.hbm + self.ddr_capacity @ weights.ddr)

    def _extended(self, partial: _Partial, depth: int, weights: list[_Weights], below_us: float) -> Iterator[_Partial]:
        """Every pair of a partial placement and a choice of the next table that fits and that no bound cuts off."""
        choices = self.choices[depth]
        step = max(CHUNK // max(len(choices.way), 1), 1)
        rooms = below_us - self.overhead_us - self._rests(depth, weights)
        for first in range(0, len(partial.types), step):
            part = partial.where(np.arange(first, min(first + step, len(partial.types))))
            types = part.types[:, None] | choices.type_bit[None, :]
            cost = self.type_cost_us[types]
            open_pairs = self._may_meet(part, depth)
            for each, room in zip(weights, rooms, strict=True):
                one, other = each.of(part.time_us, part.hbm, part.ddr), each.of(choices.time_us, choices.hbm, choices.ddr)
                open_pairs &= one[:, None] + other[None, :] + cost < room
            for rank in range(part.hbm.shape[1]):
                open_pairs &= part.hbm[:, rank, None] + choices.hbm[None, :, rank] <= self.hbm_capacity[rank]
            for node in range(part.ddr.shape[1]):
                open_pairs &= part.ddr[:, node, None] + choices.ddr[None, :, node] <= self.ddr_capacity[node]
            which, choice = np.nonzero(open_pairs)
            for begin in range(0, len(which), CHUNK // 40):
                here, added = which[begin : begin + CHUNK // 40], choice[begin : begin + CHUNK // 40]
                yield _Partial(
                    part.time_us[here] + choices.time_us[added],
                    part.hbm[here] + choices.hbm[added],
                    part.ddr[here] + choices.ddr[added],
                    types[here, added],
                    np.column_stack([part.picked[here], added]),
                )

    def _rests(self, depth: int, weights: list[_Weights]) -> Floats:
        """[weights] what tables still to be placed add at least, less what capacities allow."""
        later = range(depth + 1, len(self.choices))
        capacity = [float(self.hbm_capacity @ each.hbm + self.ddr_capacity @ each.ddr) for each in weights]
        return np.array([sum(self._least(number, each) for number in later) - room for each, room in zip(weights, capacity, strict=True)])

    def _may_meet(self, part: _Partial, depth: int) -> Bools:
        """[S, C] whether the next table keeps to those before it that it must be together with or apart from."""
        here = self.choices[depth]
        allowed = np.ones((len(part.types), len(here.way)), dtype=bool)
        for groups, is_together in ((self.together, True), (self.apart, False)):
            for group in groups:
                if depth in group:
                    whole = here.type_bit == 1 << list(ShardingType).index(ShardingType.TABLE_WISE)
                    allowed &= whole[None, :] | (not is_together)
                    for other in (each for each in group if each < depth):
                        held = self.choices[other].columns[part.picked[:, other]] > 0
                        shared = held.astype(np.int64) @ (here.columns > 0).T.astype(np.int64) > 0
                        allowed &= shared if is_together else ~shared
        return allowed

    def _fits(self, partial: _Partial) -> Bools:
        return np.asarray((partial.hbm <= self.hbm_capacity).all(axis=1) & (partial.ddr <= self.ddr_capacity).all(axis=1))

    def _step_us(self, partial: _Partial) -> Floats:
        """What the stages take, if nothing is added."""
        slowest = partial.time_us.max(axis=1).sum(axis=1)
        mean = partial.time_us.mean(axis=1).sum(axis=1)
        return np.asarray(self.overhead_us + self.type_cost_us[partial.types] + mean + (slowest - mean) * self.share)


def _joined(parts: list[_Partial]) -> _Partial:
    fields = ("time_us", "hbm", "ddr", "types", "picked")
    return _Partial(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields))


def _least_bytes(choices: Choices, with_ranks: bool) -> Ints:
    """The choices that no other beats in every rank's and node's bytes; where ranks matter, of those on the same ranks."""
    bytes_ = np.hstack([choices.hbm, choices.ddr])
    support = (choices.columns > 0).astype(np.int64) if with_ranks else np.zeros((len(bytes_), 0), np.int64)
    whole = (choices.type_bit == 1 << list(ShardingType).index(ShardingType.TABLE_WISE)).astype(np.int64)
    key = np.hstack([bytes_, support, -whole[:, None]]) if with_ranks else bytes_
    _, first = np.unique(key, axis=0, return_index=True)
    kept: list[int] = []
    for index in first[np.argsort(key[first].sum(axis=1), kind="stable")]:
        if not kept or not (key[kept] <= key[index]).all(axis=1).any():
            kept.append(int(index))
    return np.array(sorted(kept), dtype=np.int64)


def _good_weights(search: _Search, below_us: float) -> list[_Weights]:
    """Some weights whose bounds are high, by subgradients from even ones."""
    ranks, stages = search.start.time_us.shape[1:]
    longest = np.full((ranks, stages), 1.0 / ranks)
    hbm, ddr = np.zeros(ranks), np.zeros(len(search.ddr_capacity))
    scale = max(below_us, 1.0)
    best, found = -np.inf, list[_Weights]()
    for number in range(ROUNDS):
        weights = _Weights((1 - search.share) / ranks + search.share * longest, hbm, ddr)
        value, at = search.lagrangian(weights)
        if value > best or not found:
            best, found = value, [*found[-3:], weights]
        step = 1.0 / (1 + number / 4)
        longest = longest * np.exp(step * at.time_us[0] / np.maximum(at.time_us[0].max(axis=0), 1e-12))
        longest /= longest.sum(axis=0)
        over = at.hbm[0] - search.hbm_capacity, at.ddr[0] - search.ddr_capacity
        hbm = np.maximum(hbm + step * 0.1 * scale * over[0] / np.maximum(search.hbm_capacity, 1.0) ** 2, 0.0)
        ddr = np.maximum(ddr + step * 0.1 * scale * over[1] / np.maximum(search.ddr_capacity, 1.0) ** 2, 0.0)
    return found
