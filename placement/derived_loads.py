"""The bytes and times of a placement, derived shard by shard from the question. The audit compares a plan with them.

A rank's bytes are those it holds apart from its shards plus those of its shards. A stage's time is what every trainer pays
(a remote server: the collectives, no dense layers) plus what the rank's shards add, and on a trainer what crosses its links to
and from the servers; a shard of a row split counts with its own share of the rows. docs/explanation/cost-model.md states the formulas.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emplace.placement.arriving import of_dense_us, of_shards_us, on_wires_us
from emplace.placement.cost_model import CostModel
from emplace.placement.host import DeviceType
from emplace.placement.memory import rank_bytes, row_bytes, shard_bytes
from emplace.placement.model import ShardingType, Table
from emplace.placement.own_peaks import beyond_shards_bytes
from emplace.placement.plan import Question, TablePlacement
from emplace.placement.sharding import ShardShape, TableSharding
from emplace.placement.stages import Stage, rank_stages_us, served_stages_us, shard_stages_us, sharding_type_stages_us, stage_lengths_us
from emplace.placement.topology import Rank, Topology
from emplace.placement.workload import TableLoad, model_loads, shard_workload

STAGES = tuple(Stage)


@dataclass(frozen=True)
class DerivedLoads:
    """What a placement puts on R ranks and N nodes, in the K stages of `STAGES`."""

    shard_hbm: list[NDArray[np.int64]]
    """For each table of the plan, the device bytes of its shards."""
    shard_ddr: list[NDArray[np.int64]]
    """For each table of the plan, the system bytes of its shards."""
    rank_hbm: NDArray[np.int64]
    """[R] device bytes, what a rank holds apart from its shards included."""
    rank_ddr: NDArray[np.int64]
    """[R] system bytes, likewise, at each rank's own fullest moment."""
    node_ddr: NDArray[np.int64]
    """[N] system bytes of a node's ranks together, at once."""
    stages_us: NDArray[np.float64]
    """[R, K]"""
    arriving_us: NDArray[np.float64]
    """[T] what arrives over each trainer's share of its node's network, beside the input (placement/arriving.py)."""
    step_time_us: float
    constant_us: float
    """The step without tables, which no placement changes."""


def derive_loads(question: Question, placements: tuple[TablePlacement, ...], topology: Topology) -> DerivedLoads:
    """The loads of tables that are laid out soundly on `topology`."""
    model, ranks = question.model, topology.ranks
    tables = {table.name: table for table in model.tables}
    in_order = model_loads(model, topology, question.options.objective)
    loads = dict(zip(tables, in_order, strict=True))
    on_cuda = np.array([rank.type is DeviceType.CUDA for rank in ranks])
    kinds = [(rank.is_server, rank.type is DeviceType.CUDA) for rank in ranks]
    own = {kind: rank_bytes(model, in_order, is_server=kind[0], on_cuda=kind[1]) for kind in dict.fromkeys(kinds)}
    own_bytes = np.array([own[kind] for kind in kinds], dtype=np.int64)
    hbm, ddr = np.where(on_cuda, own_bytes, 0), np.where(on_cuda, 0, own_bytes)
    stages, arriving = _base_stages_us(question, topology), _base_arriving_us(question, topology)
    constant_us = StepLength.of(question, topology).time_us(stages, arriving)
    used = tuple(dict.fromkeys(placement.sharding_type for placement in placements))
    for each in used:
        fixed = sharding_type_stages_us(question.cost_model, each, topology)
        stages += [fixed.get(stage, 0.0) for stage in STAGES]
    shard_hbm, shard_ddr = [], []
    for placement in placements:
        parts = ShardLoads.of(question, placement, tables[placement.name], loads[placement.name], topology)
        np.add.at(hbm, parts.ranks, parts.hbm)
        np.add.at(ddr, parts.ranks, parts.ddr)
        parts.add_times(stages, topology)
        parts.add_arrivals(arriving)
        shard_hbm.append(parts.hbm)
        shard_ddr.append(parts.ddr)
    node_ddr = np.zeros(len(topology.node_ddr_capacity_bytes), dtype=np.int64)
    np.add.at(node_ddr, [rank.node for rank in ranks], ddr)
    step_time_us = StepLength.of(question, topology, used).time_us(stages, arriving)
    peak_ddr = ddr + beyond_shards_bytes(question, placements, in_order, topology)
    return DerivedLoads(shard_hbm, shard_ddr, hbm, peak_ddr, node_ddr, stages, arriving, step_time_us, constant_us)


def constant_us(question: Question, topology: Topology) -> float:
    """The step without tables, which no placement changes: its overhead, the dense layers, their all-reduce and their optimizer."""
    length = StepLength.of(question, topology)
    return length.time_us(_base_stages_us(question, topology), _base_arriving_us(question, topology))


@dataclass(frozen=True)
class StepLength:
    """How long the steps of a question last: no less than what a step waits for, whatever is placed where."""

    cost: CostModel
    topology: Topology
    floor_us: float
    """Launches, or the input by itself."""
    input_us: float
    """The input on a trainer's share of its node's network."""

    @staticmethod
    def of(question: Question, topology: Topology, used: Collection[ShardingType] = ()) -> StepLength:
        """The question's, with tables of these sharding types; without any, the shortest."""
        cost, model = question.cost_model, question.model
        return StepLength(cost, topology, cost.floor(model, used).time_us, 0.0 if cost.ingest is None else cost.ingest.network_us(model))

    def time_us(self, stages_us: NDArray[np.float64], arriving_us: NDArray[np.float64]) -> float:
        """Microseconds of a step in which ranks need so long in each stage ([R, K]) and so much arrives at trainers ([T])."""
        worked_us = self.cost.step_overhead_us + float(stage_lengths_us(stages_us, self.cost).sum())
        return max(self.floor_us, on_wires_us(self.input_us, arriving_us, self.topology), worked_us)


def _base_arriving_us(question: Question, topology: Topology) -> NDArray[np.float64]:
    """[T] before any table is placed."""
    return np.full(len(topology.trainers), of_dense_us(question.cost_model, question.model, topology))


def _base_stages_us(question: Question, topology: Topology) -> NDArray[np.float64]:
    """[R, K] what ranks need before any table is placed."""
    base = rank_stages_us(question.cost_model, question.model, topology)
    return np.array([[_base_us(base, stage, rank) for stage in STAGES] for rank in topology.ranks])


def _base_us(base: Mapping[Stage, float], stage: Stage, rank: Rank) -> float:
    return 0.0 if rank.is_server and stage is Stage.DENSE else base.get(stage, 0.0)


@dataclass(frozen=True)
class ShardLoads:
    """What each of the S shards of one table puts on its rank."""

    ranks: NDArray[np.int64]
    hbm: NDArray[np.int64]
    """[S] bytes."""
    ddr: NDArray[np.int64]
    """[S] bytes."""
    stages_us: NDArray[np.float64]
    """[S, K]"""
    served_us: NDArray[np.float64]
    """[S, K] what each puts on every trainer, where it is on a server."""
    arriving_us: NDArray[np.float64]
    """[S, 2] of what arrives: on its own rank's share of the network, and on each trainer's."""

    def add_times(self, stages_us: NDArray[np.float64], topology: Topology) -> None:
        """Add to what ranks need in each stage ([R, K])."""
        np.add.at(stages_us, self.ranks, self.stages_us)
        stages_us[: len(topology.trainers)] += self.served_us.sum(axis=0)

    def add_arrivals(self, arriving_us: NDArray[np.float64]) -> None:
        """Add to what arrives at trainers ([T])."""
        here = self.ranks < len(arriving_us)
        np.add.at(arriving_us, self.ranks[here], self.arriving_us[here, 0])
        arriving_us += self.arriving_us[:, 1].sum()

    @staticmethod
    def of(question: Question, placement: TablePlacement, table: Table, load: TableLoad, topology: Topology) -> ShardLoads:
        """The shards of `table` as `placement` says, priced in one call for each kind of device that they are on."""
        shards = placement.shards
        numbers = np.array([shard.rank for shard in shards])
        first_row = np.array([shard.rows[0] for shard in shards])
        rows = np.array([shard.rows[1] - shard.rows[0] for shard in shards])
        columns = np.array([shard.columns[1] - shard.columns[0] for shard in shards])
        held_bytes, times_us = np.zeros((2, len(shards)), np.int64), np.zeros((2, len(shards), len(STAGES)))
        parts = ShardLoads(numbers, held_bytes[0], held_bytes[1], times_us[0], times_us[1], np.zeros((len(shards), 2)))
        devices = [topology.ranks[shard.rank].device for shard in shards]
        for device in dict.fromkeys(devices):
            where = np.array([each == device for each in devices])
            rank, shape = topology.ranks[numbers[where][0]], ShardShape(rows[where], columns[where], first_row[where])
            sharding = _sharding(question, placement, table, shape)
            share = load.row_share(shape.first_row, shape.rows, table.num_embeddings)
            work = shard_workload(load, sharding.sharding_type, share, shape.columns, topology, on_server=rank.is_server)
            on_cuda = rank.type is DeviceType.CUDA
            parts.hbm[where], parts.ddr[where] = shard_bytes(sharding, shape, work.peak, on_cuda=on_cuda)
            for stage, time_us in shard_stages_us(question.cost_model, device, sharding, shape, work).items():
                parts.stages_us[where, STAGES.index(stage)] = time_us
            weight_bytes = shape.rows * row_bytes(table.data_type, shape.columns)
            parts.arriving_us[where] = np.stack(of_shards_us(question.cost_model, work, weight_bytes, topology), axis=-1)
            if rank.is_server:
                for stage, time_us in served_stages_us(question.cost_model, work, topology).items():
                    parts.served_us[where, STAGES.index(stage)] = time_us
        return parts


def _sharding(question: Question, placement: TablePlacement, table: Table, shape: ShardShape) -> TableSharding:
    kind, kernel, factor = placement.sharding_type, placement.compute_kernel, placement.cache_load_factor
    hit_rate = 0.0 if factor is None else table.hit_rate(factor, shape.first_row, shape.rows)
    return TableSharding(kind, kernel, table.data_type, question.model.optimizer, factor or 0.0, hit_rate)
